"""Weights that are views, paddings of transposed convolutions, dilation, widths and single rows."""

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

import clprim.torch  # noqa: E402

F = torch.nn.functional
FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
pytestmark = pytest.mark.usefixtures("unoptimised")


def whole(*shape, seed=0):
    """Whole numbers of which every sum is exact in float32."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def on(a, memory_format="contiguous"):
    return torch.tensor(a).to("opencl").contiguous(memory_format=FORMATS[memory_format])


VIEWS = {
    "part": lambda w: w[:, :, 1],
    "flipped": lambda w: w[:, :, 0].flip(2, 3),
    "expanded": lambda w: w[:, :, 0, :1, :1].expand(-1, -1, 3, 3),
    "transposed": lambda w: w[:, :, 2].mT,
    "channels": lambda w: w[:, :, 0].transpose(0, 1),
}


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("name", VIEWS)
def test_weights_that_are_views(name, memory_format):
    x, w = whole(2, 4, 5, 6), whole(4, 4, 3, 3, 3, seed=1)
    for kind in ("forward", "transposed", "depthwise"):
        found = []
        for device in ("opencl", "cpu"):
            kept = torch.tensor(w, dtype=torch.float64 if device == "cpu" else None).to(device)
            leaf = kept.requires_grad_()
            weight = VIEWS[name](leaf)
            image = torch.tensor(x).to(kept.dtype).to(device)
            image = image.contiguous(memory_format=FORMATS[memory_format]).requires_grad_()
            if kind == "forward":
                y = F.conv2d(image, weight, padding=1)
            elif kind == "transposed":
                y = F.conv_transpose2d(image, weight, stride=2)
            else:
                y = F.conv2d(image, weight[:, :1], groups=4)
            (y * torch.arange(y.shape[-1], device=device)).sum().backward()
            found.append([v.detach().cpu().double() for v in (y, leaf.grad, image.grad)])
        for a, b in zip(*found, strict=True):
            assert torch.equal(a, b), kind


def test_weights_of_lines_that_are_views():
    x, w = whole(2, 4, 9), whole(4, 4, 3, 3, seed=1)
    expected = F.conv1d(torch.tensor(x), torch.tensor(w)[:, :, 1], padding=1)
    assert torch.equal(F.conv1d(on(x), on(w)[:, :, 1], padding=1).cpu(), expected)


def test_arrays_of_weights_that_are_views(device):
    x, w = whole(2, 4, 5, 6), whole(4, 4, 3, 3, 3, seed=1)
    expected = F.conv2d(torch.tensor(x), torch.tensor(w)[:, :, 1].flip(3), padding=1).numpy()
    found = ops.conv2d(cp.asarray(x), cp.asarray(w)[:, :, 1, :, ::-1], padding=1)
    equal(found, expected, np.float32)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_depthwise_transposed_with_more_output_padding_than_padding(device, memory_format):
    x, w = whole(1, 4, 5, 5), whole(4, 1, 3, 3, seed=1)
    how = {"stride": 2, "padding": 0, "output_padding": 1, "groups": 4}
    expected = F.conv_transpose2d(torch.tensor(x), torch.tensor(w), **how)
    found = F.conv_transpose2d(on(x, memory_format), on(w), **how).cpu()
    assert torch.equal(found, expected)
    array = cp.asarray(x, memory_format=memory_format)
    equal(ops.conv_transpose2d(array, cp.asarray(w), **how), expected.numpy(), np.float32)


def test_output_padding_beyond_stride_and_dilation(device):
    x, w = whole(1, 4, 5, 5), whole(4, 1, 3, 3)
    for how in ({"stride": 2, "output_padding": 2}, {"dilation": 2, "output_padding": 2}):
        with pytest.raises(cp.ShapeError, match="output_padding"):
            F.conv_transpose2d(on(x), on(w), groups=4, **how)
        with pytest.raises(cp.ShapeError, match="output_padding"):
            ops.conv_transpose2d(cp.asarray(x), cp.asarray(w), groups=4, **how)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_dilated_depthwise(device, memory_format):
    x, w, bias = np.ones((1, 4, 5, 5)), np.full((4, 1, 3, 3), 1 / 9), np.ones(4)
    x, w, bias = (a.astype(np.float32) for a in (x, w, bias))
    how = {"padding": 2, "dilation": 2, "groups": 4}
    array = cp.asarray(x, memory_format=memory_format)
    for found in (
        ops.conv2d(array, cp.asarray(w), cp.asarray(bias), **how).get(),
        F.conv2d(on(x, memory_format), on(w), on(bias), **how).cpu().numpy(),
    ):
        np.testing.assert_allclose(found[:, :, 2, 2], 2, rtol=1e-6)
        np.testing.assert_allclose(found[:, :, ::4, ::4], 13 / 9, rtol=1e-6)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_depthwise_of_single_rows_and_columns(device, memory_format):
    x, w = whole(1, 8, 1, 32), whole(8, 1, 1, 3, seed=1)
    expected = F.conv2d(torch.tensor(x), torch.tensor(w), padding=(0, 1), groups=8)
    found = F.conv2d(on(x, memory_format), on(w), padding=(0, 1), groups=8).cpu()
    assert torch.equal(found, expected)
    line = F.conv1d(on(x[:, :, 0]), on(w[:, :, 0]), padding=1, groups=8).cpu()
    assert torch.equal(line, expected[:, :, 0])
    tall = F.conv2d(on(x, memory_format).mT, on(w).mT, padding=(1, 0), groups=8).cpu()
    assert torch.equal(tall, expected.mT)
    array = cp.asarray(x, memory_format=memory_format)
    equal(ops.conv2d(array, cp.asarray(w), None, 1, (0, 1), groups=8), expected.numpy(), "f")
    with pytest.raises(cp.ShapeError):
        ops.conv2d(array, cp.asarray(whole(8, 1, 3, 3)), groups=8)
    with pytest.raises(RuntimeError):
        F.conv2d(on(x), on(whole(8, 1, 3, 3)), groups=8)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_widths_that_are_no_multiple_of_a_vector(device, some, memory_format):
    for width, c, k in some([(1, 1, 1), (3, 5, 2), (7, 3, 9), (17, 9, 4), (20, 24, 24)], 3):
        x, w = whole(1, c, 6, width), whole(k, c, 3, 3, seed=1)
        expected = F.conv2d(torch.tensor(x), torch.tensor(w), padding=1).numpy()
        array = cp.asarray(x, memory_format=memory_format)
        equal(ops.conv2d(array, cp.asarray(w), padding=1), expected, np.float32)
