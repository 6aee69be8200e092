"""Rows of several indices, against NumPy."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

CASES = [((4, 5, 6), (3, 7, 2)), ((4, 5, 6), (2, 3)), ((4, 5), (6, 1)), ((4,), (1,))]


def rows(shape, x_shape, seed=0):
    """Rows of indices, negative ones among them."""
    k = shape[-1]
    sizes = np.array(x_shape[:k])
    draw = np.random.default_rng(seed).integers(0, 1 << 30, shape) % (2 * sizes)
    return draw - sizes


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool], ids=str)
@pytest.mark.parametrize(("shape", "index"), CASES, ids=str)
def test_gather_nd(device, shape, index, dtype):
    a, at = numbers(shape, dtype), rows(index, shape)
    found = ops.gather_nd(cp.asarray(a), cp.asarray(at))
    equal(found, a[tuple(np.moveaxis(at, -1, 0))], np.dtype(dtype))


def test_gather_nd_of_batches(device):
    a = numbers((2, 3, 4, 5))
    at = rows((2, 3, 6, 1), (4,))
    expected = np.stack([[a[i, j][at[i, j, :, 0]] for j in range(3)] for i in range(2)])
    equal(ops.gather_nd(cp.asarray(a), cp.asarray(at), 2), expected)


def test_rows_out_of_bounds_read_zero_and_write_nothing(device):
    a = np.ones((2, 3), np.float32)
    at = cp.asarray(np.array([[0, 3], [-3, 0], [1, 1], [0, -4]], np.int32))
    equal(ops.gather_nd(cp.asarray(a), at), [0, 0, 1, 0])
    found = ops.scatter_nd(cp.asarray(a), at, cp.asarray(np.float32([5, 6, 7, 8])))
    equal(found, [[1, 1, 1], [1, 7, 1]])


@pytest.mark.parametrize("reduce", [None, "sum", "prod", "amax", "amin"])
@pytest.mark.parametrize(("shape", "index"), CASES, ids=str)
def test_scatter_nd(device, shape, index, reduce):
    a, at = numbers(shape), rows(index, shape)
    b = numbers((*index[:-1], *shape[index[-1] :]), seed=5)
    expected = a.astype(float)
    place = tuple(np.moveaxis(at, -1, 0))
    how = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}.get(reduce)
    if how is None:
        for n in np.ndindex(index[:-1]):  # the last of rows that are alike counts
            expected[tuple(at[n])] = b[n]
    else:
        how.at(expected, place, b)
    equal(ops.scatter_nd(cp.asarray(a), cp.asarray(at), cp.asarray(b), reduce), expected)


def test_bools_are_combined_as_numbers(device):
    a, at = np.array([True, False, True]), cp.asarray(np.array([[0], [1]]))
    b = cp.asarray(np.array([False, True]))
    equal(ops.scatter_nd(cp.asarray(a), at, b, "amin"), [False, False, True], np.dtype(bool))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (ops.gather_nd, "ShapeError", "for x of shape"),
        (lambda x, i: ops.gather_nd(x, i[:, :1], 1), "ShapeError", "batch_dims=1"),
        (lambda x, i: ops.gather_nd(x, x), "DTypeError", "integers"),
        (lambda x, i: ops.gather_nd(x[:0], i[:, :1]), "ShapeError", "no elements"),
        (lambda x, i: ops.scatter_nd(x, i[:, :1], x), "ShapeError", "updates of shape"),
        (lambda x, i: ops.scatter_nd(x, i[:, :1], x.astype(np.int8)), "DTypeError", "same dtype"),
        (lambda x, i: ops.scatter_nd(x, i[:, :1], x, "mean"), "DefinitionError", "'mean'"),
    ],
)
def test_errors(device, call, error, message):
    with pytest.raises(getattr(cp, error), match=message):
        call(cp.zeros((2, 3)), cp.zeros((4, 3), np.int64))
