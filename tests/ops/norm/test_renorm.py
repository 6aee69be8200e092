"""`renorm` against PyTorch."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("p", [0.5, 1, 2, 3, np.inf])
def test_renorm(device, p):
    host = np.random.default_rng(0).standard_normal((5, 3, 4)).astype(np.float32)
    host[1] = 0
    host[2] *= 1e-3
    for dim in (0, -1):
        expected = torch.renorm(torch.tensor(host.astype(np.float64)), p, dim, 1.5).numpy()
        x = cp.asarray(host)
        np.testing.assert_allclose(ops.renorm(x, p, dim, 1.5).get(), expected, rtol=1e-5)
        assert ops.renorm(x, p, dim, 1.5, out=x) is x
        np.testing.assert_allclose(x.get(), expected, rtol=1e-5)


@pytest.mark.parametrize("p", [1, 2, 3.5, np.inf])
def test_gradient(device, p):
    host, g = (np.random.default_rng(n).normal(size=(5, 7, 3)) for n in range(2))
    # Of dim 1 the slices' norms lie on both sides of the bound.
    for dim, most in ((0, 0.5), (1, 3.0), (-1, 100.0)):
        x = torch.tensor(host, requires_grad=True)
        torch.renorm(x, p, dim, most).backward(torch.tensor(g))
        found = ops.renorm_backward(
            cp.asarray(g.astype("f")), cp.asarray(host.astype("f")), p, dim, most
        )
        np.testing.assert_allclose(found.get(), x.grad.numpy(), rtol=2e-4, atol=2e-5)
    with pytest.raises(cp.ShapeError, match="grad has shape"):
        ops.renorm_backward(cp.zeros((2, 2)), cp.zeros((2, 3)), 2, 0, 1)


def test_renorm_of_16_bits_nothing_and_refusals(device):
    x = cp.full((2, 300), 300.0, np.float16)  # whose squares 16 bits do not hold
    np.testing.assert_allclose(ops.renorm(x, 2, 0, 100).get(), 100 / 300**0.5, rtol=2e-3)
    assert ops.renorm(x[:0], 2, 0, 1).shape == (0, 300)
    for error, message, call in [
        (cp.ShapeError, "at least 2 dimensions", lambda: ops.renorm(x[0], 2, 0, 1)),
        (cp.ShapeError, "p=0.0", lambda: ops.renorm(x, 0, 0, 1)),
        (cp.ShapeError, "maxnorm=-1", lambda: ops.renorm(x, 2, 0, -1)),
        (cp.DTypeError, "int32", lambda: ops.renorm(x.astype(np.int32), 2, 0, 1)),
    ]:
        with pytest.raises(error, match=message):
            call()
