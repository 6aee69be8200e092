"""Numbers of 8 bits: to them and back beside PyTorch, products and convolutions exactly."""

import conv_reference as reference
import numpy as np
import pytest
from conv_cases import FORMATS, upload
from support import equal, numbers

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")


def int8(shape, seed=0):
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def requantized(sums, scale, zero=0, least=-128, dtype=np.int8):
    scaled = np.rint(sums.astype(np.float32) * np.float32(scale))
    return np.clip(scaled + zero, least, np.iinfo(dtype).max).astype(dtype)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_to_integers_and_back(device):
    x = np.random.default_rng(0).normal(0, 3, (3, 5, 7)).astype(np.float32)
    x[0, 0, :2] = 1e9, -1e9  # beyond all of them
    for dtype, theirs, zero in ((np.int8, torch.qint8, -5), (np.uint8, torch.quint8, 130)):
        expected = torch.quantize_per_tensor(torch.tensor(x), 0.5, zero, theirs)
        q = ops.quantize(cp.asarray(x), 0.5, zero, dtype)
        equal(q, expected.int_repr().numpy(), dtype)
        equal(ops.dequantize(q, 0.5, zero), expected.dequantize().numpy(), np.float32)
    # Halves apart: what PyTorch makes of them differs between processors.
    halves = ops.quantize(cp.asarray(np.float32([0.25, 0.75, 1.25])), 0.5, -5, np.int8)
    equal(halves, [-4, -4, -2], np.int8)  # of x / scale + zero_point, to even
    scales, zeros = np.float32([0.5, 0.25, 1, 2, 0.125]), np.array([0, 1, -2, 3, 100])
    expected = torch.quantize_per_channel(
        torch.tensor(x), torch.tensor(scales), torch.tensor(zeros), 1, torch.qint8
    )
    q = ops.quantize(cp.asarray(x), cp.asarray(scales), zeros, dim=1)
    equal(q, expected.int_repr().numpy(), np.int8)
    equal(ops.dequantize(q, scales, zeros, dim=1), expected.dequantize().numpy())


def test_products(device):
    a, b = int8((17, 40)), int8((9, 40), 1)
    bias, scales = numbers((9,), np.int32, 2, -999, 999), np.float32(2.0 ** -np.arange(5, 14))
    sums = a.astype(np.int32) @ b.astype(np.int32).T
    x, w = cp.asarray(a), cp.asarray(b)
    equal(ops.quantized_matmul(x, w.T, 2.0**-9, 3), requantized(sums, 2.0**-9, 3), np.int8)
    options = {"bias": cp.asarray(bias), "transpose_b": True, "relu": True}
    found = ops.quantized_matmul(x, w, cp.asarray(scales), -7, **options)
    equal(found, requantized(sums + bias, scales, -7, -7))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_convolutions(device, memory_format):
    x, w, bias = int8((2, 6, 9, 8)), int8((8, 3, 3, 3), 1), numbers((8,), np.int32, 2, -999, 999)
    scales = np.float32(2.0 ** -np.arange(6, 14))
    options = {"padding": 1, "stride": 2, "groups": 2}
    sums = reference.conv2d(x, w, bias, **options).astype(np.int64)
    found = ops.quantized_conv2d(
        upload(x, memory_format),
        ops.pack_weight(cp.asarray(w), groups=2),
        cp.asarray(scales),
        bias=cp.asarray(bias),
        relu=True,
        **options,
    )
    equal(found, requantized(sums, scales[:, None, None], 0, 0), np.int8)


ZEROS = [(0, -3), (7, 0), (-100, 5), (9, "each")]


