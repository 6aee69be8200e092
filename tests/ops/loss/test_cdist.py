"""Distances of rows against PyTorch in float64, and their gradients."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")


def _rows(shape, seed, dtype=np.float64):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, np.inf])
@pytest.mark.parametrize("shapes", [((5, 3), (4, 3)), ((2, 1, 3, 2), (3, 4, 2))])
def test_distances_and_gradients(device, shapes, p):
    """Rows that are equal, and elements that are, among them."""
    a, b = (_rows(s, n) for n, s in enumerate(shapes))
    leaves = [torch.tensor(v, requires_grad=True) for v in (a, b)]
    expected = torch.cdist(*leaves, p=p)
    x, y = (cp.asarray(v.astype(np.float32)) for v in (a, b))
    found = ops.cdist(x, y, p)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.get(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    weight = _rows(expected.shape, 7)
    if p:
        expected.backward(torch.tensor(weight))
    gy = cp.asarray(weight.astype(np.float32))
    for g, leaf in zip(ops.cdist_backward(gy, x, y, p), leaves, strict=True):
        wanted = np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy()
        np.testing.assert_allclose(g.get(), wanted, rtol=1e-4, atol=1e-4)
    none, second = ops.cdist_backward(gy, x, y, p, output_mask=(False, True))
    assert none is None
    np.testing.assert_allclose(second.get(), g.get(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_many_rows_are_a_product(device, dtype):
    a, b = _rows((27, 7), 0, dtype), _rows((2, 30, 7), 1, dtype)
    wide = [torch.tensor(v.astype(float)) for v in (a, b)]
    expected = torch.cdist(*wide, compute_mode="donot_use_mm_for_euclid_dist").numpy()
    x, y = cp.asarray(a), cp.asarray(b)
    unit = 2.0**-9 if dtype == np.float16 else 2.0**-20
    ops.cdist(x, y)
    with cp.profile() as profile:
        found = ops.cdist(x, y)
        cp.synchronize()
    assert any("cdist_squares" in event.name for event in profile.events)
    np.testing.assert_allclose(found.get(), expected, rtol=unit)
    apart = ops.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").get()
    np.testing.assert_allclose(apart, expected, rtol=unit)
    b[0, 3, 2] = np.nan
    assert np.isnan(ops.cdist(x, cp.asarray(b)).get()[0, :, 3]).all()


@pytest.mark.parametrize("p", [0, 1, 3])
def test_of_what_is_no_number_there_is_no_distance(device, p):
    a = np.float32([[1, np.nan, 2], [1, 0, 3], [np.inf, 0, 3]])
    x, wide = cp.asarray(a), torch.tensor(a)
    np.testing.assert_allclose(ops.cdist(x, x, p).get(), torch.cdist(wide, wide, p=p), rtol=1e-6)
    expected = torch.nn.functional.pdist(wide, p)
    np.testing.assert_allclose(ops.pdist(x, p).get(), expected, rtol=1e-6)


def test_nothing_and_views(device):
    x = cp.asarray(_rows((4, 6), 0, np.float32))
    assert ops.cdist(x[:0], x).shape == (0, 4)
    np.testing.assert_array_equal(ops.cdist(x[:, :0], x[:3, :0]).get(), np.zeros((4, 3)))
    expected = torch.cdist(torch.tensor(x.get()[:, ::2]), torch.tensor(x.get()[::-1, ::2].copy()))
    np.testing.assert_allclose(ops.cdist(x[:, ::2], x[::-1, ::2]).get(), expected, rtol=1e-6)


def test_refusals(device):
    x = cp.zeros((3, 4))
    for error, message, call in [
        (cp.ShapeError, r"\(3, 4\), x2 \(3, 5\)", lambda: ops.cdist(x, cp.zeros((3, 5)))),
        (cp.ShapeError, r"x1 has shape \(4,\)", lambda: ops.cdist(x[0], x)),
        (cp.ShapeError, "p=-1.0", lambda: ops.cdist(x, x, -1)),
        (cp.DTypeError, "int32", lambda: ops.cdist(x.astype(np.int32), x)),
        (cp.DefinitionError, "compute_mode='mm'", lambda: ops.cdist(x, x, compute_mode="mm")),
        (cp.ShapeError, r"grad has shape \(3,\)", lambda: ops.cdist_backward(x[:, 0], x, x)),
    ]:
        with pytest.raises(error, match=message):
            call()
