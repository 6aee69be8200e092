"""Quantised numbers: integers with scales and zero points, by axis and by block."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from clprim import ops
from clprim.onnx.operators.conv import convolved
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import FLOAT32, SMALL, Stored, cast, encoded, is_float

_INT32 = np.dtype(np.int32)


def _aligned(v: Any, x: Any, axis: int, block: int) -> Any:
    """Returns a scale or a zero point so that it broadcasts to x."""
    if v is None or v.ndim == 0 or (v.size == 1 and v.ndim <= 1):
        return v if v is None else v.reshape(())
    if block and v.ndim == x.ndim:
        places = ", ".join(
            f"coord({d}) / {block}" if d == axis else f"coord({d})" for d in range(x.ndim)
        )
        return string(f"y0 = at_x0({places});", v.dtype, v, shape=x.shape)
    return v.reshape(tuple(v.shape[0] if d == axis else 1 for d in range(x.ndim)))


def _limits(dtype: Any) -> tuple[int, int]:
    name = dtype.name
    if name in SMALL:
        bits = int(name[-1])
        return (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    found = np.iinfo(dtype)
    return int(found.min), int(found.max)


@handler("QuantizeLinear")
@handler("QuantizeLinear", domain="com.microsoft")
def _quantize(context: Any, attributes: Any, x: Any, scale: Any, zero: Any = None) -> Any:
    kind = attributes.get("output_dtype") or 0
    dtype = zero.dtype if zero is not None else helper.tensor_dtype_to_np_dtype(kind or 2)
    axis = attributes.get("axis", 1) % max(x.ndim, 1)
    block = attributes.get("block_size") or 0
    scale = _aligned(scale, x, axis, block)
    narrow = x.dtype.itemsize == 2 and attributes.get("precision", 0) in (0, 10, 16)
    if dtype.name in SMALL and dtype.name.startswith("float"):
        return encoded(
            _quotient(x, scale, narrow), dtype, saturate=bool(attributes.get("saturate", 1))
        )
    zero = _aligned(zero if not isinstance(zero, Stored) else cast(zero, FLOAT32), x, axis, block)
    least, most = _limits(dtype)
    quotient = "rint((float)x0 / (float)x1)"
    z = " + (long)x2" if zero is not None else ""
    text = f"y0 = clamp((long){quotient}{z}, {least}L, {most}L);"
    given = [x, scale] if zero is None else [x, scale, zero]
    found = string(text, _INT32 if dtype.name in SMALL else dtype, *given)
    return encoded(found, dtype) if dtype.name in SMALL else found


def _quotient(x: Any, scale: Any, narrow: bool) -> Any:
    return string("y0 = x0 / x1;", x.dtype if narrow else FLOAT32, x, scale)


@handler("DequantizeLinear")
@handler("DequantizeLinear", domain="com.microsoft")
def _dequantize(context: Any, attributes: Any, x: Any, scale: Any, zero: Any = None) -> Any:
    kind = attributes.get("output_dtype") or 0
    dtype = helper.tensor_dtype_to_np_dtype(kind) if kind else scale.dtype
    axis = attributes.get("axis", 1) % max(x.ndim, 1)
    block = attributes.get("block_size") or 0
    x, zero = (cast(v, FLOAT32) if isinstance(v, Stored) else v for v in (x, zero))
    scale, zero = (_aligned(v, x, axis, block) for v in (scale, zero))
    if zero is None:
        return string("y0 = (float)x0 * x1;", dtype, x, scale)
    less = "((float)x0 - (float)x2)" if is_float(x.dtype) else "(float)((long)x0 - (long)x2)"
    return string(f"y0 = {less} * (float)x1;", dtype, x, scale, zero)


@handler("DynamicQuantizeLinear")
def _dynamic(context: Any, attributes: Any, x: Any) -> Any:
    flat = x.reshape(-1)
    low, high = ops.amin(flat), ops.amax(flat)
    scale = string("y0 = (fmax(x1, 0.0f) - fmin(x0, 0.0f)) / 255;", FLOAT32, low, high)
    zero = string("y0 = clamp(rint(-fmin(x0, 0.0f) / x1), 0.0f, 255.0f);", np.uint8, low, scale)
    y = string("y0 = clamp((int)rint(x0 / x1) + (int)x2, 0, 255);", np.uint8, x, scale, zero)
    return y, scale, zero


def _centred(x: Any, zero: Any, axis: int | None = None) -> Any:
    """Returns integers less their zero point, as int32."""
    if zero is None:
        return x.astype(_INT32)
    if zero.size == 1:
        zero = zero.reshape(())
    elif axis is not None and zero.ndim == 1:
        zero = zero.reshape(tuple(-1 if d == axis % x.ndim else 1 for d in range(x.ndim)))
    return string("y0 = (int)x0 - (int)x1;", _INT32, x, zero)


@handler("MatMulInteger")
def _matmul_integer(
    context: Any, attributes: Any, a: Any, b: Any, za: Any = None, zb: Any = None
) -> Any:
    return ops.matmul(_centred(a, za, a.ndim - 2), _centred(b, zb, b.ndim - 1))


@handler("ConvInteger")
def _conv_integer(
    context: Any, attributes: Any, x: Any, w: Any, zx: Any = None, zw: Any = None
) -> Any:
    return convolved(attributes, _centred(x, zx), _centred(w, zw, 0))


def _requantised(y: Any, scale: Any, zero: Any) -> Any:
    least, most = _limits(zero.dtype)
    text = f"y0 = clamp((long)rint((float)x0 * x1) + (long)x2, {least}L, {most}L);"
    return string(text, zero.dtype, y, scale, zero)


def _scale(a: Any, b: Any, c: Any) -> Any:
    return string("y0 = (float)x0 * (float)x1 / (float)x2;", FLOAT32, a, b, c)


def _column(v: Any, ndim: int) -> Any:
    return v.reshape(()) if v.size == 1 else v.reshape((-1, 1)) if v.ndim == 1 and ndim else v


@handler("QLinearMatMul")
def _qlinear_matmul(
    context: Any, attributes: Any, a: Any, sa: Any, za: Any, b: Any, sb: Any, zb: Any, sy: Any,
    zy: Any,
) -> Any:  # fmt: skip
    y = ops.matmul(_centred(a, za, a.ndim - 2), _centred(b, zb, b.ndim - 1))
    sa = sa.reshape(()) if sa.size == 1 else sa if sa.ndim > 1 else sa.reshape((-1, 1))
    sb, sy, zy = (v.reshape(()) if v.size == 1 else v for v in (sb, sy, zy))
    return _requantised(y, _scale(sa, sb, sy), zy)


@handler("QLinearConv")
def _qlinear_conv(
    context: Any, attributes: Any, x: Any, sx: Any, zx: Any, w: Any, sw: Any, zw: Any, sy: Any,
    zy: Any, bias: Any = None,
) -> Any:  # fmt: skip
    y = convolved(attributes, _centred(x, zx), _centred(w, zw, 0))
    column = (1, -1, *[1] * (x.ndim - 2))
    if bias is not None:
        y = ops.add(y, bias.reshape(column))
    sw = sw.reshape(()) if sw.size == 1 else sw.reshape(column)
    return _requantised(y, _scale(sx.reshape(()), sw, sy.reshape(())), zy.reshape(()))


_BINARY = {"QLinearAdd": "+", "QLinearMul": "*"}


@handler(*_BINARY, domain="com.microsoft")
def _qlinear_binary(
    context: Any, attributes: Any, a: Any, sa: Any, za: Any, b: Any, sb: Any, zb: Any, sy: Any,
    zy: Any,
) -> Any:  # fmt: skip
    sign = _BINARY[context.step.name]
    least, most = _limits(a.dtype)
    text = f"""
        float a = ((float)x0 - (float)x2) * x1, b = ((float)x3 - (float)x5) * x4;
        y0 = clamp((long)rint((a {sign} b) / x6) + (long)x7, {least}L, {most}L);"""
    zeros = [
        string("y0 = 0;", a.dtype, shape=()) if z is None else z.reshape(()) for z in (za, zb, zy)
    ]
    scales = [s.reshape(()) for s in (sa, sb, sy)]
    return string(
        text, a.dtype, a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]
    )


@handler("MatMulNBits", domain="com.microsoft")
def _matmul_nbits(
    context: Any, attributes: Any, a: Any, b: Any, scales: Any, zeros: Any = None,
    groups: Any = None, bias: Any = None,
) -> Any:  # fmt: skip
    k, n = attributes["K"], attributes["N"]
    bits, block = attributes.get("bits", 4), attributes["block_size"]
    blocks = -(-k // block)
    per = 8 // bits
    text = f"""
        long c = coord(1), g = c / {block}, i = c % {block};
        uint byte = at_x0(coord(0), g, i / {per});
        float q = (byte >> ((i % {per}) * {bits})) & {2**bits - 1};
        float z = {2 ** (bits - 1)};"""
    given = [b.reshape((n, blocks, -1)), scales.reshape((n, blocks))]
    if zeros is not None:
        if zeros.dtype == np.uint8:
            given.append(zeros.reshape((n, -1)))
            text += f" uint zeros = at_x2(coord(0), g / {per}) >> ((g % {per}) * {bits});"
            text += f" z = zeros & {2**bits - 1};"
        else:
            given.append(zeros.reshape((n, blocks)))
            text += " z = at_x2(coord(0), g);"
    w = string(f"{text} y0 = (q - z) * at_x1(coord(0), g);", a.dtype, *given, shape=(n, k))
    return ops.linear(a, w, bias)
