"""Sums over all pairs of points, and nearest points, against NumPy and PyTorch."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")


def squares(x, y):
    return ((x[..., :, None, :].astype(np.float64) - y[..., None, :, :]) ** 2).sum(-1)


@pytest.mark.parametrize("values", [(), (1,), (5,)], ids=str)
def test_kernel_sum(device, values):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((2, 30, 3), (70, 3)))
    b = rng.standard_normal((70, *values)).astype(np.float32)
    kernel = np.exp(-squares(x, y) * 0.3) / (1 + squares(x, y) * 2)
    expected = kernel @ b.astype(np.float64)
    given = (cp.asarray(x), cp.asarray(y), cp.asarray(b), "exp(-d2 * w0) / (1 + d2 * w1)", 0.3, 2.0)
    np.testing.assert_allclose(ops.kernel_sum(*given).get(), expected, rtol=2e-5, atol=2e-5)
    tensors = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x, y, b)]
    d = ((tensors[0][..., :, None, :] - tensors[1]) ** 2).sum(-1)
    result = (torch.exp(-d * 0.3) / (1 + d * 2)) @ tensors[2]
    grad = rng.standard_normal(result.shape).astype(np.float32)
    wanted = torch.autograd.grad(result, tensors, torch.tensor(grad, dtype=torch.float64))
    for found, want in zip(ops.kernel_sum_backward(cp.asarray(grad), *given), wanted, strict=True):
        assert found.shape == want.shape
        np.testing.assert_allclose(found.get(), want, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("k", [1, 2, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_nearest(device, k, dtype):
    x, y = numbers((2, 21, 3), dtype, 1), numbers((83, 3), dtype, 2)
    distances, places = ops.nearest(cp.asarray(x), cp.asarray(y), k=k)
    d = squares(x, y)
    wanted = np.argsort(d, -1, kind="stable")[..., :k]  # many are as near as others
    equal(places, wanted, np.int64)
    found = np.sqrt(np.take_along_axis(d, wanted, -1))
    assert distances.dtype == dtype
    np.testing.assert_allclose(distances.get(), found, rtol=2e-3 if dtype == np.float16 else 3e-7)


def test_nearest_puts_nan_last(device):
    y = np.float32([[np.nan], [3], [1]])
    distances, places = ops.nearest(cp.asarray(np.float32([[0]])), cp.asarray(y), k=3)
    equal(distances, np.float32([[1, 3, np.nan]]))
    equal(places, [[2, 1, 0]])
    equal(ops.nearest(cp.asarray(np.float32([[0]])), cp.asarray(y))[1], [[2]])


@pytest.mark.refusal
def test_refusals(device):
    x = cp.zeros((4, 3))
    with pytest.raises(cp.ShapeError, match="expected 1 to 16"):
        ops.nearest(x, x, k=5)
    with pytest.raises(cp.ShapeError, match=r"expected \(…, M, D\)"):
        ops.nearest(x, cp.zeros((4, 2)))
    with pytest.raises(cp.DefinitionError, match="expression of d2"):
        ops.kernel_sum(x, x, cp.zeros(4), "exp(-x0)")
    with pytest.raises(cp.ShapeError, match="or \\(…, N, E\\)"):
        ops.kernel_sum(x, x, cp.zeros(5), "exp(-d2)")
    with pytest.raises(cp.DTypeError):
        ops.nearest(cp.zeros((4, 3), np.int32), cp.zeros((4, 3), np.int32))
