"""Deformable convolutions against their definition in NumPy's float64, and against PyTorch."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)


def between(plane, y, x):
    found = 0.0
    top, left = int(np.floor(y)), int(np.floor(x))
    for i, j in np.ndindex(2, 2):
        r, q = top + i, left + j
        if 0 <= r < plane.shape[0] and 0 <= q < plane.shape[1]:
            part = (y - top if i else 1 - y + top) * (x - left if j else 1 - x + left)
            found += part * plane[r, q]
    return found


def wanted(x, offset, weight, bias, stride, pads, dilation, mask):
    batch, outputs = x.shape[0], weight.shape[0]
    (kh, kw), (oh, ow) = weight.shape[2:], offset.shape[2:]
    taps, each = kh * kw, weight.shape[1]
    shares, groups = offset.shape[1] // (2 * taps), x.shape[1] // each
    found = np.zeros((batch, outputs, oh, ow))
    for n, o, i, j in np.ndindex(*found.shape):
        first = o // (outputs // groups) * each
        for c, k in np.ndindex(each, taps):
            g = (first + c) // (x.shape[1] // shares)
            at = (g * taps + k) * 2
            y = i * stride[0] - pads[0] + k // kw * dilation[0] + offset[n, at, i, j]
            z = j * stride[1] - pads[2] + k % kw * dilation[1] + offset[n, at + 1, i, j]
            value = between(x[n, first + c], y, z) * weight[o, c, k // kw, k % kw]
            found[n, o, i, j] += value * (1 if mask is None else mask[n, g * taps + k, i, j])
    return found if bias is None else found + bias[:, None, None]


@pytest.mark.parametrize(
    ("groups", "shares", "stride", "pads", "dilation", "masked"),
    [(1, 1, (1, 1), (1, 1, 1, 1), (1, 1), False), (2, 4, (2, 1), (0, 1, 2, 1), (1, 2), True)],
)
def test_deform_conv2d(device, groups, shares, stride, pads, dilation, masked):
    x, weight = RNG.normal(size=(2, 4, 6, 7)), RNG.normal(size=(6, 4 // groups, 3, 2))
    oh = (6 + pads[0] + pads[1] - dilation[0] * 2 - 1) // stride[0] + 1
    ow = (7 + pads[2] + pads[3] - dilation[1] - 1) // stride[1] + 1
    offset = RNG.normal(size=(2, 2 * shares * 6, oh, ow)) * 2
    mask = RNG.normal(size=(2, shares * 6, oh, ow)) if masked else None
    bias = RNG.normal(size=6) if masked else None
    expected = wanted(x, offset, weight, bias, stride, pads, dilation, mask)
    arrays = [None if a is None else cp.asarray(a.astype(np.float32))
              for a in (x, offset, weight, bias, mask)]  # fmt: skip
    found = ops.deform_conv2d(*arrays[:4], stride, pads, dilation, arrays[4])
    np.testing.assert_allclose(found.get(), expected, rtol=1e-4, atol=1e-4)


def test_without_offsets_it_is_a_convolution(device):
    x, weight = RNG.normal(size=(2, 4, 6, 7)), RNG.normal(size=(5, 4, 3, 3))
    expected = torch.nn.functional.conv2d(torch.tensor(x), torch.tensor(weight), None, 2, 1)
    x, weight = (cp.asarray(a.astype(np.float32)) for a in (x, weight))
    found = ops.deform_conv2d(x, cp.zeros((2, 18, 3, 4)), weight, stride=2, padding=1)
    np.testing.assert_allclose(found.get(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, o, w: ops.deform_conv2d(x[0], o, w), "4 dimensions"),
        (lambda x, o, w: ops.deform_conv2d(x, o, w, padding=1), r"\(1, 2 · groups · 4, 5, 5\)"),
        (lambda x, o, w: ops.deform_conv2d(x, o, w, padding=(1, 1, 1)), "padding"),
        (lambda x, o, w: ops.deform_conv2d(x, o, w[:, :1]), "offsets of shape"),
        (lambda x, o, w: ops.deform_conv2d(x, o, w, mask=o), "mask"),
    ],
)
def test_errors(device, call, message):
    with pytest.raises(cp.ShapeError, match=message):
        call(cp.zeros((1, 3, 4, 4)), cp.zeros((1, 8, 3, 3)), cp.zeros((5, 3, 2, 2)))
