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


def requantized(sums, scale, zero=0, least=-128):
    scaled = np.rint(sums.astype(np.float32) * np.float32(scale))
    return np.clip(scaled + zero, least, 127).astype(np.int8)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_to_integers_and_back(device):
    x = np.random.default_rng(0).normal(0, 3, (3, 5, 7)).astype(np.float32)
    x[0, 0, :4] = 1e9, -1e9, 0.25, 0.75  # beyond all of them, and halves
    for dtype, theirs, zero in ((np.int8, torch.qint8, -5), (np.uint8, torch.quint8, 130)):
        expected = torch.quantize_per_tensor(torch.tensor(x), 0.5, zero, theirs)
        q = ops.quantize(cp.asarray(x), 0.5, zero, dtype)
        equal(q, expected.int_repr().numpy(), dtype)
        equal(ops.dequantize(q, 0.5, zero), expected.dequantize().numpy(), np.float32)
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


def test_refusals(device):
    x, q = cp.zeros((4, 3)), cp.zeros((4, 3), np.int8)
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
