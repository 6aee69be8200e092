"""Broadcasting, memory order, collapsing and overlap, against NumPy and against brute force."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clprim.errors import ShapeError
from clprim.plan.strides import (
    ADDRESS_BASE,
    Dim,
    Operand,
    Space,
    addresses,
    broadcast_shapes,
    broadcast_strides,
    collapse,
    dense_strides,
    memory_order,
    normalize_axes,
    overlaps_itself,
    row_major_strides,
    shares_memory,
)

FLOAT = np.dtype(np.float32)
many = settings(max_examples=300, derandomize=True, deadline=None)


def operand(array, base=None):
    """Describes a NumPy view of ``base`` as if it lay in a device's memory."""
    start = 0 if base is None else array.ctypes.data - base.ctypes.data
    return Operand(array.shape, array.strides, start, array.dtype)


@st.composite
def views(draw, most_dims=4, dtype="int16"):
    """A base array and a view of it: sliced with any step, permuted, axes repeated."""
    shape = draw(st.lists(st.integers(1, 5), max_size=most_dims))
    base = np.arange(math.prod(shape), dtype=dtype).reshape(shape)
    view = base
    for d in range(len(shape)):
        step = draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
        start = draw(st.sampled_from([None, None, 1, -1]))
        view = view[(slice(None),) * d + (slice(start, None, step),)]
    return base, view.transpose(draw(st.permutations(range(view.ndim))))


# --- broadcasting -----------------------------------------------------------------------------


@many
@given(st.lists(st.lists(st.sampled_from([0, 1, 1, 2, 3]), max_size=4), max_size=4))
def test_shapes_broadcast_as_in_numpy(shapes):
    shapes = [tuple(shape) for shape in shapes]
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(ShapeError, match=r"do not broadcast together") as caught:
            broadcast_shapes("Pointwise", shapes)
        assert all(str(shape) in str(caught.value) for shape in shapes)
    else:
        assert broadcast_shapes("Pointwise", shapes) == expected


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 3, 4, 5), (6, 2, 3, 4, 5)])
@pytest.mark.parametrize("own", [(), (5,), (1,), (3, 1, 5), (1, 1, 4, 1)])
def test_a_repeated_axis_has_stride_zero(shape, own):
    array = np.empty(own, np.float32)
    expected = np.broadcast_to(array, shape).strides
    found = broadcast_strides(operand(array), shape)
    for size, have, want in zip(shape, found, expected, strict=True):
        assert have * 4 == want or size == 1


@pytest.mark.parametrize(("strides", "offset"), [((6,), 0), ((4,), 2), ((-3,), 0)])
def test_half_an_element_is_refused(strides, offset):
    half = Operand((5,), strides, offset, FLOAT)
    with pytest.raises(ShapeError, match="multiples of the float32 element size, 4 bytes"):
        half.in_elements(offset)
        broadcast_strides(half, (5,))


@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 4), (2, 0, 3), (1, 5, 1)])
def test_positions_are_numbered_in_c_order(shape):
    array = np.arange(math.prod(shape)).reshape(shape)
    for axes in [None, *itertools.combinations(range(len(shape)), 2)]:
        strides = row_major_strides(shape, axes)
        kept = range(len(shape)) if axes is None else axes
        own = tuple(shape[d] for d in kept)
        for index in np.ndindex(array.shape):
            position = sum(i * s for i, s in zip(index, strides, strict=True))
            assert position == np.ravel_multi_index([index[d] for d in kept], own or (1,) * 0)


# --- axes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "ndim", "expected"),
    [
        (None, 3, (0, 1, 2)),
        (None, 0, ()),
        ((), 3, ()),
        (1, 3, (1,)),
        (-1, 3, (2,)),
        (np.int64(-3), 3, (0,)),
        ((2, 0), 3, (0, 2)),
        ([-1, 0], 3, (0, 2)),
    ],
)
def test_axes_become_sorted_numbers(axis, ndim, expected):
    assert normalize_axes("Reduction", axis, ndim) == expected


