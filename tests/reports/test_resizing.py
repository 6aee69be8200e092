"""Which elements are the nearest, sizes that stay, products of sizes and factors, gradients."""

import math

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

import clprim.torch  # noqa: E402

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("unoptimised")


def line(n, rank):
    """1, 2, … n along the first dimension of an image."""
    return np.arange(1, n + 1, dtype=np.float32).reshape(1, 1, n, *[1] * (rank - 1))


def test_the_nearest_of_fewer(device):
    """By centres, of two the later one."""
    a = line(20, 2) - 1
    expected = [1, 5, 8, 11, 15, 18]
    found = ops.interpolate(cp.asarray(a), (6, 1), mode="nearest-exact")
    assert found.get().ravel().tolist() == expected
    found = F.interpolate(torch.tensor(a).to("opencl"), (6, 1), mode="nearest-exact")
    assert found.flatten().tolist() == expected
    # What lies before the first centre is the first element.
    found = ops.interpolate(cp.asarray(a), (40, 1), mode="nearest-exact").get().ravel()
    assert found.tolist() == [n // 2 for n in range(40)]


@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_a_size_that_stays_is_copied(device, memory_format):
    a = np.float32([1, 2, 5]).reshape(1, 1, 3, 1).repeat(4, 1).repeat(2, 3)
    x = cp.asarray(a, memory_format=memory_format)
    t = torch.tensor(a).to("opencl")
    kind = torch.channels_last if memory_format == "channels_last" else torch.contiguous_format
    for factor in (1.3, (1.01, 1.4)):
        for mode in ("nearest", "bilinear"):
            equal(ops.interpolate(x, None, factor, mode), a, np.float32)
            y = F.interpolate(t.contiguous(memory_format=kind), scale_factor=factor, mode=mode)
            np.testing.assert_array_equal(y.cpu(), a)
    for mode in ("bilinear", "bicubic"):
        y = ops.interpolate(x, None, 1.3, mode, antialias=True)
        np.testing.assert_allclose(y.get(), a, rtol=1e-6)
    grad = ops.interpolate_backward(x, a.shape, 1.3, "bilinear")
    equal(grad, a, np.float32)


def test_a_line_that_stays_is_copied():
    for rank, mode in ((1, "linear"), (2, "bilinear"), (3, "trilinear"), (1, "nearest")):
        t = torch.tensor(line(2, rank)).to("opencl")
        y = F.interpolate(t, scale_factor=[1.3] + [1.0] * (rank - 1), mode=mode)
        assert y.flatten().tolist() == [1, 2]


def test_products_of_sizes_and_factors(device):
    """As many elements as Python's product of floats has whole ones."""
    for n, m in ((61, 14), (14, 61), (7, 3), (1999, 2000), (37, 16)):
        expected = math.floor(n * (m / n))
        x = cp.zeros((1, 1, n))
        assert ops.interpolate(x, None, m / n).shape[2] == expected
        found = F.interpolate(torch.zeros(1, 1, n).to("opencl"), scale_factor=m / n).shape[2]
        assert found == F.interpolate(torch.zeros(1, 1, n), scale_factor=m / n).shape[2] == expected


RESIZED = {
    "bilinear": {"scale_factor": (1.5, 1.25), "mode": "bilinear"},
    "nearest to one": {"size": (1, 1), "mode": "nearest"},
    "bicubic": {"scale_factor": (1.5, 1.25), "mode": "bicubic"},
}


@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
@pytest.mark.parametrize("name", RESIZED)
def test_gradients_behind_a_convolution(name, memory_format):
    kind = torch.channels_last if memory_format == "channels_last" else torch.contiguous_format
    generator = torch.Generator().manual_seed(3)
    image, weight = (
        torch.randn(*shape, dtype=torch.float64, generator=generator)
        for shape in ((2, 3, 6, 7), (4, 3, 3, 3))
    )
    found = []
    for device in ("opencl", "cpu"):
        x = image.float().to(device) if device == "opencl" else image
        w = weight.to(x.dtype).to(device).detach().requires_grad_()
        x = x.contiguous(memory_format=kind).detach().requires_grad_()
        y = F.interpolate(F.conv2d(x, w, padding=1), **RESIZED[name])[:, :, -8:, -8:]
        (y * y).sum().backward()
        found.append([v.detach().cpu().double() for v in (y, x.grad, w.grad)])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.alone
def test_places_of_a_grid_that_are_none(device):
    """They lie outside; other paddings read some element."""
    x = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)
    places = [[math.nan, 0], [0, math.nan], [math.inf, 0], [1e30, -math.inf]]
    grid = np.float32(places).reshape(1, 1, 4, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        zeros = ops.grid_sample(cp.asarray(x), cp.asarray(grid), mode, "zeros", False)
        assert not zeros.get().any()
        for gradient in ops.grid_sample_backward(
            zeros + 1, cp.asarray(x), cp.asarray(grid), mode, "zeros", False
        ):
            assert not gradient.get().any()
        for padding in ("border", "reflection"):
            found = ops.grid_sample(cp.asarray(x), cp.asarray(grid), mode, padding, False).get()
            assert np.isfinite(found).all()
