"""Signed zeros, NaN, integer powers and bounds, as users of other libraries met them."""

import math

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

import clprim.torch  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")
NAN = math.nan


def on(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).to("opencl")


def signs(values):
    return np.signbit(np.asarray(values)).tolist()


def test_results_of_two_shapes_are_both_broadcast(device):
    first, second = cp.Pointwise("y0 = 2 * x0; y1 = 3 * x1;")(cp.ones((2, 2, 2)), cp.ones((2, 2)))
    equal(first, np.full((2, 2, 2), 2), np.float32)
    equal(second, np.full((2, 2, 2), 3), np.float32)
    # Of a traced function each has its own.
    given = cp.ones((2, 2, 2)), cp.ones((2, 2))
    first, second = cp.jit(lambda a, b: (2 * a, 3 * b))(*given)
    equal(first, np.full((2, 2, 2), 2), np.float32)
    equal(second, np.full((2, 2), 3), np.float32)


def test_a_remainder_of_zero_has_the_divisors_sign(device):
    a, b = np.float32([-1, 2, 1, -2]), np.float32([1, -1, 1, -1])
    found = ops.remainder(cp.asarray(a), cp.asarray(b)).get()
    assert signs(found) == [False, True, False, True] and not found.any()
    assert signs((cp.asarray(a) % cp.asarray(b)).get()) == [False, True, False, True]
    assert signs(torch.remainder(on(a), on(b)).cpu()) == [False, True, False, True]
    assert signs(torch.remainder(on(a), -1.0).cpu()) == [True] * 4


def test_a_sum_with_zero_is_not_left_out(device):
    """-0 + 0 is 0, -0 - 0 and -0 · 1 are -0, and 0 - 0 is not -0."""
    x = cp.asarray(np.float32([-0.5, 0.0, -0.0]))
    for text, expected in (
        ("ceil(x0) + 0", [False, False, False]),
        ("ceil(x0) - 0", [True, False, True]),
        ("ceil(x0) * 1", [True, False, True]),
        ("0 - ceil(x0)", [False, False, False]),
        ("-ceil(x0)", [False, True, False]),
    ):
        assert signs(cp.Pointwise(f"y0 = {text};")(x).get()) == expected, text
    for function in (lambda x: 1 / (cp.ceil(x) + 0), lambda x: cp.ceil(x) * 1 - 0, lambda x: 0 - x):
        np.testing.assert_array_equal(signs(cp.jit(function)(x).get()), signs(function(x).get()))
    assert (1 / (cp.ceil(x) + 0)).get().tolist() == [math.inf] * 3
    y = torch.ceil(on([-0.5, 0.0, -0.0]))
    assert torch.reciprocal(y + 0).tolist() == [math.inf] * 3
    assert signs((y * 1).cpu()) == signs((y - 0).cpu()) == [True, False, True]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_integer_powers(device, dtype):
    bases, powers = np.meshgrid(np.arange(-4, 5, dtype=dtype), np.arange(6, dtype=dtype))
    expected = bases**powers
    x, n = cp.asarray(bases), cp.asarray(powers)
    equal(ops.pow(x, n), expected, dtype)
    equal(x**3, bases**3, dtype)
    assert (torch.tensor(bases).to("opencl") ** torch.tensor(powers).to("opencl")).tolist() == (
        expected.tolist()
    )
    # What is whole of a negative power; as a number it is refused, as NumPy and PyTorch do.
    below = cp.asarray(-1 - powers)
    whole = np.where(bases == 1, 1, np.where(bases == -1, np.where(powers % 2, 1, -1), 0))
    equal(ops.pow(x, below), whole, dtype)
    with pytest.raises(cp.DTypeError, match="a negative power is no integer"):
        x**-1
    with pytest.raises(RuntimeError, match="negative integer powers"):
        torch.tensor(bases).to("opencl") ** -1


def test_clamp_between_transposed_bounds(device):
    x, low, high = np.float32([[5, -5], [0, 9]]), np.float32([[-1, 0], [1, 2]]), np.float32(
        [[1, 3], [2, 6]]
    )  # fmt: skip
    expected = np.clip(x, low.T, high.T)
    equal(ops.clamp(cp.asarray(x), cp.asarray(low).T, cp.asarray(high).T), expected, np.float32)
    equal(cp.clip(cp.asarray(x), cp.asarray(low).T, cp.asarray(high).T), expected, np.float32)
    assert torch.clamp(on(x), on(low).T, on(high).T).tolist() == expected.tolist()