def drawn(shape, dtype, seed=0):
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("kinds", [(np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8)])
@pytest.mark.parametrize("zeros", ZEROS, ids=str)
def test_zero_points_of_products(device, zeros, kinds):
    a, b = drawn((17, 41), kinds[0]), drawn((9, 41), kinds[1], 1)
    u, v = abs(zeros[0]) if kinds[0] == np.uint8 else zeros[0], zeros[1]
    v = np.arange(9) * 3 if v == "each" else abs(v) if kinds[1] == np.uint8 else v
    bias, scales = numbers((9,), np.int32, 2, -999, 999), np.float32(2.0 ** -np.arange(9, 18))
    sums = (a.astype(int) - u) @ (b.astype(int) - np.reshape(v, (-1, 1))).T
    options = {"a_zero_point": u, "b_zero_point": v}
    x, w = cp.asarray(a), cp.asarray(b)
    least = np.iinfo(kinds[0]).min
    found = ops.quantized_matmul(x, w.T, 2.0**-12, 3, **options)
    equal(found, requantized(sums, 2.0**-12, 3, least, kinds[0]), kinds[0])
    options |= {"bias": cp.asarray(bias), "transpose_b": True, "relu": True}
    if np.ndim(v):
        options["b_zero_point"] = cp.asarray(v)
    packed = ops.pack_weight(w)
    out = cp.empty((17, 9), np.uint8)
    found = ops.quantized_matmul(x, packed, cp.asarray(scales), 7, out=out, **options)
    assert found is out
    equal(found, requantized(sums + bias, scales, 7, 7, np.uint8))


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("zeros", ZEROS, ids=str)
def test_zero_points_of_convolutions(device, zeros, groups, memory_format):
    x, w = drawn((2, 6, 9, 8), np.uint8), drawn((8, 6 // groups, 3, 3), np.int8, 1)
    u, v = abs(zeros[0]), np.arange(8) * 3 if zeros[1] == "each" else zeros[1]
    bias, scales = numbers((8,), np.int32, 2, -999, 999), np.float32(2.0 ** -np.arange(9, 17))
    options = {"padding": (1, 2, 0, 1), "stride": (2, 1), "groups": groups}
    real = [x.astype(np.float64) - u, w.astype(np.float64) - np.reshape(v, (-1, 1, 1, 1))]
    sums = reference.conv2d(*real, bias.astype(np.float64), **options)
    found = ops.quantized_conv2d(
        upload(x, memory_format),
        ops.pack_weight(cp.asarray(w), groups=groups),
        cp.asarray(scales),
        100,
        x_zero_point=u,
        w_zero_point=v,
        bias=cp.asarray(bias),
        **options,
    )
    equal(found, requantized(sums, scales[:, None, None], 100, 0, np.uint8), np.uint8)


@pytest.mark.filterwarnings("ignore")
def test_convolutions_of_asymmetric_images_are_pytorchs(device):
    """A quantised layer of PyTorch: images of uint8 whose 0 is somewhere, weights of int8."""
    x, w = np.random.default_rng(0).normal(0.4, 1, (2, 8, 11, 9)), numbers((6, 8, 3, 3), seed=1)
    qx = torch.quantize_per_tensor(torch.tensor(x).float(), 0.02, 97, torch.quint8)
    qw = torch.quantize_per_channel(
        torch.tensor(w).float(),
        torch.linspace(0.1, 0.2, 6).double(),
        torch.zeros(6, dtype=torch.int64),
        0,
        torch.qint8,
    )
    bias = torch.linspace(-1, 1, 6)
    layer = torch.ao.nn.quantized.functional.conv2d
    expected = layer(qx, qw, bias, 1, 1, scale=0.5, zero_point=121).int_repr().numpy()
    scales = qw.q_per_channel_scales().numpy().astype(np.float32) * np.float32(0.02)
    found = ops.quantized_conv2d(
        cp.asarray(qx.int_repr().numpy()),
        cp.asarray(qw.int_repr().numpy()),
        cp.asarray(scales / np.float32(0.5)),
        121,
        x_zero_point=97,
        bias=cp.asarray(np.rint(bias.numpy() / scales).astype(np.int32)),
        padding=1,
    ).get()
    assert found.dtype == np.uint8 and abs(found.astype(int) - expected).max() <= 1


def test_refusals(device):
    x, q = cp.zeros((4, 3)), cp.zeros((4, 3), np.int8)
    i = cp.zeros((3,), np.int32)
    for message, call in [
        ("dtype=int64", lambda: ops.quantize(x, 1, dtype=np.int64)),
        ("scale=0", lambda: ops.quantize(x, 0)),
        ("x is int8", lambda: ops.quantize(q, 1)),
        ("x is float32", lambda: ops.dequantize(x, 1)),
        (r"scale has shape \(3,\), expected \(4,\)", lambda: ops.quantize(x, [1.0] * 3, dim=0)),
        ("zero_point=0.5", lambda: ops.quantize(x, 1, 0.5)),
        ("a is float32", lambda: ops.quantized_matmul(x, q.T, 1)),
        ("zero_point=200", lambda: ops.quantized_matmul(q, q.T, 1, 200)),
        ("scale has shape", lambda: ops.quantized_matmul(q, q.T, x[0])),
        ("a_zero_point=200", lambda: ops.quantized_matmul(q, q.T, 1, a_zero_point=200)),
        ("b_zero_point=-200", lambda: ops.quantized_matmul(q, q.T, 1, b_zero_point=-200)),
        ("holds 3 zero", lambda: ops.quantized_matmul(q, q.T, 1, b_zero_point=[1, 2, 3])),
        ("has shape", lambda: ops.quantized_matmul(q, q.T, 1, b_zero_point=q[0])),
        ("expected integers", lambda: ops.quantized_matmul(q, q.T, 1, b_zero_point=x[0])),
        ("columns meet", lambda: ops.quantized_matmul(q, q, 1, b_zero_point=1)),
        ("expect 2 dim", lambda: ops.quantized_matmul(q, q[0], 1, a_zero_point=1)),
        ("bias has shape", lambda: ops.quantized_matmul(q, q.T, 1, a_zero_point=1, bias=i[:1])),
        ("expected 4 dimensions", lambda: ops.quantized_conv2d(q, q, 1)),
        ("out is float32", lambda: ops.quantized_matmul(q, q.T, 1, out=x)),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 128), ("uint8", -1), ("int32", 2**40)])
def test_zero_points_that_the_dtype_does_not_hold_are_refused(device, dtype, zero):
    with pytest.raises(cp.ShapeError, match=f"zero_point={zero} is outside of {dtype}"):
        ops.quantize(cp.zeros(3), 0.1, zero, dtype)
    with pytest.raises(cp.ShapeError, match=f"zero_point={zero} is outside of {dtype}"):
        ops.dequantize(cp.zeros(3, dtype), 0.1, zero)
