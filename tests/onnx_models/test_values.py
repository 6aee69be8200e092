"""Values that files have and attributes ask for, against ONNX Runtime or by ONNX's text."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
ml_dtypes = pytest.importorskip("ml_dtypes")

from onnx import TensorProto, helper, parser  # noqa: E402
from onnx_cases import f, model_of, of_onnx_runtime  # noqa: E402

import clprim as cp  # noqa: E402
import clprim.onnx  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")


def same(name, inputs, told, kinds=(1,), version=21):
    """Asserts that results are ONNX Runtime's."""
    model, given = model_of(name, inputs, told, kinds, version=version)
    found = clprim.onnx.load(model).run(list(given.values()))
    for a, b in zip(found, of_onnx_runtime(model, given), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def test_each_activation_that_has_an_alpha_takes_the_next_one(device):
    x, w = f(3, 2, 4), f(2, 20, 4)
    told = {"hidden_size": 5, "direction": "bidirectional"}
    hard = ["Sigmoid", "HardSigmoid", "Tanh"] * 2
    same("LSTM", [x, w, f(2, 20, 5)], {**told, "activations": hard, "activation_alpha": [0.3, 0.1],
         "activation_beta": [0.4, 0.6]}, (1, 1, 1))  # fmt: skip
    mixed = ["HardSigmoid", "LeakyRelu", "Elu", "ScaledTanh"]
    same(
        "GRU",
        [x, w[:, :15], f(2, 15, 5)],
        {
            **told,
            "activations": mixed,
            "activation_alpha": [0.3, 0.1, 0.7, 0.8],
            "activation_beta": [0.4, 1.2],
        },
        (1, 1),
    )
    same("RNN", [x, w[:, :5], f(2, 5, 5)], {**told, "activations": ["Softplus", "Affine"],
         "activation_alpha": [0.5], "activation_beta": [0.25]}, (1, 1))  # fmt: skip


@pytest.mark.parametrize("scale, bias", [((2, 1, 8), (8,)), ((2, 3, 1), (3, 8)), ((3, 8), None)])
def test_scales_of_any_shape_that_broadcasts(device, scale, bias):
    same("LayerNormalization", [f(2, 3, 8), f(*scale), bias and f(*bias)], {}, (1, 1, 1))
    x, w = f(2, 3, 8), f(*scale)
    model, given = model_of("RMSNormalization", [x, w], {}, version=23)
    wanted = x / np.sqrt((x.astype(float) ** 2).mean(-1, keepdims=True) + 1e-5) * w
    np.testing.assert_allclose(clprim.onnx.load(model)(given), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2"])
def test_quantised_infinities_and_nan(device, dtype):
    x = np.float32([np.nan, np.inf, -np.inf, 1e20, -1e20, 3e9, -3e9, 0, 2.5])
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    same("QuantizeLinear", [x, np.float32(1), np.array(3, dtype)], {}, (kind,))
    same("QuantizeLinear", [x[1:], np.float32(0), np.array(3, dtype)], {}, (kind,))


@pytest.mark.parametrize("constant", [False, True])
def test_numbers_of_few_bits_are_one_for_constants_and_inputs(device, constant):
    def cast(values, kind, **told):
        model, given = model_of("Cast", [np.float32(values)], {"to": kind, **told}, (kind,),
                           version=24, constant=constant)  # fmt: skip
        return clprim.onnx.load(model).run(list(given.values()))[0]

    found = cast([-0.0, -0.25, 0.25, -7], TensorProto.FLOAT4E2M1).astype(np.float32)
    np.testing.assert_array_equal(found, [0, 0, 0, -6])
    np.testing.assert_array_equal(np.signbit(found), [True, True, False, True])
    wide = [1000, -np.inf, 0.3]
    found = cast(wide, TensorProto.FLOAT8E4M3FN).astype(np.float32)
    np.testing.assert_array_equal(found, [448, -448, 0.3125])
    found = cast(wide, TensorProto.FLOAT8E4M3FN, saturate=0).astype(np.float32)
    np.testing.assert_array_equal(found, [np.nan, np.nan, 0.3125])


def test_bits_of_few_bits_are_read_as_others(device):
    x = np.arange(16).astype(ml_dtypes.uint4)
    for kind in (TensorProto.INT4, TensorProto.FLOAT4E2M1):
        model, given = model_of("BitCast", [x], {"to": kind}, (kind,), version=26)
        found = clprim.onnx.load(model)(given)
        wanted = np.arange(16, dtype=np.uint8)
        wanted = np.where(wanted > 7, wanted | 240, wanted) if kind == TensorProto.INT4 else wanted
        np.testing.assert_array_equal(found.view(np.uint8), wanted)


REFUSED = {
    "another width": ("BitCast", [f(3)], {"to": TensorProto.INT16}, 26, "another width"),
    "behind the end": ("TensorScatter", [f(1, 4, 2), f(1, 2, 2), np.int64([3])], {}, 24, "3 to 5"),
    "before it": ("TensorScatter", [f(1, 4, 2), f(1, 2, 2), np.int64([-1])], {}, 24, "-1 to 1"),
    "too long": ("TensorScatter", [f(1, 4, 2), f(1, 5, 2)], {}, 24, "0 to 5"),
}


@pytest.mark.refusal
@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_place_is_refused(device, what):
    name, inputs, told, version, words = REFUSED[what]
    model, given = model_of(name, inputs, told, version=version)
    with pytest.raises(cp.ClprimError, match=words):
        clprim.onnx.load(model)(given)


@pytest.mark.refusal
def test_attributes_that_no_schema_or_function_has_are_refused_by_name():
    model, _ = model_of("Binarizer", [f(3)], {"treshold": 1.0}, domain="ai.onnx.ml")
    with pytest.raises(cp.DefinitionError, match="no attribute 'treshold'"):
        clprim.onnx.load(model)
    model, _ = model_of("LayerNormalization", [f(3), f(3)], {"stash_type": 10})
    with pytest.raises(cp.DefinitionError, match="stash_type=10 is not supported"):
        clprim.onnx.load(model)
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[n] x) => (float[n] y) { y = own.twice <by = 3.0> (x) }
        <domain: "own", opset_import: ["" : 17]>
        twice (x) => (y) { y = Add (x, x) }""")
    with pytest.raises(cp.DefinitionError, match="'twice' has no attribute 'by'"):
        clprim.onnx.load(model)
