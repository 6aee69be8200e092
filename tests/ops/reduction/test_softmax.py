"""Softmax along any axis against PyTorch in float64."""

import dataclasses

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("device")

SHAPES = [((), -1), ((5,), 0), ((3, 7), 1), ((40, 100), -1), ((40, 100), 0), ((4, 9, 5, 6), 1)]


def random(shape, seed=0):
    return np.float32(np.random.default_rng(seed).normal(0, 5, shape))


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_any_axis(name, shape, axis):
    a, g = random(shape), random(shape, 1)
    x = torch.tensor(np.float64(a), requires_grad=True)
    expected = getattr(torch, name)(x, axis)
    (slope,) = torch.autograd.grad(expected, x, torch.tensor(np.float64(g)))
    given = cp.asarray(a)
    y = getattr(ops, name)(given, axis)
    np.testing.assert_allclose(y.get(), expected.detach().numpy(), rtol=4e-6, atol=1e-6)
    back = getattr(ops, f"{name}_backward")(cp.asarray(g), y, axis=axis)
    np.testing.assert_allclose(back.get(), slope.numpy(), rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(getattr(ops, name)(given, axis, out=given).get(), y.get())


def test_of_images_in_both_formats():
    a = random((3, 5, 4, 20))
    expected = torch.softmax(torch.tensor(np.float64(a)), 1).numpy()
    x = cp.asarray(a, memory_format="channels_last")
    y = ops.softmax(x, dim=1)
    assert y.strides == x.strides
    np.testing.assert_allclose(y.get(), expected, rtol=4e-6)
    np.testing.assert_allclose(ops.softmax(cp.asarray(a), dim=1).get(), expected, rtol=4e-6)


def test_softmin_and_another_dtype():
    a = random((6, 70))
    expected = torch.softmax(-torch.tensor(np.float64(a)), 1).numpy()
    np.testing.assert_allclose(ops.softmin(cp.asarray(a)).get(), expected, rtol=4e-6)
    wide = ops.softmin(cp.asarray(a), dtype=np.float64)
    assert wide.dtype == np.float64
    np.testing.assert_allclose(wide.get(), expected, rtol=1e-13)
    np.testing.assert_allclose(
        ops.softmax(cp.asarray(np.arange(4)), dtype=np.float32).get(),
        torch.softmax(torch.arange(4.0), 0).numpy(),
        rtol=1e-6,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("count", [2, 21, 63])
def test_short_rows_side_by_side(count, dtype):
    # More than a core has vectors' lanes, and some that are left; of a wider array, and in place.
    wide = np.random.default_rng(0).normal(0, 5, (331, count + 9)).astype(dtype)
    wide[7, 3], wide[20, 2:], wide[330, 3] = np.inf, -np.inf, np.nan
    x = wide[:, 2 : 2 + count].astype(np.float64)
    with np.errstate(invalid="ignore"):
        top = np.exp(x - x.max(1, keepdims=True))
        expected = top / top.sum(1, keepdims=True)
    expected[[7, 330]] = np.where(count > 1, np.nan, 1)
    given = cp.asarray(wide)[:, 2 : 2 + count]
    close = {"rtol": {2: 2e-3, 4: 1e-5, 8: 1e-12}[np.dtype(dtype).itemsize], "atol": 1e-7}
    np.testing.assert_allclose(ops.softmax(given, 1).get(), expected, **close)
    lines = np.isfinite(expected).all(1)
    slope = np.random.default_rng(1).standard_normal(x.shape).astype(dtype)
    back = ops.softmax_backward(cp.asarray(slope), cp.asarray(expected.astype(dtype)), 1).get()
    wanted = expected * (slope - (expected * slope).sum(1, keepdims=True))
    np.testing.assert_allclose(
        back[lines],
        wanted[lines],
        rtol=2 * close["rtol"],
        atol=2e-3 if dtype == np.float16 else 1e-6,
    )
    ops.softmax(given, 1, out=given)
    np.testing.assert_allclose(given.get(), expected, **close)


@pytest.mark.parametrize("count", [4, 70])
def test_what_is_not_finite(count):
    inf, nan = np.inf, np.nan
    rows = np.zeros((6, count), np.float32)
    rows[:5, :3] = [[inf, 1, 2], [-inf, 1, 2], [inf, inf, 1], [nan, 1, 2], [1e30, -1e30, 0]]
    rows[5] = -inf
    for name in ("softmax", "log_softmax"):
        for given in (rows, rows[:, ::-1].copy()):  # the last elements are no whole vector
            expected = getattr(torch, name)(torch.tensor(given), 1).numpy()
            found = getattr(ops, name)(cp.asarray(given)).get()
            np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_element_counts_twice(dtype):
    # A row's last vector reaches back over elements that were taken.
    for count in (65, 79, 197):
        a = random((20, count)).astype(dtype)
        expected = torch.softmax(torch.tensor(a, dtype=torch.float64), 1).numpy()
        found = ops.softmax(cp.asarray(a)).get()
        np.testing.assert_allclose(found, expected, rtol=1e-13 if dtype == np.float64 else 4e-6)


def test_the_gradient_of_softmin():
    a, g = (np.random.default_rng(n).standard_normal((3, 4, 5)) for n in (0, 1))
    t = torch.tensor(a, requires_grad=True)
    torch.nn.functional.softmin(t, 1).backward(torch.tensor(g))
    y = ops.softmin(cp.asarray(a.astype(np.float32)), 1)
    found = ops.softmin_backward(cp.asarray(g.astype(np.float32)), y, 1)
    np.testing.assert_allclose(found.get(), t.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.oclgrind
@pytest.mark.parametrize("traits", ["cpu16", "cpu64"], indirect=True)
def test_small_groups(traits, monkeypatch):
    # A vector that reaches back, and a lane a group: by vectors, and the groups that are left.
    few = dataclasses.replace(traits, compute_units=1)
    monkeypatch.setitem(cp.current_device().__dict__, "traits", few)
    for shape in ((3, 39), (35, 7)):
        a = random(shape)
        for name in ("softmax", "log_softmax"):
            expected = getattr(torch, name)(torch.tensor(np.float64(a)), 1).numpy()
            found = getattr(ops, name)(cp.asarray(a), 1).get()
            np.testing.assert_allclose(found, expected, rtol=4e-6, atol=1e-6)