def test_clamp_of_integers_by_a_fraction_is_floating(device):
    found = ops.clamp(cp.asarray(np.int32([0, 1, -3])), min=0.1)
    assert found.dtype.kind == "f"
    np.testing.assert_allclose(found.get(), [0.1, 1, 0.1], rtol=1e-6)
    found = torch.clamp(on([0, 1, -3], torch.int32), min=0.1)
    assert found.dtype is torch.float32
    np.testing.assert_allclose(found.cpu(), [0.1, 1, 0.1], rtol=1e-6)


def test_the_greatest_decides_where_bounds_are_crossed(device):
    x = cp.asarray(np.float32([-2, 0, 6]))
    equal(ops.clamp(x, 2, 1), [1, 1, 1], np.float32)
    equal(ops.clamp(x, cp.full((1,), 2.0), cp.full((3,), 1.0)), [1, 1, 1], np.float32)
    assert torch.clamp(on([-2.0, 0, 6]), 2, 1).tolist() == [1, 1, 1]
    assert torch.clamp(on([-2.0, 0, 6]), on([2.0]), on([1.0])).tolist() == [1, 1, 1]
    for refused in (ops.hardtanh, lambda x, a, b: ops.hardtanh_backward(x, x, a, b)):
        with pytest.raises(cp.DefinitionError, match="is greater than max_val"):
            refused(x, 2, 1)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_nan_beside_one_element(device, name):
    x, one = np.full((3, 1), NAN, np.float32), np.float32([10])
    a, b = cp.asarray(x), cp.asarray(one)
    for choose in (getattr(ops, name), getattr(cp, name)):
        assert np.isnan(choose(a, b).get()).all() and np.isnan(choose(b, a).get()).all()
    choose = getattr(torch, name)
    assert choose(on(x), on(one)).isnan().all().item()
    assert choose(on(one), on(x)).isnan().all().item()
    keep = name.replace("imum", "").replace("m", "fm", 1)
    equal(getattr(ops, keep)(a, b), np.full((3, 1), 10), np.float32)
    assert (getattr(torch, keep)(on(one), on(x)) == 10).all().item()
    bound = {"maximum": "min", "minimum": "max"}[name]
    assert np.isnan(ops.clamp(a, **{bound: b}).get()).all()
    assert np.isnan(ops.clamp(b, **{bound: a}).get()).all()
    assert torch.clamp(on(x), **{bound: 3}).isnan().all().item()


# All keep it but `heaviside`, as in PyTorch, and comparisons.
OF_ONE = """abs sign round erf erfinv sinc entr relu relu6 sigmoid silu gelu mish softplus
    logsigmoid elu celu selu leaky_relu hardtanh hardsigmoid hardswish hardshrink softshrink
    logit""".split()


@pytest.mark.alone
def test_nan_comes_through(device):
    x = cp.asarray(np.float32([NAN, 0.5, NAN]))
    for name in OF_ONE:
        assert np.isnan(getattr(ops, name)(x).get())[[0, 2]].all(), name
    assert np.isnan(ops.threshold(x, 0.1, 7).get()).tolist() == [True, False, True]
    equal(ops.heaviside(x, 1), [0, 1, 0], np.float32)
    assert not ops.isclose(x, x).get()[0]


def test_int8_by_a_number_beyond_it(device):
    x = cp.asarray(np.int8([30, -60]))
    np.testing.assert_allclose(ops.div(x, 300).get(), [0.1, -0.2], rtol=1e-6)
    np.testing.assert_allclose(ops.div(300, x).get(), [10, -5], rtol=1e-6)
    if device.traits.fp64:
        equal(x / 300, np.int8([30, -60]) / 300, np.float64)
    found = on([30, -60], torch.int8) / 300
    assert found.dtype is torch.float32
    np.testing.assert_allclose(found.cpu(), [0.1, -0.2], rtol=1e-6)
    with pytest.raises(cp.DTypeError, match="300 is out of bounds for int8"):
        x + 300
    with pytest.raises(cp.DTypeError, match="out of bounds for a float"):
        x / 10**400
