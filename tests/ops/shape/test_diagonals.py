"""Matrices of diagonals and blocks, and gradients of what moves elements, against PyTorch."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("given", [(0, -2, -1), (2, 0, 1), (-1, 2, 0), (1, -1, 0)])
def test_diag_embed(device, given):
    host = numbers((3, 4))
    leaf = torch.tensor(host, requires_grad=True)
    expected = torch.diag_embed(leaf, *given)
    x = cp.asarray(host)
    equal(ops.diag_embed(x, *given), expected.detach().numpy(), np.float32)
    grad = numbers(expected.shape, seed=2)
    expected.backward(torch.tensor(grad))
    equal(ops.diag_embed_backward(cp.asarray(grad), *given), leaf.grad.numpy())
    assert ops.diag_embed(x[:, :0], *given).shape == torch.diag_embed(leaf[:, :0], *given).shape


def test_block_diag(device):
    hosts = [numbers(s, seed=n) for n, s in enumerate([(2, 3), (4,), (), (0, 2), (3, 1)])]
    leaves = [torch.tensor(h, requires_grad=True) for h in hosts]
    expected = torch.block_diag(*leaves)
    equal(ops.block_diag(*map(cp.asarray, hosts)), expected.detach().numpy(), np.float32)
    grad = numbers(expected.shape, seed=9)
    expected.backward(torch.tensor(grad))
    found = ops.block_diag_backward(cp.asarray(grad), [h.shape for h in hosts])
    for f, leaf in zip(found, leaves, strict=True):
        equal(f, leaf.grad.numpy())
    two = ops.block_diag(cp.zeros((1, 1), np.int8), cp.zeros((1, 1), np.float16))
    assert two.dtype == np.float16


def test_gradients_of_what_moves_elements(device):
    host = numbers((4, 6))
    x = cp.asarray(host)
    equal(ops.flip_backward(ops.flip(x, (0, 1)), (0, 1)), host)
    equal(ops.roll_backward(ops.roll(x, (1, -2), (0, 1)), (1, -2), (0, 1)), host)
    equal(ops.roll_backward(ops.roll(x, 3), 3), host)
    equal(ops.split_backward(ops.split(x, [1, 3], 0), 0), host)
    equal(ops.chunk_backward(ops.chunk(x, 4, 1), 1), host)
    equal(ops.unbind_backward(ops.unbind(x, 1), 1), host)
    for found, row in zip(ops.stack_backward(x, 0), host, strict=True):
        equal(found, row)


def test_refusals(device):
    x = cp.zeros((2, 3))
    for message, call in [
        ("at least 1 dimension", lambda: ops.diag_embed(cp.zeros(()))),
        ("names a dimension twice", lambda: ops.diag_embed(x, 0, 1, -2)),
        ("at least one array", ops.block_diag),
        (r"array 1 has shape \(2, 3, 1\)", lambda: ops.block_diag(x, x[..., None])),
        (r"expected \(1, 1\)", lambda: ops.block_diag_backward(x, [(1,)])),
    ]:
        with pytest.raises(cp.ShapeError, match=message):
            call()
