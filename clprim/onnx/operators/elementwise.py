"""Operators on elements, where the operators' registry has no line for them."""

from __future__ import annotations

import math
import re
from functools import reduce
from typing import Any

import numpy as np

from clprim import ops
from clprim.errors import DTypeError
from clprim.onnx.table import Handler, Value, family, handler
from clprim.onnx.values import BOOL, BYTE, FLOAT32, SMALL, Stored, cast, dtype_of, is_float
from clprim.ops.elementwise.table import ROWS
from clprim.ops.registry import OnnxOperator
from clprim.ops.shared.strings import kernel


def string(text: str, dtype: Any, *args: Any, shape: Any = None) -> Any:
    """Runs a string over arrays and numbers."""
    return kernel(text, "onnx", np.dtype(dtype))(*args, shape=shape)


@handler("Constant", "Identity", "Optional", both=True, idle="type", makes=None)
def _same(x: Value = None) -> Any:
    return x


@handler("Cast")
def _cast(x: Any, *, to: int, saturate: bool = True, round_mode: str = "up") -> Any:
    return _to(x, dtype_of(to), saturate, round_mode)


@handler("CastLike")
def _cast_like(x: Any, like: Any, *, saturate: bool = True, round_mode: str = "up") -> Any:
    return _to(x, like.dtype, saturate, round_mode)


def _to(x: Any, dtype: Any, saturate: bool, rounding: str) -> Any:
    if dtype.kind == "O":
        raise DTypeError("texts are made on the host alone")
    return cast(x, dtype, saturate=saturate, rounding=rounding)


def _bits(dtype: Any) -> int:
    small = re.match(r"\D+([24])(?:_|$)", dtype.name)
    return int(small[1]) if small else 8 * dtype.itemsize


@handler("BitCast")
def _bit_cast(x: Any, *, to: int) -> Any:
    dtype, codes = dtype_of(to), x.codes if isinstance(x, Stored) else x
    bits = _bits(dtype)
    if bits != _bits(x.dtype):
        raise DTypeError(f"BitCast of {x.dtype} to {dtype}, which has another width")
    if bits < 8:  # codes, of which signed ones have the sign in all bits above
        text = f"uchar v = x0 & {2**bits - 1}; y0 = v"
        text += f" & {2 ** (bits - 1)} ? v | {256 - 2**bits} : v;" if dtype.name[0] == "i" else ";"
        return Stored(string(text, BYTE, codes), dtype)
    kind = BYTE if dtype.name in SMALL else dtype
    found = codes.reshape(1).view(kind).reshape(()) if x.ndim == 0 else codes.view(kind)
    return Stored(found, dtype) if kind != dtype else found


# --- of two and more arrays ----------------------------------------------------------------------


@handler("Div")
def _div(a: Any, b: Any) -> Any:
    return ops.div(a, b, rounding_mode="trunc") if a.dtype.kind in "iu" else ops.div(a, b)


def _mean(*arrays: Any) -> Any:
    found = reduce(ops.add, arrays)
    return string("y0 = x0 / w0;", found.dtype, found, len(arrays))


handler("Mean")(_mean)


@handler("Mod")
def _mod(a: Any, b: Any, *, fmod: bool = False) -> Any:
    return (ops.fmod if fmod else ops.remainder)(a, b)


@handler("BitShift")
def _bit_shift(x: Any, by: Any, *, direction: str) -> Any:
    bits, signed = x.dtype.itemsize * 8, x.dtype.kind == "i"
    beyond = "x0 < 0 ? -1 : 0" if direction != "LEFT" and signed else "0"
    outside = f"x1 >= {bits}" + (" || x1 < 0" if signed else "")
    moved = "(typeof_x0)((ulong)x0 << x1)" if direction == "LEFT" else "x0 >> x1"
    return string(f"y0 = {outside} ? ({beyond}) : {moved};", x.dtype, x, by)


# --- of one array --------------------------------------------------------------------------------


@handler("Clip", takes="max min")
def _clip(context: Any, x: Any, low: Value = None, high: Value = None, **told: Any) -> Any:
    ends = [told.get(n) if v is None else v for n, v in (("min", low), ("max", high))]
    ends = [v.reshape(-1)[0].item() if isinstance(v, np.ndarray) else v for v in ends]
    if not all(v is None or isinstance(v, (int, float)) for v in ends):
        low, high = (v if v is None else context.device(np.asarray(v, x.dtype)) for v in ends)
        x = x if low is None else ops.maximum(x, low.reshape(()))
        return x if high is None else ops.minimum(x, high.reshape(()))
    if is_float(x.dtype):
        ends = [None if v is None or (abs(v) > 3.4e38 and x.dtype == FLOAT32) else v for v in ends]
    low, high = ends
    low = high if None not in ends and low > high else low
    return x if ends == [None, None] else ops.clamp(x, low, high)


@handler("PRelu")
def _prelu(context: Any, x: Any, slope: Any) -> Any:
    if context.version < 7 and slope.ndim == 1 and x.ndim > 2:
        slope = slope.reshape((-1, *[1] * (x.ndim - 2)))
    return string(ROWS["prelu"].text(), x.dtype, x, slope)


@handler("IsInf")
def _is_inf(x: Any, *, detect_positive: bool = True, detect_negative: bool = True) -> Any:
    sides = [s for s, on in (("x0 > 0", detect_positive), ("x0 < 0", detect_negative)) if on]
    text = f"y0 = isinf(x0) && ({' || '.join(sides) or '0'});"
    return string(text, BOOL, cast(x, FLOAT32) if isinstance(x, Stored) else x)


@handler("IsNaN")
def _is_nan(x: Any) -> Any:
    return ROWS["isnan"].operator(cast(x, FLOAT32) if isinstance(x, Stored) else x)


def _lines(function: Any) -> Handler:
    """Of one axis; before opset 13 of all that follow it, as one."""

    def run(context: Any, x: Any, *, axis: int | None = None) -> Any:
        if context.version >= 13:
            return function(x, (-1 if axis is None else axis) % max(x.ndim, 1))
        axis = (1 if axis is None else axis) % max(x.ndim, 1)
        lines = x.reshape((math.prod(x.shape[:axis]), -1 if x.size else 0))
        return function(lines, 1).reshape(x.shape)

    return run


@family("lines")
def _of_lines(known: OnnxOperator) -> Handler:
    return _lines(known.function)


@handler("Hardmax")
@_lines
def _hardmax(x: Any, axis: int) -> Any:
    text = f"y0 = coord({axis}) == x1 ? 1 : 0; (void)x0;"
    return string(text, x.dtype, x, ops.argmax(x, axis, keepdims=True))


@family("own")
def _own(known: OnnxOperator) -> Handler:
    """In the first operand's dtype."""
    return lambda a, b: known.function(a, b).astype(a.dtype)
