"""Operators on elements, where the operators' registry has no line for them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from clprim import ops
from clprim.errors import DefinitionError, DTypeError
from clprim.onnx.table import Run, Value, family, handler, listed
from clprim.onnx.values import BOOL, BYTE, FLOAT32, SMALL, Stored, cast, dtype_of, is_float
from clprim.ops.elementwise.table import ROWS
from clprim.ops.registry import OnnxOperator, add_onnx, of_onnx
from clprim.ops.shared.strings import kernel

# Those that have numbers take as many as they need.
_ACTIVATIONS = {"Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "LeakyRelu", "ThresholdedRelu",
                "Elu", "HardSigmoid", "Clip"}  # fmt: skip


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


@handler("Mean")
def _mean(*arrays: Any) -> Any:
    found = reduce(ops.add, arrays)
    return string("y0 = x0 / w0;", found.dtype, found, len(arrays))


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


@family("decoded")
def _decoded(known: OnnxOperator, inner: Run) -> Run:
    """Of the numbers that codes stand for."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        return inner(context, [cast(x, FLOAT32) for x in listed(arrays)], told)

    return run


@family("lines", takes="axis opset")
def _lines(known: OnnxOperator, inner: Run) -> Run:
    """Of one axis; before opset 13 of all that follow it, as one."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        (x,), version = listed(arrays), told.get("opset") or context.version
        axis = told.get("axis", -1 if version >= 13 else 1) % max(x.ndim, 1)
        if version >= 13:
            return inner(context, [x], {"axis": axis})
        lines = x.reshape((math.prod(x.shape[:axis]), -1 if x.size else 0))
        return inner(context, [lines], {"axis": 1}).reshape(x.shape)

    return run


def _hardmax(x: Any, axis: int) -> Any:
    text = f"y0 = coord({axis}) == x1 ? 1 : 0; (void)x0;"
    return string(text, x.dtype, x, ops.argmax(x, axis, keepdims=True))


add_onnx("Hardmax axis=-1 @lines", _hardmax)


@family("own")
def _own(known: OnnxOperator, inner: Run) -> Run:
    """In the first operand's dtype."""
    return lambda context, arrays, told: inner(context, arrays, told).astype(arrays[0].dtype)


@family("dtype")
def _dtype(known: OnnxOperator, inner: Run) -> Run:
    """Likewise, which the operator is told."""

    def run(context: Any, arrays: Any, told: Any, **more: Any) -> Any:
        return inner(context, arrays, told, dtype=listed(arrays)[0].dtype, **more)

    return run


@family("truncated")
def _truncated(known: OnnxOperator, inner: Run) -> Run:
    """A quotient, of integers rounded towards 0."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        mode = "trunc" if arrays[0].dtype.kind in "iu" else None
        return inner(context, arrays, told, rounding_mode=mode)

    return run


@family("sum")
def _of_sum(known: OnnxOperator, inner: Run) -> Run:
    """Of the sum of what is given."""
    return lambda context, arrays, told: inner(context, [reduce(ops.add, listed(arrays))], told)


@family("activated", takes="activation activation_alpha activation_beta activation_params")
def _activated(known: OnnxOperator, inner: Run) -> Run:
    """With something added and an activation behind it: ONNX's, whose formula is a row's."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        added = arrays.pop("z", None)
        y = inner(context, arrays, told)
        y = y if added is None else ops.add(y, added)
        numbers = told.get("activation_params") or [
            told[f"activation_{n}"] for n in ("alpha", "beta") if f"activation_{n}" in told
        ]
        name = told.get("activation")
        return activated(y, name, numbers) if name else y

    return run


def activated(y: Any, name: str, numbers: Sequence[float]) -> Any:
    """Returns what an activation of ONNX's makes of an array, with as many numbers as it needs."""
    if name == "Clip" and len(numbers) > 1:
        return ops.hardtanh(y, *numbers[:2])
    known = of_onnx(name) if name in _ACTIVATIONS else None
    if known is None or len(numbers) < len(known.parameters):
        raise DefinitionError(f"the activation {name!r} with the numbers {[*numbers]}")
    return known.function(y, **dict(zip(known.parameters.values(), numbers, strict=False)))
