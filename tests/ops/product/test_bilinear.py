"""Bilinear forms and their gradients, against PyTorch in float64."""

import numpy as np
import pytest
from support import BFLOAT16, numbers, same_bits

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional


def tensors(*arrays):
    return [torch.tensor(np.float64(a), requires_grad=True) for a in arrays]


@pytest.mark.parametrize("lead", [(), (5,), (3, 7)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BFLOAT16], ids=str)
def test_values_and_gradients(device, dtype, lead):
    shapes = ((*lead, 9), (*lead, 6), (4, 9, 6), (4,))
    hosts = [(numbers(s, dtype, seed=n) % 4).astype(dtype) for n, s in enumerate(shapes)]
    given, arrays = tensors(*hosts), [cp.asarray(h) for h in hosts]
    expected = F.bilinear(*given)
    y = ops.bilinear(*arrays)
    unit = {2: 2.0**-7, 4: 1e-6, 8: 1e-12}[y.dtype.itemsize]
    assert y.dtype == dtype and y.shape == tuple(expected.shape)
    out = cp.empty(y.shape, dtype)
    assert ops.bilinear(*arrays, out=out) is out and same_bits(out, y)
    np.testing.assert_allclose(np.float64(y.get()), expected.detach().numpy(), rtol=unit)
    grad = (numbers(y.shape, dtype, seed=9) % 3).astype(dtype)
    expected.backward(torch.tensor(np.float64(grad)))
    found = ops.bilinear_backward(cp.asarray(grad), *arrays[:3])
    for a, t, x in zip(found, given, arrays, strict=True):
        assert a.dtype == dtype and a.shape == x.shape
        np.testing.assert_allclose(np.float64(a.get()), t.grad.numpy(), rtol=unit, atol=unit)
    assert same_bits(found[2], ops.bilinear_backward(cp.asarray(grad), *arrays[:3])[2])


def test_views_and_masks(device):
    x1, x2, w = numbers((9, 7)), numbers((5, 14), seed=1), numbers((3, 4, 9), seed=2)
    views = cp.asarray(x1).T, cp.asarray(x2)[:, ::2].T, cp.asarray(w).transpose(1, 2, 0)
    turned = x1.T, x2[:, ::2].T, w.transpose(1, 2, 0)
    given = tensors(turned[0], np.repeat(turned[1][:, :1], 3, 1), turned[2])
    broad = cp.broadcast_to(views[1][:, :1], (7, 3))
    y = ops.bilinear(views[0], broad, views[2])
    expected = F.bilinear(*given)
    np.testing.assert_array_equal(y.get(), expected.detach().numpy())
    grad = numbers((4, 7), seed=3).T
    expected.backward(torch.tensor(np.float64(grad)))
    g = cp.asarray(np.ascontiguousarray(grad.T)).T
    for n in range(3):
        mask = [n == m for m in range(4)]
        found = ops.bilinear_backward(g, views[0], broad, views[2], output_mask=mask)
        assert [a is not None for a in found] == mask
        np.testing.assert_array_equal(found[n].get(), given[n].grad.numpy())


def test_nothing(device):
    w = cp.zeros((3, 4, 5))
    empty = cp.zeros((0, 4)), cp.zeros((0, 5))
    assert ops.bilinear(*empty, w).shape == (0, 3)
    dx1, dx2, dw, db = ops.bilinear_backward(cp.zeros((0, 3)), *empty, w)
    assert (dx1.shape, dx2.shape) == ((0, 4), (0, 5))
    assert dw.shape == w.shape and not dw.get().any() and not db.get().any()


@pytest.mark.refusal
def test_refusals(device):
    a, b, w = cp.zeros((2, 3)), cp.zeros((2, 4)), cp.zeros((5, 3, 4))
    for message, call in [
        ("do not fit", lambda: ops.bilinear(a, b, w[:, :2])),
        ("do not fit", lambda: ops.bilinear(a, b[:1], w)),
        ("do not fit", lambda: ops.bilinear(a, b, w[0])),
        ("out has shape", lambda: ops.bilinear(a, b, w, out=cp.zeros((2, 4)))),
        ("out is float16", lambda: ops.bilinear(a, b, w, out=cp.zeros((2, 5), np.float16))),
        ("bias has shape", lambda: ops.bilinear(a, b, w, cp.zeros((4,)))),
        ("expected a floating", lambda: ops.bilinear(a.astype(np.int32), b, w)),
        ("expected a device array", lambda: ops.bilinear(a, b.get(), w)),
        ("grad has shape", lambda: ops.bilinear_backward(a, a, b, w)),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
