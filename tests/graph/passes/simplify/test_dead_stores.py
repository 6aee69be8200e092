"""Results that nobody reads are not stored."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

pytestmark = pytest.mark.usefixtures("device")


def array(*shape, seed=0):
    return cp.asarray(numbers(shape, seed=seed).astype(np.float32))


def written(function, *given):
    """Compares a compiled function with the function; returns how many results each node has."""
    compiled = cp.jit(function)
    found, wanted = compiled(*given), function(*given)
    for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (found, wanted)), strict=True):
        equal(a, b.get())
    return [len(node.writes) for node in compiled.graph(*given).nodes]


@pytest.mark.parametrize("dilation", [1, 2])
def test_positions_of_a_pooling(dilation):
    def pooled(x):
        return ops.max_pool2d(x, 3, 2, 1, dilation, return_indices=True)

    x = array(2, 3, 9, 11)
    x[0, 0, 4, 4] = np.nan
    assert written(lambda x: pooled(x)[0], x) == [1]
    assert written(lambda x: pooled(x)[1], x) == [1]
    assert written(pooled, x) == [2]


def test_what_is_written_twice_or_given_stays():
    two = cp.Pointwise("y0 = x0 + 1; y1 = x0 * w0; y2 = y1 * y1;", name="two")

    def parts(x, y):
        z = cp.empty_like(x)
        two(x, 3, out=(z, y, cp.empty_like(x)))
        return z

    x, y = array(5, 6), array(5, 6)
    assert written(parts, x, y) == [2]
    equal(y, x.get() * 3)


def test_halves_are_rounded_as_before():
    two = cp.Pointwise("y0 = x0 / 3; y1 = y0 * 2;", name="two", result_type=[np.float16] * 2)
    x = cp.asarray(numbers((64,)).astype(np.float16))
    assert written(lambda x: two(x)[1], x) in ([1], [2])
