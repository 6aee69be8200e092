"""Operators of ONNX Runtime's own set, against ONNX Runtime."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_cases import f, i, model_of, of_onnx_runtime  # noqa: E402

import clprim as cp  # noqa: E402
import clprim.onnx  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")
_DICE = np.random.default_rng(11)
OWN = "com.microsoft"


def ints(*values):
    """Some of int32."""
    return np.int32(values)


ONE = np.float32(0.05)
ZERO = np.uint8(120)
X = [ONE, ZERO]
COS, SIN = (g(_DICE.uniform(0, 3, (16, 8))).astype(np.float32) for g in (np.cos, np.sin))
PLACES = np.array([[3, 4, 5, 6, 7]] * 2, np.int64)
HEADS = {"num_heads": 2}
GROUPS = {"num_heads": 4, "kv_num_heads": 2}
SEEN = i(2, 6, dtype=np.int32, high=2) | np.eye(2, 6, dtype=np.int32)
CACHE = f(2, 2, 6, 16)
LONG = f(2, 2, 9, 16)
BITS = {"K": 64, "N": 5, "bits": 4, "block_size": 32}
PROMPT = [f(2, 5, 64), f(2, 5, 32), f(2, 5, 32), None, None, ints(4, 2), ints(5)]
STEP = [f(2, 1, 64), f(2, 1, 32), f(2, 1, 32)]
QUERIES = [f(2, 5, 8), f(2, 6, 8), f(2, 6, 8), None]
OF_INTEGERS = [i(2, 3, 4), i(4, 5, dtype=np.int8, low=-128, high=127)]
INPUT = [f(2, 5, 12), f(12, 48), f(48)]
WORDS = [i(2, 5, dtype=np.int32, high=9), i(2, 5, dtype=np.int32, high=2), f(9, 8), f(7, 8),
         f(2, 8), f(8), f(8)]  # fmt: skip
POOL = {"kernel_shape": [3, 2], "pads": [1, 1, 0, 1], "strides": [2, 1]}
ATTENTION = [i(2, 5, 12), i(12, 48, dtype=np.int8), f(48), ONE.reshape(1), ONE.reshape(1), None,
             np.uint8([120]), np.int8([2])]  # fmt: skip

# By a name and what it is about: inputs, attributes, and how many outputs.
CASES = {
    "FusedMatMul": ([f(2, 5, 3), f(2, 4, 5)], {"transA": 1, "transB": 1, "alpha": 0.5}),
    "FusedGemm": ([f(3, 4), f(4, 5), f(5)], {"alpha": 0.5, "beta": 2.0, "activation": "Relu"}),
    "FusedGemm NaN": ([np.float32([[np.nan, 1], [-100, 1]]), np.float32([[1], [0]])],
                      {"activation": "Relu"}),
    "FusedGemm thresholded": ([f(3, 4), f(4, 5)], {"activation": "ThresholdedRelu",
                                                   "activation_alpha": 0.3}),
    "FusedConv": ([f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)],
                  {"activation": "LeakyRelu", "activation_params": [0.2], "pads": [1, 0, 1, 0]}),
    "FusedConv clipped": ([f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)],
                          {"activation": "Clip", "activation_params": [-0.5, 0.5]}),
    "Gelu": ([f(3, 5)], {}),
    "BiasGelu": ([f(3, 5), f(5)], {}),
    "FastGelu": ([f(3, 5), f(5)], {}),
    "QuickGelu": ([f(3, 5)], {"alpha": 1.3}),
    "SkipLayerNormalization": ([f(2, 3, 8), f(2, 3, 8), f(8), f(8), f(8)], {"epsilon": 1e-5}, 4),
    "SkipSimplifiedLayerNormalization": ([f(2, 3, 8), f(3, 8), f(8)], {"epsilon": 1e-5}, 4),
    "EmbedLayerNormalization": ([*WORDS, ints([1, 1, 0, 0, 0], [1, 1, 1, 1, 0])], {}, 3),
    "EmbedLayerNormalization places": (
        [WORDS[0], None, *WORDS[2:4], None, *WORDS[5:], None, i(2, 5, dtype=np.int32, high=7)],
        {"epsilon": 1e-5}, 2),
    "RotaryEmbedding": ([f(2, 3, 5, 16), PLACES, COS, SIN], {}),
    "RotaryEmbedding interleaved": ([f(2, 5, 32), PLACES, COS, SIN], {"interleaved": 1}),
    "Attention": (INPUT, HEADS, 2),
    "Attention past": ([*INPUT, ints(4, 0), f(2, 2, 2, 3, 8)], {**HEADS, "unidirectional": 1}, 2),
    "Attention begins": ([*INPUT, ints(4, 5, 1, 2)], {**HEADS, "mask_filter_value": -2.0}),
    "Attention sizes": ([INPUT[0], f(12, 56), None], {**HEADS, "qkv_hidden_sizes": [16, 16, 24]}),
    "QAttention": (ATTENTION, HEADS, 2),
    "MultiHeadAttention": ([*QUERIES[:3], f(24)], HEADS),
    "MultiHeadAttention scores": ([*QUERIES, ints(6, 3), f(1, 2, 5, 6)], HEADS, 4),
    "MultiHeadAttention top left": (QUERIES, {**HEADS, "unidirectional": 1}),
    "MultiHeadAttention one": ([f(2, 1, 8), *QUERIES[1:]], {**HEADS, "unidirectional": 1}, 3),
    **{f"MultiHeadAttention mask {mask.shape}": ([*QUERIES, mask], HEADS) for mask in (
        SEEN, ints(6, 3), ints(-1, 0), ints(6, 3, 0, 5, 10, 0, 6, 12),
        i(2, 5, 6, dtype=np.int32, low=-1, high=2), np.zeros_like(SEEN))},
    "GroupQueryAttention": (PROMPT, GROUPS, 3),
    "GroupQueryAttention turned": ([*PROMPT, COS, SIN, PLACES[:, ::-1].copy()],
                                   {**GROUPS, "do_rotary": 1}, 3),
    "GroupQueryAttention lengths": ([*STEP, CACHE, CACHE, ints(6, 3), ints(7), COS, SIN],
                                    {**GROUPS, "do_rotary": 1}, 3),
    "GroupQueryAttention static": ([*STEP, LONG, LONG, ints(6, 3), ints(7)], GROUPS, 3),
    "GroupQueryAttention static prompt": ([*PROMPT[:3], LONG, LONG, ints(4, 4), ints(5)],
                                          GROUPS, 3),
    "GroupQueryAttention several": ([*(v[:1] for v in PROMPT[:3]), CACHE[:1], CACHE[:1],
                                     ints(10), ints(11)], {**GROUPS, "local_window_size": 3}, 3),
    "GroupQueryAttention capped": ([*PROMPT[:5], ints(4, 4), ints(5)],
                                   {**GROUPS, "softcap": 0.5, "local_window_size": 3}, 3),
    "GroupQueryAttention both ways": (PROMPT, {**GROUPS, "causal": 0}, 3),
    "GroupQueryAttention sees nothing": (PROMPT, {**GROUPS, "local_window_size": 0}, 3),
    "GroupQueryAttention smooth": (PROMPT, {**GROUPS, "smooth_softmax": 1, "qk_output": 2}, 4),
    "GroupQueryAttention sink": ([*PROMPT, None, None, None, f(2, 4, 5, 5), f(4)],
                                 {**GROUPS, "qk_output": 1}, 4),
    "MatMulNBits": ([f(3, 64), i(5, 2, 16), f(10), i(5)], {**BITS, "accuracy_level": 1}),
    "MatMulNBits symmetric": ([f(3, 64), i(5, 2, 16), f(10)], BITS),
    "MatMulNBits of short blocks": ([f(2, 80), i(33, 5, 8), f(165), i(99)],
                                    {"K": 80, "N": 33, "bits": 4, "block_size": 16}),
    "MatMulNBits of bytes": ([f(9, 70), i(9, 3, 32), f(27), i(27)],
                             {"K": 70, "N": 9, "bits": 8, "block_size": 32}),
    "MatMulNBits order": ([f(3, 64), i(5, 2, 16), f(10), f(5, 2), i(64, dtype=np.int32, high=2)],
                          BITS),
    "MatMulNBits order alone": ([f(3, 64), i(5, 2, 16), f(10), None,
                                 i(64, dtype=np.int32, high=2)], BITS),
    "MatMulNBits order shuffled": ([f(2, 128), i(33, 4, 16), f(132), None, np.random.RandomState(0)
                                    .permutation(np.arange(128) // 32).astype(np.int32)],
                                   {"K": 128, "N": 33, "bits": 4, "block_size": 32}),
    **{f"GatherBlockQuantized {bits}": (
        [i(10, 16 * bits // 8), np.int64([[3, -1], [-10, 9]]), f(10, 1), i(10, 1)],
        {"bits": bits, "block_size": 16}) for bits in (2, 4, 8)},
    "DynamicQuantizeMatMul": ([f(2, 3, 4), OF_INTEGERS[1], abs(f(5)), i(5, dtype=np.int8), f(5)],
                              {}),
    "MatMulIntegerToFloat": ([*OF_INTEGERS, ONE, abs(f(5)), ZERO], {}),
    "QGemm": ([i(4, 3), *X, i(5, 4, dtype=np.int8), ONE, np.int8(3), i(5, dtype=np.int32),
               ONE * 9, ZERO], {"transA": 1, "transB": 1, "alpha": 0.5}),
    "QLinearAdd": ([i(3, 5), *X, i(5), *X, ONE * 2, ZERO], {}),
    "QLinearMul": ([i(3, 5), *X, i(5), *X, ONE * 4, ZERO], {}),
    "QLinearSigmoid": ([i(3, 5), *X, np.float32(1 / 256), np.uint8(0)], {}),
    "QLinearLeakyRelu": ([i(3, 5), *X, *X], {"alpha": 0.1}),
    "QLinearConcat": ([ONE * 2, ZERO, i(2, 3), *X, i(2, 4), ONE * 3, np.uint8(7)], {"axis": 1}),
    "QLinearWhere": ([i(5, high=2).astype(bool), i(3, 5), *X, i(5), *X, ONE * 2, ZERO], {}),
    "QLinearAveragePool": ([i(2, 3, 7, 6), *X, *X], {**POOL, "count_include_pad": 1}),
    "QLinearAveragePool last": ([i(2, 7, 6, 3), *X, *X], {**POOL, "channels_last": 1}),
    "QLinearGlobalAveragePool": ([i(2, 3, 7, 6), *X, ONE / 2, ZERO], {}),
    "QLinearSoftmax": ([i(3, 4, 5), *X, np.float32(1 / 256), np.uint8(0)],
                       {"opset": 13, "axis": 1}),
    "QLinearSoftmax before": ([i(3, 4, 5), *X, np.float32(1 / 256), np.uint8(0)],
                              {"opset": 12, "axis": 1}),
    "QLinearConv last": ([i(1, 6, 6, 3), *X, i(4, 3, 3, 3, dtype=np.int8), ONE, np.int8(0),
                          ONE * 20, ZERO], {"channels_last": 1, "pads": [1, 1, 1, 1]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_results_are_onnx_runtimes(device, name):
    inputs, attributes, count = (*CASES[name], 1)[:3]
    whole = name.startswith("QLinear") or name == "QGemm"
    kinds = (2,) if whole else (1, 6, 1) if name.startswith("Embed") else (1,) * 4
    model, given = model_of(name.split()[0], inputs, attributes, kinds[:count], OWN)
    wanted = of_onnx_runtime(model, given)
    found = clprim.onnx.load(model).run(list(given.values()))
    lengths = inputs[5] + 1 if name.startswith("Group") else None
    for n, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        slack = 1 if whole else 0  # a result half-way between two codes
        for row in range(len(a) if lengths is not None and n in (1, 2) else 0):
            a[row, :, lengths[row] :] = b[row, :, lengths[row] :]  # what nobody has written
        np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=2e-4, atol=2e-5 + slack)


@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("index", ["shuffled", "unequal", "natural", "input"])
def test_groups_of_columns_are_by_the_schemas_text(device, bits, rows, index):
    """ONNX Runtime refuses 8 bits with them, and reads 2 bits as if they were 4."""
    dice = np.random.RandomState(bits)
    of = np.arange(96) // 32
    if index != "natural":
        of = dice.permutation(of) if index == "shuffled" else dice.randint(0, 3, 96)
    codes, scales, x = dice.randint(0, 2**bits, (40, 96)), f(120), f(rows, 96)
    pieces = codes.reshape(40, 3, -1, 8 // bits) << np.arange(0, 8, bits)
    inputs = [x, pieces.sum(-1).astype(np.uint8), scales, None, of.astype(np.int32)]
    told = {"K": 96, "N": 40, "bits": bits, "block_size": 32}
    model, given = model_of("MatMulNBits", inputs, told, domain=OWN, constant=index != "input")
    matrix = (codes - 2 ** (bits - 1)) * scales.reshape(40, 3)[:, of].astype(np.float64)
    net = clprim.onnx.load(model)
    for _ in range(2):
        found = net(given if index == "input" else {})
        np.testing.assert_allclose(found, x @ matrix.T, rtol=2e-4, atol=2e-4 * 2**bits)


def swiglu(gate, up, alpha=1.0, beta=0.0, limit=0.0):
    """By the text of the schema; ONNX Runtime's CPU provider has none."""
    gate, up = gate.astype(float), up.astype(float)
    if limit > 0:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return gate / (1 + np.exp(-alpha * gate)) * (up + beta)