@pytest.mark.parametrize(
    ("axis", "ndim", "problem"),
    [
        (3, 3, "axis 3 is out of bounds for 3 dimensions"),
        (-4, 3, "axis -4 is out of bounds for 3 dimensions"),
        (0, 0, "axis 0 is out of bounds for 0 dimensions"),
        ((0, 5), 2, "axis 5 is out of bounds for 2 dimensions"),
        ((0, 0), 2, r"axis 0 is named twice in axis=\(0, 0\)"),
        ((1, -1), 2, r"axis -1 is named twice in axis=\(1, -1\)"),
        ((0.0,), 2, r"axis=\(0.0,\) is not an integer or a tuple of integers"),
        (1.0, 2, "axis=1.0 is not an integer or a tuple of integers"),
        ("0", 2, "axis='0' is not an integer or a tuple of integers"),
        (True, 2, "axis=True is not an integer or a tuple of integers"),
    ],
)
def test_wrong_axes_are_named(axis, ndim, problem):
    with pytest.raises(ShapeError, match=f"^Reduction: {problem}"):
        normalize_axes("Reduction", axis, ndim)


# --- memory order -----------------------------------------------------------------------------


@many
@given(views())
def test_the_order_of_one_array_is_numpys_order_k(made):
    _, view = made
    order = memory_order(view.shape, [view.strides])
    assert sorted(order) == list(range(view.ndim))
    ours = dense_strides(view.shape, view.itemsize, order)
    expected = np.empty_like(view, order="K")
    copied = view.copy(order="K")
    for d, size in enumerate(view.shape):
        if size > 1 and view.size:
            assert ours[d] == expected.strides[d] == copied.strides[d]


@many
@given(views(), views())
def test_the_first_array_decides_and_the_next_one_where_it_is_repeated(first, second):
    _, a = first
    _, b = second
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return
    one, two = np.broadcast_to(a, shape), np.broadcast_to(b, shape)
    order = memory_order(shape, [one.strides, two.strides])
    assert sorted(order) == list(range(len(shape)))
    for at, slow in enumerate(order):
        for fast in order[at + 1 :]:
            told_apart = [
                (abs(s[slow]), abs(s[fast]))
                for s in (one.strides, two.strides)
                if s[slow] and s[fast] and shape[slow] > 1 and shape[fast] > 1
            ]
            # Neighbours at least are in order; farther pairs may contradict each other.
            if told_apart and order.index(fast) == at + 1:
                outer, inner = next((p for p in told_apart if p[0] != p[1]), (1, 0))
                assert outer > inner


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((), [()], ()),
        ((4,), [(0,)], (0,)),
        ((2, 3), [(3, 1)], (0, 1)),
        ((2, 3), [(1, 2)], (1, 0)),
        ((2, 3), [(-1, 2)], (1, 0)),
        ((2, 3), [(0, 0)], (0, 1)),
        ((2, 3), [(0, 1), (1, 2)], (1, 0)),  # the first says nothing about axis 0
        ((2, 3), [(3, 1), (1, 2)], (0, 1)),
        ((2, 1, 3), [(1, 7, 2)], (2, 0, 1)),
        ((8, 16, 5, 5), [(400, 1, 80, 16)], (0, 2, 3, 1)),  # channels last
    ],
)
def test_memory_orders(shape, strides, expected):
    found = memory_order(shape, strides)
    sizes = [shape[d] for d in found if shape[d] != 1]
    assert sizes == [shape[d] for d in expected if shape[d] != 1]


# --- collapsing -------------------------------------------------------------------------------


def visited(space):
    """Every combination of addresses that the loops of a space reach, in their order."""
    return [
        tuple(
            offset + sum(i * d.strides[k] for i, d in zip(index, space.dims, strict=True))
            for k, offset in enumerate(space.offsets)
        )
        for index in np.ndindex(*(d.size for d in space.dims))
    ]


@st.composite
def spaces(draw):
    operands = draw(st.integers(1, 3))
    dims = []
    step = [1] * operands
    for _ in range(draw(st.integers(0, 5))):
        size = draw(st.sampled_from([1, 2, 3, 0] if draw(st.integers(0, 9)) == 0 else [1, 2, 3]))
        strides = []
        for k in range(operands):
            kind = draw(st.sampled_from(["dense", "dense", "dense", "gap", "zero", "back"]))
            value = {"dense": 1, "gap": 2, "zero": 0, "back": -1}[kind] * step[k]
            step[k] = max(1, abs(value)) * size if size else step[k]
            strides.append(value)
        dims.insert(0, Dim(size, tuple(strides), draw(st.booleans())))
    offsets = tuple(draw(st.integers(0, 9)) for _ in range(operands))
    return Space(tuple(dims), offsets)


