"""Functions of two numbers and of what is not finite, and their gradients, against PyTorch."""

import numpy as np
import pytest
from support import BFLOAT16, equal

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

VALUES = np.array([0, -0.0, 1, -1, 0.5, -0.5, 2, -3.25, np.inf, -np.inf, np.nan, 1e-30, -1e30])
FIRST, SECOND = (v.ravel() for v in np.meshgrid(VALUES, VALUES))
OF_TWO = ["atan2", "copysign", "heaviside", "hypot", "logaddexp", "logaddexp2", "nextafter",
          "xlog1py", "xlogy"]  # fmt: skip
TORCHS = {"entr": torch.special.entr, "xlog1py": torch.special.xlog1py}
REAL = [np.float32, np.float64]


def _close(found, expected, dtype):
    found, expected = found.get().astype(np.float64), expected.detach().double().numpy()
    unit = 16 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(found, expected, rtol=unit, atol=unit)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("name", OF_TWO)
def test_of_two(device, name, dtype):
    a, b = FIRST.astype(dtype), SECOND.astype(dtype)
    # PyTorch squares for a gradient of `atan2`, which underflows in float32.
    wide = [v.astype(np.float64 if name == "atan2" else dtype) for v in (a, b)]
    leaves = [torch.tensor(v, requires_grad=name not in ("heaviside", "nextafter")) for v in wide]
    peer = TORCHS.get(name) or getattr(torch, name)
    expected = peer(*leaves)
    x, y = cp.asarray(a), cp.asarray(b)
    _close(getattr(ops, name)(x, y), expected, dtype)
    two = torch.tensor(2, dtype=leaves[0].dtype)
    _close(getattr(ops, name)(x[::2], 2), peer(leaves[0][::2], two), dtype)
    _close(getattr(ops, name)(2, y[::-3]), peer(two, torch.flip(leaves[1], [0])[::3]), dtype)
    assert getattr(ops, name)(x, y, out=x) is x
    assert getattr(ops, name)(cp.zeros((0, 3), dtype), 1).shape == (0, 3)
    if not expected.requires_grad:
        return
    expected.backward(torch.full_like(expected, 2))
    x = cp.asarray(a)
    found = getattr(ops, f"{name}_backward")(cp.full(a.shape, 2, dtype), x, y)
    for f, leaf in zip(found, leaves, strict=True):
        _close(f, leaf.grad, dtype)


def test_gradients_of_two_are_summed_where_they_broadcast(device):
    a, b = np.float32([[1, 2, 3], [4, 5, 6]]), np.float32([3, 1, 2])
    leaves = [torch.tensor(v, requires_grad=True) for v in (a, b)]
    torch.hypot(*leaves).sum().backward()
    found = ops.hypot_backward(cp.full((2, 3), 1.0), cp.asarray(a), cp.asarray(b))
    for f, leaf in zip(found, leaves, strict=True):
        _close(f, leaf.grad, np.float32)


def test_dtypes_of_two(device):
    whole = cp.asarray(np.int32([3, -4, 0]))
    assert ops.hypot(whole, whole).dtype == np.float32
    equal(ops.heaviside(whole, 7), [1, 0, 7], np.int32)
    assert ops.hypot(cp.asarray(np.float16([3])), 4).dtype == np.float16
    # The dtype is that of both, not of the first one.
    found = ops.hypot(whole, cp.asarray(np.float64([4, 3, 1e300])))
    equal(found, [5, 5, 1e300], np.float64)
    with pytest.raises(cp.DTypeError, match="expected a device array"):
        ops.xlogy(1, 2)
    with pytest.raises(cp.DTypeError, match="expected a number"):
        ops.xlogy(whole, "2")
    with pytest.raises(cp.DTypeError, match="a is int32"):
        ops.xlogy_backward(whole, whole, whole)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=str)
def test_nextafter_of_16_bits(device, dtype):
    """Every number's neighbours in its own dtype, not in the one that kernels calculate in."""
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    x = x[np.isfinite(x.astype(np.float32))]
    ordered = np.unique(x.astype(np.float32))
    for towards, ends in ((np.inf, ordered[-1]), (-np.inf, ordered[0])):
        found = ops.nextafter(cp.asarray(x), towards).get().astype(np.float32)
        at = np.searchsorted(ordered, x.astype(np.float32)) + (1 if towards > 0 else -1)
        inside = x.astype(np.float32) != ends
        np.testing.assert_array_equal(found[inside], ordered[at[inside]])
        assert (found[~inside] == towards).all()
    infinite = cp.asarray(np.array([np.inf, -np.inf, np.nan], dtype))
    expected = np.array([ordered[-1], ordered[0], np.nan], np.float32)
    found = ops.nextafter(infinite, 0).get().astype(np.float32)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("name", ["entr", "erfinv", "sinc"])
def test_of_one(device, name, dtype):
    near = [1 - 1e-16, 1 - 1e-7, 1e-9, -1 + 1e-12, 0.4999, 0.99]
    for values in (VALUES, np.linspace(-1, 1, 301), np.array(near)):
        host = values.astype(dtype)
        leaf = torch.tensor(host.astype(np.float64), requires_grad=True)
        expected = (TORCHS.get(name) or getattr(torch, name))(leaf)
        _close(getattr(ops, name)(cp.asarray(host)), expected, dtype)
        inner = np.abs(host) < 0.9  # where an error of the argument is not made many times larger
        expected.backward(torch.ones_like(expected))
        found = getattr(ops, f"{name}_backward")(cp.full(host.shape, 1, dtype), cp.asarray(host))
        np.testing.assert_allclose(
            found.get()[inner], leaf.grad.numpy()[inner], rtol=1e-4, atol=1e-8
        )


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("eps", [None, 0.1, 0.6])
def test_logit(device, eps, dtype):
    host = VALUES[VALUES != 0].astype(dtype)  # its sign decides in float64 only
    leaf = torch.tensor(host, requires_grad=True)
    expected = torch.logit(leaf, eps)
    expected.backward(torch.full_like(expected, 2))
    x = cp.asarray(host)
    _close(ops.logit(x, eps), expected, dtype)
    _close(ops.logit_backward(cp.full(host.shape, 2, dtype), x, eps), leaf.grad, dtype)


