"""Numbers that no device, no C type and no reader can take are refused, and said shortly."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

HUGE = [
    pytest.param(n, id=name) for n, name in ((2**40, "40b"), (10**400, "400"), (10**5000, "5000"))
]


def refused(error, call):
    with pytest.raises(error) as caught:
        call()
    assert len(str(caught.value)) < 400
    return str(caught.value)


@pytest.mark.parametrize("name", ["stride", "padding", "dilation"])
@pytest.mark.parametrize("value", [*HUGE, float("nan"), (1, 2**31)])
def test_windows_of_no_image(device, name, value):
    x, w = cp.zeros((1, 1, 4, 4)), cp.zeros((1, 1, 3, 3))
    for op in (ops.conv2d, ops.conv_transpose2d):
        message = refused(cp.ShapeError, lambda op=op: op(x, w, **{name: value}))
        assert f"{op.__name__}: {name}=" in message
        assert "below 2^31" in message or "an integer of 64 bits" in message
    refused(cp.ShapeError, lambda: ops.max_pool2d(x, value))


def test_results_that_no_buffer_holds_are_refused_before_they_are_planned(device):
    x, w = cp.zeros((1, 1, 4, 4)), cp.zeros((1, 1, 3, 3))
    most = 2**31 - 1
    assert "takes 73,786,976" in refused(cp.DeviceError, lambda: ops.conv2d(x, w, padding=most))
    assert "at most" in refused(cp.DeviceError, lambda: ops.conv_transpose2d(x, w, stride=most))


@pytest.mark.parametrize("shape", [2**62, (2**31, 2**31), (2**62, 2**62)])
def test_arrays_that_cannot_be_addressed(device, shape):
    for make in (cp.empty, cp.zeros):
        assert "cannot allocate" in refused(cp.DeviceError, lambda make=make: make(shape))


@pytest.mark.parametrize("shape", [float("nan"), float("inf"), 1.5, (2, float("nan")), *HUGE[1:]])
def test_shapes_that_are_none(device, shape):
    assert "non-negative integers" in refused(cp.ShapeError, lambda: cp.zeros(shape))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("value", HUGE[1:])
def test_numbers_that_no_dtype_holds(device, dtype, value):
    x = cp.zeros((3,), dtype)
    scaled = cp.Pointwise("y0 = x0 * w0;")
    summed = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    calls = [lambda: x + value, lambda: scaled(x, value), lambda: summed(x, alpha=value)]
    for call in (*calls, *calls):  # what was called before takes a shorter way
        assert "out of bounds" in refused(cp.DTypeError, call)
        scaled(x, 2), summed(x, alpha=2)
    refused(cp.DTypeError, lambda: x.fill(value))
    image, table = cp.zeros((1, 2, 2, 2)), cp.zeros((2,))
    message = refused(cp.DTypeError, lambda: ops.batch_norm(image, table, table, eps=value))
    assert "eps=" in message and "out of bounds" in message


@pytest.mark.parametrize("value", HUGE[1:])
def test_what_is_written_or_counted_is_said_shortly(device, value):
    x = cp.zeros((2, 3))
    refused(cp.DTypeError, lambda: x.__setitem__((slice(None), 1), value))
    refused(cp.DTypeError, lambda: cp.full(2, value))
    refused(cp.DTypeError, lambda: cp.arange(value))
    refused(cp.ShapeError, lambda: cp.repeat(x, value))
    refused(cp.ShapeError, lambda: ops.sum(x, axis=value))
    refused(cp.ShapeError, lambda: ops.flip(x, value))
    refused(cp.ShapeError, lambda: x.transpose(value, 0))
    refused(cp.ShapeError, lambda: cp.split(x, value))
    refused(cp.ShapeError, lambda: cp.moveaxis(x, value, 0))
    assert not x.get().any()
