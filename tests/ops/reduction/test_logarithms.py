"""Gradients of logarithms of sums, far from 0 and of infinities.

Whole numbers near a shift are told apart by each dtype, so the reference is the gradient without
the shift.
"""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

INF = np.inf
# Shifts at which the dtype tells whole numbers apart, and one at which all are alike.
SHIFTS = {"float32": (1e6, -1e9, 1e30), "float16": (-1000, 60000), "bfloat16": (100, -1e30)}


def shares(x, axis):
    """A softmax in float64."""
    p = np.exp(x - x.max(axis, keepdims=True))
    return p / p.sum(axis, keepdims=True)


def drawn(dtype, shift):
    """Numbers near a shift, and the same without it, in float64."""
    near = np.random.default_rng(1).integers(-3, 4, (3, 40)).astype(np.float32)
    x = cp.asarray(near + np.float32(shift)).astype(dtype)
    host = x.astype(np.float32).get().astype(np.float64)
    return x, host - host.max()


@pytest.mark.parametrize(
    ("dtype", "shift"), [(dtype, shift) for dtype in SHIFTS for shift in SHIFTS[dtype]]
)
def test_gradients_far_from_zero(device, dtype, shift):
    x, near = drawn(dtype, shift)
    close = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    for axis in (1, (0, 1)):
        grad = cp.full((3,) if axis == 1 else (), 2, x.dtype)
        found = ops.logsumexp_backward(grad, x, axis)
        assert found.dtype == x.dtype
        expected = 2 * shares(near, axis)
        np.testing.assert_allclose(found.get().astype(float), expected, rtol=close, atol=1e-7)
    result = ops.logcumsumexp(x, 1)
    found = ops.logcumsumexp_backward(cp.full(x.shape, 1, x.dtype), x, result, 1)
    assert found.dtype == x.dtype
    expected = np.zeros(near.shape)
    for n in range(near.shape[1]):
        expected[:, : n + 1] += shares(near[:, : n + 1], 1)
    np.testing.assert_allclose(found.get().astype(float), expected, rtol=2 * close, atol=1e-7)


@pytest.mark.parametrize(
    ("x", "sums", "running"),
    [
        ([-INF, -INF], [0, 0], [0, 0]),
        ([INF, 0], [1, 0], [2, 0]),
        ([INF, INF], [0.5, 0.5], [1.5, 0.5]),
        ([-INF, 3], [0, 1], [0, 1]),
        ([np.nan, 3], [np.nan] * 2, [np.nan] * 2),
    ],
)
def test_gradients_of_infinities(device, x, sums, running):
    x, one = cp.asarray(np.float32(x)), cp.full((2,), 1.0)
    np.testing.assert_array_equal(ops.logsumexp_backward(one[0], x).get(), sums)
    result = ops.logcumsumexp(x, 0)
    np.testing.assert_array_equal(ops.logcumsumexp_backward(one, x, result, 0).get(), running)


def test_results_of_infinities(device):
    """What is no number is none; of nothing the logarithm is -∞, and there is no softmax."""
    x = cp.asarray(np.float32([[-INF, -INF], [INF, INF], [INF, -INF], [0, 0]]))
    np.testing.assert_array_equal(ops.logsumexp(x, 1).get()[:3], [-INF, INF, INF])
    np.testing.assert_array_equal(ops.logaddexp(x[:, 0], x[:, 1]).get()[:3], [-INF, INF, INF])
    np.testing.assert_array_equal(ops.softmax(x, 1).get(), [[np.nan] * 2] * 3 + [[0.5, 0.5]])


def test_axes_that_stay_and_refusals(device):
    x = cp.zeros((2, 3, 4))
    found = ops.logsumexp_backward(cp.full((2, 1, 1), 1.0), x, (1, 2), keepdims=True)
    np.testing.assert_allclose(found.get(), np.full((2, 3, 4), 1 / 12), rtol=1e-6)
    for message, call in [
        ("shape", lambda: ops.logsumexp_backward(cp.zeros((2, 2)), x, 1)),
        ("expected a floating", lambda: ops.logsumexp_backward(cp.zeros((2, 3), np.int32), x, 2)),
        ("give one", lambda: ops.logsumexp_backward(cp.zeros((2, 3)), x, 2, dim=2)),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
