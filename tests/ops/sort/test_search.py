"""Searches, counts, positions and distinct values beside PyTorch."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.ops.sort import search

torch = pytest.importorskip("torch")


def equal(found, reference):
    np.testing.assert_array_equal(found.get(), reference.numpy())


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(device, right):
    rng = np.random.default_rng(0)
    line = np.sort(rng.integers(-9, 9, 50)).astype(np.float32)
    values = rng.integers(-12, 12, (4, 30)).astype(np.float32)
    values[0, :3] = np.nan, np.inf, -np.inf
    found = ops.searchsorted(cp.asarray(line), cp.asarray(values), right=right)
    equal(found, torch.searchsorted(torch.tensor(line), torch.tensor(values), right=right))
    lines = np.sort(rng.integers(-9, 9, (4, 50)), 1).astype(np.float32)
    found = ops.searchsorted(cp.asarray(lines), cp.asarray(values), right=right, out_int32=True)
    equal(found, torch.searchsorted(torch.tensor(lines), torch.tensor(values), right=right))
    assert found.dtype == np.int32
    equal(
        ops.bucketize(cp.asarray(values), cp.asarray(line), right=right),
        torch.bucketize(torch.tensor(values), torch.tensor(line), right=right),
    )


def test_counts(device):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 300, 5000)
    weights = rng.integers(-5, 6, 5000).astype(np.float32)
    equal(ops.bincount(cp.asarray(x)), torch.bincount(torch.tensor(x)))
    found = ops.bincount(cp.asarray(x[:9].astype(np.uint8) % 7), minlength=12)
    equal(found, torch.bincount(torch.tensor(x[:9].astype(np.uint8) % 7), minlength=12))
    found = ops.bincount(cp.asarray(x), cp.asarray(weights))
    equal(found, torch.bincount(torch.tensor(x), torch.tensor(weights)))
    assert ops.bincount(cp.zeros((0,), np.int64), minlength=3).get().tolist() == [0, 0, 0]
    values = rng.normal(size=(20, 100)).astype(np.float32)
    for options in ({"bins": 10}, {"bins": 4, "min": -1, "max": 1}):
        equal(
            ops.histc(cp.asarray(values), **options), torch.histc(torch.tensor(values), **options)
        )


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64], ids=np.dtype)
def test_histc_of_integers(device, dtype):
    values = np.random.default_rng(1).integers(0, 9, 500).astype(dtype)
    for options in ({"bins": 9, "min": 0, "max": 8}, {"bins": 4}, {"bins": 3, "min": 2, "max": 7}):
        found = ops.histc(cp.asarray(values), **options)
        # Whole intervals and bounds: floating numbers say the same.
        equal(found, torch.histc(torch.tensor(values).double(), **options).to(torch.int64))
        assert found.dtype == dtype


def test_histc_of_short_floats_asks_for_no_double(device, monkeypatch):
    original, used = search.kernel, []

    def kernel(*made):
        operator = original(*made)

        def call(x, *numbers, **options):
            used.extend(type(n) for n in numbers)
            return operator(x, *numbers, **options)

        return call

    monkeypatch.setattr(search, "kernel", kernel)
    values = np.random.default_rng(2).random(500).astype(np.float32)
    short = cp.asarray(values).astype("bfloat16")
    found = ops.histc(short, 8, 0, 1)
    assert {*used[:3]} == {np.float32}
    expected = torch.histc(torch.tensor(short.astype("float32").get()), 8, 0, 1)
    equal(found.astype("float32"), expected)


def test_nonzero_and_masked_select(device):
    rng = np.random.default_rng(2)
    x = rng.integers(-1, 2, (7, 5, 90)).astype(np.float32)
    d, t = cp.asarray(x), torch.tensor(x)
    equal(ops.nonzero(d), torch.nonzero(t))
    equal(ops.nonzero(d[::2, :, ::-3]), torch.nonzero(torch.tensor(x[::2, :, ::-3].copy())))
    equal(ops.masked_select(d, d > 0), torch.masked_select(t, t > 0))
    mask = rng.random((5, 1)) < 0.5
    equal(ops.masked_select(d, cp.asarray(mask)), torch.masked_select(t, torch.tensor(mask)))
    assert ops.nonzero(cp.zeros((3, 4))).shape == (0, 2)
    assert ops.masked_select(d, d > 5).shape == (0,)


def test_unique(device):
    x = np.random.default_rng(3).integers(-40, 40, (30, 40)).astype(np.float32)
    found = ops.unique(cp.asarray(x), return_inverse=True, return_counts=True)
    expected = torch.unique(torch.tensor(x), return_inverse=True, return_counts=True)
    for a, b in zip(found, expected, strict=True):
        equal(a, b)
    assert ops.unique(cp.zeros((0,))).shape == (0,)
    assert np.isnan(ops.unique(cp.asarray(np.float32([np.nan, 1, np.nan]))).get()[1:]).all()
    for dim in (None, 1):  # NumPy's words, and its order of the results
        named = {"return_index": True, "return_inverse": True, "return_counts": True}
        numbers = ops.unique(cp.asarray(np.abs(x[:3])), dim=dim, **named)
        for a, b in zip(numbers, np.unique(np.abs(x[:3]), axis=dim, **named), strict=True):
            np.testing.assert_array_equal(a.get().reshape(b.shape), b)
    empty = ops.unique(cp.zeros((0,)), return_index=True)
    assert [a.shape for a in empty] == [(0,), (0,)]


def test_unique_slices(device):
    rng = np.random.default_rng(3)
    for shape, dim in [((30, 5), 0), ((6, 20, 3), -2), ((7,), 0)]:
        x = rng.integers(-1, 1, shape).astype(np.float32)
        found = ops.unique(cp.asarray(x), return_inverse=True, return_counts=True, dim=dim)
        options = {"return_inverse": True, "return_counts": True, "dim": dim}
        for a, b in zip(found, torch.unique(torch.tensor(x), **options), strict=True):
            equal(a, b)
    rows = cp.asarray(np.float32([[np.nan, 1], [0, 1], [np.nan, 1], [-0.0, 1]]))
    assert ops.unique(rows, dim=0).shape == (3, 2)
    one, same = ops.unique(rows, axis=0).get(), ops.unique(rows, dim=0).get()
    assert np.array_equal(one, same, equal_nan=True)
    with pytest.raises(cp.ShapeError, match="dim=0 and axis=1 are one argument; give one"):
        ops.unique(rows, dim=0, axis=1)
    found = ops.unique(cp.zeros((0, 3)), dim=0, return_counts=True)
    assert [a.shape for a in found] == [(0, 3), (0,)]
    with pytest.raises(cp.ShapeError, match="no elements"):
        ops.unique(cp.zeros((3, 0)), dim=0)


def test_refusals(device):
    x, i = cp.zeros((3, 4)), cp.zeros((3,), np.int32)
    for message, call in [
        ("expected one line", lambda: ops.searchsorted(x, cp.zeros((4, 4)))),
        ("expected integers", lambda: ops.bincount(x)),
        ("expected a line", lambda: ops.bincount(cp.zeros((3, 3), np.int32))),
        ("from -1 to -1", lambda: ops.bincount(i - 1)),
        ("expected numbers", lambda: ops.histc(i > 0)),
        ("in order", lambda: ops.histc(x, 3, 2, 1)),
        ("of 62 bits", lambda: ops.histc(i, 3, 0, 1e30)),
        ("broadcast", lambda: ops.masked_select(x, i)),
        ("expected a device array", lambda: ops.nonzero(np.zeros(3))),
        ("expected a device array", lambda: ops.unique(np.zeros(3))),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()


def test_histogram(device):
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, (10, 5)).astype(np.float32)
    weight = rng.random((10, 5), np.float32)
    edges = np.float32([-1, 0, 0.3, 1])
    x[0, :4] = -1, 1, 0.3, 5
    d, t = cp.asarray(x), torch.tensor(x)
    for ours, theirs in [
        (ops.histogram(d, 7), torch.histogram(t, 7)),
        (
            ops.histogram(d, 7, range=(-1, 0.5), density=True),
            torch.histogram(t, 7, range=(-1, 0.5), density=True),
        ),
        (
            ops.histogram(d, edges, weight=cp.asarray(weight)),
            torch.histogram(t, torch.tensor(edges), weight=torch.tensor(weight)),
        ),
        (ops.histogram(cp.full(4, 1.0), 3), torch.histogram(torch.ones(4), 3)),
    ]:
        for found, expected in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(found.get(), expected.numpy(), rtol=1e-5)
    with_nan = cp.asarray(np.float32([np.nan, 0, 1]))
    assert ops.histogram(with_nan, [0, 0.5, 1])[0].get().tolist() == [1, 1]
    for message, call in [
        ("edges in order", lambda: ops.histogram(d, [1, 0])),
        ("bins=0", lambda: ops.histogram(d, 0)),
        ("finite bounds in order", lambda: ops.histogram(d, 3, range=(1, 0))),
        ("weight is float32 of shape", lambda: ops.histogram(d, 3, weight=d[0])),
    ]:
        with pytest.raises(cp.ShapeError, match=message):
            call()


@pytest.mark.parametrize("dim", [None, 0, -1])
def test_unique_consecutive(device, dim):
    x = np.random.default_rng(5).integers(0, 2, (6, 3, 8))
    x = np.repeat(x, 2, axis=1 if dim is None else dim)
    found = ops.unique_consecutive(cp.asarray(x), True, True, dim)
    expected = torch.unique_consecutive(torch.tensor(x), True, True, dim)
    for ours, theirs in zip(found, expected, strict=True):
        equal(ours, theirs)
    nothing = ops.unique_consecutive(cp.zeros((0,)), True, True)
    assert [a.shape for a in nothing] == [(0,)] * 3


def test_searchsorted_by_side_and_sorter(device):
    line = np.float32([3, 1, 2, 2])
    order, values = np.argsort(line, kind="stable"), np.float32([0, 2, 9])
    arguments = cp.asarray(line), cp.asarray(values)
    found = ops.searchsorted(*arguments, side="right", sorter=cp.asarray(order))
    assert found.get().tolist() == [0, 3, 4]
    with pytest.raises(cp.ShapeError, match="side='left', right=True"):
        ops.searchsorted(*arguments, side="left", right=True)
    with pytest.raises(cp.DTypeError, match="integers for sorter, got float32"):
        ops.searchsorted(*arguments, sorter=arguments[0])
