"""`index_fill` and `masked_scatter` against PyTorch."""

import numpy as np
import pytest
from support import DTYPES, equal, numbers

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_index_fill(device, dtype):
    host, index = numbers((4, 5, 3), dtype), np.array([3, 0, -1])
    x, i = cp.asarray(host), cp.asarray(index)
    for dim in (0, 1, -1):
        expected = host.copy()
        expected[(*(slice(None),) * (dim % 3), index % host.shape[dim] if dim else index)] = 1
        if dim != -1:  # 3 is out of bounds of the last one, and written nowhere
            equal(ops.index_fill(x, dim, i, 1), expected, dtype)
            equal(ops.index_fill(x, dim, i, cp.full((), 1, dtype)), expected, dtype)
    found = ops.index_fill(x, -1, i, 1)
    expected = host.copy()
    expected[..., [0, 2]] = 1
    equal(found, expected, dtype)
    assert ops.index_fill(x, 0, i, 0, out=x) is x


def test_index_fill_of_views_numbers_and_nothing(device):
    host = numbers((6, 4))
    view = cp.asarray(host)[::-2, 1:]
    expected = torch.tensor(host[::-2, 1:].copy()).index_fill(1, torch.tensor([2]), 9).numpy()
    equal(ops.index_fill(view, 1, cp.asarray(np.array([2])), 9), expected)
    equal(ops.index_fill(cp.full((), 3.0), 0, cp.asarray(np.array([0])), 9), np.float32(9))
    equal(ops.index_fill(view, 1, cp.asarray(np.zeros(0, np.int64)), 9), host[::-2, 1:])
    grad = ops.index_fill_backward(view, 1, cp.asarray(np.array([2])))
    expected[:, 2] = 0
    equal(grad, expected)
    for error, message, call in [
        (cp.ShapeError, r"index has shape \(1, 1\)", lambda: ops.index_fill(
            view, 0, cp.zeros((1, 1), np.int64), 0)),
        (cp.ShapeError, r"value has shape \(2,\)", lambda: ops.index_fill(
            view, 0, cp.zeros(1, np.int64), cp.zeros(2))),
        (cp.DTypeError, "expected a number", lambda: ops.index_fill(
            view, 0, cp.zeros(1, np.int64), "0")),
        (cp.DTypeError, "expected integers", lambda: ops.index_fill(view, 0, view[0], 0)),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize(
    "shapes", [((4, 5), (4, 5)), ((3, 1), (1, 4)), ((5,), (2, 5)), ((0,), (0,))]
)
def test_masked_scatter(device, shapes):
    of_x, of_mask = shapes
    host, mask = numbers(of_x), np.random.default_rng(3).random(of_mask) < 0.6
    shape = np.broadcast_shapes(of_x, of_mask)
    source = numbers((3, 8), seed=5)
    leaves = [torch.tensor(host, requires_grad=True), torch.tensor(source, requires_grad=True)]
    expected = torch.masked_scatter(leaves[0].expand(shape), torch.tensor(mask), leaves[1])
    x, m, s = cp.asarray(host), cp.asarray(mask), cp.asarray(source)
    equal(ops.masked_scatter(x, m, s), expected.detach().numpy(), np.float32)
    equal(ops.masked_scatter(x, m, cp.asarray(source.T.copy()).T), expected.detach().numpy())
    grad = numbers(shape, seed=9)
    expected.backward(torch.tensor(grad))
    gx, gs = ops.masked_scatter_backward(cp.asarray(grad), m, source.shape)
    equal(gs, leaves[1].grad.numpy())
    equal(gx, np.where(mask, 0, grad))


def test_masked_scatter_refuses(device):
    x, mask = cp.zeros((4,)), cp.full((4,), True, np.bool_)
    for error, message, call in [
        (cp.ShapeError, "names 4 elements, source has 3", lambda: ops.masked_scatter(
            x, mask, x[:3])),
        (cp.DTypeError, "expected bool", lambda: ops.masked_scatter(x, x, x)),
        (cp.DTypeError, "source is float16", lambda: ops.masked_scatter(
            x, mask, x.astype(np.float16))),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            call()
