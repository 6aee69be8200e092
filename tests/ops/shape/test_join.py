"""Joining, splitting, repeating, turning and padding, against PyTorch and NumPy."""

import numpy as np
import pytest
from support import BFLOAT16, Guard, equal, numbers, pair

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional


def both(shape, dtype=np.float32, seed=0):
    a = numbers(shape, dtype, seed=seed)
    return a, cp.asarray(a)


def last(shape):
    a = numbers(shape)
    return a, cp.asarray(a, memory_format="channels_last")


# --- cat and stack --------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat(device, dim):
    shapes = [[2, 3, 5] for _ in range(3)]
    for n, shape in enumerate(shapes):
        shape[dim] = n + 1
    parts = [both(tuple(s), seed=n) for n, s in enumerate(shapes)]
    expected = np.concatenate([a for a, _ in parts], dim)
    y = ops.cat([x for _, x in parts], dim)
    equal(y, expected, np.float32)
    pieces = ops.cat_backward(y, [s[dim] for s in shapes], axis=dim)
    for piece, (a, _) in zip(pieces, parts, strict=True):
        equal(piece, a)


def test_cat_promotes_and_takes_views_and_memory(device):
    a, x = pair(numbers((4, 6), np.int8), lambda v: v[:, ::2])
    b, z = pair(numbers((3, 5), np.float16), lambda v: v.T[:4])
    y = ops.cat((x, z), axis=1)
    equal(y, np.concatenate([a, b], 1), np.float16)
    guard = Guard((4, 6), np.float16)
    assert ops.cat((x, z), 1, out=guard.array) is guard.array
    guard.check(np.concatenate([a, b], 1))
    equal(ops.cat([cp.zeros((0,)), cp.full((2, 2), 1.0)]), np.ones((2, 2)))
    equal(ops.cat([cp.zeros((0, 3)), cp.zeros((0, 3))]), np.ones((0, 3)))


def test_cat_keeps_the_format_of_the_first(device):
    a, x = last((2, 3, 4, 5))
    b, z = both((2, 2, 4, 5))
    y = ops.cat([x, z], 1)
    equal(y, np.concatenate([a, b], 1))
    assert y.strides == cp.empty(y.shape, memory_format="channels_last").strides


def test_stack(device):
    (a, x), (b, z) = both((2, 3)), both((2, 3), seed=1)
    for dim in (0, 1, 2, -1):
        equal(ops.stack([x, z], dim), np.stack([a, b], dim))


def test_split_chunk_unbind_are_views(device):
    a, x = both((7, 4))
    t = torch.tensor(a)
    for found, expected in [
        (ops.split(x, 3), t.split(3)),
        (ops.split(x, [1, 0, 6]), t.split([1, 0, 6])),
        (ops.split(x, 3, axis=1), t.split(3, 1)),
        (ops.chunk(x, 3), t.chunk(3)),
        (ops.chunk(x, 9, 1), t.chunk(9, 1)),
        (ops.unbind(x, -1), t.unbind(-1)),
    ]:
        assert len(found) == len(expected)
        for p, q in zip(found, expected, strict=True):
            assert p.base_data is x.base_data
            equal(p, q.numpy())


def test_meshgrid(device):
    (a, x), (b, z), (c, w) = both(3), both(4, seed=1), both(2, seed=2)
    for indexing in ("ij", "xy"):
        for found, expected in zip(
            ops.meshgrid(x, z, w, indexing=indexing),
            np.meshgrid(a, b, c, indexing=indexing),
            strict=True,
        ):
            equal(found, expected)
    number = ops.meshgrid(x[::2], cp.asarray(np.float32(7)), indexing="xy")
    for found, expected in zip(number, np.meshgrid(a[::2], np.float32(7)), strict=True):
        equal(found, expected)


# --- repetition and turns -------------------------------------------------------------------------


def test_repetition(device):
    a, x = both((2, 3, 4))
    t = torch.tensor(a)
    equal(ops.tile(x, (2, 3)), np.tile(a, (2, 3)))
    equal(ops.tile(x, (2, 1, 1, 2)), np.tile(a, (2, 1, 1, 2)))
    equal(ops.tile(x, (1, 0, 1)), np.tile(a, (1, 0, 1)))
    equal(ops.repeat(x, 2, 1, 3), t.repeat(2, 1, 3).numpy())
    equal(ops.repeat(x, (2, 1, 2, 1)), t.repeat(2, 1, 2, 1).numpy())
    for dim in (0, 1, -1, None):
        equal(ops.repeat_interleave(x, 3, dim), t.repeat_interleave(3, dim).numpy())
    b, last_ = last((2, 3, 4, 5))
    y = ops.repeat_interleave(last_, 2, axis=2)
    equal(y, b.repeat(2, 2))
    assert y.strides == cp.empty(y.shape, memory_format="channels_last").strides


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float16, np.float32, bool])
def test_what_lies_backwards_is_read(device, dtype):
    a = np.random.default_rng(3).integers(0, 2 if dtype is bool else 100, (5, 77)).astype(dtype)
    x = cp.asarray(a)
    equal(ops.contiguous(ops.flip(x, 1)), a[:, ::-1])
    equal(ops.where(ops.flip(x, 1) > 1, ops.flip(x, 1), x), np.where(a[:, ::-1] > 1, a[:, ::-1], a))
    equal(ops.contiguous(ops.flip(x[1:, 3:70], (0, 1))), a[:0:-1, 69:2:-1])


