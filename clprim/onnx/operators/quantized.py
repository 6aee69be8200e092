"""Quantised numbers: integers with scales and zero points, by axis and by block."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.onnx.operators.conv import CONV, convolved
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import FLOAT32, SMALL, Stored, cast, dtype_of, encoded, is_float
from clprim.ops.shared.strings import places

_INT32 = np.dtype(np.int32)
_MICROSOFT = "com.microsoft"


def _aligned(v: Any, x: Any, axis: int, block: int = 0) -> Any:
    """Returns a scale or a zero point so that it broadcasts to x; floats of small ones."""
    v = cast(v, FLOAT32) if isinstance(v, Stored) else v
    if v is None or v.ndim == 0 or (v.size == 1 and v.ndim <= 1):
        return v if v is None else v.reshape(())
    if block and v.ndim == x.ndim:
        place = places(x.ndim, {axis: f"coord({axis}) / {block}"})
        return string(f"y0 = at_x0({place});", v.dtype, v, shape=x.shape)
    return v.reshape(tuple(v.shape[0] if d == axis else 1 for d in range(x.ndim)))


def _stored(dtype: Any, value: str) -> str:
    """C that stores a float with a zero point as an integer of a dtype."""
    if dtype.name in SMALL:
        bits, signed = int(dtype.name[-1]), dtype.name[0] != "u"
        least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    else:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    # NaN becomes the least number, as ONNX Runtime has it; what is infinite is no long.
    return f"float v = {value}; y0 = v > {least} ? v < {most} ? v : {most} : {least};"


@handler("QuantizeLinear")
@handler("QuantizeLinear", domain=_MICROSOFT)
def _quantize(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, saturate: bool = True, precision: int = 0,
) -> Any:  # fmt: skip
    dtype = dtype_of(output_dtype or 2) if zero is None else zero.dtype
    axis %= max(x.ndim, 1)
    scale, zero = (_aligned(v, x, axis, block_size) for v in (scale, zero))
    if dtype.name in SMALL and dtype.name.startswith("float"):
        narrow = x.dtype.itemsize == 2 and precision in (0, 10, 16)
        quotient = string("y0 = x0 / x1;", x.dtype if narrow else FLOAT32, x, scale)
        return encoded(quotient, dtype, saturate=saturate)
    more = [] if zero is None else [zero]
    value = "rint((float)x0 / (float)x1)" + (" + (long)x2" if more else "")
    kind = _INT32 if dtype.name in SMALL else dtype
    found = string(_stored(dtype, value), kind, x, scale, *more)
    return encoded(found, dtype) if dtype.name in SMALL else found


def quantized(x: Any, scale: Any, zero: Any, dtype: Any) -> Any:
    """Returns numbers in steps of a scale from a zero point, which may be None."""
    more = [] if zero is None else [zero.reshape(())]
    value = "rint(x0 / x1)" + (" + (long)x2" if more else "")
    return string(_stored(dtype, value), dtype, x, scale.reshape(()), *more)


@handler("DequantizeLinear")
@handler("DequantizeLinear", domain=_MICROSOFT)
def dequantized(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Any:  # fmt: skip
    """Returns the numbers that integers with a scale and a zero point stand for."""
    dtype = dtype_of(output_dtype, scale.dtype)
    x = cast(x, FLOAT32) if isinstance(x, Stored) else x
    scale, zero = (_aligned(v, x, axis % max(x.ndim, 1), block_size) for v in (scale, zero))
    if zero is None:
        return string("y0 = (float)x0 * x1;", dtype, x, scale)
    less = "((float)x0 - (float)x2)" if is_float(x.dtype) else "(float)((long)x0 - (long)x2)"
    return string(f"y0 = {less} * (float)x1;", dtype, x, scale, zero)


@handler("DynamicQuantizeLinear", makes=3)
def dynamic(x: Any) -> Any:
    """Returns integers of uint8 for all numbers of an array, their scale and zero point."""
    flat = x.reshape(-1)
    low, high = ops.amin(flat), ops.amax(flat)
    scale = string("y0 = (fmax(x1, 0.0f) - fmin(x0, 0.0f)) / 255;", FLOAT32, low, high)
    zero = string("y0 = clamp(rint(-fmin(x0, 0.0f) / x1), 0.0f, 255.0f);", np.uint8, low, scale)
    y = string("y0 = clamp((int)rint(x0 / x1) + (int)x2, 0, 255);", np.uint8, x, scale, zero)
    return y, scale, zero


# --- products ------------------------------------------------------------------------------------


def centred(x: Any, zero: Any, axis: int = 0) -> Any:
    """Returns integers less their zero point, as int32."""
    if zero is None:
        return x.astype(_INT32)
    zero = _aligned(zero, x, axis % x.ndim) if zero.ndim <= 1 else zero
    return string("y0 = (int)x0 - (int)x1;", _INT32, x, zero)


def _requantised(y: Any, a: Any, b: Any, c: Any, zero: Any) -> Any:
    """Returns int32 sums in steps of scales a times b as integers in steps of c."""
    scale = string("y0 = (float)x0 * (float)x1 / (float)x2;", FLOAT32, a, b, c)
    text = _stored(zero.dtype, "rint((float)x0 * x1) + (long)x2")
    return string(text, zero.dtype, y, scale, zero)


@handler("MatMulInteger")
def integers(a: Any, b: Any, za: Any = None, zb: Any = None) -> Any:
    """Returns the product of integers less their zero points, as int32."""
    return ops.matmul(centred(a, za, -2), centred(b, zb, -1))


@handler("ConvInteger", takes=CONV)
def _conv_integer(x: Any, w: Any, zx: Any = None, zw: Any = None, **told: Any) -> Any:
    return convolved(told, centred(x, zx), centred(w, zw))


@handler("QLinearMatMul")
def _qlinear_matmul(a: Any, sa: Any, za: Any, b: Any, sb: Any, zb: Any, sy: Any, zy: Any) -> Any:
    y = integers(a, b, za, zb)
    sa, sb, sy, zy = (v.reshape(()) if v.size == 1 else v for v in (sa, sb, sy, zy))
    return _requantised(y, sa.reshape((-1, 1)) if sa.ndim == 1 else sa, sb, sy, zy)


@handler("QLinearConv", takes=CONV)
def qlinear_conv(
    x: Any, sx: Any, zx: Any, w: Any, sw: Any, zw: Any, sy: Any, zy: Any, bias: Any = None,
    **told: Any,
) -> Any:  # fmt: skip
    """Returns a convolution of integers with scales and zero points."""
    y = _conv_integer(x, w, zx, zw, **told)
    y = y if bias is None else ops.add(y, _aligned(bias, y, 1))
    sx, sy, zy = (v.reshape(()) for v in (sx, sy, zy))
    return _requantised(y, sx, _aligned(sw, y, 1), sy, zy)
