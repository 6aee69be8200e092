"""Writing at indices beside PyTorch: duplicates, order, gradients of reads, and refusals."""

import numpy as np
import pytest
from support import same_bits

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
X = RNG.integers(-9, 9, (6, 9, 5)).astype(np.float32)


def equal(found, reference):
    np.testing.assert_array_equal(found.get(), reference.detach().numpy())


def upload(*arrays):
    return [cp.asarray(a) for a in arrays]


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scatter_and_its_kin(device, dim):
    shape = [5, 7, 4]
    shape[dim] = 23
    index = RNG.integers(0, X.shape[dim], shape)
    src = RNG.integers(-9, 9, [s + 1 for s in shape]).astype(np.float32)
    t = [torch.tensor(a) for a in (X, index, src)]
    x, i, s = upload(X, index, src)
    equal(ops.scatter_add(x, dim, i, s), torch.scatter_add(t[0], dim, t[1], t[2]))
    for how in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            expected = torch.scatter_reduce(t[0], dim, t[1], t[2], how, include_self=include)
            found = ops.scatter_reduce(x, dim, i, s, how, include_self=include)
            np.testing.assert_allclose(found.get(), expected.numpy(), rtol=1e-6)
    # Without duplicates PyTorch is deterministic as well.
    once, new = np.argsort(RNG.random(X.shape), dim)[:, :, :3], X[:, :, :3] * 2
    i, s, places = *upload(once, new), torch.tensor(once)
    equal(ops.scatter(x, dim, i, s), torch.scatter(t[0], dim, places, torch.tensor(new)))
    equal(ops.scatter(x, dim, i, 7), torch.scatter(t[0], dim, places, 7))
    expected = torch.scatter_add(t[0], dim, places, torch.tensor(new))
    equal(ops.scatter(x, dim, i, s, reduce="add"), expected)


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8"])
@pytest.mark.parametrize("include", [True, False])
def test_a_mean_of_integers_is_rounded_down(device, dtype, include):
    low = -9 if dtype.startswith("i") else 0
    x, src = (RNG.integers(low, 9, (n, 10)).astype(dtype) for n in (5, 7))
    index = RNG.integers(0, 5, src.shape)
    t = [torch.tensor(a) for a in (x, index, src)]
    expected = torch.scatter_reduce(t[0], 0, t[1], t[2], "mean", include_self=include)
    x, i, s = upload(x, index, src)
    equal(ops.scatter_reduce(x, 0, i, s, "mean", include_self=include), expected)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32"])
