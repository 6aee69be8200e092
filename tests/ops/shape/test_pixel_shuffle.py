"""Sub-pixel shuffles and memory formats against NumPy's reshape, transpose, reshape."""

import dataclasses

import numpy as np
import pytest
from support import BFLOAT16, DTYPES, Guard, numbers, pair

import clprim as cp
from clprim import ops

FORMATS = ["contiguous", "channels_last"]
MODES = ["DCR", "CRD"]


def d2s(a, r, mode):
    n, c, h, w = a.shape
    k = c // r**2
    if mode == "DCR":
        a = a.reshape(n, r, r, k, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        a = a.reshape(n, k, r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return a.reshape(n, k, h * r, w * r)


def s2d(a, r, mode):
    n, c, h, w = a.shape
    a = a.reshape(n, c, h // r, r, w // r, r)
    a = a.transpose((0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return a.reshape(n, c * r**2, h // r, w // r)


def shuffle(a, groups):
    n, c, *rest = a.shape
    return a.reshape(n, groups, c // groups, *rest).swapaxes(1, 2).reshape(a.shape)


def distinct(shape, dtype=np.float32):
    """Different numbers everywhere, as far as the dtype tells them apart."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return numbers(shape, dtype)
    top = {1: 127, 2: 2048 if dtype.kind == "f" else 32767}.get(dtype.itemsize, 1 << 24)
    top = 256 if dtype == BFLOAT16 else top
    return (np.arange(np.prod(shape)).reshape(shape) % top).astype(dtype)


def check(result, expected, dtype, memory_format="contiguous"):
    """The same bits, in the memory format that was asked for."""
    wanted = cp.empty(expected.shape, dtype, memory_format=memory_format)
    assert (result.shape, result.dtype) == (expected.shape, np.dtype(dtype))
    for size, stride, expected_stride in zip(
        expected.shape, result.strides, wanted.strides, strict=True
    ):
        assert size == 1 or stride == expected_stride
    bits = f"u{np.dtype(dtype).itemsize}"
    np.testing.assert_array_equal(
        np.ascontiguousarray(result.get()).view(bits), np.ascontiguousarray(expected).view(bits)
    )


# --- every dtype, mode and format -----------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("memory_format", FORMATS)
def test_every_dtype(device, dtype, memory_format):
    a = distinct((2, 8, 5, 23), dtype)
    x = cp.asarray(a, memory_format=memory_format)
    for mode in MODES:
        y = ops.depth_to_space(x, 2, mode)
        check(y, d2s(a, 2, mode), dtype, memory_format)
        check(ops.space_to_depth(y, 2, mode), a, dtype, memory_format)
    check(ops.channel_shuffle(x, 4), shuffle(a, 4), dtype, memory_format)
    for other in FORMATS:
        check(ops.contiguous(x, other), a, dtype, other)


# Vectors, their tails, and what is narrower than any vector; H is never W.
SHAPES = [
    ((1, 4, 1, 1), 2),
    ((2, 12, 3, 5), 2),
    ((1, 12, 7, 40), 2),
    ((2, 64, 4, 6), 2),
    ((1, 72, 3, 17), 2),
    ((1, 18, 5, 33), 3),
    ((2, 153, 2, 3), 3),
    ((1, 48, 3, 35), 4),
    ((1, 272, 2, 3), 4),
    ((1, 50, 2, 37), 5),
    ((3, 7, 6, 5), 1),
    ((1, 289, 2, 18), 17),
]


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("mode", MODES)
def test_shapes(device, some, mode, memory_format):
    # Each of the shapes in one mode of each format.
    turn = (MODES.index(mode) + FORMATS.index(memory_format)) % 2
    for shape, block in some(SHAPES[turn::2], 2):
        a = distinct(shape)
        x = cp.asarray(a, memory_format=memory_format)
        y = ops.depth_to_space(x, block, mode)
        check(y, d2s(a, block, mode), a.dtype, memory_format)
        check(ops.space_to_depth(y, block, mode), a, a.dtype, memory_format)


@pytest.mark.parametrize("groups", [1, 2, 3, 6, 29, 174])
@pytest.mark.parametrize("memory_format", FORMATS)
def test_channel_shuffle(device, groups, memory_format):
    a = distinct((2, 174, 3, 4))
    x = cp.asarray(a, memory_format=memory_format)
    y = ops.channel_shuffle(x, groups)
    check(y, shuffle(a, groups), a.dtype, memory_format)
    check(ops.channel_shuffle(y, 174 // groups), a, a.dtype, memory_format)


@pytest.mark.parametrize(
    "shape", [(2, 3, 17, 40), (1, 16, 4, 5), (2, 33, 7, 5), (1, 67, 31, 9), (3, 1, 5, 6)], ids=str
)
def test_contiguous_there_and_back(device, shape):
    a = distinct(shape)
    x = cp.asarray(a)
    assert ops.contiguous(x) is x
    last = ops.contiguous(x, "channels_last")
    check(last, a, a.dtype, "channels_last")
    assert ops.contiguous(last, memory_format="channels_last") is last
    check(ops.contiguous(last), a, a.dtype)


def test_bits_survive(device):
    """Signalling NaNs, negative zeros and denormals come out as they went in."""
    for dtype, bits in ((np.float16, np.uint16), (BFLOAT16, np.uint16), (np.float32, np.uint32)):
        raw = np.random.default_rng(0).integers(0, 1 << 32, 4 * 5 * 64, np.uint64)
        a = raw.astype(bits).reshape(1, 4, 5, 64).view(dtype)
        check(ops.depth_to_space(cp.asarray(a), 2), d2s(a, 2, "DCR"), dtype)
        last = ops.contiguous(cp.asarray(a), "channels_last")
        check(last, a, dtype, "channels_last")


# --- other ranks, as PyTorch's --------------------------------------------------------------------


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)], ids=str)
def test_pixel_shuffle_of_any_rank(device, lead):
    a = distinct((*lead, 8, 3, 18))
    flat = a.reshape(-1, 8, 3, 18)
    y = ops.pixel_shuffle(cp.asarray(a), 2)
    check(y, d2s(flat, 2, "CRD").reshape(*lead, 2, 6, 36), a.dtype)
    check(ops.pixel_unshuffle(y, 2), a, a.dtype)


@pytest.mark.parametrize("shape", [(2, 6, 5), (1, 6, 2, 3, 4)], ids=str)
def test_channel_shuffle_of_any_rank(device, shape):
    a = distinct(shape)
    check(ops.channel_shuffle(cp.asarray(a), 3), shuffle(a, 3), a.dtype)


def test_against_torch(device):
    functional = pytest.importorskip("torch.nn.functional")
    import torch

    a = distinct((2, 12, 5, 6))
    t = torch.from_numpy(a)
    for memory_format, kind in (
        ("contiguous", torch.contiguous_format),
        ("channels_last", torch.channels_last),
    ):
        x, p = cp.asarray(a, memory_format=memory_format), t.contiguous(memory_format=kind)
        expected = functional.pixel_shuffle(p, 2)
        check(ops.pixel_shuffle(x, 2), expected.numpy(), a.dtype, memory_format)
        back = functional.pixel_unshuffle(expected, 2)
        check(ops.pixel_unshuffle(ops.pixel_shuffle(x, 2), 2), back.numpy(), a.dtype, memory_format)
        expected = functional.channel_shuffle(p, 3)
        check(ops.channel_shuffle(x, 3), expected.numpy(), a.dtype, memory_format)


def test_gradients_against_torch(device):
    """Each is the gradient of the other."""
    torch = pytest.importorskip("torch")
    a = torch.from_numpy(distinct((2, 12, 5, 6))).requires_grad_()
    grad = distinct((2, 3, 10, 12))[:, :, ::-1].copy()
    torch.nn.functional.pixel_shuffle(a, 2).backward(torch.from_numpy(grad))
    check(ops.space_to_depth(cp.asarray(grad), 2, "CRD"), a.grad.numpy(), grad.dtype)

    b = torch.from_numpy(distinct((2, 3, 10, 12))).requires_grad_()
    grad = distinct((2, 12, 5, 6))[..., ::-1].copy()
    torch.nn.functional.pixel_unshuffle(b, 2).backward(torch.from_numpy(grad))
    check(ops.depth_to_space(cp.asarray(grad), 2, "CRD"), b.grad.numpy(), grad.dtype)


# --- views, results that are there, nothing -------------------------------------------------------

VIEWS = {
    "offset": lambda a: a[1:, 4:, 1:, 2:],
    "steps": lambda a: a[:, ::2, ::3, ::2],
    "backwards": lambda a: a[::-1, ::-1, ::-1, ::-1],
    "rows backwards": lambda a: a[:, :, ::-1],
    "transposed": lambda a: a.transpose(0, 1, 3, 2),
    "one row": lambda a: a[:, :, :1, :],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("memory_format", FORMATS)
def test_views(device, view, memory_format):
    host = distinct((3, 24, 12, 38))
    a, _ = pair(host, VIEWS[view])
    x = VIEWS[view](cp.asarray(host, memory_format=memory_format))
    last = memory_format == "channels_last" and view != "transposed"
    # The channels of a channels-last picture stay where they are, however it is looked at.
    for mode in MODES:
        y = ops.depth_to_space(x, 2, mode)
        check(y, d2s(a, 2, mode), a.dtype, "channels_last" if last else "contiguous")
    high, wide = (size // 2 * 2 for size in x.shape[2:])
    if high:
        y = ops.space_to_depth(x[:, :, :high, :wide], 2, "CRD")
        wanted = s2d(a[:, :, :high, :wide], 2, "CRD")
        check(y, wanted, a.dtype, "channels_last" if last else "contiguous")
    for other in FORMATS:
        check(ops.contiguous(x, other), a, a.dtype, other)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8], ids=str)
def test_into_memory_that_is_there(device, dtype):
    a = distinct((2, 16, 3, 19), dtype)
    x = cp.asarray(a)
    guard = Guard((2, 4, 6, 38), dtype)
    assert ops.depth_to_space(x, 2, out=guard.array) is guard.array
    guard.check(d2s(a, 2, "DCR"))
    guard = Guard((2, 16, 3, 19), dtype)
    ops.space_to_depth(cp.asarray(d2s(a, 2, "CRD")), 2, "CRD", out=guard.array)
    guard.check(a)
    guard = Guard(a.shape, dtype)
    ops.channel_shuffle(x, 4, out=guard.array)
    guard.check(shuffle(a, 4))
    # The other format, if asked for.
    out = cp.zeros((2, 4, 6, 38), dtype, memory_format="channels_last")
    ops.pixel_shuffle(x, 2, out=out)
    check(out, d2s(a, 2, "CRD"), dtype, "channels_last")


@pytest.mark.parametrize("dtype", [np.float32, np.uint8], ids=str)
def test_past_the_cache(device, monkeypatch, dtype):
    """As large arrays are stored: whole lines, wherever rows begin and end."""
    planned = dataclasses.replace(device.traits, cache_bytes=0)
    monkeypatch.setitem(device.__dict__, "traits", planned)
    for shape, block in (((1, 12, 3, 301), 2), ((2, 8, 2, 160), 2), ((1, 27, 2, 330), 3)):
        a = distinct(shape, dtype)
        n, c, h, w = shape
        for memory_format in FORMATS:
            guard = Guard((n, c // block**2, h * block, w * block), dtype)
            x = cp.asarray(a, memory_format=memory_format)
            ops.depth_to_space(x, block, "CRD", out=guard.array)
            guard.check(d2s(a, block, "CRD"))
            y = ops.depth_to_space(x, block, "CRD")
            check(y, d2s(a, block, "CRD"), dtype, memory_format)
            check(ops.space_to_depth(y, block, "CRD"), a, dtype, memory_format)
    for shape in ((2, 67, 9, 31), (1, 400, 15, 17), (1, 64, 16, 20)):
        a = distinct(shape, dtype)
        last = ops.contiguous(cp.asarray(a), "channels_last")
        check(last, a, dtype, "channels_last")
        check(ops.contiguous(last), a, dtype)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((0, 4, 2, 3), (0, 1, 4, 6)), ((2, 0, 2, 3), (2, 0, 4, 6)), ((2, 4, 0, 3), (2, 1, 0, 6))],
)
def test_nothing(device, shape, expected):
    for memory_format in FORMATS:
        x = cp.empty(shape, memory_format=memory_format)
        y = ops.depth_to_space(x, 2)
        assert y.shape == expected
        assert ops.space_to_depth(y, 2).shape == shape
        assert ops.contiguous(x, "channels_last").shape == shape
        assert ops.channel_shuffle(x, 2).shape == shape


# --- what is wrong is said ------------------------------------------------------------------------


def test_errors(device):
    x = cp.zeros((2, 12, 4, 6))
    out = Guard((2, 3, 8, 12))
    for name in (ops.depth_to_space, ops.space_to_depth):
        with pytest.raises(cp.DTypeError, match="expected a string for mode, got None"):
            name(x, 2, None)
    for mode in ("CDR", "dcr", ""):
        with pytest.raises(cp.DefinitionError, match="expected 'DCR' or 'CRD'"):
            ops.depth_to_space(x, 2, mode, out=out.array)
        with pytest.raises(cp.DefinitionError, match="expected 'DCR' or 'CRD'"):
            ops.space_to_depth(x, 2, mode)
    with pytest.raises(cp.ShapeError, match=r"12 channels of x, .*\(2, 12, 4, 6\), .* block² = 9"):
        ops.depth_to_space(x, 3)
    with pytest.raises(cp.ShapeError, match=r"4 × 6 pixels of x.* of block = 3"):
        ops.space_to_depth(x, 3)
    with pytest.raises(cp.ShapeError, match="upscale_factor² = 25"):
        ops.pixel_shuffle(x, 5)
    with pytest.raises(cp.ShapeError, match="downscale_factor = 4"):
        ops.pixel_unshuffle(x, 4)
    with pytest.raises(cp.ShapeError, match=r"4 dimensions, got shape \(12, 4, 6\)"):
        ops.depth_to_space(x[0], 2)
    with pytest.raises(cp.ShapeError, match="4 dimensions"):
        ops.space_to_depth(x[None], 2)
    with pytest.raises(cp.ShapeError, match="at least 3 dimensions"):
        ops.pixel_shuffle(x[0, 0], 2)
    with pytest.raises(cp.ShapeError, match="block=0: expected at least 1"):
        ops.depth_to_space(x, 0)
    for block in (2.0, True, "2", None):
        with pytest.raises(cp.DTypeError, match="an integer for block"):
            ops.depth_to_space(x, block)
    with pytest.raises(cp.ShapeError, match=r"12 channels.*groups=5"):
        ops.channel_shuffle(x, 5)
    with pytest.raises(cp.ShapeError, match="at least 3 dimensions"):
        ops.channel_shuffle(x[0, :, 0], 2)
    with pytest.raises(cp.ShapeError, match=r"out= has shape \(2, 3, 8, 12\), expected"):
        ops.depth_to_space(x, 1, out=out.array)
    with pytest.raises(cp.DTypeError, match="out= is int32, expected float32"):
        ops.depth_to_space(x, 2, out=cp.zeros((2, 3, 8, 12), np.int32))
    with pytest.raises(cp.DTypeError, match="device array for out="):
        ops.depth_to_space(x, 2, out=np.zeros((2, 3, 8, 12), np.float32))
    with pytest.raises(cp.DTypeError, match="upload it"):
        ops.space_to_depth(np.zeros((2, 12, 4, 6), np.float32), 2)
    with pytest.raises(cp.ShapeError, match="overlaps"):
        ops.channel_shuffle(x, 2, out=x)
    with pytest.raises(cp.ShapeError, match="'NHWC' is unknown"):
        ops.contiguous(x, "NHWC")
    with pytest.raises(cp.ShapeError, match=r"needs \(N, C, H, W\) or .* got shape \(12, 4, 6\)"):
        ops.contiguous(x[0], "channels_last")
    with pytest.raises(cp.DTypeError, match="device array"):
        ops.contiguous(np.zeros(3))
    out.check_untouched()


# --- small enough for Oclgrind --------------------------------------------------------------------


@pytest.mark.oclgrind
@pytest.mark.parametrize("memory_format", FORMATS)
def test_small(device, memory_format):
    a = distinct((1, 12, 2, 19))
    x = cp.asarray(a, memory_format=memory_format)
    for mode in MODES:
        y = ops.depth_to_space(x, 2, mode)
        check(y, d2s(a, 2, mode), a.dtype, memory_format)
        check(ops.space_to_depth(y, 2, mode), a, a.dtype, memory_format)
    b = distinct((1, 34, 3, 6))
    for other in FORMATS:
        check(
            ops.contiguous(ops.contiguous(cp.asarray(b), memory_format), other), b, b.dtype, other
        )
