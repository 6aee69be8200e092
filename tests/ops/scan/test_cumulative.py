"""Cumulative operators beside PyTorch in float64: values, indices and gradients."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

SPECIAL = np.array([1, 3, 3, np.nan, 2, np.nan, 5, -np.inf, np.inf, 0], np.float64)


def _close(found, reference, rtol=2e-5):
    np.testing.assert_allclose(found.get(), reference.detach().numpy(), rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("dim", [0, 1])
def test_sums_and_products_with_gradients(device, dim):
    rng = np.random.default_rng(0)
    x, g = rng.uniform(-1.2, 1.2, (2, 37, 19))
    x[5, 3] = x[5, 7] = x[9, 3] = 0  # two zeros along each axis
    for name in ("cumsum", "cumprod"):
        t = torch.tensor(x, requires_grad=True)
        y = getattr(torch, name)(t, dim)
        y.backward(torch.tensor(g))
        on_device, grad = cp.asarray(x.astype(np.float32)), cp.asarray(g.astype(np.float32))
        _close(getattr(ops, name)(on_device, axis=dim), y)
        backward = getattr(ops, f"{name}_backward")
        found = backward(grad, dim) if name == "cumsum" else backward(grad, on_device, dim, None)
        _close(found, t.grad)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("dim", [0, 1])
def test_extrema(device, name, dim):
    rng = np.random.default_rng(1)
    x = rng.integers(-9, 9, (200, 9)).astype(np.float64)
    x[rng.random(x.shape) < 0.02] = np.nan
    x[:3] = -np.inf
    t = torch.tensor(x, requires_grad=True)
    values, indices = getattr(torch, name)(t, dim)
    found, places = getattr(ops, name)(cp.asarray(x.astype(np.float32)), dim)
    np.testing.assert_array_equal(found.get(), values.detach().numpy())
    np.testing.assert_array_equal(places.get(), indices.numpy())
    assert places.dtype == np.int64
    g = rng.integers(-5, 6, x.shape).astype(np.float64)
    values.backward(torch.tensor(g))
    back = ops.cummax_backward(cp.asarray(g.astype(np.float32)), found, places, dim)
    np.testing.assert_array_equal(back.get(), t.grad.numpy())


def test_extrema_of_special_values_and_integers(device):
    for x in (SPECIAL.astype(np.float16), np.array([3, 3, 1, 3], np.uint8)):
        for name in ("cummax", "cummin"):
            values, indices = getattr(torch, name)(torch.tensor(x), 0)
            found, places = getattr(ops, name)(cp.asarray(x), 0)
            np.testing.assert_array_equal(found.get(), values.numpy())
            np.testing.assert_array_equal(places.get(), indices.numpy())
            assert found.dtype == x.dtype


@pytest.mark.parametrize("dim", [0, 1])
def test_logcumsumexp(device, dim):
    rng = np.random.default_rng(2)
    x, g = rng.normal(0, 30, (37, 19)), rng.normal(size=(37, 19))
    x[0, :] = -np.inf
    x[:, 2] = 100
    t = torch.tensor(x, requires_grad=True)
    y = torch.logcumsumexp(t, dim)
    # PyTorch's own gradient is NaN beside -inf; where all is finite, the two agree.
    inner = torch.tensor(x[1:, :], requires_grad=True)
    torch.logcumsumexp(inner, dim).backward(torch.tensor(g[1:, :]))
    on_device = cp.asarray(x.astype(np.float32))
    result = ops.logcumsumexp(on_device, dim)
    _close(result, y)
    inside, grad = on_device[1:, :], cp.asarray(g.astype(np.float32))[1:, :]
    again = ops.logcumsumexp(inside, dim)
    found = ops.logcumsumexp_backward(grad, inside, again, dim)
    np.testing.assert_allclose(found.get(), inner.grad.numpy(), rtol=1e-3, atol=2e-4)


def test_dtypes_and_out(device):
    x = cp.asarray(np.arange(5, dtype=np.int8))
    assert ops.cumsum(x, 0).dtype == np.int64
    assert ops.cumsum(x, 0, dtype=np.float32).get().tolist() == [0, 1, 3, 6, 10]
    # Converted before they are added, as in PyTorch.
    halves = cp.asarray(np.float32([1, -0.5, -0.5, 2.5]))
    assert ops.cumsum(halves, 0, dtype=np.int32).get().tolist() == [1, 1, 1, 3]
    out = cp.empty((5,), np.float32)
    assert ops.cumprod(x, 0, dtype=np.float32, out=out) is out
    assert ops.cumprod(x[1:], dim=0, reverse=True, exclusive=True).get().tolist() == [24, 12, 4, 1]


def test_refusals(device):
    x, i = cp.zeros((3, 4)), cp.zeros((3, 4), np.int32)
    for message, call in [
        ("dim=None: expected an integer", lambda: ops.cumsum(x)),
        ("give one", lambda: ops.cumsum(x, 0, axis=0)),
        ("out of bounds", lambda: ops.cummax(x, 2)),
        ("expected a device array", lambda: ops.cumprod(np.zeros(3), 0)),
        ("expected a floating", lambda: ops.logcumsumexp(i, 0)),
        ("expected a floating", lambda: ops.cumprod_backward(x, i, 0)),
        ("grad has shape", lambda: ops.cumprod_backward(x[:2], x, 0)),
        ("expected integers", lambda: ops.cummax_backward(x, x, x, 0)),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