def test_flip_and_rot90_are_views(device):
    a, x = both((3, 4, 5))
    for dims in ((0,), (1, 2), (0, -1), ()):
        y = ops.flip(x, dims)
        assert y.base_data is x.base_data
        equal(y, np.flip(a, dims))
    equal(ops.flip(x, dim=1), np.flip(a, 1))
    equal(ops.flip(x, axis=(0, 2)), np.flip(a, (0, 2)))
    for k in range(-1, 5):
        for dims in ((0, 1), (2, 0)):
            equal(ops.rot90(x, k, dims), np.rot90(a, k, dims))
    equal(ops.flip(cp.zeros((0, 2)), 0), np.zeros((0, 2)))


def test_roll(device):
    a, x = both((4, 5, 6))
    for shifts, dims in [(2, 0), ((1, -2), (0, 2)), (7, 1), ((0, 3), (1, 2)), (-13, None)]:
        equal(ops.roll(x, shifts, dims), np.roll(a, shifts, dims))
    equal(ops.roll(x, 1, dim=1), np.roll(a, 1, 1))
    equal(ops.roll(x, (1, 2), axis=(0, 1)), np.roll(a, (1, 2), (0, 1)))
    with pytest.raises(cp.ShapeError, match="are one argument; give one"):
        ops.roll(x, 1, 0, dim=0)
    equal(ops.roll(cp.zeros((0, 2)), 1, 0), np.zeros((0, 2)))


@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16, np.uint64, bool], ids=str)
def test_triangles(device, dtype):
    a, x = both((2, 4, 5), dtype)
    for k in (-9, -1, 0, 2):
        equal(ops.tril(x, k), np.tril(a, k), np.dtype(dtype))
        equal(ops.triu(x, k), np.triu(a, k), np.dtype(dtype))
    assert ops.tril(x, out=x) is x
    equal(x, np.tril(a))


def test_diagonals(device):
    a, x = both((4, 6))
    v, w = both(3)
    for k in (-5, -1, 0, 2, 9):
        equal(ops.diag(x, k), np.diag(a, k) if -4 < k < 6 else np.zeros(0))
        equal(ops.diag(w, k), np.diag(v, k))
    b, z = both((2, 3, 4))
    equal(ops.diagonal(z, 1, 2, 0), np.diagonal(b, 1, 2, 0))


# --- padding --------------------------------------------------------------------------------------

PADS = [
    ((2, 3, 5, 6), (1, 2), "constant"),
    ((2, 3, 5, 6), (1, 0, 2, 3), "constant"),
    ((2, 3, 5, 6), (-1, 2, 0, -2, 1, 1), "constant"),
    ((2, 3, 5, 6), (2, 1, 4, 0), "reflect"),
    ((2, 3, 5, 6), (2, -1, 7, 1), "replicate"),
    ((2, 3, 5, 6), (6, 2, 0, 5), "circular"),
    ((3, 7), (3, 2), "reflect"),
]


@pytest.mark.parametrize(("shape", "border", "mode"), PADS, ids=str)
def test_pad(device, shape, border, mode):
    a = numbers(shape)
    t = torch.tensor(a, requires_grad=True)
    expected = F.pad(t, border, mode)
    x = cp.asarray(a)
    equal(ops.pad(x, border, mode), expected.detach().numpy(), np.float32)
    g = torch.tensor(numbers(tuple(expected.shape), seed=1))
    expected.backward(g)
    found = ops.pad_backward(cp.asarray(g.numpy()), shape, border, mode)
    equal(found, t.grad.numpy(), np.float32)
    if len(shape) == 4:
        y = ops.pad(cp.asarray(a, memory_format="channels_last"), border, mode)
        equal(y, expected.detach().numpy())
        assert y.strides == cp.empty(y.shape, memory_format="channels_last").strides


@pytest.mark.parametrize(("mode", "named"), [("reflect", "reflect"), ("circular", "wrap"),
                                             ("replicate", "edge")])  # fmt: skip
@pytest.mark.parametrize("border", [(7, 9, 2, 0), (0, 13, 11, 5), (3, 4, 6, 6)], ids=str)
def test_borders_wider_than_the_array(device, mode, named, border):
    for shape in ((2, 3, 4), (3, 1, 2)):
        a = numbers(shape)
        left, right, top, bottom = border
        around = ((0, 0), (top, bottom), (left, right))
        expected = np.pad(a, around, named)
        equal(ops.pad(cp.asarray(a), border, mode), expected, np.float32)
        g = numbers(expected.shape, seed=2)
        places = np.pad(np.arange(a.size).reshape(shape), around, named)
        back = np.bincount(places.ravel(), g.ravel().astype(float), a.size).reshape(shape)
        equal(ops.pad_backward(cp.asarray(g), shape, border, mode), back)


