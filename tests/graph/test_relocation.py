"""Relocations: where NumPy's views of one array lie in another one that it is copied to."""

import itertools

import numpy as np

from clprim.graph.relocation import relocation, source_of
from clprim.plan.strides import Operand


def operand(view, base):
    offset = view.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return Operand(view.shape, view.strides, offset, view.dtype)


def view(found, base):
    return np.ndarray(found.shape, found.dtype, base, found.offset, found.strides)


VIEWS = [
    lambda a: a,
    lambda a: a[:, 1:3],
    lambda a: a[:, ::2, 1:],
    lambda a: a[:, ::-1],
    lambda a: a[1, :, 2],
    lambda a: a.transpose(2, 0, 1),
    lambda a: np.broadcast_to(a[:, :1], a.shape),
    lambda a: a[:1, :, None, 1:2],
    lambda a: a.reshape(a.shape[0], -1),
    lambda a: a.reshape(-1),
    lambda a: a.reshape(a.shape[0], 2, 2, -1),
    lambda a: a.view(np.int32),
]


def test_views_are_found_at_the_other_end():
    source = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    wide = np.zeros((3, 8, 10), np.float32)
    ends = [
        np.zeros_like(source),
        wide[:, 2:6, 3:8],
        wide[:, ::2, ::2],
        np.zeros((5, 3, 4), np.float32).transpose(1, 2, 0),
        wide[:, 3::-1, :5],
    ]
    counts = []
    for end in ends:
        base = end if end.base is None else end.base
        end[...] = source
        places = relocation(operand(source, source), operand(end, base))
        found = 0
        for make in VIEWS:
            expected = make(source)
            lies = places(operand(expected, source), None)
            if lies is not None:
                np.testing.assert_array_equal(view(lies, base).view(expected.dtype), expected)
                found += 1
        counts.append(found)
        end[...] = 0
    assert counts[0] == len(VIEWS)
    assert all(8 <= n < len(VIEWS) for n in counts[1:])


def test_what_leaves_what_is_copied_goes_nowhere():
    source = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    part = source[:, 1:3]
    places = relocation(operand(part, source), operand(np.zeros((3, 2, 5), np.float32), source))
    assert places(operand(source, source), None) is None
    assert places(operand(source[:, 1:2], source), None) is not None
    assert places(operand(source[:, 2:4], source), None) is None
    assert places(operand(source.view(np.int16), source), None) is None


def test_repeated_elements_have_no_place():
    row = np.arange(5, dtype=np.float32)
    end = np.zeros((3, 5), np.float32)
    assert relocation(operand(np.broadcast_to(row, (3, 5)), row), operand(end, end)) is None


def test_order_and_runs():
    source, wide = np.zeros((2, 3, 4), np.float32), np.zeros((2, 6, 8), np.float32)
    cases = [
        (wide[:, 1:4, 2:6], True, True),
        (wide[:, ::2, ::2], True, False),
        (np.zeros((3, 2, 4), np.float32).transpose(1, 0, 2), False, True),
        (wide[:, 2::-1, :4], False, True),
    ]
    for end, order, runs in cases:
        base = end if end.base is None else end.base
        places = relocation(operand(source, source), operand(end, base))
        assert (places.keeps_order, places.keeps_runs) == (order, runs)


def test_parts_that_lie_as_one_are_found():
    base = np.arange(2 * 9 * 4, dtype=np.float32).reshape(2, 9, 4)
    whole = np.zeros((2, 5, 4), np.float32)
    for first in range(4):
        for sizes in itertools.product((1, 2), (1, 2), (1, 2)):
            if sum(sizes) != 5:
                continue
            ends = np.cumsum(sizes)
            moves = [
                (
                    operand(base[:, first + stop - size : first + stop], base),
                    operand(whole[:, stop - size : stop], whole),
                )
                for size, stop in zip(sizes, ends, strict=True)
            ]
            lies = source_of(operand(whole, whole), moves)
            np.testing.assert_array_equal(view(lies, base), base[:, first : first + 5])
            swapped = [(moves[1][0], moves[0][1]), (moves[0][0], moves[1][1]), *moves[2:]]
            if sizes[0] == sizes[1]:
                assert source_of(operand(whole, whole), swapped) is None