@pytest.mark.parametrize(
    "told",
    [{}, {"limit": 0.7}, {"activation_alpha": 1.7, "activation_beta": 1.0, "limit": 1.0}],
)
def test_swiglu_clamps_scales_and_splits(device, told):
    gate, up = 2 * f(3, 4), 2 * f(3, 4)
    wanted = swiglu(gate, up, *(told.get(n, d) for n, d in (
        ("activation_alpha", 1.0), ("activation_beta", 0.0), ("limit", 0.0))))  # fmt: skip
    for inputs in ([gate, up], [np.concatenate([gate, up], 1)]):
        model, given = model_of("SwiGLU", inputs, told, domain=OWN)
        np.testing.assert_allclose(clprim.onnx.load(model)(given), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.refusal
@pytest.mark.parametrize("name, inputs, told, count, words", [
    ("FusedMatMul", [f(2, 3), f(3, 2)], {"transBatchA": 1}, 1, "transBatchA=1"),
    ("FusedGemm", [f(2, 3), f(3, 2)], {"activation_gamma": 1.0}, 1, "activation_gamma"),
    ("Gelu", [f(2)], {"alpha": 2.0}, 1, "'#0'.*alpha=2.0"),
    ("Gelu", [f(2), f(2), f(2)], {}, 1, "3 inputs, of which it takes 1"),
    ("BiasGelu", [f(2), f(2)], {}, 2, "2 outputs, of which it makes 1"),
    ("SwiGLU", [f(2), f(2)], {"round_activation": 1}, 1, "round_activation=1"),
    ("GroupQueryAttention", [*PROMPT, *[None] * 7, f(16)], GROUPS, 3, "15 inputs"),
    ("GroupQueryAttention", PROMPT, {**GROUPS, "sliding_window_cache": 1}, 1, "sliding_window"),
    ("QLinearAdd", [i(2), *X, i(2), *X, *X, *X], {}, 1, "10 inputs, of which it takes 8"),
    ("MatMulNBits", [f(3, 64), i(5, 2, 16), f(10)], {**BITS, "weight_prepacked": 1}, 1, "packed=1"),
])  # fmt: skip
def test_what_is_not_known_is_refused_by_name_before_it_runs(name, inputs, told, count, words):
    with pytest.raises(cp.DefinitionError, match=words):
        clprim.onnx.load(model_of(name, inputs, told, (1,) * count, OWN)[0])


@pytest.mark.refusal
def test_an_output_that_is_not_made_is_named(device):
    model, given = model_of("GroupQueryAttention", PROMPT, GROUPS, (1,) * 4, OWN)
    with pytest.raises(cp.DefinitionError, match=r"output 3 \('y3'\) is not made"):
        clprim.onnx.load(model)(given)


ORDER = [f(3, 64), i(5, 2, 16), f(10), i(5), i(64, dtype=np.int32, high=2)]
TWICE = {**POOL, "ceil_mode": 1, "count_include_pad": 1}


@pytest.mark.refusal
@pytest.mark.parametrize("name, inputs, told, words", [
    ("MatMulNBits", ORDER, BITS, "g_idx with packed zero points"),
    ("QLinearAveragePool", [i(2, 3, 7, 6), *X, *X], TWICE, "ceil_mode with count_include_pad"),
])  # fmt: skip
def test_where_onnx_runtime_contradicts_a_text_the_node_is_refused(
    device, name, inputs, told, words
):
    model, given = model_of(name, inputs, told, domain=OWN)
    with pytest.raises(cp.DefinitionError, match=words):
        clprim.onnx.load(model)(given)