def test_pad_of_other_dtypes_and_values(device):
    for dtype, value in ((np.int16, -3), (BFLOAT16, 0.5), (np.float32, float("nan")), (bool, True)):
        a = numbers((2, 3), dtype)
        expected = np.pad(a, ((0, 0), (1, 1)), constant_values=value)
        y = ops.pad(cp.asarray(a), (1, 1), value=value)
        assert y.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(y.get(), expected)
    equal(ops.pad(cp.zeros((2, 0)), (1, 2), value=4), np.full((2, 3), 4))


def test_windows(device):
    a, x = both((3, 9, 8))
    slide = np.lib.stride_tricks.sliding_window_view
    equal(cp.windows(x, 3), slide(a, 3, axis=-1))
    equal(cp.windows(x, (3, 2), (2, 3)), slide(a, (3, 2), axis=(1, 2))[:, ::2, ::3])
    equal(cp.windows(x, 2, axis=0), slide(a, 2, axis=0))
    assert cp.windows(x, 4).base_data is x.base_data


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ops.cat([]), "ShapeError", "a list of arrays"),
        (lambda x: ops.cat([x, x[0]]), "ShapeError", "array 1 has shape"),
        (lambda x: ops.cat([x, x.get()]), "DTypeError", "cp.asarray"),
        (lambda x: ops.cat([x, x], 2), "ShapeError", "out of bounds"),
        (lambda x: ops.cat([x, x], out=x), "ShapeError", r"expected \(6, 4\)"),
        (lambda x: ops.stack([x, x[1:]]), "ShapeError", "array 1 has shape"),
        (lambda x: ops.split(x, [1, 1]), "ShapeError", "add up to 2"),
        (lambda x: ops.split(x, 0), "ShapeError", "split_size"),
        (lambda x: ops.chunk(x, 1.5), "DTypeError", "an integer"),
        (ops.meshgrid, "ShapeError", "one dimension"),
        (lambda x: ops.meshgrid(x[0], indexing="zz"), "ShapeError", "'ij' or 'xy'"),
        (lambda x: ops.tile(x, -1), "ShapeError", "at least 0"),
        (lambda x: ops.repeat(x, 2), "ShapeError", "1 numbers"),
        (lambda x: ops.flip(x, (0, 0)), "ShapeError", "twice"),
        (lambda x: ops.rot90(x, 1, (0,)), "ShapeError", "two dimensions"),
        (lambda x: ops.roll(x, (1, 2), 0), "ShapeError", "2 shifts for 1"),
        (lambda x: ops.tril(x[0]), "ShapeError", "at least 2"),
        (lambda x: ops.diag(x[None]), "ShapeError", "1 or 2 dimensions"),
        (lambda x: ops.pad(x, (1,)), "ShapeError", "two numbers"),
        (lambda x: ops.pad(x[:, :0], (4, 0), "reflect"), "ShapeError", "cannot be made"),
        (lambda x: ops.pad(x[:, :0], (5, 0), "circular"), "ShapeError", "cannot be made"),
        (lambda x: ops.pad(x, (-3, -2)), "ShapeError", "cannot be made"),
        (lambda x: ops.pad(x, (1, 1), "mirror"), "DefinitionError", "mode='mirror'"),
        (lambda x: ops.pad(x, (1, 1), "reflect", 2), "DefinitionError", "value=2"),
        (lambda x: ops.pad_backward(x, (3, 4), (1, 1)), "ShapeError", r"expected \(3, 6\)"),
        (lambda x: cp.windows(x, 9), "ShapeError", "larger than axis"),
        (lambda x: cp.windows(x, 0), "ShapeError", "at least 1"),
        (lambda x: cp.windows(x, (1, 2, 3)), "ShapeError", "more axes"),
    ],
)
def test_errors(device, call, error, message):
    with pytest.raises(getattr(cp, error), match=message):
        call(cp.zeros((3, 4)))


def test_repeat_interleave_by_a_number_for_each_element(device):
    x, times = numbers((3, 4)), np.array([0, 2, 1])
    found = ops.repeat_interleave(cp.asarray(x), cp.asarray(times), 0)
    np.testing.assert_array_equal(found.get(), np.repeat(x, times, 0))
    for message, given in (("expected at least 0", [0, -1, 1]), ("has shape", [1, 2])):
        with pytest.raises(cp.ShapeError, match=message):
            ops.repeat_interleave(cp.asarray(x), cp.asarray(np.array(given)), 0)


def test_circular_borders_beside_cut_ones(device):
    torch = pytest.importorskip("torch")
    x, borders = numbers((2, 3, 7, 9)), (-1, 2, 3, -2)
    theirs = torch.tensor(x, requires_grad=True)
    expected = torch.nn.functional.pad(theirs, borders, mode="circular")
    found = ops.pad(cp.asarray(x), borders, mode="circular")
    np.testing.assert_array_equal(found.get(), expected.detach().numpy())
    expected.backward(expected.detach())
    grad = ops.pad_backward(found, x.shape, borders, mode="circular")
    np.testing.assert_allclose(grad.get(), theirs.grad.numpy(), rtol=1e-6)
