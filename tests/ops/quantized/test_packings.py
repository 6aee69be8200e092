"""`ops.packed_weight`: other packages' files, as they are written, and by the packages."""

import json

import numpy as np
import pytest
from support import BFLOAT16

import clprim as cp
from clprim import ops
from clprim.errors import DefinitionError, DTypeError, ShapeError


def dice(seed=0):
    return np.random.RandomState(seed)


def normal(*shape, seed=0):
    return dice(seed).standard_normal(shape).astype(np.float32)


def packed(values, bits):
    """Numbers (rows, count) as rows of words, bit after bit from the lowest on."""
    apart = (values[..., None].astype(np.int64) >> np.arange(bits) & 1).astype(np.uint8)
    rows = apart.reshape(len(values), -1)
    rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 32)))
    return np.packbits(rows, axis=1, bitorder="little").view(np.int32)


def scales_of(outputs, groups, dtype):
    return (normal(outputs, groups, seed=7) / 8).astype(dtype)


def of_awq(outputs=40, depth=96, groups=3, dtype=np.float16):
    codes = dice().randint(0, 16, (outputs, depth))
    zeros = dice(1).randint(0, 16, (outputs, groups))
    scales = scales_of(outputs, groups, dtype)

    def words(values):  # rows of columns, of each eight outputs the even ones first
        eights = values.T.reshape(values.shape[1], -1, 8)[..., [0, 2, 4, 6, 1, 3, 5, 7]]
        return packed(eights.reshape(values.shape[1], -1), 4)

    tensors = {"qweight": words(codes), "qzeros": words(zeros), "scales": scales.T.copy()}
    of = np.arange(depth) // (depth // groups)
    return tensors, scales.astype(np.float32)[:, of] * (codes - zeros[:, of])


def of_gptq(bits=4, outputs=32, depth=96, groups=3, index=None, less=1, dtype=np.float16):
    codes = dice().randint(0, 2**bits, (outputs, depth))
    zeros = dice(1).randint(less, 2**bits, (outputs, groups))
    scales = scales_of(outputs, groups, dtype)
    tensors = {
        "qweight": packed(codes, bits).T.copy(),
        "qzeros": packed(zeros.T - less, bits),
        "scales": scales.T.copy(),
    }
    of = np.arange(depth) // -(-depth // groups)
    if index is not None:
        of = np.asarray(index)
        tensors["g_idx"] = of.astype(np.int32)
    return tensors, scales.astype(np.float32)[:, of] * (codes - zeros[:, of])


def of_compressed(bits=4, outputs=33, depth=96, groups=3, symmetric=True, index=None, whole=False):
    middle = 1 << (bits - 1)
    codes = dice().randint(-middle, middle, (outputs, depth))
    zeros = dice(1).randint(-middle, middle, (outputs, groups)) * (not symmetric)
    scales = scales_of(1 if whole else outputs, groups, BFLOAT16)
    tensors = {
        "weight_packed": packed(codes + middle, bits),
        "weight_scale": scales.reshape(1) if whole else scales,
        "weight_shape": np.array([outputs, depth]),
    }
    if not symmetric:
        tensors["weight_zero_point"] = packed(zeros.T + middle, bits).T.copy()
    of = np.arange(depth) // (depth // groups)
    if index is not None:
        of = tensors["weight_g_idx"] = np.asarray(index)
    return tensors, scales.astype(np.float32)[:, of] * (codes - zeros[:, of])


