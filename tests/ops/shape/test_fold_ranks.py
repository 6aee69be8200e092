"""Windows as columns in one to three dimensions, with borders before and behind, in NumPy."""

import itertools

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

CASES = [
    ((9,), (3,), (2,), ((1, 2),), (2,)),
    ((6, 7), (2, 3), (1, 2), ((0, 1), (2, 3)), (2, 1)),
    ((4, 5, 3), (2, 2, 2), (1, 2, 1), ((1, 0), (0, 2), (1, 1)), (1, 2, 2)),
]


@pytest.mark.parametrize(("sizes", "size", "dilation", "pads", "stride"), CASES, ids=str)
def test_each_element_of_a_window_is_a_row(device, sizes, size, dilation, pads, stride):
    a = numbers((2, 3, *sizes))
    wide = np.pad(a, ((0, 0), (0, 0), *pads))
    counts = [
        (n - e * (k - 1) - 1) // s + 1
        for n, e, k, s in zip(wide.shape[2:], dilation, size, stride, strict=True)
    ]
    taps = [*itertools.product(*map(range, size))]
    columns = np.zeros((2, 3, len(taps), *counts))
    back = np.zeros(wide.shape)
    g = numbers((2, 3, len(taps), *counts), seed=4)
    for n, tap in enumerate(taps):
        where = tuple(
            slice(t * e, t * e + (c - 1) * s + 1, s)
            for t, e, c, s in zip(tap, dilation, counts, stride, strict=True)
        )
        columns[:, :, n] = wide[(..., *where)]
        back[(..., *where)] += g[:, :, n]
    flat = (2, 3 * len(taps), int(np.prod(counts)))
    given = (size, dilation, pads, stride)
    equal(ops.unfold(cp.asarray(a), *given), columns.reshape(flat))
    inner = tuple(slice(b, b + n) for (b, _), n in zip(pads, sizes, strict=True))
    wanted = back[(..., *inner)]
    y = cp.asarray(g.reshape(flat))
    equal(ops.fold(y, sizes, *given), wanted)
    equal(ops.unfold_backward(y, a.shape, *given), wanted)


def test_what_is_refused(device):
    x = cp.zeros((1, 4, 3))
    with pytest.raises(cp.ShapeError, match="1 to 3 numbers"):
        ops.fold(x, (1, 2, 3, 4), 2)
    with pytest.raises(cp.ShapeError, match="expected 2 pairs"):
        ops.fold(x, (2, 4), 2, 1, ((1, 1),))
