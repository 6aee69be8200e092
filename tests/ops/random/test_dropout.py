"""Dropout: what stays, how it is scaled, and the same mask in the gradient."""

import numpy as np
import pytest
from support import BFLOAT16

import clprim as cp
from clprim import ops


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16])
def test_elements_stay_scaled_or_become_zero(device, dtype):
    x = cp.full((100, 200), 3, dtype)
    y, state = ops.dropout(x, 0.25, return_state=True)
    found = y.get().astype(np.float64)
    assert y.dtype == dtype and {*np.unique(found)} == {0, 4}
    assert abs((found == 0).mean() - 0.25) < 0.02
    g = ops.dropout_backward(cp.full((100, 200), 1.5, dtype), state, 0.25)
    np.testing.assert_array_equal(g.get().astype(np.float64), found / 2)
    assert not np.array_equal(ops.dropout(x, 0.25).get(), y.get())


def test_a_view_and_the_limits(device):
    x = cp.full((9, 9), 1, np.float32)
    assert ops.dropout(x, 0.5, training=False) is x and ops.dropout(x, 0) is x
    assert not ops.dropout(x, 1.0).get().any()
    assert ops.dropout_backward(x, None) is x
    state = cp.random.get_state()
    whole = ops.dropout(cp.full((9, 4), 1, np.float32))
    with cp.random.at(state):
        part = ops.dropout(x[:, ::-2][:, :4])
    np.testing.assert_array_equal(part.get(), whole.get())


def test_refusals(device):
    x = cp.zeros((3,))
    for message, call in [
        ("no probability", lambda: ops.dropout(x, 1.5)),
        ("expected a floating", lambda: ops.dropout(cp.zeros((3,), np.int32))),
        ("expected a device array", lambda: ops.dropout(np.zeros(3))),
        ("expected a number for p", lambda: ops.dropout_backward(x, None, "a")),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_whole_channels_become_zero(device, spatial):
    shape = (16, 40, *(3, 4, 5)[:spatial])
    x = cp.full(shape, 3.0)
    dropout = getattr(ops, f"dropout{spatial}d")
    y, state = dropout(x, 0.25, return_state=True)
    found = y.get().reshape(16, 40, -1)
    assert {*np.unique(found)} == {0, 4} and (found == found[..., :1]).all()
    assert abs((found == 0).mean() - 0.25) < 0.06
    back = getattr(ops, f"dropout{spatial}d_backward")(cp.full(shape, 1.5), state, 0.25)
    np.testing.assert_array_equal(back.get(), y.get() / 2)
    start = (..., *(slice(1),) * spatial)
    x[start] = np.nan  # what is first in a channel decides nothing about the others
    with cp.random.at(state):
        again = dropout(x, 0.25).get().reshape(16, 40, -1)
    np.testing.assert_array_equal(again[..., 1:], found[..., 1:])
    assert dropout(x[0], 1.0).get().any() == 0 and dropout(x, 0.5, False) is x
    with pytest.raises(cp.ShapeError, match="expected"):
        dropout(cp.zeros((3,)), 0.5)
