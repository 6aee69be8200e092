"""Orders of pixels that become channels, and sizes of nothing."""

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

import clprim.torch  # noqa: E402

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("unoptimised")
A = np.arange(2 * 8 * 3 * 2, dtype=np.float32).reshape(2, 8, 3, 2)


@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_both_orders_of_pixels(device, memory_format):
    x = cp.asarray(A, memory_format=memory_format)
    crd = A.reshape(2, 2, 2, 2, 3, 2).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 6, 4)
    dcr = A.reshape(2, 2, 2, 2, 3, 2).transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 6, 4)
    equal(ops.pixel_shuffle(x, 2), crd, np.float32)
    equal(ops.depth_to_space(x, 2), dcr, np.float32)
    equal(ops.depth_to_space(x, 2, mode="CRD"), crd, np.float32)
    large = cp.asarray(crd, memory_format=memory_format)
    equal(ops.pixel_unshuffle(large, 2), A, np.float32)
    equal(ops.space_to_depth(large, 2, mode="CRD"), A, np.float32)
    equal(ops.space_to_depth(cp.asarray(dcr, memory_format=memory_format), 2), A, np.float32)
    kind = torch.channels_last if memory_format == "channels_last" else torch.contiguous_format
    t = torch.tensor(A).to("opencl").contiguous(memory_format=kind)
    np.testing.assert_array_equal(F.pixel_shuffle(t, 2).cpu(), crd)
    np.testing.assert_array_equal(F.pixel_unshuffle(F.pixel_shuffle(t, 2), 2).cpu(), A)


def test_no_pixels():
    for shape in ((1, 1, 1, 0), (0, 4, 2, 2), (1, 0, 2, 2)):
        x = torch.zeros(shape)
        for resize in (lambda x: F.pixel_unshuffle(x, 1), lambda x: F.pixel_shuffle(x, 1)):
            assert resize(x.to("opencl")).shape == resize(x).shape
    assert ops.pixel_shuffle(cp.zeros((0, 4, 2, 2)), 2).shape == (0, 1, 4, 4)


@pytest.mark.parametrize("factor", [0, -1, 2**31, 2**62])
def test_factors_that_are_none(factor):
    x = torch.zeros(1, 4, 2, 2)
    for shuffle in (F.pixel_shuffle, F.pixel_unshuffle):
        with pytest.raises((RuntimeError, ValueError)):
            shuffle(x.to("opencl"), factor)
    for shuffle in (ops.pixel_shuffle, ops.pixel_unshuffle, ops.depth_to_space, ops.space_to_depth):
        with pytest.raises(cp.ClprimError):
            shuffle(cp.zeros((1, 4, 2, 2)), factor)
