"""Operators on elements, where the operators' registry has no line for them."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from onnx import helper

from clprim import ops
from clprim.errors import DTypeError
from clprim.onnx.table import handler
from clprim.onnx.values import BOOL, BYTE, FLOAT32, Stored, cast, is_float
from clprim.ops.shared.strings import kernel


def string(text: str, dtype: Any, *args: Any, shape: Any = None) -> Any:
    """Runs a string over arrays and numbers."""
    return kernel(text, "onnx", np.dtype(dtype))(*args, shape=shape)


@handler("Cast")
def _cast(context: Any, attributes: Any, x: Any) -> Any:
    return _to(x, helper.tensor_dtype_to_np_dtype(attributes["to"]), attributes)


@handler("CastLike")
def _cast_like(context: Any, attributes: Any, x: Any, like: Any) -> Any:
    return _to(x, like.dtype, attributes)


def _to(x: Any, dtype: Any, attributes: Any) -> Any:
    if dtype.kind == "O":
        raise DTypeError("texts are made on the host alone")
    saturate, rounding = bool(attributes.get("saturate", 1)), attributes.get("round_mode", "up")
    return cast(x, dtype, saturate=saturate, rounding=rounding)


@handler("BitCast")
def _bit_cast(context: Any, attributes: Any, x: Any) -> Any:
    dtype = helper.tensor_dtype_to_np_dtype(attributes["to"])
    codes = x.codes if isinstance(x, Stored) else x
    if dtype.name.startswith("float8"):
        return Stored(_bits(codes, BYTE), dtype)
    return _bits(codes, dtype)


def _bits(x: Any, dtype: Any) -> Any:
    return x.reshape(1).view(dtype).reshape(()) if x.ndim == 0 else x.view(dtype)


_MANY = {"Max": ops.maximum, "Min": ops.minimum, "Sum": ops.add, "Mean": ops.add}


@handler(*_MANY)
def _many(context: Any, attributes: Any, *arrays: Any) -> Any:
    name = context.step.name
    found = reduce(_MANY[name], arrays)
    return string("y0 = x0 / w0;", found.dtype, found, len(arrays)) if name == "Mean" else found


def _aligned(attributes: Any, a: Any, b: Any) -> Any:
    """Returns b as it broadcast before opset 7."""
    axis = attributes.get("axis")
    if not attributes.get("broadcast") or axis is None:
        return b
    axis += a.ndim if axis < 0 else 0
    return b.reshape((*b.shape, *[1] * (a.ndim - axis - b.ndim)))


_BINARY = {"Add": ops.add, "Sub": ops.sub, "Mul": ops.mul}


@handler(*_BINARY)
def _binary(context: Any, attributes: Any, a: Any, b: Any) -> Any:
    return _BINARY[context.step.name](a, _aligned(attributes, a, b))


_LOGIC = {"And": "&&", "Or": "||", "Xor": "!=", "Equal": "==", "Less": "<", "Greater": ">"}


@handler(*_LOGIC)
def _logic(context: Any, attributes: Any, a: Any, b: Any) -> Any:
    text = f"y0 = x0 {_LOGIC[context.step.name]} x1;"
    return string(text, BOOL, a, _aligned(attributes, a, b))


@handler("Div")
def _div(context: Any, attributes: Any, a: Any, b: Any) -> Any:
    b = _aligned(attributes, a, b)
    return ops.div(a, b, rounding_mode="trunc") if a.dtype.kind in "iu" else ops.div(a, b)


@handler("Mod")
def _mod(context: Any, attributes: Any, a: Any, b: Any) -> Any:
    return (ops.fmod if attributes.get("fmod") else ops.remainder)(a, b)


@handler("Pow")
def _pow(context: Any, attributes: Any, a: Any, b: Any) -> Any:
    return ops.pow(a, _aligned(attributes, a, b)).astype(a.dtype)


@handler("Clip", raw=True)
def _clip(context: Any, attributes: Any, x: Any, low: Any = None, high: Any = None) -> Any:
    x = context.device(x)
    low = attributes.get("min") if low is None else low
    high = attributes.get("max") if high is None else high
    ends = [v.reshape(-1)[0].item() if isinstance(v, np.ndarray) else v for v in (low, high)]
    if all(v is None or isinstance(v, (int, float)) for v in ends):
        if ends == [None, None]:
            return x
        if is_float(x.dtype):
            ends = [
                None if v is None or (abs(v) > 3.4e38 and x.dtype == FLOAT32) else v for v in ends
            ]
        return x if ends == [None, None] else _clamped(x, *ends)
    low, high = (context.device(v) for v in (low, high))
    x = x if low is None else ops.maximum(x, low.reshape(()))
    return x if high is None else ops.minimum(x, high.reshape(()))


def _clamped(x: Any, low: Any, high: Any) -> Any:
    if low is not None and high is not None and low > high:
        low = high
    return ops.clamp(x, low, high)


@handler("PRelu")
def _prelu(context: Any, attributes: Any, x: Any, slope: Any) -> Any:
    if context.version < 7 and slope.ndim == 1 and x.ndim > 2:
        slope = slope.reshape((-1, *[1] * (x.ndim - 2)))
    return string("y0 = x0 > 0 ? x0 : x0 * x1;", x.dtype, x, slope)


_STRINGS = {
    "HardSigmoid": ("y0 = clamp(x0 * w0 + w1, (typeof_x0)0, (typeof_x0)1);", "alpha", "beta"),
    "Selu": ("y0 = x0 > 0 ? w1 * x0 : w1 * (w0 * exp(x0) - w0);", "alpha", "gamma"),
    "Elu": ("y0 = x0 > 0 ? x0 : w0 * (exp(x0) - 1);", "alpha"),
    "ThresholdedRelu": ("y0 = x0 > w0 ? x0 : 0;", "alpha"),
    "Swish": ("y0 = x0 / (1 + exp(-w0 * x0));", "alpha"),
    "Shrink": ("y0 = x0 < -w0 ? x0 + w1 : x0 > w0 ? x0 - w1 : 0;", "lambd", "bias"),
    "ParametricSoftplus": ("y0 = w0 * log(1 + exp(w1 * x0));", "alpha", "beta"),
    "ScaledTanh": ("y0 = w0 * tanh(w1 * x0);", "alpha", "beta"),
    "Affine": ("y0 = w0 * x0 + w1;", "alpha", "beta"),
}


@handler(*_STRINGS)
def _parametric(context: Any, attributes: Any, x: Any) -> Any:
    text, *names = _STRINGS[context.step.name]
    return string(text, x.dtype, x, *(attributes[name] for name in names))


@handler("IsInf")
def _is_inf(context: Any, attributes: Any, x: Any) -> Any:
    if isinstance(x, Stored):
        x = cast(x, FLOAT32)
    up, down = attributes.get("detect_positive", 1), attributes.get("detect_negative", 1)
    sides = [s for s, on in (("x0 > 0", up), ("x0 < 0", down)) if on]
    return string(f"y0 = isinf(x0) && ({' || '.join(sides) or '0'});", BOOL, x)


@handler("IsNaN")
def _is_nan(context: Any, attributes: Any, x: Any) -> Any:
    return string("y0 = isnan(x0);", BOOL, cast(x, FLOAT32) if isinstance(x, Stored) else x)


@handler("BitShift")
def _bit_shift(context: Any, attributes: Any, x: Any, by: Any) -> Any:
    bits, signed = x.dtype.itemsize * 8, x.dtype.kind == "i"
    shift = "<<" if attributes["direction"] == "LEFT" else ">>"
    beyond = "x0 < 0 ? -1 : 0" if shift == ">>" and signed else "0"
    outside = f"x1 >= {bits}" + (" || x1 < 0" if signed else "")
    moved = "(typeof_x0)((ulong)x0 << x1)" if shift == "<<" else "x0 >> x1"
    return string(f"y0 = {outside} ? ({beyond}) : {moved};", x.dtype, x, by)


@handler("Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Log")
def _integers_too(context: Any, attributes: Any, x: Any) -> Any:
    return getattr(ops, context.step.name.lower())(x).astype(x.dtype)


@handler("Gelu")
def _gelu(context: Any, attributes: Any, x: Any) -> Any:
    return ops.gelu(x, attributes.get("approximate", "none"))


@handler("Where")
def _where(context: Any, attributes: Any, condition: Any, a: Any, b: Any) -> Any:
    return string("y0 = x0 != 0 ? x1 : x2;", a.dtype, condition, a, b)


@handler("SwiGLU", domain="com.microsoft")
def _swiglu(context: Any, attributes: Any, x: Any, gate: Any) -> Any:
    return string("y0 = x0 / (1 + exp(-x0)) * x1;", x.dtype, x, gate)


@handler("Identity", raw=True)
def _identity(context: Any, attributes: Any, x: Any) -> Any:
    return x


@handler("Softmax", "LogSoftmax", "Hardmax")
def _softmax(context: Any, attributes: Any, x: Any) -> Any:
    name, axis = context.step.name, attributes["axis"]
    shape = x.shape
    if context.version < 13:
        axis += x.ndim if axis < 0 else 0
        x, axis = x.reshape((int(np.prod(shape[:axis])), -1 if x.size else 0)), 1
    if name == "Hardmax":
        axis += x.ndim if axis < 0 else 0
        most = ops.argmax(x, axis, keepdims=True)
        found = string(f"y0 = coord({axis}) == x1 ? 1 : 0; (void)x0;", x.dtype, x, most)
    else:
        found = (ops.softmax if name == "Softmax" else ops.log_softmax)(x, axis)
    return found.reshape(shape)
