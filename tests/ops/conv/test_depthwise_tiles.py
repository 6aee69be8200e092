"""Depthwise convolutions with streaming stores and other tiles than the rule's: exact as well."""

import dataclasses

import conv_reference as reference
import numpy as np
import pytest
from conv_cases import upload
from support import numbers

import clprim as cp
from clprim import ops
from clprim.call.signature import Calls
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.conv.problem import ConvolutionClass
from clprim.plan.table import Table
from clprim.runtime import tables as tuning

SHAPE, CHANNELS = (2, 20, 13, 18), 20


@pytest.fixture(autouse=True)
def planned_anew(device):
    """Calls of before and after keep their own plans."""
    Calls.forget()
    yield
    Calls.forget()


def check(memory_format, stride, parts=("forward", "input", "weight")):
    x, w = numbers(SHAPE, np.float32), numbers((CHANNELS, 1, 3, 3), np.float32, 1)
    options = {"stride": stride, "padding": 1, "dilation": 1, "groups": CHANNELS}
    expected = reference.conv2d(x, w, None, **options)
    grad = numbers(expected.shape, np.float32, seed=3)
    a, b, g = upload(x, memory_format), cp.asarray(w), upload(grad, memory_format)
    found = {
        "forward": lambda: (ops.conv2d(a, b, **options), expected),
        "input": lambda: (
            ops.conv2d_input(SHAPE, b, g, **options),
            reference.conv2d_input(SHAPE, w, grad, **options),
        ),
        "weight": lambda: (
            ops.conv2d_weight(a, w.shape, g, **options),
            reference.conv2d_weight(x, w.shape, grad, **options),
        ),
    }
    for part in parts:
        result, right = found[part]()
        np.testing.assert_array_equal(result.get(), right, err_msg=f"{part} {memory_format}")


@pytest.mark.parametrize("memory_format", ["channels_last", "contiguous"])
@pytest.mark.parametrize("stride", [1, 2])
def test_past_the_cache(device, monkeypatch, memory_format, stride):
    traits = dataclasses.replace(device.traits, cache_bytes=0)
    monkeypatch.setitem(device.__dict__, "traits", traits)
    check(memory_format, stride, ("forward", "input"))


@dataclasses.dataclass(frozen=True)
class Other(Table):
    """Another tile for everything depthwise: of the candidates, one far from the rule's."""

    seen: set = dataclasses.field(default_factory=set)

    def choice(self, family, problem):
        found = family.candidates(problem, cp.current_device().traits)
        if found and family is CONVOLUTIONS:
            self.seen.add(ConvolutionClass.of(problem))
        return found[len(found) // 2] if found else None


@pytest.mark.parametrize("memory_format", ["channels_last", "contiguous"])
@pytest.mark.parametrize("stride", [1, 2])
def test_any_tile_gives_the_same(device, memory_format, stride):
    other = Other()
    with tuning.using(other):
        check(memory_format, stride)
    assert len(other.seen) == stride + 1  # the input's gradient is a convolution at stride 1


@pytest.mark.parametrize("gap", [0, 2])
def test_small_planes_side_by_side(device, gap):
    """A plane is copied while the one before is summed up: many, of several images and outputs."""
    x = numbers((5, 23, 7, 7 + gap), np.float32)
    w = numbers((46, 1, 3, 3), np.float32, 1)
    options = {"stride": 1, "padding": 1, "dilation": 1, "groups": 23}
    found = ops.conv2d(cp.asarray(x)[..., :7], cp.asarray(w), **options)
    expected = reference.conv2d(x[..., :7], w, None, **options)
    np.testing.assert_array_equal(found.get(), expected)
