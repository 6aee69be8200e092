"""Elementwise nodes joined with those that read what they make."""

import numpy as np
import pytest
from support import equal

import clprim as cp

pytestmark = pytest.mark.usefixtures("device")


def test_arrays_that_are_read_at_coordinates_keep_their_numbers():
    turn = cp.Pointwise(
        "y0 = at_x0(size_x0(0) - 1 - coord(0)) + (inside_x0(coord(0) + 2) ? x1 : 0);"
    )
    a, b, c = (cp.asarray(np.arange(4, dtype=np.float32) * n) for n in (1, 10, 100))

    def function(a, b, c):
        return turn(c, a + b)

    compiled = cp.jit(function)
    equal(compiled(a, b, c), function(a, b, c).get())
    assert len(compiled.graph(a, b, c).nodes) == 1