def test_means_of_integers_whose_sums_would_wrap(device, dtype):
    info = np.iinfo(dtype)
    source = np.array([info.max, info.max - 3, info.max, info.min, info.max], dtype)
    index = np.array([0, 0, 0, 1, 2])
    x, i, s = upload(np.full(3, info.max, dtype), index, source)
    whole = [[int(v) for v in source[index == n]] for n in range(3)]
    found = ops.scatter_reduce(x, 0, i, s, "mean", include_self=False)
    assert found.get().tolist() == [sum(v) // len(v) for v in whole]
    found = ops.scatter_reduce(x, 0, i, s, "mean")
    assert found.get().tolist() == [(sum(v) + info.max) // (len(v) + 1) for v in whole]


def test_the_last_of_several_counts(device):
    x, i, s = upload(np.zeros(3, "f"), np.array([1, 1, -1, 2, 5]), np.float32([1, 2, 3, 4, 5]))
    assert ops.scatter(x, 0, i, s).get().tolist() == [0, 2, 4]
    assert ops.scatter_add(x, 0, i, s, out=x) is x
    assert x.get().tolist() == [0, 3, 7]


def test_many_to_one_place_is_accurate_and_repeats(device):
    values = RNG.random(100_000).astype(np.float32)
    x, i, s = upload(np.zeros(3, "f"), RNG.integers(0, 2, 100_000), values)
    found = ops.scatter_add(x, 0, i, s)
    expected = np.bincount(i.get(), values.astype(np.float64), 3)
    np.testing.assert_allclose(found.get(), expected, rtol=1e-5)
    assert same_bits(found, ops.scatter_add(x, 0, i, s))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_an_index_for_whole_rows(device, dtype):
    # Vectors of 16 and what is left of a row; a work-item has a part of the columns.
    x = RNG.integers(-9, 9, (30, 37)).astype(dtype)
    source = RNG.integers(-9, 9, (90, 37)).astype(dtype)
    index = RNG.integers(-30, 30, 90)
    index[:3] = 30, -31, 99  # out of bounds
    inside = (index >= -30) & (index < 30)
    expected = x.copy()
    np.add.at(expected, index[inside], source[inside])
    found = ops.index_add(*upload(x), 0, *upload(index, source))
    np.testing.assert_array_equal(found.get(), expected)
    rows = np.broadcast_to(index[:, None], source.shape)
    found = ops.scatter_reduce(found, 0, *upload(np.ascontiguousarray(rows), source), "amax")
    np.maximum.at(expected, index[inside], source[inside])
    np.testing.assert_array_equal(found.get(), expected)


@pytest.mark.parametrize("rows", [slice(None), slice(None, None, 2), slice(3, 3 + 13)])
@pytest.mark.parametrize("length", [5, 90])
def test_lines_that_are_copied_before(device, rows, length):
    # Whole lines whose length is none of vectors, also as columns of the result.
    x = RNG.integers(-9, 9, (26, 37)).astype(np.float32)
    given = cp.asarray(x)[rows]
    count = given.shape[0]
    index = RNG.integers(-37, 37, (count, length))
    index[:, :2] = 37, -38  # out of bounds
    source = RNG.integers(-9, 9, index.shape).astype(np.float32)
    inside = (index >= -37) & (index < 37)
    expected = x[rows].copy()
    lines = np.broadcast_to(np.arange(count)[:, None], index.shape)
    np.add.at(expected, (lines[inside], index[inside]), source[inside])
    found = ops.scatter_add(given, 1, *upload(index, source))
    np.testing.assert_array_equal(found.get(), expected)
    np.testing.assert_array_equal(given.get(), x[rows])
    into = cp.zeros((40, count)).T[:, 2:39]
    ops.scatter_add(given, 1, *upload(index, source), out=into)
    np.testing.assert_array_equal(into.get(), expected)


def test_a_table_that_no_cache_holds(device):
    # Rows are asked for before they are written; the last ones and those out of bounds are not.
    rows, index = 200_000, RNG.integers(-200_000, 200_000, 500)
    index[[0, 4, 5, 499]] = rows, -rows - 1, 7, 7
    source = RNG.integers(-9, 9, (500, 64)).astype(np.float32)
    found = ops.index_add(cp.zeros((rows, 64)), 0, *upload(index, source)).get()
    inside = (index >= -rows) & (index < rows)
    expected = np.zeros((rows, 64), np.float32)
    np.add.at(expected, index[inside], source[inside])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dim", [0, 1, 2, 3])
def test_lines_of_views_in_place(device, dim):
    x = RNG.integers(-9, 9, (2, 4, 6, 8, 10)).astype(np.float32)[:, :, ::-1, ::2]
    index = RNG.integers(-x.shape[dim], x.shape[dim] + 1, x.shape)
    src = RNG.integers(-9, 9, x.shape).astype(np.float32)
    expected = x.copy()
    inside = index < x.shape[dim]  # those out of bounds add nothing
    where = list(np.indices(x.shape))
    where[dim] = np.where(inside, index, 0) % x.shape[dim]
    np.add.at(expected, tuple(where), np.where(inside, src, 0))
    whole, i, s = upload(np.zeros((2, 4, 6, 8, 10), "f"), index, src)
    view = whole[:, :, ::-1, ::2]
    view[:] = cp.asarray(np.ascontiguousarray(x))
    assert ops.scatter_add(view, dim, i, s, out=view) is view
    np.testing.assert_array_equal(view.get(), expected)
    assert not whole.get()[:, :, ::-1, 1::2].any()
    with pytest.raises(cp.ClprimError):
        ops.scatter_add(view, dim, i, view, out=view)  # what is read is written


@pytest.mark.parametrize("dim", [0, 1])
def test_slices(device, dim):
    index = RNG.integers(0, X.shape[dim], 20)
    shape = list(X.shape)
    shape[dim] = 20
    source = RNG.integers(-9, 9, shape).astype(np.float32)
    t = [torch.tensor(a) for a in (X, index, source)]
    x, i, s = upload(X, index, source)
    equal(ops.index_add(x, dim, i, s), torch.index_add(t[0], dim, t[1], t[2]))
    equal(ops.index_add(x, dim, i, s, alpha=-2), torch.index_add(t[0], dim, t[1], t[2], alpha=-2))
    once = np.array([3, 0, 5])
    some = np.take(source, [0, 1, 2], dim)
    expected = torch.index_copy(t[0], dim, torch.tensor(once), torch.tensor(some))
    equal(ops.index_copy(x, dim, *upload(once, some)), expected)
    expected = torch.zeros(X.shape).index_add(dim, t[1], t[2])
    equal(ops.index_select_backward(s, X.shape, dim, i), expected)
    equal(ops.index_select_backward(s, X.shape, index=i, axis=dim), expected)


def test_index_put(device):
    a, b = RNG.integers(-6, 6, (4, 1)), RNG.integers(0, 9, (1, 8))
    values = RNG.integers(-9, 9, (4, 8, 5)).astype(np.float32)
    t = torch.tensor(X)
    t.index_put_((torch.tensor(a), torch.tensor(b)), torch.tensor(values), accumulate=True)
    x, i, j, v = upload(X, a, b, values)
    equal(ops.index_put(x, (i, j), v, accumulate=True), t)
    line = cp.asarray(np.array([4, 1]))
    expected = X.copy()
    expected[[4, 1]] = 3
    np.testing.assert_array_equal(ops.index_put(x, (line,), cp.full((1,), 3, "f")).get(), expected)


def test_gradients_of_reads(device):
    index = RNG.integers(0, 9, (6, 4, 5))
    t = torch.tensor(X, requires_grad=True)
    y = torch.gather(t, 1, torch.tensor(index))
    g = RNG.integers(-9, 9, y.shape).astype(np.float32)
    y.backward(torch.tensor(g))
    equal(ops.gather_backward(cp.asarray(g), X.shape, 1, cp.asarray(index)), t.grad)
    equal(ops.gather_backward(cp.asarray(g), X.shape, axis=1, index=cp.asarray(index)), t.grad)
    words, grad = RNG.integers(0, 11, (7, 30)), RNG.integers(-9, 9, (7, 30, 16)).astype(np.float32)
    for padding, scale in [(-1, False), (3, False), (3, True)]:
        found = ops.embedding_backward(*upload(grad, words), 12, padding, scale)
        expected = torch.ops.aten.embedding_dense_backward(
            torch.tensor(grad), torch.tensor(words), 12, padding, scale
        )
        np.testing.assert_allclose(found.get(), expected.numpy(), rtol=1e-6, atol=1e-5)


def test_nothing_to_write(device):
    x, none = cp.asarray(X), cp.zeros((0,), np.int64)
    np.testing.assert_array_equal(ops.index_add(x, 1, none, cp.zeros((6, 0, 5))).get(), X)
    assert ops.scatter(cp.zeros((0,)), 0, none, 3).shape == (0,)


def test_refusals(device):
    x, i = cp.zeros((3, 4)), cp.zeros((3, 4), np.int64)
    line = cp.zeros((2,), np.int64)
    for message, call in [
        ("does not fit", lambda: ops.scatter(x, 0, line, x)),
        ("does not fit", lambda: ops.scatter(x, 0, cp.zeros((3, 5), np.int64), 1)),
        ("does not fit", lambda: ops.scatter_add(x, 0, i, cp.zeros((2, 4)))),
        ("expected integers", lambda: ops.scatter(x, 0, x, x)),
        ("same dtype", lambda: ops.scatter_add(x, 0, i, i)),
        ("expected a device array", lambda: ops.scatter_add(x, 0, i, 3)),
        ("reduce='max'", lambda: ops.scatter_reduce(x, 0, i, x, "max")),
        ("'add' or 'multiply'", lambda: ops.scatter(x, 0, i, x, reduce="sum")),
        ("expected a line", lambda: ops.index_add(x, 0, line, x)),
        ("out of bounds", lambda: ops.index_add(x, 2, line, x)),
        ("do not fit", lambda: ops.index_put(x, (line,), cp.zeros((3,)))),
        ("3 indices", lambda: ops.index_put(x, (line,) * 3, x)),
        ("does not fit", lambda: ops.embedding_backward(x, line, 3)),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
    assert not x.get().any()


def leaf(a):
    return torch.tensor(a, requires_grad=True)


def whole(shape, seed=1):
    return np.random.default_rng(seed).integers(-5, 6, shape).astype(np.float32)


def test_gradients_of_what_was_taken(device):
    t, index = leaf(X), RNG.integers(-20, 200, (4, 9))
    g = whole(index.shape)
    torch.take(t, torch.tensor(index)).backward(torch.tensor(g))
    equal(ops.take_backward(*upload(g), X.shape, *upload(index)), t.grad)
    # Indices and the array are repeated along other dimensions.
    t, index = leaf(X[:, :1]), RNG.integers(0, 5, (1, 9, 7))
    g = whole((6, 9, 7))
    torch.take_along_dim(t, torch.tensor(index), 2).backward(torch.tensor(g))
    grad, places = upload(g, index)
    equal(ops.take_along_dim_backward(grad, (6, 1, 5), places, 2), t.grad)
    with pytest.raises(cp.ShapeError, match="do not fit"):
        ops.take_along_dim_backward(grad, (6, 2, 5), places, 2)
    with pytest.raises(cp.ShapeError, match="grad has shape"):
        ops.take_backward(grad, X.shape, places)


@pytest.mark.parametrize("case", [(None, 0), (0, None, 0), (1, None, 3), (0, 0)], ids=str)
def test_gradients_of_an_index_with_arrays(device, case):
    """0 stands for an array of indices, other numbers for themselves."""
    arrays = [RNG.integers(-n, n, (7,)) for n in X.shape]
    t = leaf(X)
    ours = [cp.asarray(arrays[d]) if i == 0 else i for d, i in enumerate(case)]
    theirs = [slice(None) if i is None else torch.tensor(arrays[d]) if i == 0 else i
              for d, i in enumerate(case)]  # fmt: skip
    expected = t[tuple(theirs)]
    g = whole(tuple(expected.shape))
    expected.backward(torch.tensor(g))
    equal(ops.index(cp.asarray(X), ours), expected)
    equal(ops.index_backward(cp.asarray(g), X.shape, ours), t.grad)


BAGS = [
    ("sum", {"per_sample_weights": True, "padding_idx": 2}),
    ("mean", {"padding_idx": 1}),
    ("max", {}),
    ("mean", {"include_last_offset": True}),
]


@pytest.mark.parametrize("lines", [True, False], ids=["offsets", "rows"])
@pytest.mark.parametrize(("mode", "options"), BAGS, ids=str)
def test_gradients_of_bags(device, mode, options, lines):
    options, ours = dict(options), {}
    table = np.random.default_rng(2).permutation(40).reshape(8, 5).astype(np.float32)
    numbers = RNG.integers(0, 8, 24 if lines else (6, 4))
    if lines:
        offsets = np.array([0, 3, 3, 11, 20, 24][: 6 if "include_last_offset" in options else 5])
        ours["offsets"], theirs = cp.asarray(offsets), {"offsets": torch.tensor(offsets)}
    else:
        options.pop("include_last_offset", None)
        theirs = {}
    factors = None
    if options.pop("per_sample_weights", False):
        factors = leaf(whole(numbers.shape))
        theirs["per_sample_weights"] = factors
        ours["per_sample_weights"] = cp.asarray(factors.detach().numpy())
    t = leaf(table)
    expected = torch.nn.functional.embedding_bag(
        torch.tensor(numbers), t, mode=mode, **theirs, **options
    )
    g = whole(tuple(expected.shape)) * 12
    expected.backward(torch.tensor(g))
    places, weight, grad = upload(numbers, table, g)
    found, slopes = ops.embedding_bag_backward(grad, places, weight, mode=mode, **ours, **options)
    np.testing.assert_allclose(found.get(), t.grad.numpy(), rtol=1e-5, atol=1e-5)
    if factors is not None:
        equal(slopes, factors.grad)
    else:
        assert slopes is None
    with pytest.raises(cp.ShapeError, match="grad has shape"):
        ops.embedding_bag_backward(grad[:1], places, weight, mode=mode, **ours, **options)


def test_results_that_do_not_fit_are_refused_by_name(device):
    x, i, s = cp.zeros((16, 9)), cp.asarray(np.zeros((16, 3), np.int64)), cp.zeros((16, 3))
    for out in (cp.zeros((9,)), cp.zeros((16, 8)), cp.zeros((16, 9), "int32"), np.zeros((16, 9))):
        with pytest.raises(cp.ClprimError, match=r"scatter_add.*out="):
            ops.scatter_add(x, 1, i, s, out=out)
