"""Quantised numbers: integers with scales and zero points, by axis and by block."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import Run, family, handler
from clprim.onnx.values import FLOAT32, SMALL, Stored, cast, dtype_of, encoded, is_float
from clprim.ops.registry import OnnxOperator
from clprim.ops.shared.strings import places

_INT32 = np.dtype(np.int32)
_MICROSOFT = "com.microsoft"


def _aligned(v: Any, x: Any, axis: int, block: int = 0) -> Any:
    """Returns a scale or a zero point so that it broadcasts to x; floats of small ones."""
    v = cast(v, FLOAT32) if isinstance(v, Stored) else v
    if v is None or v.ndim == 0 or (v.size == 1 and v.ndim <= 1):
        return v if v is None else v.reshape(())
    if v.ndim > 1 and not block:
        return v
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
    zero = _aligned(zero, x, axis % x.ndim)
    return string("y0 = (int)x0 - (int)x1;", _INT32, x, zero)


@family("integers")
def _integers(known: OnnxOperator, inner: Run) -> Run:
    """Of two arrays of integers less their zero points, as int32."""
    axes = (0, 0) if "windows" in known.flags else (-2, -1)

    def run(context: Any, arrays: Any, told: Any) -> Any:
        given = [name for name in arrays if not name.endswith("_zero")]
        pairs = zip(given, axes, strict=True)
        whole = {n: centred(arrays[n], arrays.get(f"{n}_zero"), axis) for n, axis in pairs}
        return inner(context, whole, told)

    return run


@family("requantised")
def _requantised(known: OnnxOperator, inner: Run) -> Run:
    """Of integers with scales, whose sums are integers in steps of another scale."""
    rows, columns = (1, 1) if "windows" in known.flags else (-2, -1)

    def run(context: Any, arrays: Any, told: Any) -> Any:
        a, b = [name.removesuffix("_scale") for name in arrays if name.endswith("_scale")][:2]
        bias = arrays.pop("bias", None)
        taken = {n: v for n, v in arrays.items() if n[0] != "y" and not n.endswith("_scale")}
        y = inner(context, taken, told)
        y = y if bias is None else ops.add(y, _aligned(bias, y, 1))
        places = {f"{a}_scale": rows, f"{b}_scale": columns, "y_scale": rows, "y_zero": rows}
        *scales, zero = (_aligned(arrays[n], y, axis % y.ndim) for n, axis in places.items())
        scale = string("y0 = (float)x0 * (float)x1 / (float)x2;", FLOAT32, *scales)
        text = _stored(zero.dtype, "rint((float)x0 * x1) + (long)x2")
        return string(text, zero.dtype, y, scale, zero)

    return run


@family("steps")
def _steps(known: OnnxOperator, inner: Run) -> Run:
    """Of numbers: each array has a scale and a zero point behind it, the result's come last."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        given = [arrays.get(label) for label, _ in known.inputs]
        lead = (len(given) - 2) % 3  # a condition
        triples = (given[n : n + 3] for n in range(lead, len(given) - 2, 3))
        numbers = [*given[:lead], *(dequantized(*triple) for triple in triples)]
        return in_steps(inner(context, numbers, told), given[lead], *given[-2:])

    return run


def in_steps(y: Any, like: Any, scale: Any, zero: Any) -> Any:
    """Returns numbers in steps of a scale from a zero point, by default 0 of an array's dtype."""
    dtype, more = (like.dtype, []) if zero is None else (zero.dtype, [zero.reshape(())])
    value = "rint(x0 / x1)" + (" + (long)x2" if more else "")
    return string(_stored(dtype, value), dtype, y, scale.reshape(()), *more)
