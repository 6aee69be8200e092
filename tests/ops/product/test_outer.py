"""`cross` and `kron` against PyTorch, and their gradients."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    "shapes,dim", [(((5, 3), (5, 3)), -1), (((3, 4), (3, 1)), 0), (((2, 3, 2), (3, 1)), -2)]
)
def test_cross(device, shapes, dim):
    hosts = [numbers(s, seed=n) for n, s in enumerate(shapes)]
    leaves = [torch.tensor(h, requires_grad=True) for h in hosts]
    expected = torch.linalg.cross(*torch.broadcast_tensors(*leaves), dim=dim)
    x, y = map(cp.asarray, hosts)
    equal(ops.cross(x, y, dim), expected.detach().numpy(), np.float32)
    grad = numbers(expected.shape, seed=5)
    expected.backward(torch.tensor(grad))
    for found, leaf in zip(ops.cross_backward(cp.asarray(grad), x, y, dim), leaves, strict=True):
        equal(found, leaf.grad.numpy())


def test_cross_of_views_and_integers(device):
    host = numbers((4, 6), np.int32)
    x = cp.asarray(host)
    equal(ops.cross(x[:, ::2], x[::-1, 1::2]), np.cross(host[:, ::2], host[::-1, 1::2]), np.int32)
    assert ops.cross(x[:0, :3], x[:0, :3]).shape == (0, 3)
    for given in ((x, x), (x[:, 0], x[0])):
        with pytest.raises(cp.ShapeError, match=r"3 elements along|do not broadcast"):
            ops.cross(*given)


@pytest.mark.parametrize(
    "shapes", [((2, 3), (4, 2)), ((3,), (2, 2, 2)), ((), (2, 3)), ((2, 0), (3, 1))]
)
def test_kron(device, shapes):
    hosts = [numbers(s, seed=n) for n, s in enumerate(shapes)]
    leaves = [torch.tensor(h, requires_grad=True) for h in hosts]
    expected = torch.kron(*leaves)
    x, y = map(cp.asarray, hosts)
    equal(ops.kron(x, y), expected.detach().numpy(), np.float32)
    out = cp.empty(expected.shape)
    assert ops.kron(x, y, out=out) is out
    grad = numbers(expected.shape, seed=5)
    expected.backward(torch.tensor(grad))
    for found, leaf in zip(ops.kron_backward(cp.asarray(grad), x, y), leaves, strict=True):
        equal(found, leaf.grad.numpy())
    equal(ops.kron(x.astype(np.int8), y.astype(np.int8)), expected.detach().numpy(), np.int8)
