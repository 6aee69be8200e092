"""Reading by index, against PyTorch and NumPy."""

import numpy as np
import pytest
from support import BFLOAT16, equal, numbers, pair

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional


def both(shape, dtype=np.float32, seed=0):
    a = numbers(shape, dtype, seed=seed)
    return a, cp.asarray(a)


def indices(shape, n, dtype=np.int64, low=0, seed=0):
    a = np.random.default_rng(seed).integers(low, n, shape).astype(dtype)
    return a, cp.asarray(a)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, BFLOAT16, np.int16, bool], ids=str)
def test_index_select(device, dtype):
    a, x = both((4, 5, 6), dtype)
    i, index = indices(7, 4)
    for dim in (0, -2, 2):
        y = ops.index_select(x, dim, index)
        assert y.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(y.get(), a.take(i, dim))
    np.testing.assert_array_equal(ops.index_select(x, axis=1, index=index[3]).shape, (4, 1, 6))


def test_index_select_keeps_the_format(device):
    a = numbers((2, 6, 4, 5))
    x = cp.asarray(a, memory_format="channels_last")
    i, index = indices(3, 6, np.int32)
    y = ops.index_select(x, 1, index)
    equal(y, a[:, i])
    assert y.strides == cp.empty(y.shape, memory_format="channels_last").strides


def test_take(device):
    a, x = pair(numbers((4, 6)), lambda v: v.T[::-2])
    i, index = indices((2, 3), a.size, low=-a.size)
    equal(ops.take(x, index), a.take(i))
    outside = cp.asarray(np.array([0, a.size, -a.size - 1, 2**40]))
    equal(ops.take(x, outside), [a.ravel()[0], 0, 0, 0])
    equal(ops.take(cp.zeros((0, 3)), outside), np.zeros(4))
    equal(ops.take(cp.full((), 3.0), cp.asarray(np.array([0, -1]))), [3, 3])


def test_gather(device):
    a, x = both((4, 5, 6))
    t = torch.tensor(a)
    for dim, shape in ((0, (7, 5, 3)), (1, (4, 2, 6)), (-1, (2, 5, 9))):
        i, index = indices(shape, a.shape[dim])
        equal(ops.gather(x, dim, index), t.gather(dim, torch.tensor(i)).numpy())
    i, index = indices((4, 5, 2), 6, np.uint8)
    equal(ops.gather(x, axis=2, index=index), np.take_along_axis(a, i.astype(int), 2))


def test_take_along_dim(device):
    a, x = both((4, 1, 6))
    i, index = indices((1, 5, 3), 6, low=-6)
    expected = np.take_along_axis(np.broadcast_to(a, (4, 5, 6)), i, 2)
    equal(ops.take_along_dim(x, index, 2), expected)
    i, index = indices(9, 24)
    equal(ops.take_along_dim(x, index), a.ravel()[i])


def test_outside_reads_nothing(device):
    a, x = both((3, 2))
    index = cp.asarray(np.array([3, -4, -1, 2**33]))
    expected = np.stack([0 * a[0], 0 * a[0], a[2], 0 * a[0]])
    equal(ops.index_select(x, 0, index), expected)
    equal(ops.embedding(index, x), expected)
    equal(ops.index(x, index), expected)


def test_numbers_that_are_too_large_are_not_negative(device):
    a, x = both((3, 2))
    index = cp.asarray(np.array([2**64 - 1, 1, 2**63], np.uint64))
    expected = np.stack([0 * a[0], a[1], 0 * a[0]])
    equal(ops.index_select(x, 0, index), expected)
    equal(ops.embedding(index, x), expected)
    equal(ops.index(x, index), expected)
    equal(ops.index_add(x, 0, index, x), a + expected)
    grad = ops.embedding_backward(x, index, 3)
    equal(grad, np.stack([0 * a[0], a[1], 0 * a[0]]))


def test_gradients_of_rows_out_of_bounds_go_nowhere(device):
    """Of three rows -5 is not the second one, counted from the end twice."""
    grad = cp.full((4, 2), 1.0)
    index = cp.asarray(np.array([-5, -1, 3, -7]))
    equal(ops.embedding_backward(grad, index, 3), np.float32([[0, 0], [0, 0], [1, 1]]))


def test_index(device):
    a, x = both((4, 5, 6))
    i, p = indices((3, 1), 4, low=-4)
    j, q = indices((1, 2), 5, seed=1)
    k, r = indices(2, 6, seed=2)
    for found, expected in [
        ((p,), a[i]),
        ((p, q), a[i, j]),
        ((p, q, r), a[i, j, k]),
        ((None, q), a[:, j]),
        ((None, q, r), a[:, j, k]),
        ((p, None, r), a[i, :, k]),
        ((p, 2), a[i, 2]),
        ((None, None, r), a[:, :, k]),
    ]:
        equal(ops.index(x, found), expected)