@many
@given(spaces())
def test_collapsed_loops_reach_the_same_elements(space):
    found = collapse(space)
    assert len(found.dims) <= len(space.dims)
    assert all(d.size != 1 for d in found.dims)
    assert sorted(visited(found)) == sorted(visited(space))
    for reduced in (False, True):
        sizes = [math.prod(d.size for d in s.select(reduced)) for s in (found, space)]
        assert sizes[0] == sizes[1]
    if not any(d.strides[0] < 0 for d in space.dims):  # no loop was turned round
        assert visited(found) == visited(space)
    assert all(d.strides[0] >= 0 for d in found.dims)


@many
@given(spaces())
def test_collapsing_leaves_nothing_to_collapse(space):
    once = collapse(space)
    assert collapse(once) == once
    for outer, inner in itertools.pairwise(once.dims):
        continues = all(
            o == i * inner.size for o, i in zip(outer.strides, inner.strides, strict=True)
        )
        assert not (continues and outer.reduced is inner.reduced)


@pytest.mark.parametrize(
    ("shape", "dims"),
    [((2, 3, 4, 5), 1), ((1,) * 64, 0), ((2, 1, 3, 1), 1), ((), 0), ((7,), 1)],
)
def test_a_dense_array_is_one_loop(shape, dims):
    strides = row_major_strides(shape)
    space = Space(tuple(Dim(n, (s,)) for n, s in zip(shape, strides, strict=True)), (0,))
    assert len(collapse(space).dims) == dims


def test_there_is_no_limit_on_dimensions():
    forward = row_major_strides((2,) * 64)
    dims = tuple(Dim(2, (a, b)) for a, b in zip(forward, reversed(forward), strict=True))
    assert len(collapse(Space(dims, (0, 0))).dims) == 64
    dims = tuple(Dim(2, (a,), d % 2 == 0) for d, a in enumerate(forward))
    assert len(collapse(Space(dims, (0,))).dims) == 64


# --- overlap ----------------------------------------------------------------------------------


def places(described):
    """Every byte of every element, by brute force."""
    found = []
    for index in np.ndindex(described.shape):
        start = described.offset
        start += sum(i * s for i, s in zip(index, described.strides, strict=True))
        found.append(set(range(start, start + described.dtype.itemsize)))
    return found


@many
@given(views(3), st.data())
def test_overlap_is_found_byte_by_byte(made, data):
    base, a = made
    b = base
    for d in range(b.ndim):
        part = slice(data.draw(st.integers(0, 2)), None, data.draw(st.sampled_from([1, 2, 3, -1])))
        b = b[(slice(None),) * d + (part,)]
    one, two = operand(a, base), operand(b, base)
    expected = bool(set().union(*places(one)) & set().union(*places(two)))
    assert shares_memory(one, two) is expected
    assert shares_memory(two, one) is expected


@many
@given(views(3))
def test_a_slice_never_overlaps_itself(made):
    base, view = made
    assert not overlaps_itself(operand(view, base))


@many
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-12, 12)), min_size=1, max_size=3),
)
def test_any_overlap_within_an_array_is_found(dims):
    made = Operand(tuple(n for n, _ in dims), tuple(s for _, s in dims), 0, np.dtype(np.int16))
    found = places(made)
    overlapping = any(a & b for a, b in itertools.combinations(found, 2))
    if overlapping:
        assert overlaps_itself(made)
    elif overlaps_itself(made):
        # It may say yes where elements are interleaved so finely that only counting would tell.
        assert len(made.shape) > 1


def test_an_overlap_that_is_too_hard_to_decide_counts_as_one():
    # The example of numpy.shares_memory's documentation.
    byte = np.dtype(np.int8)
    a = Operand((1049, 1049, 1049), (36674, 61119, 85569), 0, byte)
    b = Operand((1049, 1049, 1), (12223, 12224, 1), 64023025, byte)
    with pytest.raises(np.exceptions.TooHardError):
        np.shares_memory(addresses(a), addresses(b), max_work=10**6)
    assert shares_memory(a, b)


@pytest.mark.parametrize("index", [(slice(None, None, -1),), (1, slice(1, None)), (..., None, 2)])
def test_addresses_answer_what_a_view_would_be(index):
    host = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    made = Operand(host.shape, host.strides, 64, host.dtype)
    found, expected = addresses(made)[index], host[index]
    assert (found.shape, found.strides) == (expected.shape, expected.strides)
    start = found.__array_interface__["data"][0] - ADDRESS_BASE
    assert start == 64 + expected.ctypes.data - host.ctypes.data
