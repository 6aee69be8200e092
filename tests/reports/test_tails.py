"""Elements of one value are one value: in vectors, behind them, and apart in memory."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

VALUES = np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, np.finfo(np.float32).max])
LENGTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 40)
FUNCTIONS = {
    "logit": (lambda x: ops.logit(x, 0.1), lambda g, x: ops.logit_backward(g, x, 0.1)),
    "hardtanh": (ops.hardtanh, ops.hardtanh_backward),
    "hardshrink": (ops.hardshrink, ops.hardshrink_backward),
    "softshrink": (ops.softshrink, ops.softshrink_backward),
    "elu": (ops.elu, ops.elu_backward),
    "celu": (ops.celu, ops.celu_backward),
    "hardswish": (ops.hardswish, ops.hardswish_backward),
}


def one_value(array):
    """Whether all elements have the same bits, or all are NaN."""
    found = array.get()
    if np.isnan(found).any():
        return bool(np.isnan(found).all())
    return len(set(found.view(np.uint32).tolist())) == 1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_full_array_stays_full(device, name):
    forward, backward = FUNCTIONS[name]
    for value in VALUES:
        apart = cp.full(120, value)
        for n in LENGTHS:
            for x in (apart[:n], apart[: 3 * n : 3]):
                assert one_value(forward(x)), (value, n)
                assert one_value(backward(x, x)), (value, n)


def test_a_full_array_has_a_full_gradient_of_nan(device):
    for name, (_, backward) in FUNCTIONS.items():
        found = backward(cp.full(9, 1.0), cp.full(9, np.nan)).get()
        assert np.isnan(found).all() or len(set(found.tolist())) == 1, name
