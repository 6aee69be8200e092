"""Operators by ONNX's names, and what is said of each once."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.ops.registry import OPERATORS, add_onnx, of_onnx, recorded

X = np.array([[-1.5, 0.25, 2.0], [0.0, -0.0, 3.0]], np.float32)


def computed(name, *arrays, **attributes):
    found = of_onnx(name)
    return found.function(*map(cp.asarray, arrays), **found.arguments(attributes)).get()


@pytest.mark.parametrize(
    ("name", "attributes", "expected"),
    [
        ("Relu", {}, np.maximum(X, 0)),
        ("LeakyRelu", {}, np.where(X < 0, X * 0.01, X)),
        ("LeakyRelu", {"alpha": 0.5}, np.where(X < 0, X * 0.5, X)),
        ("Softmax", {}, np.exp(X) / np.exp(X).sum(-1, keepdims=True)),
        ("Softmax", {"axis": 0}, np.exp(X) / np.exp(X).sum(0)),
        ("Neg", {}, -X),
        ("HardSigmoid", {}, np.clip(0.2 * X + 0.5, 0, 1)),
        ("ArgMax", {"axis": 1, "keepdims": 0}, X.argmax(1)),
    ],
)
def test_operators_of_one_array(device, name, attributes, expected):
    np.testing.assert_allclose(computed(name, X, **attributes), expected, rtol=1e-5)


def test_operators_of_several_arrays(device):
    assert (computed("Add", X, X) == X + X).all()
    assert (computed("Less", X, np.ones_like(X)) == (X < 1)).all()
    assert (computed("And", X > 0, X > 1) == (X > 1)).all()
    np.testing.assert_allclose(computed("MatMul", X, X.T), X @ X.T, rtol=1e-5)
    joined = of_onnx("Concat", "ai.onnx")
    given = joined.arguments({"axis": 1})
    assert (joined.function([cp.asarray(X)] * 2, **given).get() == np.hstack([X, X])).all()


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("name", "attributes", "said"),
    [
        ("MaxRoiPool", {}, "MaxRoiPool: the attribute pooled_shape is missing"),
        ("Relu", {"alpha": 1.0}, "Relu: the attribute alpha is not supported"),
    ],
)
def test_attributes_that_do_not_fit(name, attributes, said):
    with pytest.raises(cp.DefinitionError, match=said):
        of_onnx(name).arguments(attributes)


@pytest.mark.refusal
def test_what_no_operator_computes():
    assert of_onnx("Loop") is None
    assert of_onnx("Relu", "com.microsoft") is None


def test_names_of_onnx_are_its_own():
    onnx = pytest.importorskip("onnx")
    defaults, optional, every = {}, set(), set()
    for schema in onnx.defs.get_all_schemas_with_history():
        for attribute in schema.attributes.values():
            key = schema.domain, schema.name, attribute.name
            every.add(key)
            if not attribute.required:
                optional.add(key)
            if attribute.default_value.name:
                said = onnx.helper.get_attribute_value(attribute.default_value)
                said = said.decode() if isinstance(said, bytes) else said
                defaults.setdefault(key, []).append(said)
    walked = 0
    for domain, name in recorded():
        # ONNX Runtime's, whose schemas may not be there.
        if domain or name == "SimplifiedLayerNormalization":
            continue
        given = of_onnx(name)
        assert every.issuperset(("", name, a) for a in (*given.parameters, *given.idle))
        for attribute, default in given.defaults.items():
            key = "", name, attribute
            assert key in optional
            if key in defaults:
                assert any(default in (v, pytest.approx(v)) for v in defaults[key]), key
                walked += 1
    assert walked > 20


@pytest.mark.refusal
def test_a_name_of_onnx_is_said_once():
    with pytest.raises(cp.DefinitionError, match="Relu has two records"):
        add_onnx("Relu", ops.relu)
    pytest.importorskip("onnx")
    from clprim.onnx.table import handler

    for name in ("Relu", "Softmax", "Conv"):
        with pytest.raises(cp.DefinitionError, match=f"{name} is said twice"):
            handler(name)(ops.relu)


@pytest.mark.refusal
def test_a_name_of_numpys_passes_on_to_its_operator():
    for name, facts in OPERATORS.items():
        for other in facts.numpy.partition("(")[0].split():
            assert f"clprim.ops.{name}" in getattr(cp, other).__doc__
    assert ops.__all__ == sorted(ops.__all__)
