"""Elementwise nodes are joined where that changes nothing."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

pytestmark = pytest.mark.usefixtures("device")


def arrays(*shapes):
    return [cp.asarray(numbers(shape, seed=n).astype(np.float32)) for n, shape in enumerate(shapes)]


def test_what_is_read_in_its_place_and_around_it_is_stored():
    def function(a, b):
        y = ops.where(a > 2, b, a)
        return y * ops.max_pool2d(y, 3, 1, 1)

    a, b = arrays((2, 3, 5, 6), (2, 3, 5, 6))
    compiled = cp.jit(function)
    equal(compiled(a, b), function(a, b).get())
    # The comparison goes into the choice, the pooling into the product.
    assert len(compiled.graph(a, b).nodes) <= 3
