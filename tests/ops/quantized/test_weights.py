"""Weights of few bits: formats against frozen vectors and `gguf`, products against float64."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from support import BFLOAT16

import clprim as cp
from clprim import ops
from clprim.errors import ClprimError, DefinitionError, DTypeError, ShapeError
from clprim.ops.quantized.formats import BLOCKS
from clprim.ops.quantized.quantize_weight import from_blocks
from clprim.plan.conv.dense import CPU, GPU
from clprim.plan.quantized.family import CODED, dense_coded

# The package's own: of random blocks what they stand for, of normal numbers their blocks.
FROZEN = {
    "q4_0": ("46a876cd83b04022", "c082e8a4a2d57f57"),
    "q4_1": ("032e3c39b036ada1", "1987771a6ee923ce"),
    "q5_0": ("6b8a6774a99672bd", "378ca7c4f9e56a02"),
    "q5_1": ("d7b9c8c716548360", "c0e16a4aad8715e1"),
    "q8_0": ("5275ecea1bab6d6c", "4ac5d4a3e9420368"),
    "q2_k": ("b4da80da32cff37c", ""),
    "q3_k": ("caaae9ae67aec639", ""),
    "q4_k": ("6ef85742a16c1290", ""),
    "q5_k": ("48282b78b0e6357e", ""),
    "q6_k": ("fd3af8ac38af67ea", ""),
    "iq4_nl": ("875b28ab444492d1", ""),
    "iq4_xs": ("9d7b6fc32b95b82a", ""),
    "bf16": ("8582d45ed9b7cfe5", "c63137ed58fcc76a"),
    "f16": ("cf932cbd4a12afc3", "1d4414b87889dd55"),
    "tq1_0": ("f963b69a0046db6d", "ccc23357cc6ec730"),
    "tq2_0": ("2700d88cd7b4496a", "3f253cea2018095a"),
    "mxfp4": ("ecd403cb28764b50", "b3d944b8c751afba"),
    "nvfp4": ("b61d268cf8d656eb", ""),
}
MADE = [name for name, block in BLOCKS.items() if block.make is not None]


def numbers(*shape, seed=0):
    """Normal numbers that no library's version changes."""
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def blocks_of(name, rows, depth, seed=0):
    """Random blocks of a format with scales that sums can be compared of."""
    block, random = BLOCKS[name], np.random.RandomState(seed)
    if block.coding.number:
        return block.written(numbers(rows * depth, 1, seed=seed))
    raw = random.randint(0, 256, (rows * depth // block.steps, block.nbytes), np.int64)
    raw = raw.astype(np.uint8)
    records = raw.view(block.dtype)[:, 0]
    for part, kind, _ in block.parts:
        if kind == "<f2":
            records[part] = random.standard_normal(records[part].shape).astype(np.float16) / 8
        elif part == "e":
            records[part] = random.randint(118, 124, records[part].shape, np.int64)
    return raw


def weight(name, rows, depth, seed=0):
    return from_blocks(blocks_of(name, rows, depth, seed), name, (rows, depth))


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def close(found, x, matrix, extra=0.0):
    """Sums in float32 of products with the decoded weight, and what is stored of them."""
    x = x.astype(np.float64)
    expected = x @ matrix.T + extra
    terms = np.abs(x) @ np.abs(matrix).T + np.abs(extra)
    # Codes are summed up beside the 1 of their mantissas, which is some times their size.
    bound = 8 * np.finfo(np.float32).eps * terms
    if found.dtype.itemsize < 4:
        bound = bound + np.abs(expected) * (2**-8 if found.dtype == BFLOAT16 else 2**-11)
    wrong = np.abs(found.astype(np.float64) - expected) > bound + 1e-30
    assert not wrong.any(), (found[wrong][:3], expected[wrong][:3])


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_stand_for_what_the_package_says(device, name):
    raw = blocks_of(name, 3, 512)
    q = from_blocks(raw, name, (3, 512))
    assert (q.format, q.shape, q.ndim, q.size) == (name, (3, 512), 2, 1536)
    assert digest(q.dequantize().get()) == FROZEN[name][0]
    if name in MADE:
        w = numbers(3, 512)
        made = BLOCKS[name].written(w.reshape(-1, BLOCKS[name].steps))
        assert digest(made) == FROZEN[name][1]
        expected = from_blocks(made, name, (3, 512)).dequantize().get()
        for given in (w, cp.asarray(w)):
            found = ops.quantize_weight(given, format=name.upper())
            np.testing.assert_array_equal(found.dequantize().get(), expected)


@pytest.mark.everywhere
@pytest.mark.parametrize("name", BLOCKS)
def test_any_bytes_are_what_the_package_makes_of_them(device, name):
    gguf = pytest.importorskip("gguf")
    kind = gguf.GGMLQuantizationType[name.upper()]
    block = BLOCKS[name]
    assert gguf.GGML_QUANT_SIZES[kind] == (block.steps, block.nbytes)
    assert kind == block.number
    raw = np.random.RandomState(1).randint(0, 256, (5, 256 // block.steps * block.nbytes))
    raw = raw.astype(np.uint8)
    with np.errstate(all="ignore"):
        expected = gguf.quants.dequantize(raw, kind).astype(np.float32)
    found = from_blocks(raw, name, (5, 256)).dequantize().get()
    bits = found.view(np.uint32) == expected.view(np.uint32)
    assert (bits | (np.isnan(found) & np.isnan(expected))).all()
    if name in MADE:
        w = numbers(4, 512, seed=3)
        w[0, :32], w[1, 3], w[2] = 0, -8, np.round(w[2] * 4)
        with np.errstate(all="ignore"):
            expected = gguf.quants.quantize(w, kind).view(np.uint8)
        found = block.written(w.reshape(-1, block.steps))
        np.testing.assert_array_equal(found.reshape(-1), expected.reshape(-1))


ROWS = [1, 2, 3, 5, 8, 9, 17, 70]


@pytest.mark.optimised
@pytest.mark.everywhere
@pytest.mark.parametrize("name", BLOCKS)
def test_products_are_those_of_the_decoded_weight(device, name, some):
    q = weight(name, 70, 512)
    matrix = q.dequantize().get().astype(np.float64)
    for rows in some(ROWS, 3):
        x = numbers(rows, 512, seed=rows)
        close(ops.linear(cp.asarray(x), q).get(), x, matrix)


@pytest.mark.parametrize("rows", [*range(1, 18), 64, 130])
def test_every_number_of_rows_and_tails_of_outputs(device, rows):
    q = ops.quantize_weight(numbers(33, 96), format="q4_1")
    matrix = q.dequantize().get().astype(np.float64)
    x = numbers(rows, 96, seed=1)
    close(ops.linear(cp.asarray(x), q).get(), x, matrix)


@pytest.mark.parametrize("traits", ["gpu", "modest", "cpu16", "cpu32", "cpu64"], indirect=True)
@pytest.mark.parametrize("name", ["q4_0", "q5_k", "q6_k", "iq4_xs", "f16"])
def test_other_devices_plans(traits, name, some):
    q = weight(name, 40, 512)
    matrix = q.dequantize().get().astype(np.float64)
    for rows in some([1, 2, 3, 8, 11], 2):
        x = numbers(rows, 512, seed=rows)
        close(ops.linear(cp.asarray(x), q).get(), x, matrix)


@pytest.mark.parametrize("rows", [1, 8, 9, 16, 17, 200])
def test_who_is_chosen_follows_from_the_rows(rows):
    problem = dense_coded(rows, 64, 64, BLOCKS["q4_0"].coding)
    assert CODED.plan(problem, GPU).choice.strategy == "quantized/rows"
    for traits, most in ((CPU, 16), (replace(CPU, vector_bytes=32), 8)):
        expected = "quantized/rows" if rows <= most else "quantized/panels"
        assert CODED.plan(problem, traits).choice.strategy == expected
        medium = CODED.plan(replace(problem, precision="medium"), traits).choice.strategy
        assert medium == ("quantized/integers" if rows <= 4 else expected)


def in_parts(x, most):
    """Rows whose groups of 32 numbers are rounded to parts of their greatest."""
    groups = x.reshape(len(x), -1, 32)
    greatest = np.abs(groups).max(-1, keepdims=True)
    with np.errstate(all="ignore"):
        parts = np.where(greatest > 1e-30, np.float32(most) / greatest, np.float32(0))
    return (np.rint(groups * parts) * (greatest / most).astype(np.float64)).reshape(x.shape)


@pytest.mark.parametrize("traits", ["cpu16", "cpu32", "cpu64"], indirect=True)
@pytest.mark.parametrize("rows", [1, 3, 4])
def test_medium_sums_up_whole_numbers(traits, rows):
    q = weight("q4_0", 70, 96)
    x = numbers(rows, 96, seed=rows)
    x[0, :32], x[0, 32:64] = 0, 1e-36
    with cp.options(matmul_precision="medium"):
        found = ops.linear(cp.asarray(x), q, epilogue="y0 *= 2;").get()
    close(found / 2, in_parts(x, 255), q.dequantize().get().astype(np.float64))


@pytest.mark.parametrize("name", ["q4_0", "q4_1", "q4_k", "int4"])
def test_medium_has_the_error_of_bfloat16(device, name):
    if name == "int4":
        q = ops.quantize_weight(numbers(40, 512), format=name, block=64, symmetric=False)
    else:
        q = weight(name, 40, 512)
    x = numbers(2, 512)
    exact = x.astype(np.float64) @ q.dequantize().get().astype(np.float64).T
    with cp.options(matmul_precision="medium"):
        found = ops.linear(cp.asarray(x), q).get()
    traced = cp.jit(lambda x: ops.linear(x, q))
    plain = traced(cp.asarray(x)).get()
    with cp.options(matmul_precision="medium"):
        np.testing.assert_array_equal(traced(cp.asarray(x)).get(), found)
    assert np.abs(plain - exact).max() < np.abs(found - exact).max() / 100
    error = np.sqrt(np.square(found - exact).mean() / np.square(exact).mean())
    assert 1e-5 < error < 4e-3  # two operands of bfloat16 have 2.5e-3


@pytest.mark.parametrize(
    ("name", "rows", "dtype", "precision"),
    [
        ("q4_0", 5, np.float32, "medium"),
        ("q4_0", 2, np.float16, "medium"),
        ("q5_0", 2, np.float32, "medium"),
        ("iq4_nl", 2, np.float32, "medium"),
        ("q4_0", 2, np.float32, "high"),
    ],
)
def test_all_else_keeps_its_bits_whatever_the_precision(device, name, rows, dtype, precision):
    q, x = weight(name, 40, 64), cp.asarray(numbers(rows, 64).astype(dtype))
    expected = ops.linear(x, q).get()
    with cp.options(matmul_precision=precision):
        np.testing.assert_array_equal(ops.linear(x, q).get(), expected)


def test_medium_keeps_what_is_no_number(device):
    q, x = weight("q4_0", 40, 64), numbers(3, 64)
    x[0, 5], x[1, 40] = np.nan, np.inf
    with cp.options(matmul_precision="medium"):
        found = ops.linear(cp.asarray(x), q).get()
    assert np.isnan(found[:2]).all()
    assert np.isfinite(found[2]).all()


def test_rows_half_a_page_apart_share_panels():
    coding = BLOCKS["q4_0"].coding
    for depth, expected in ((640, "quantized/rows"), (1024, "quantized/panels")):
        assert CODED.plan(dense_coded(16, 64, depth, coding), CPU).choice.strategy == expected


@pytest.mark.parametrize("algorithm", ["quantized/rows", "quantized/panels"])
def test_either_strategy_takes_any_number_of_rows(device, algorithm):
    q = weight("q3_k", 40, 256)
    matrix = q.dequantize().get().astype(np.float64)
    for rows in (2, 19):
        x = numbers(rows, 256, seed=rows)
        close(ops.linear(cp.asarray(x), q, algorithm=algorithm).get(), x, matrix)


@pytest.mark.everywhere
@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16])
@pytest.mark.parametrize("rows", [1, 4, 11])
def test_storages_biases_epilogues_views_and_old_results(device, dtype, rows):
    q = weight("q5_1", 70, 64)
    matrix = q.dequantize().get().astype(np.float64)
    x = numbers(2 * rows, 3, 80).astype(dtype)
    view = cp.asarray(x)[::2, :, 8:72]
    bias, other, old = (numbers(*s, seed=5).astype(dtype) for s in ((70,), (3, 70), (rows, 3, 70)))
    given = x[::2, :, 8:72].reshape(-1, 64)
    extra = bias.astype(np.float64)
    close(ops.linear(view, q, cp.asarray(bias)).get().reshape(-1, 70), given, matrix, extra)
    out = cp.asarray(old)
    options = {"epilogue": "y0 = y0 * w0 + x0;", "epilogue_args": (cp.asarray(other), 1)}
    found = ops.matmul(view, q, transpose_b=True, **options, out=out, beta=1)
    assert found is out
    extra = np.broadcast_to(other.astype(np.float64), old.shape).reshape(-1, 70)
    close(out.get().reshape(-1, 70), given, matrix, extra + old.reshape(-1, 70).astype(np.float64))
    # Steps of k that are no neighbours, and results that lie otherwise.
    turned = cp.asarray(np.ascontiguousarray(given.T)).T
    across = cp.empty((70, len(given)), dtype=dtype).T
    close(ops.linear(turned, q, out=across).get(), given, matrix)


def test_one_row_without_a_dimension_no_rows_and_numbers_of_16_bits_of_any_length(device):
    w = numbers(9, 50)
    for name in ("f16", "bf16"):
        q = ops.quantize_weight(w, format=name)
        matrix = q.dequantize().get().astype(np.float64)
        x = numbers(50, seed=2)
        close(ops.linear(cp.asarray(x), q).get(), x, matrix)
        assert ops.linear(cp.zeros((0, 50)), q).shape == (0, 9)


@pytest.mark.parametrize("name", ["int4", "int8"])
@pytest.mark.parametrize("block", [16, 32, 128])
@pytest.mark.parametrize("symmetric", [True, False])
def test_integers_with_blocks_of_any_length(device, name, block, symmetric):
    w = numbers(40, 256) + np.float32(0 if symmetric else 2)
    q = ops.quantize_weight(w, format=name, block=block, symmetric=symmetric)
    found = q.dequantize().get()
    blocks = w.reshape(40, -1, block)
    most = 7 if name == "int4" else 127
    span = np.abs(blocks).max(axis=2) / most
    if not symmetric:
        span = (np.maximum(blocks.max(2), 0) - np.minimum(blocks.min(2), 0)) / (2 * most + 1)
    error = np.abs(found - w).reshape(blocks.shape) / span[..., None]
    assert error.max() <= (0.5001 if symmetric else 1.0001)
    for rows in (1, 3, 9):
        x = numbers(rows, 256, seed=rows)
        close(ops.linear(cp.asarray(x), q).get(), x, found.astype(np.float64))


@pytest.mark.everywhere
def test_rows_of_a_table(device):
    q = weight("q6_k", 40, 256)
    matrix = q.dequantize().get()
    ids = np.array([[3, 39, -1], [0, 40, 7]])
    expected = matrix[np.where(ids == 40, 0, ids)]
    expected[ids == 40] = 0
    np.testing.assert_array_equal(ops.embedding(cp.asarray(ids), q).get(), expected)
    compiled = cp.jit(lambda i: ops.embedding(i, q) * 2)
    np.testing.assert_array_equal(compiled(cp.asarray(ids)).get(), 2 * expected)
    with pytest.raises(DefinitionError, match="max_norm"):
        ops.embedding(cp.asarray(ids), q, max_norm=1.0)


@pytest.mark.parametrize("rows", [2, 12])
def test_compiled_and_with_gradients(device, rows):
    q = ops.quantize_weight(numbers(33, 64), format="q8_0")
    matrix = q.dequantize().get().astype(np.float64)
    x, bias = numbers(rows, 64, seed=1), numbers(33, seed=2)
    a, b = numbers(64, 4, seed=3), numbers(4, 33, seed=4)

    def network(x, bias, a, b):
        return ops.relu(ops.linear(x, q, bias)) + x @ a @ b

    given = [cp.asarray(v) for v in (x, bias, a, b)]
    plain = network(*given).get()
    compiled = cp.jit(network)
    for _ in range(2):
        np.testing.assert_allclose(compiled(*given).get(), plain, rtol=1e-5, atol=1e-4)
    loss = cp.value_and_grad(lambda *g: ops.sum(network(*g)), (0, 1, 2, 3))
    _, (dx, dbias, da, db) = loss(*given)
    on = (x.astype(np.float64) @ matrix.T + bias > 0).astype(np.float64)
    ones = np.ones((rows, 33))
    for found, expected in (
        (dx, on @ matrix + ones @ b.T @ a.T.astype(np.float64)),
        (dbias, on.sum(axis=0)),
        (da, x.T @ ones @ b.T),
        (db, (x @ a).T @ ones),
    ):
        np.testing.assert_allclose(found.get(), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", BLOCKS)
def test_gradients_go_through_every_format(device, name):
    q = weight(name, 40, 256)
    grad = numbers(3, 40, seed=1)
    y, x = cp.asarray(grad), cp.asarray(numbers(3, 256, seed=2))
    _, (dx,) = cp.value_and_grad(lambda x: ops.sum(ops.linear(x, q) * y), (0,))(x)
    matrix = q.dequantize().get().astype(np.float64)
    bound = 8 * np.finfo(np.float32).eps * (np.abs(grad) @ np.abs(matrix))
    assert (np.abs(dx.get() - grad @ matrix) <= bound + 1e-30).all()


def test_a_saved_graph_keeps_the_weight(device, tmp_path):
    q = ops.quantize_weight(numbers(33, 64), format="q4_0")
    compiled = cp.jit(lambda x: ops.linear(x, q, epilogue="y0 = max(y0, 0);"))
    x = cp.asarray(numbers(2, 64, seed=1))
    expected = compiled(x).get()
    compiled.graph(x).save(tmp_path / "graph.clprim")
    found = cp.Graph.load(tmp_path / "graph.clprim")(x)
    np.testing.assert_array_equal(found.get(), expected)


def refused(error, match, call, *args, **options):
    with pytest.raises(error, match=match) as caught:
        call(*args, **options)
    assert isinstance(caught.value, ClprimError)


@pytest.mark.refusal
def test_wrong_arguments(device):
    w = numbers(4, 64)
    q = ops.quantize_weight(w)
    x = cp.asarray(numbers(2, 64))
    make = ops.quantize_weight
    refused(DefinitionError, "q4_k is only read from files", make, w, format="q4_k")
    refused(DefinitionError, "expected one of q4_0, q4_1", make, w, format="q9")
    refused(DTypeError, "expected a string", make, w, format=None)
    refused(ShapeError, r"q4_0 has blocks of 32 columns; got shape \(4, 60\)", make, w[:, :60])
    refused(ShapeError, "blocks of 256", make, w, format="tq1_0")
    refused(ShapeError, r"expected \(N, K\)", make, w[0])
    refused(ShapeError, "none of them 0", make, w[:0])
    refused(DTypeError, "expected floats", make, w.astype(np.int32))
    for block in (0, 8, 48, -32):
        refused(ShapeError, "block=", make, w, format="int4", block=block)
    refused(ShapeError, "int4 of block=128", make, w, format="int4", block=128)
    refused(DefinitionError, "q4_0 has its own blocks, of 32", make, w, block=64)
    refused(DefinitionError, "symmetric=False: f16 has", make, w, format="f16", symmetric=False)
    refused(ShapeError, r"do not fit: expected \(…, 64\)", ops.linear, x[:, :32], q)
    refused(DTypeError, "use astype", ops.linear, x.astype(np.int32), q)
    refused(DTypeError, "expected a device array", ops.linear, numbers(2, 64), q)
    refused(ShapeError, "beside a quantised weight", ops.matmul, x, q)
    refused(ShapeError, "bias has shape", ops.linear, x, q, cp.zeros(3))
    refused(DefinitionError, "algorithm", ops.linear, x, q, algorithm="dots")
    refused(DTypeError, "floating", q.dequantize, np.int8)
    refused(ShapeError, "expected 144", from_blocks, np.zeros(143, np.uint8), "q4_0", (4, 64))
    refused(DefinitionError, "expected one of", from_blocks, np.zeros(4, np.uint8), "q9", (1, 4))
    out = cp.zeros((2, 5))
    refused(ShapeError, "out", ops.linear, x, q, out=out)
    assert not out.get().any()