def of_bitsandbytes(kind="nf4", outputs=17, depth=96, size=64, nested=True):
    table = np.sort(normal(16, seed=3))
    codes = dice().randint(0, 16, (outputs, depth))
    blocks = -(-outputs * depth // size)
    absmax = np.abs(normal(blocks, seed=4))
    told = {"quant_type": kind, "blocksize": size, "shape": [outputs, depth], "dtype": "bfloat16"}
    tensors = {"weight.quant_map": table, "weight.absmax": absmax}
    pairs = np.pad(codes.reshape(-1), (0, codes.size % 2)).reshape(-1, 2)
    tensors["weight"] = (pairs[:, 0] << 4 | pairs[:, 1]).astype(np.uint8)[:, None]
    if nested:
        values, of = normal(256, seed=5), np.abs(normal(-(-blocks // 16), seed=6))
        tensors["weight.absmax"] = dice(8).randint(0, 256, blocks).astype(np.uint8)
        tensors |= {"weight.nested_quant_map": values, "weight.nested_absmax": of}
        told |= {"nested_blocksize": 16, "nested_offset": 0.1375, "nested_dtype": "float32"}
        absmax = values[tensors["weight.absmax"]] * of[np.arange(blocks) // 16] + np.float32(0.1375)
    state = np.frombuffer(json.dumps(told).encode(), np.uint8)
    tensors[f"weight.quant_state.bitsandbytes__{kind}"] = state
    of = absmax[np.arange(codes.size) // size].reshape(codes.shape)
    return tensors, table[codes] * of


def of_torchao(form, outputs=18, depth=96, groups=3):
    scales = scales_of(outputs, groups, BFLOAT16)
    of = np.arange(depth) // (depth // groups)
    wide = scales.astype(np.float32)[:, of]
    if form == "Int4Tensor":  # signed, what is added is a number, groups first
        codes = dice().randint(-8, 8, (outputs, depth))
        added = scales_of(outputs, groups, BFLOAT16)[::-1]
        qdata = ((codes[:, ::2] & 15) | (codes[:, 1::2] << 4)).astype(np.int8)
        scales, zeros = scales.T.copy(), added.T.copy()
        expected = wide * codes + added.astype(np.float32)[:, of]
    elif form == "uint4":
        codes = dice().randint(0, 16, (outputs, depth))
        zeros = dice(1).randint(0, 16, (outputs, groups)).astype(np.uint8)
        qdata = (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
        expected = wide * (codes - zeros[:, of].astype(int))
    else:
        bits = int(form)
        qdata = dice().randint(-(2 ** (bits - 1)), 2 ** (bits - 1), (outputs, depth), np.int64)
        qdata[0, :2] = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        zeros = dice(1).randint(-(2 ** (bits - 1)), 2 ** (bits - 1), (outputs, groups), np.int64)
        expected = wide * (qdata - zeros[:, of])
        qdata, zeros = qdata.astype(np.int8), zeros.astype(np.int8)
    return {"_weight_qdata": qdata, "_weight_scale": scales, "_weight_zero_point": zeros}, expected


SHUFFLED = dice(9).permutation(np.arange(96) // 32)
UNEQUAL = dice(9).randint(0, 3, 96)
CASES = {
    "awq": ("awq", of_awq()),
    "awq one group": ("awq", of_awq(8, 512, 1, np.float32)),
    "awq bfloat16": ("awq", of_awq(48, 256, 2, BFLOAT16)),
    **{f"gptq {bits}": ("gptq", of_gptq(bits, index=np.arange(96) // 32)) for bits in (2, 3, 4, 8)},
    **{f"gptq_v2 {bits}": ("gptq_v2", of_gptq(bits, less=0)) for bits in (2, 3, 4, 8)},
    "gptq act order": ("gptq", of_gptq(index=SHUFFLED)),
    "gptq act order 3": ("gptq", of_gptq(3, index=SHUFFLED)),
    "gptq unequal": ("gptq_v2", of_gptq(index=UNEQUAL, less=0, dtype=np.float32)),
    "gptq one group": ("gptq", of_gptq(depth=320, groups=1)),
    "gptq short": ("gptq", of_gptq(depth=80, groups=2, index=np.arange(80) // 64)),
    "gptq groups of 16": ("gptq", of_gptq(depth=80, groups=5)),
    "gptq unused group": ("gptq", of_gptq(groups=4, index=np.repeat([0, 3, 1], 32))),
    **{f"compressed {b}": ("compressed-tensors", of_compressed(b)) for b in range(1, 9)},
    **{f"compressed {b} zeros": ("compressed-tensors", of_compressed(b, symmetric=False))
       for b in (2, 3, 4, 6, 8)},
    "compressed one group": ("compressed-tensors", of_compressed(5, 7, 50, 1, False)),
    "compressed tensor": ("compressed-tensors", of_compressed(8, 7, 64, 1, whole=True)),
    "compressed order": ("compressed-tensors", of_compressed(index=SHUFFLED)),
    "nf4": ("bitsandbytes", of_bitsandbytes()),
    "nf4 plain": ("bitsandbytes", of_bitsandbytes(nested=False)),
    "nf4 of any length": ("bitsandbytes", of_bitsandbytes(depth=51)),
    "nf4 large blocks": ("bitsandbytes", of_bitsandbytes(depth=256, size=1024)),
    "fp4": ("bitsandbytes", of_bitsandbytes("fp4", depth=128)),
    **{f"torchao {form}": ("torchao", of_torchao(form))
       for form in ("Int4Tensor", "uint4", "2", "4", "5", "7", "8")},
}  # fmt: skip
# Weights that are laid out in ways of their own.
FEW = [
    "awq", "gptq 3", "gptq act order", "gptq unequal", "compressed one group", "nf4",
    "nf4 of any length", "torchao Int4Tensor",
]  # fmt: skip


def close(found, x, matrix):
    expected = x.astype(np.float64) @ matrix.T.astype(np.float64)
    terms = np.abs(x).astype(np.float64) @ np.abs(matrix).T
    bound = 16 * np.finfo(np.float32).eps * (terms + np.abs(x).sum(axis=-1, keepdims=True))
    assert (np.abs(found - expected) <= bound).all()


@pytest.mark.parametrize("name", CASES)
def test_tensors_stand_for_what_their_package_makes_of_them(device, name):
    format, (tensors, expected) = CASES[name]
    q = ops.packed_weight({**tensors, "bias": None}, format=format)
    assert (q.format, q.shape) == (name[:3] if format == "bitsandbytes" else format, expected.shape)
    expected = expected.astype(np.float32)
    np.testing.assert_array_equal(q.dequantize().get(), expected)
    x = normal(2, expected.shape[1], seed=2)
    close(ops.linear(cp.asarray(x), q).get(), x, expected)


@pytest.mark.everywhere
@pytest.mark.parametrize("name", FEW)
def test_products_rows_and_gradients(device, name):
    format, (tensors, expected) = CASES[name]
    q = ops.packed_weight({n: cp.asarray(v) for n, v in tensors.items()}, format)
    outputs, depth = expected.shape
    for rows in (1, 3, 9):
        x = normal(rows, depth, seed=rows)
        close(ops.linear(cp.asarray(x), q).get(), x, expected)
    ids = np.array([[outputs - 1, 0], [-1, 3]])
    wanted = expected.astype(np.float32)[ids]
    np.testing.assert_array_equal(ops.embedding(cp.asarray(ids), q).get(), wanted)
    factor = normal(3, outputs, seed=5)
    y, numbers = cp.asarray(factor), cp.asarray(normal(3, depth, seed=3))
    compiled = cp.value_and_grad(lambda x: ops.sum(ops.linear(x, q) * y), (0,))
    for _ in range(2):
        _, (dx,) = compiled(numbers)
        np.testing.assert_allclose(dx.get(), factor @ expected, rtol=1e-4, atol=1e-4)


def test_views_and_other_storages_of_what_is_gathered(device):
    tensors, expected = of_gptq(index=SHUFFLED)
    q = ops.packed_weight(tensors, "gptq")
    assert q.nbytes > ops.packed_weight(of_gptq()[0], "gptq").nbytes
    x = normal(4, 2, 100, seed=1).astype(np.float16)
    found = ops.linear(cp.asarray(x)[::2, :, 4:], q).get()
    exact = x[::2, :, 4:].astype(np.float64) @ expected.T
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=2e-3, atol=1e-3)
    one = normal(96, seed=2)
    close(ops.linear(cp.asarray(one), q).get()[None], one[None], expected)


def test_a_saved_graph_keeps_the_order(device, tmp_path):
    q = ops.packed_weight(of_gptq(index=SHUFFLED)[0], "gptq")
    compiled = cp.jit(lambda x: ops.linear(x, q))
    x = cp.asarray(normal(2, 96, seed=1))
    expected = compiled(x).get()
    compiled.graph(x).save(tmp_path / "graph.clprim")
    np.testing.assert_array_equal(cp.Graph.load(tmp_path / "graph.clprim")(x).get(), expected)


def test_bitsandbytes_own_tensors(device):
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("bitsandbytes.functional")
    torch.manual_seed(0)
    w = torch.randn(48, 192)
    for kind in ("nf4", "fp4"):
        for nested in (False, True):
            made, state = functional.quantize_4bit(w, None, None, 64, nested, kind)
            tensors = {"weight": made.numpy()}
            tensors |= {f"weight.{n}": v.numpy() for n, v in state.as_dict(packed=True).items()}
            expected = functional.dequantize_4bit(made, state).numpy()
            found = ops.packed_weight(tensors, "bitsandbytes").dequantize().get()
            np.testing.assert_array_equal(found, expected)


def test_compressed_tensors_own_tensors(device):
    torch = pytest.importorskip("torch")
    pytest.importorskip("compressed_tensors")
    from compressed_tensors.compressors import PackedQuantizationCompressor as Compressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    torch.manual_seed(0)
    w = torch.randn(40, 192)
    for bits in (2, 3, 4, 8):
        for symmetric in (True, False):
            args = QuantizationArgs(
                num_bits=bits, group_size=32, strategy="group", symmetric=symmetric
            )
            scheme = QuantizationScheme(targets=["Linear"], weights=args)
            scale = torch.rand(40, 6) / 2**bits
            zero = torch.randint(-2, 2, (40, 6)).to(torch.int8) * (not symmetric)
            state = {"weight": w, "weight_scale": scale, "weight_zero_point": zero}
            made = Compressor.compress(state, scheme)
            expected = Compressor.decompress(made, scheme)["weight"].numpy()
            tensors = {n: v.numpy() for n, v in made.items()}
            found = ops.packed_weight(tensors, "compressed-tensors").dequantize().get()
            np.testing.assert_array_equal(found, expected)


def test_torchaos_own_tensors(device):
    torch = pytest.importorskip("torch")
    quantization = pytest.importorskip("torchao.quantization")
    torch.manual_seed(0)
    w = torch.randn(24, 128)
    for kind in (torch.int2, torch.int4, torch.int6, torch.int8):
        for mapping in (quantization.MappingType.SYMMETRIC, quantization.MappingType.ASYMMETRIC):
            made = quantization.IntxUnpackedToInt8Tensor.from_hp(
                w, (1, 64), kind, mapping_type=mapping
            )
            tensors = {f"_weight_{n}": getattr(made, n).numpy() for n in made.tensor_data_names}
            found = ops.packed_weight(tensors, "torchao").dequantize().get()
            np.testing.assert_array_equal(found, made.dequantize().numpy())


def changed(made, **changes):
    tensors = {**made[0], **changes}
    return {n: v for n, v in tensors.items() if v is not None}


STATE = "weight.quant_state.bitsandbytes__nf4"
BNB = of_bitsandbytes()


@pytest.mark.refusal
@pytest.mark.parametrize("error, words, format, tensors", [
    (DefinitionError, "expected one of awq, gptq", "hqq", {}),
    (DTypeError, "expected a string", None, {}),
    (DefinitionError, "expected tensors by their names", "awq", [1]),
    (DefinitionError, "no tensor 'qzeros'.*got qweight, scales", "awq",
     changed(of_awq(), qzeros=None)),
    (DTypeError, "qweight is int64", "awq", changed(of_awq(), qweight=np.zeros((4, 4), int))),
    (DTypeError, "scales is float64", "awq", changed(of_awq(), scales=np.zeros((4, 4)))),
    (ShapeError, "shapes do not fit: qweight", "awq", changed(of_gptq())),
    (ShapeError, "none of them 0", "awq", changed(of_awq(), scales=np.zeros((0, 4), np.float32))),
    (ShapeError, "do not fit", "gptq", of_awq()[0]),
    (ShapeError, "do not fit.*g_idx", "gptq", changed(of_gptq(), g_idx=np.zeros(50, np.int32))),
    (ShapeError, "none of the 3", "gptq", of_gptq(index=UNEQUAL)[0] | {
        "g_idx": np.full(96, 3, np.int32)}),
    (ShapeError, "none of the 3", "gptq", changed(of_gptq(), g_idx=-np.ones(96, np.int32))),
    (ShapeError, "outside of 0 to 255", "gptq",
     changed(of_gptq(8), qzeros=-np.ones((3, 8), np.int32))),
    (ShapeError, "do not fit", "compressed-tensors",
     changed(of_compressed(), weight_shape=np.array([33, 200]))),
    (ShapeError, "do not fit", "compressed-tensors",
     changed(of_compressed(), weight_shape=np.array([1 << 40, 96]))),
    (DefinitionError, "quant_state.bitsandbytes__nf4", "bitsandbytes", changed(BNB, **{
        STATE: None})),
    (DefinitionError, "says no weight", "bitsandbytes", changed(BNB, **{
        STATE: np.frombuffer(b"{}", np.uint8)})),
    (DefinitionError, "says no weight", "bitsandbytes", changed(BNB, **{
        STATE: np.frombuffer(b"[" * 9999, np.uint8)})),
    (ShapeError, "blocksize 0", "bitsandbytes", changed(BNB, **{
        STATE: np.frombuffer(b'{"shape": [17, 96], "blocksize": 0}', np.uint8)})),
    (ShapeError, "nested_absmax", "bitsandbytes", changed(BNB, **{
        STATE: np.frombuffer(b'{"shape": [17, 96], "blocksize": 64}', np.uint8)})),
    (ShapeError, "quant_map", "bitsandbytes", changed(BNB, **{
        "weight.quant_map": np.zeros(8, np.float32)})),
    (ShapeError, "do not fit: qdata", "torchao",
     changed(of_torchao("4"), _weight_scale=np.ones((5, 3), np.float32))),
])  # fmt: skip
def test_wrong_tensors(device, error, words, format, tensors):
    with pytest.raises(error, match=words):
        ops.packed_weight(tensors, format)
