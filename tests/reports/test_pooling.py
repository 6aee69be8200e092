"""Means of windows that hang over the edge, and divisors of one's own."""

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

import clprim.torch  # noqa: E402

F = torch.nn.functional
FORMATS = ["contiguous", "channels_last"]
pytestmark = pytest.mark.usefixtures("unoptimised")


def image(a, memory_format):
    """An array and a tensor of the same image."""
    kind = torch.channels_last if memory_format == "channels_last" else torch.contiguous_format
    found = torch.tensor(a).to("opencl").contiguous(memory_format=kind)
    return cp.asarray(a, memory_format=memory_format), found


@pytest.mark.parametrize("memory_format", FORMATS)
def test_what_hangs_over_does_not_count(device, memory_format):
    a = np.arange(49, dtype=np.float32).reshape(1, 1, 7, 7).repeat(2, 1)
    expected = np.float32([[4, 7, 9.5], [25, 28, 30.5], [42.5, 45.5, 48]])
    x, t = image(a, memory_format)
    for found in (
        ops.avg_pool2d(x, 2, 3, ceil_mode=True).get(),
        F.avg_pool2d(t, 2, 3, ceil_mode=True).cpu().numpy(),
    ):
        np.testing.assert_array_equal(found, np.broadcast_to(expected, (1, 2, 3, 3)))
    line = cp.asarray(np.arange(7, dtype=np.float32).reshape(1, 1, 7))
    equal(ops.avg_pool1d(line, 2, 3, ceil_mode=True), [[[0.5, 3.5, 6]]], np.float32)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("memory_format", FORMATS)
def test_padding_where_windows_hang_over(device, memory_format, counted):
    a = np.arange(2 * 3 * 8 * 7, dtype=np.float32).reshape(2, 3, 8, 7)
    how = {"padding": 1, "ceil_mode": True, "count_include_pad": counted}
    expected = F.avg_pool2d(torch.tensor(a).double(), 3, 2, **how).numpy()
    x, t = image(a, memory_format)
    np.testing.assert_allclose(ops.avg_pool2d(x, 3, 2, **how).get(), expected, rtol=1e-6)
    np.testing.assert_allclose(F.avg_pool2d(t, 3, 2, **how).cpu(), expected, rtol=1e-6)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("memory_format", FORMATS)
def test_a_divisor_holds_whatever_counts(device, memory_format, counted):
    a = np.ones((1, 2, 4, 4), np.float32)
    sums = np.float32([[4, 6, 6, 4], [6, 9, 9, 6], [6, 9, 9, 6], [4, 6, 6, 4]])
    how = {"padding": 1, "divisor_override": 2, "count_include_pad": counted}
    x, t = image(a, memory_format)
    expected = np.broadcast_to(sums / 2, a.shape)
    equal(ops.avg_pool2d(x, 3, 1, **how), expected, np.float32)
    leaf = t.detach().requires_grad_()
    y = F.avg_pool2d(leaf, 3, 1, **how)
    np.testing.assert_array_equal(y.detach().cpu(), expected)
    y.sum().backward()
    np.testing.assert_array_equal(leaf.grad.cpu(), expected)