def mixes():
    """Indices of an array of (4, 5, 6): positions, masks, numbers and whole dimensions."""
    rng = np.random.default_rng(9)
    line, plane, all_ = np.array([0, 3, -1]), rng.random((4, 5)) > 0.5, slice(None)
    two, rows = np.array([0, 1]), np.array([True, False, True, True])
    return [
        (line,), (all_, line), (line, all_, line), (all_, line, line), (line[:, None], line % 5),
        (plane,), (rows,), (rows, all_, line), (two, np.arange(5) % 3 == 0), (all_, plane.any(0)),
        (rng.random((4, 5, 6)) > 0.3,), (np.zeros(4, bool),), (plane, np.arange(plane.sum()) % 6),
        (line, np.arange(30).reshape(5, 6) % 13 == 2),
        (2, line), (line, 1), (all_, two, 3), (np.zeros((0,), int), all_, two[:0]),
    ]  # fmt: skip


@pytest.mark.parametrize("mix", mixes(), ids=lambda m: ",".join(str(np.shape(i)) for i in m))
def test_positions_and_masks_read_and_written(device, mix):
    a, x = both((4, 5, 6))
    expected = a[mix]
    ours = tuple(None if isinstance(i, slice) else cp.asarray(i) if np.ndim(i) else i for i in mix)
    equal(ops.index(x, ours), expected)
    values = np.random.default_rng(1).integers(-9, 9, expected.shape).astype(a.dtype)
    added = a.copy()
    np.add.at(added, mix, values)
    equal(ops.index_put(x, ours, cp.asarray(values), accumulate=True), added)
    grad = np.zeros_like(a)
    np.add.at(grad, mix, values)
    equal(ops.index_backward(cp.asarray(values), a.shape, ours), grad)
    written = a.copy()
    written[mix] = 7
    equal(ops.index_put(x, ours, cp.full((1,), 7, a.dtype)), written)


def test_masks_that_do_not_fit(device):
    _, x = both((4, 5))
    one = cp.full((1,), 1, x.dtype)
    for mask in (np.ones(5, bool), np.ones((4, 4), bool), np.ones((4, 5, 1), bool)):
        for call in (ops.index, lambda x, i: ops.index_put(x, i, one)):
            with pytest.raises(cp.ShapeError, match="mask of shape"):
                call(x, (cp.asarray(mask),))
    with pytest.raises(cp.ShapeError, match="out of bounds"):
        ops.index_put(x, (4,), one)
    with pytest.raises(cp.ShapeError, match="no array"):
        ops.index_put(x, (None, None), one)


def test_embedding(device):
    a, weight = both((10, 5))
    i, index = indices((2, 3), 10)
    equal(ops.embedding(index, weight), a[i])
    b, wide = both((10, 2, 3), np.float16)
    equal(ops.embedding(index, wide), b[i], np.float16)
    equal(ops.embedding(index[:0], weight), a[i[:0]])
    equal(ops.embedding(index, weight, padding_idx=-1), a[i])


def test_embedding_brings_rows_to_a_norm(device):
    host = np.float32([[3, 4], [0.3, 0.4], [6, 8], [30, 40]])
    index = np.array([[2, 0], [2, 1]])
    for order in (2.0, 1.0):
        table, weight = torch.tensor(host), cp.asarray(host)
        expected = torch.nn.functional.embedding(
            torch.tensor(index), table, max_norm=1.0, norm_type=order
        )
        for _ in range(2):  # the second time the rows are that long already
            found = ops.embedding(cp.asarray(index), weight, max_norm=1.0, norm_type=order)
            np.testing.assert_allclose(found.get(), expected.numpy(), rtol=1e-5)
        np.testing.assert_allclose(weight.get(), table.numpy(), rtol=1e-5)
    with pytest.raises(cp.ShapeError, match="padding_idx=7"):
        ops.embedding(cp.asarray(index), weight, 7, max_norm=0.1)
    np.testing.assert_allclose(weight.get(), table.numpy(), rtol=1e-5)  # nothing was written


def test_embedding_bag(device):
    a, weight = both((10, 5))
    t = torch.tensor(a)
    i, index = indices(9, 10)
    offsets = np.array([0, 2, 2, 7])
    u = torch.tensor(i)
    for mode in ("sum", "mean", "max"):
        expected = F.embedding_bag(u, t, torch.tensor(offsets), mode=mode)
        found = ops.embedding_bag(index, weight, cp.asarray(offsets), mode=mode)
        np.testing.assert_allclose(found.get(), expected.numpy(), rtol=1e-6)
    square = index[:8].reshape(2, 4)
    expected = F.embedding_bag(u[:8].reshape(2, 4), t, mode="mean", padding_idx=int(i[1]))
    found = ops.embedding_bag(square, weight, padding_idx=int(i[1]))
    np.testing.assert_allclose(found.get(), expected.numpy(), rtol=1e-6)
    w, factors = both(9)
    ends = np.append(offsets, 9)
    expected = F.embedding_bag(
        u,
        t,
        torch.tensor(ends),
        mode="sum",
        per_sample_weights=torch.tensor(w),
        include_last_offset=True,
    )
    found = ops.embedding_bag(
        index,
        weight,
        cp.asarray(ends),
        mode="sum",
        per_sample_weights=factors,
        include_last_offset=True,
    )
    equal(found, expected.numpy())


