"""Views that others wrote beside, read in the wrong order or took for copies."""

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim.runtime import program


def test_a_part_of_a_strided_view_is_written_and_nothing_else(device):
    base = cp.asarray(np.array([9, 0, 9, 0, 9, 0, 9, 0], np.float32))
    view = base[::2]
    view[1:3] = cp.asarray(np.array([2, 3], np.float32))
    equal(view, np.array([9, 2, 3, 9]))
    equal(base, np.array([9, 0, 2, 0, 3, 0, 9, 0]))


@pytest.mark.parametrize(
    "place", [np.s_[0, ::2], np.s_[0, 6::-2], np.s_[0, 1:5], np.s_[0, 7:3:-1]], ids=str
)
def test_sums_go_into_the_view_that_was_given(device, place):
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    big, expected = cp.zeros((1, 8), np.float32), np.zeros((1, 8), np.float32)
    out = big[place]
    assert cp.sum(cp.asarray(a), axis=0, out=out) is out
    expected[place] = [12, 15, 18, 21]
    equal(big, expected)


@pytest.mark.parametrize("axis", [0, 1, (0, 2)], ids=str)
def test_columns_first_into_rows_first(device, axis):
    a = np.asfortranarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    expected = a.sum(axis)
    out = cp.empty(expected.shape, np.float32)
    cp.sum(cp.asarray(a), axis=axis, out=out)
    equal(out, expected)
    equal(cp.sum(cp.asarray(a).transpose(2, 0, 1), axis=1), a.transpose(2, 0, 1).sum(1))


@pytest.mark.everywhere
def test_a_copy_behind_a_scatter_has_what_was_scattered(device):
    for _ in range(2):  # compiled, then from the cache
        y, index = cp.full((4,), -1, np.int64), cp.asarray(np.arange(4))
        y[index] = 8 * index
        equal(y.copy(), np.array([0, 8, 16, 24]))
        program.forget()
