"""Convolutions to few channels: pixels are a vector's elements, or it has a tail."""

import conv_reference as reference
import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

# Input, outputs, kernel, stride, padding; and what the epilogue reads: a value a channel or pixel.
CASES = [
    ((2, 16, 5, 70), 3, 3, 1, 1, ""),
    ((1, 20, 9, 29), 3, 3, (2, 1), (1, 0, 2, 0), "pixel"),
    ((1, 40, 4, 37), 2, 5, 1, 2, "channel"),
    ((1, 3, 6, 33), 4, 3, 1, 1, "channel"),
    ((1, 16, 4, 30), 1, 3, 1, 1, ""),
    ((2, 3, 9, 33), 12, 3, 2, 1, "pixel"),
    ((1, 40, 7, 15), 24, 1, 1, 0, "pixel"),
]
# The same in planes: fewer channels than are taken at a time, and steps between windows.
PLANES = [
    ((2, 3, 7, 40), 3, 3, 1, 1, "pixel"),
    ((2, 3, 9, 33), 5, 3, 2, 1, "pixel"),
    ((1, 1, 5, 33), 8, 5, 1, 2, ""),
    ((1, 16, 8, 31), 1, 3, 2, 1, ""),
    ((2, 2, 6, 37), 12, 3, 1, 1, "channel"),
    ((1, 3, 12, 40), 12, 7, (2, 3), 3, "channel"),
    # More outputs than a vector has elements: few inputs, and lines that end inside a vector.
    ((2, 3, 5, 45), 24, 3, 1, 1, "pixel"),
    ((1, 3, 6, 29), 20, 3, 1, 1, "channel"),
    ((1, 4, 6, 33), 32, 5, 1, 2, "pixel"),
    ((2, 3, 7, 61), 24, 3, 2, 1, "pixel"),
    ((1, 2, 9, 64), 3, 5, 2, (2, 1, 3, 0), "channel"),
    ((1, 1, 20, 95), 16, 3, (1, 2), 0, ""),
    # Lines that waste a half of their vectors, and tiles of more rows than a vector has elements.
    ((2, 3, 7, 17), 8, 3, 1, 1, "pixel"),
    ((1, 33, 6, 33), 2, 3, 1, 1, ""),
    ((1, 16, 9, 65), 3, 3, 3, 2, ""),
    ((2, 4, 12, 50), 7, 7, 2, 1, "pixel"),
]


@pytest.mark.everywhere
@pytest.mark.parametrize("case", range(len(CASES)))
def test_few_outputs(device, some, case):
    if case not in some(range(len(CASES)), 3):
        pytest.skip("every third case on this device")
    check(CASES[case], "channels_last")


@pytest.mark.everywhere
@pytest.mark.parametrize("case", range(len(PLANES)))
def test_few_outputs_in_planes(device, some, case):
    if case not in some(range(len(PLANES)), 3):
        pytest.skip("every third case on this device")
    check(PLANES[case], "contiguous")


@pytest.mark.parametrize("traits", ["cpu16", "cpu32"], indirect=True)
@pytest.mark.parametrize("case", range(len(PLANES)))
def test_planes_with_narrower_registers(device, traits, case):
    check(PLANES[case], "contiguous")


def check(case, memory_format):
    shape, outputs, kernel, stride, padding, extra = case
    x, w = numbers(shape), numbers((outputs, shape[1], kernel, kernel), seed=1)
    bias = numbers((outputs,), seed=2)
    expected = reference.conv2d(x, w, bias, stride=stride, padding=padding)
    options = {"stride": stride, "padding": padding}
    if extra:
        arg = numbers(expected.shape if extra == "pixel" else (outputs, 1, 1), seed=3)
        same = memory_format if arg.ndim == 4 else None
        options |= {
            "epilogue": "y0 = max(y0, x0);",
            "epilogue_args": (cp.asarray(arg, memory_format=same),),
        }
        expected = np.maximum(expected, arg)
    on_device = cp.asarray(x, memory_format=memory_format)
    y = ops.conv2d(on_device, cp.asarray(w), cp.asarray(bias), **options)
    equal(y, expected)
    assert y.strides == cp.empty(y.shape, memory_format=memory_format).strides


def test_what_is_already_there_counts(device):
    x, w, old = numbers((1, 16, 4, 40)), numbers((3, 16, 3, 3), seed=1), numbers((1, 3, 4, 40))
    out = cp.asarray(old, memory_format="channels_last")
    on_device = cp.asarray(x, memory_format="channels_last")
    ops.conv2d(on_device, cp.asarray(w), padding=1, out=out, beta=2)
    equal(out, reference.conv2d(x, w, padding=1) + 2 * old)