def test_one_hot(device):
    i, index = indices((2, 3), 4)
    equal(ops.one_hot(index, 5), np.eye(5, dtype=np.int64)[i], np.int64)
    equal(ops.one_hot(index, 5, dtype=np.float32), np.eye(5)[i], np.float32)
    equal(ops.one_hot(index), np.eye(i.max() + 1)[i], np.int64)
    equal(ops.one_hot(cp.asarray(np.array([-1, 7])), 3), np.zeros((2, 3)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, bool], ids=str)
def test_masked_fill(device, dtype):
    a, x = both((3, 4), dtype)
    m = numbers(4, bool)
    mask = cp.asarray(m)
    value = dtype is not bool and 3
    expected = np.where(m, np.dtype(dtype).type(value), a)
    equal(ops.masked_fill(x, mask, value), expected, np.dtype(dtype))
    equal(ops.masked_fill(x, mask, cp.full(1, value, dtype)), expected)
    equal(ops.masked_fill_backward(x, mask), np.where(m, 0, a))
    assert ops.masked_fill(x, mask, value, out=x) is x
    equal(x, expected)
    if dtype is np.float32:
        assert np.isneginf(ops.masked_fill(x, mask, -np.inf).get()).any()


EMPTY = {
    "index": lambda x, i: ops.index(x, (i[:, 0],)),
    "index_select": lambda x, i: ops.index_select(x, 0, i[:, 0]),
    "gather": lambda x, i: ops.gather(x, 0, i),
    "take_along_dim": lambda x, i: ops.take_along_dim(x, i, 0),
    "take": ops.take,
    "embedding": lambda x, i: ops.embedding(i[:, 0], x),
}


@pytest.mark.alone
@pytest.mark.parametrize("name", EMPTY)
def test_nothing_is_read_of_an_empty_array(device, name):
    x, i = cp.zeros((0, 4)), cp.empty((0, 4), np.int64)
    found = EMPTY[name](x, i)
    assert (found.shape, found.dtype) == ((0, 4), x.dtype)


@pytest.mark.alone
def test_an_index_without_elements_may_have_any_shape(device):
    x, i = cp.asarray(np.arange(5.0)), cp.empty((2, 0), np.int64)
    assert ops.gather(x, 0, i).shape == (2, 0)
    out = cp.empty((2, 0), x.dtype)
    assert ops.gather(x, 0, i, out=out) is out
    equal(ops.scatter_add(x, 0, i, cp.empty((2, 0), x.dtype)), np.arange(5.0))
    with pytest.raises(cp.ShapeError, match="out= for y0"):
        ops.gather(x, 0, i, out=x)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, i: ops.take(x, x), "DTypeError", "integers for index"),
        (lambda x, i: ops.gather(x, 0, i[0]), "ShapeError", "does not fit"),
        (lambda x, i: ops.gather(x, 0, cp.zeros((2, 9), int)), "ShapeError", "does not fit"),
        (lambda x, i: ops.gather(x, 5, i), "ShapeError", "out of bounds"),
        (lambda x, i: ops.index_select(x, 0, i), "ShapeError", "one dimension"),
        (lambda x, i: ops.index_select(x[:0], 0, i[0]), "ShapeError", "no elements"),
        (lambda x, i: ops.take_along_dim(x, i[0], 0), "ShapeError", "as many dimensions"),
        (lambda x, i: ops.index(x, (i, i, i)), "ShapeError", "3 indices"),
        (lambda x, i: ops.index(x, (None,)), "ShapeError", "no array"),
        (lambda x, i: ops.index(x, (i, 9)), "ShapeError", "out of bounds"),
        (lambda x, i: ops.embedding(x, x), "DTypeError", "integers for indices"),
        (lambda x, i: ops.embedding(i, x[:0]), "ShapeError", "at least one row"),
        (lambda x, i: ops.embedding(i, x, 99), "ShapeError", "padding_idx=99 is out of bounds"),
        (lambda x, i: ops.embedding_bag(i, x, i[0]), "ShapeError", "with offsets"),
        (lambda x, i: ops.embedding_bag(i, x, mode="min"), "DefinitionError", "mode='min'"),
        (
            lambda x, i: ops.embedding_bag(i, x, per_sample_weights=i),
            "DefinitionError",
            "mode='sum'",
        ),
        (lambda x, i: ops.one_hot(x), "DTypeError", "integers"),
        (lambda x, i: ops.one_hot(i, 0), "ShapeError", "at least 1"),
        (lambda x, i: ops.masked_fill(x, x, 0), "DTypeError", "bool for mask"),
        (lambda x, i: ops.masked_fill(i, i == 0, 0.5), "DTypeError", "cannot hold"),
        (lambda x, i: ops.masked_fill(x, i[0] == 0, i), "ShapeError", "one element"),
    ],
)
def test_errors(device, call, error, message):
    with pytest.raises(getattr(cp, error), match=message):
        call(cp.zeros((3, 4)), cp.asarray(np.array([[0, 1], [1, 2]])))
