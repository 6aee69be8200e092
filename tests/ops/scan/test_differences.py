"""Differences of neighbours and areas below lines against NumPy and PyTorch."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("dim", [0, -1])
def test_diff(device, n, dim):
    host, ends = numbers((5, 6)), [numbers((5, 6), seed=s)[:2, :2] for s in (1, 2)]
    ends = [
        e[:, :1] * np.ones((2, 6), e.dtype) if dim == 0 else np.tile(e, (3, 1))[:5] for e in ends
    ]
    leaves = [torch.tensor(h, requires_grad=True) for h in (ends[0], host, ends[1])]
    expected = torch.diff(leaves[1], n, dim, leaves[0], leaves[2])
    x, before, behind = map(cp.asarray, (host, *ends))
    equal(ops.diff(x, n, dim, before, behind) if n else ops.diff(x, n, dim),
          expected.detach().numpy() if n else host, np.float32)  # fmt: skip
    equal(ops.diff(x, n, dim), np.diff(host, n, dim))
    if n:
        grad = numbers(expected.shape, seed=4)
        expected.backward(torch.tensor(grad))
        found = ops.diff_backward(cp.asarray(grad), n, dim)
        equal(found, np.concatenate([leaf.grad.numpy() for leaf in leaves], dim))


def test_diff_of_truth_and_refusals(device):
    host = np.array([True, True, False])
    equal(ops.diff(cp.asarray(host)), [False, True], np.bool_)
    equal(cp.diff(cp.asarray(host)), [False, True], np.bool_)
    assert ops.diff(cp.zeros((2, 1))).shape == (2, 0)
    with pytest.raises(cp.ShapeError, match="n=-1"):
        ops.diff(cp.zeros(3), -1)
    with pytest.raises(cp.ShapeError, match="0 dimensions"):
        ops.diff(cp.zeros(()))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_areas(device, dtype, dim):
    host = numbers((4, 5, 6), dtype)
    y, t = cp.asarray(host), torch.tensor(host)
    line = np.cumsum(np.arange(1, host.shape[dim] + 1)).astype(dtype)
    places = numbers((4, 5, 6), dtype, seed=1)
    for name in ("trapezoid", "cumulative_trapezoid"):
        ours, theirs = getattr(ops, name), getattr(torch, name)
        result = np.float32 if dtype == np.int32 else dtype
        equal(ours(y, dim=dim), theirs(t, dim=dim).numpy(), result)
        equal(ours(y, dx=0.5, dim=dim), theirs(t, dx=0.5, dim=dim).numpy(), result)
        found = ours(y, cp.asarray(line), dim=dim)
        equal(found, theirs(t, torch.tensor(line), dim=dim).numpy(), result)
        found = ours(y, cp.asarray(places), dim=dim)
        equal(found, theirs(t, torch.tensor(places), dim=dim).numpy(), result)


def test_areas_below_integers_at_places_of_floats_are_promoted_as_numpy_does(device):
    y, x = np.array([1, 2, 4], np.int32), np.array([0, 0.1, 0.4])
    heights, widths = (y[1:] + y[:-1]) / 2, np.diff(x)
    for name, expected in (
        ("trapezoid", heights @ widths),
        ("cumulative_trapezoid", np.cumsum(heights * widths)),
    ):
        found = getattr(ops, name)(cp.asarray(y), cp.asarray(x))
        assert found.dtype == np.float64
        np.testing.assert_allclose(found.get(), expected, rtol=1e-15)


def test_areas_of_nothing_and_refusals(device):
    equal(ops.trapezoid(cp.full((3, 1), 5.0)), np.zeros(3), np.float32)
    assert ops.cumulative_trapezoid(cp.full((3, 1), 5.0)).shape == (3, 0)
    y = cp.zeros((3, 4))
    for message, call in [
        ("exclude each other", lambda: ops.trapezoid(y, y, dx=2)),
        ("expected 4 places", lambda: ops.trapezoid(y, cp.zeros(3))),
        ("out of bounds", lambda: ops.trapezoid(y, dim=2)),
    ]:
        with pytest.raises(cp.ShapeError, match=message):
            call()


@pytest.mark.parametrize("name", ["trapezoid", "cumulative_trapezoid"])
def test_gradients_of_areas(device, name):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    y = rng.normal(size=(4, 7, 3))
    for places, dim in (((4, 7, 3), 1), ((7,), 1), (None, -1), ((1, 7, 1), 1), ((4, 7, 3), 0)):
        given = [torch.tensor(y, requires_grad=True)]
        if places is not None:
            given.append(torch.tensor(rng.normal(size=places), requires_grad=True))
        options = {"dim": dim} if places else {"dim": dim, "dx": 0.3}
        area = getattr(torch, name)(*given, **options)
        g = rng.normal(size=area.shape)
        area.backward(torch.tensor(g))
        arrays = [cp.asarray(t.detach().numpy().astype(np.float32)) for t in given]
        backward = getattr(ops, f"{name}_backward")
        found = backward(cp.asarray(g.astype(np.float32)), *arrays, **options)
        assert len(found) == 2 and (found[1] is None) == (places is None)
        for a, t in zip(found, given, strict=False):
            np.testing.assert_allclose(a.get(), t.grad.numpy(), rtol=1e-4, atol=1e-5)
    one = cp.zeros((4, 7))
    with pytest.raises(cp.ShapeError, match="grad has shape"):
        backward(one, one)
    with pytest.raises(cp.DTypeError, match="expected a floating dtype"):
        whole = cp.zeros((4, 7), np.int32)
        ops.trapezoid_backward(cp.zeros(4), whole)