@pytest.mark.parametrize("dtype", [*REAL, np.float16])
def test_nan_to_num(device, dtype):
    with np.errstate(over="ignore"):
        host = VALUES.astype(dtype)
    x = cp.asarray(host)
    for given in ({}, {"nan": 7.0}, {"posinf": 5.0, "neginf": -2}):
        leaf = torch.tensor(host, requires_grad=True)
        expected = torch.nan_to_num(leaf, **given)
        expected.backward(torch.full_like(expected, 2))
        _close(ops.nan_to_num(x, **given), expected, dtype)
        _close(ops.nan_to_num_backward(cp.full(host.shape, 2, dtype), x), leaf.grad, dtype)
    np.testing.assert_array_equal(cp.nan_to_num(x).get(), np.nan_to_num(host))
    equal(ops.nan_to_num(cp.asarray(np.int8([3, -128]))), [3, -128], np.int8)


@pytest.mark.parametrize("equal_nan", [False, True])
def test_isclose(device, equal_nan):
    a = np.float32([1, np.inf, -np.inf, np.nan, 0, 1e-9, np.inf, 1, 1])
    b = np.float32([np.inf, np.inf, np.inf, np.nan, 1e-9, 0, 1, 1.00001, 1.0001])
    expected = torch.isclose(torch.tensor(a), torch.tensor(b), equal_nan=equal_nan).numpy()
    x, y = cp.asarray(a), cp.asarray(b)
    equal(ops.isclose(x, y, equal_nan=equal_nan), expected, np.bool_)
    equal(cp.isclose(x, y, equal_nan=equal_nan), expected, np.bool_)
    assert ops.allclose(x, x, equal_nan=equal_nan) is equal_nan
    assert ops.allclose(x[:0], y[:0]) is True


def test_isclose_of_integers_tells_neighbours_apart(device):
    a = np.int64([16777216, 2**53, 5, -1])
    x, y = cp.asarray(a), cp.asarray(a + np.int64([1, 1, 0, 0]))
    equal(ops.isclose(x, y, 0, 0), [False, False, True, True], np.bool_)
    equal(ops.isclose(x, 5), [False, False, True, False], np.bool_)


def test_hardswish_of_infinity_is_pytorchs(device):
    host = np.float32([-np.inf, -4, -3, -2.5, np.inf, np.nan])
    expected = torch.nn.functional.hardswish(torch.tensor(host)).numpy()
    np.testing.assert_allclose(ops.hardswish(cp.asarray(host)).get(), expected, rtol=1e-6)
    found = ops.hardswish_backward(cp.full(host.shape, 1.0), cp.asarray(host)).get()
    np.testing.assert_allclose(found, [0, 0, 0, -1 / 3, 1, 1], rtol=1e-5)


EDGES = np.array([2.0**e for e in (-120, -70, -30, -3, 30, 70, 120)] + [1 - 1e-6, 1 + 1e-6, 15.5])


@pytest.mark.parametrize("name", ["acosh", "asinh", "expm1", "softsign"])
def test_gradients_keep_their_digits_at_the_ends(device, name):
    """Where a square overflows, or a difference cancels."""
    host = (EDGES[EDGES > 1] if name == "acosh" else np.concatenate([EDGES, -EDGES])).astype("f")
    leaf = torch.tensor(host.astype(np.float64), requires_grad=True)
    peer = torch.nn.functional.softsign if name == "softsign" else getattr(torch, name)
    peer(leaf).sum().backward()
    x, one = cp.asarray(host), cp.full(host.shape, 1.0)
    if name == "softsign":
        found = ops.softsign_backward(one, x).get()
    else:
        found = cp.Pointwise(f"y0 = {name}(x0);").gradient()(x, grad=one).get()
    fits = (leaf.grad.numpy() > 1e-37) & (leaf.grad.numpy() < 1e38)
    np.testing.assert_allclose(found[fits], leaf.grad.numpy()[fits], rtol=1e-5)


@pytest.mark.parametrize("words", ["mish", "gelu", "gelu tanh"])
def test_slopes_of_numbers_that_are_far_out(device, words):
    name, *approximate = words.split()
    host = np.float32([-3e38, -1e30, -1e5, 1e5, 1e30, 3e38, np.inf])
    backward = getattr(ops, f"{name}_backward")
    found = backward(cp.full(host.shape, 4.0), cp.asarray(host), *approximate)
    np.testing.assert_array_max_ulp(found.get(), np.float32([0, 0, 0, 4, 4, 4, 4]), 1)


def test_logit_near_a_half(device):
    host = np.float32([0.49999997, 0.5, 0.50000006, 0.4999, 0.25, 0.75])
    exact = np.log(host.astype(np.float64)) - np.log1p(-host.astype(np.float64))
    np.testing.assert_allclose(ops.logit(cp.asarray(host)).get(), exact, rtol=1e-6)
