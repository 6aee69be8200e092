"""Vectors of length 1 against PyTorch in float64."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops


@pytest.mark.parametrize("dim", [1, -1, 0])
@pytest.mark.parametrize("p", [2.0, 1.0, 3.0])
def test_against_pytorch(device, p, dim):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((4, 9, 5)).astype(np.float32)
    grad = np.random.default_rng(1).standard_normal(x.shape).astype(np.float32)
    t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    y = torch.nn.functional.normalize(t, p, dim)
    (expected,) = torch.autograd.grad(y, t, torch.tensor(grad, dtype=torch.float64))
    found = ops.normalize(cp.asarray(x), p, dim)
    np.testing.assert_allclose(found.get(), y.detach().numpy(), rtol=1e-5, atol=1e-6)
    back = ops.normalize_backward(cp.asarray(grad), cp.asarray(x), p, axis=dim)
    np.testing.assert_allclose(back.get(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_short_vectors(device):
    x = cp.asarray(np.float32([[0, 0], [3e-3, 4e-3]]))
    np.testing.assert_allclose(ops.normalize(x, eps=0.5).get(), [[0, 0], [6e-3, 8e-3]], rtol=1e-6)
    grad = cp.full((2, 2), 2.0)
    np.testing.assert_allclose(ops.normalize_backward(grad, x, eps=0.5).get(), np.full((2, 2), 4))


def test_refusals(device):
    for message, call in [
        ("expected a finite number above 0", lambda: ops.normalize(cp.zeros((2, 2)), 0)),
        ("expected floating-point", lambda: ops.normalize(cp.zeros((2, 2), np.int32))),
        ("dim=1 is out of bounds", lambda: ops.normalize(cp.zeros((2,)))),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
