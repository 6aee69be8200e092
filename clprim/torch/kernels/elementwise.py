"""Elementwise overloads: strings whose operands have the dtype that PyTorch's promotion gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.arrays.expressions import statements
from clprim.pointwise import Pointwise
from clprim.torch.memory import kind_of, numpy_dtype
from clprim.torch.table import kernel

__all__ = ["apply", "promoted"]

_BOOL = np.dtype(np.bool_)


@lru_cache(maxsize=4096)
def _pointwise(expr: str, dtype: Any) -> Pointwise:
    return Pointwise(expr, result_type=dtype)


def promoted(*values: Any) -> torch.dtype:
    """Returns the dtype of an operator's operands: of tensors with dimensions, then of numbers."""
    # Tensors without elements stand for arrays: their dtype and dimensions are all that counts.
    ranks: list[torch.dtype | None] = [None, None, None]
    for value in values:
        if isinstance(value, Array):
            rank, kind = (0 if value.ndim else 1), kind_of(value.dtype)
        elif isinstance(value, bool):
            rank, kind = 2, torch.bool
        elif isinstance(value, int):
            rank, kind = 2, torch.int64
        else:
            rank, kind = 2, torch.get_default_dtype()
        ranks[rank] = kind if ranks[rank] is None else torch.promote_types(ranks[rank], kind)
    result: torch.dtype | None = None
    for kind in ranks:
        if kind is None:
            continue
        if result is None:
            result = kind
        elif _category(kind) > _category(result):
            result = torch.promote_types(result, kind)
    assert result is not None
    return result


def _category(kind: torch.dtype) -> int:
    return 2 if kind.is_floating_point else 0 if kind is torch.bool else 1


def floating(kind: torch.dtype) -> torch.dtype:
    """Returns the dtype, or the default one for a whole number's."""
    return kind if kind.is_floating_point else torch.get_default_dtype()


def apply(
    expr: str,
    *values: Any,
    kind: Any,
    out: Array | None = None,
    shape: tuple[int, ...] | None = None,
) -> Any:
    """Runs a string whose operands are called ``a``, ``b``, … in braces.

    Args:
        expr: As ``"{a} + {b}"``, or statements that assign ``y0``.
        values: Arrays and numbers.
        kind: dtype of the result.
        out: Where it goes.
        shape: Of the result, where operands are to broadcast to a larger one.
    """
    arrays = [v for v in values if isinstance(v, Array)]
    numbers = [v for v in values if not isinstance(v, Array)]
    names, x, w = {}, 0, 0
    for letter, value in zip("abcdefgh", values, strict=False):
        if isinstance(value, Array):
            names[letter], x = f"x{x}", x + 1
        else:
            names[letter], w = f"w{w}", w + 1
    text = expr.format(**names)
    if "y0 =" not in text:
        text = f"y0 = {text};"
    dtype = out.dtype if out is not None else numpy_dtype(kind)
    return _pointwise(text, dtype)(*arrays, *numbers, out=out, shape=shape)


# --- one operand ---------------------------------------------------------------------------------

# Of floating numbers; whole ones become floating first.
_FLOAT_UNARY = {
    "acos": "acos({a})",
    "acosh": "acosh({a})",
    "asin": "asin({a})",
    "asinh": "asinh({a})",
    "atan": "atan({a})",
    "atanh": "atanh({a})",
    "cos": "cos({a})",
    "cosh": "cosh({a})",
    "deg2rad": "{a} * (typeof_y0)0.017453292519943295",
    "digamma": "",
    "erf": "erf({a})",
    "erfc": "erfc({a})",
    "exp": "exp({a})",
    "exp2": "exp2({a})",
    "expm1": "expm1({a})",
    "lgamma": "lgamma({a})",
    "log": "log({a})",
    "log10": "log10({a})",
    "log1p": "log1p({a})",
    "log2": "log2({a})",
    "rad2deg": "{a} * (typeof_y0)57.29577951308232",
    "reciprocal": "1 / {a}",
    "rsqrt": "rsqrt({a})",
    "sigmoid": "1 / (1 + exp(-{a}))",
    "sin": "sin({a})",
    "sinc": "{a} == 0 ? 1 : sinpi({a}) / ((typeof_y0)3.141592653589793 * {a})",
    "sinh": "sinh({a})",
    "sqrt": "sqrt({a})",
    "tan": "tan({a})",
    "tanh": "tanh({a})",
}
# Of any number, which keep its dtype: (of floating ones, of whole ones).
_SAME_UNARY = {
    "abs": ("fabs({a})", "{a} < 0 ? -{a} : {a}"),
    "ceil": ("ceil({a})", "{a}"),
    "floor": ("floor({a})", "{a}"),
    "frac": ("{a} - trunc({a})", ""),
    "neg": ("-{a}", "-{a}"),
    "relu": ("{a} < 0 ? 0 : {a}", "{a} < 0 ? 0 : {a}"),
    "round": ("rint({a})", "{a}"),
    "sgn": ("isnan({a}) ? {a} : (typeof_y0)(({a} > 0) - ({a} < 0))", "({a} > 0) - ({a} < 0)"),
    "sign": ("isnan({a}) ? {a} : (typeof_y0)(({a} > 0) - ({a} < 0))", "({a} > 0) - ({a} < 0)"),
    "square": ("{a} * {a}", "{a} * {a}"),
    "trunc": ("trunc({a})", "{a}"),
}


def _typed(expr: str) -> str:
    """Statements in which operands have the result's type first."""
    letters = [letter for letter in "abcdefgh" if f"{{{letter}}}" in expr]
    heads = "".join(f"const typeof_y0 c{n} = {{{n}}}; " for n in letters)
    body = expr
    for letter in letters:
        body = body.replace(f"{{{letter}}}", f"c{letter}")
    return f"{heads}y0 = {body};"


def _unary(name: str, whole: str, real: str, keep: bool) -> None:
    @kernel(name, out=True)
    def run(x: Array, *, out: Array | None = None) -> Any:
        kind = kind_of(x.dtype)
        if keep:
            if kind is torch.bool and name in ("neg", "relu"):
                raise RuntimeError(f"{name}: not for tensors of bool")
            return apply(_typed(real if kind.is_floating_point else whole), x, kind=kind, out=out)
        return apply(_typed(real), x, kind=floating(kind), out=out)


for _name, _expr in _FLOAT_UNARY.items():
    if _expr:
        _unary(_name, "", _expr, keep=False)
for _name, (_real, _whole) in _SAME_UNARY.items():
    _unary(_name, _whole or _real, _real, keep=True)


@kernel("round.decimals", out=True)
def _round(x: Array, *, decimals: int = 0, out: Array | None = None) -> Any:
    kind = kind_of(x.dtype)
    if not kind.is_floating_point:
        if decimals < 0:
            raise RuntimeError(f"round: whole numbers have no digits to round at {decimals}")
        return apply("{a}", x, kind=kind, out=out)
    expr = "rint({a} * {b}) / {b}" if decimals >= 0 else "rint({a} / {b}) * {b}"
    return apply(_typed(expr), x, 10.0 ** abs(decimals), kind=kind, out=out)


def _predicate(name: str, real: str, whole: str) -> None:
    @kernel(name)
    def run(x: Array) -> Any:
        return apply(real if x.dtype.kind not in "biu" else whole, x, kind=torch.bool)


_predicate("isnan", "isnan({a}) != 0", "0 * (int){a} != 0")
_predicate("isinf", "isinf({a}) != 0", "0 * (int){a} != 0")
_predicate("isposinf", "{a} == INFINITY", "0 * (int){a} != 0")
_predicate("isneginf", "{a} == -INFINITY", "0 * (int){a} != 0")
_predicate("isfinite", "isfinite({a}) != 0", "0 * (int){a} == 0")
_predicate("signbit", "signbit({a}) != 0", "{a} < 0")
_predicate("logical_not", "!({a} != 0)", "!({a} != 0)")


@kernel("bitwise_not")
def _not(x: Array) -> Any:
    return apply("!{a}" if x.dtype == _BOOL else "~{a}", x, kind=kind_of(x.dtype))


# --- two operands --------------------------------------------------------------------------------


def _binary(
    names: tuple[str, ...], real: str, whole: str = "", result: Callable[[Any], Any] | None = None
) -> None:
    """Registers an operator of two: ``whole`` of integers, ``result`` from the common dtype."""

    @kernel(*names, out=True)
    def run(a: Any, b: Any, *, out: Array | None = None) -> Any:
        kind = promoted(a, b)
        if result is not None:
            kind = result(kind)
        return apply(
            _typed(real if kind.is_floating_point or not whole else whole), a, b, kind=kind, out=out
        )


def _forms(name: str, *more: str) -> tuple[str, ...]:
    return tuple(f"{name}.{form}" for form in ("Tensor", *more))


def _sum(sign: str) -> Callable[..., Any]:
    def run(a: Any, b: Any, alpha: Any = 1, *, out: Array | None = None) -> Any:
        kind = promoted(a, b)
        if kind is torch.bool:
            if sign == "-":
                raise RuntimeError(
                    "Subtraction, the `-` operator, with two bool tensors is not supported."
                )
            return apply("({a} != 0) | ({b} != 0)", a, b, kind=kind, out=out)
        if alpha == 1:
            return apply(_typed(f"{{a}} {sign} {{b}}"), a, b, kind=kind, out=out)
        return apply(_typed(f"{{a}} {sign} {{c}} * {{b}}"), a, b, alpha, kind=kind, out=out)

    return run


def _plain_sum(sign: str) -> Callable[..., Any]:
    run = _sum(sign)

    def tensor_form(a: Any, b: Any, *, alpha: Any = 1, out: Array | None = None) -> Any:
        return run(a, b, alpha, out=out)

    return tensor_form


kernel("add.Tensor", out=True)(_plain_sum("+"))
kernel("sub.Tensor", out=True)(_plain_sum("-"))
kernel("add.Scalar", out=True)(_sum("+"))
kernel("sub.Scalar", out=True)(_sum("-"))


@kernel("rsub.Tensor", "rsub.Scalar")
def _rsub(a: Any, b: Any, alpha: Any = 1) -> Any:
    return apply(_typed("{b} - {c} * {a}"), a, b, alpha, kind=promoted(a, b))


_binary(_forms("mul", "Scalar"), "{a} * {b}")
_binary(_forms("div", "Scalar"), "{a} / {b}", result=floating)


def _stated(name: str, a: Any, b: Any, kind: Any, out: Array | None = None) -> Any:
    """Runs one of the operators that arrays have, on operands of one dtype."""
    if kind is torch.bool:
        raise RuntimeError(f"{name}: not for tensors of bool")
    body = statements(name, numpy_dtype(kind) if out is None else out.dtype)
    assert body is not None
    body = body.replace("{", "{{").replace("}", "}}")
    return apply(f"const typeof_y0 a = {{a}}, b = {{b}}; {body}", a, b, kind=kind, out=out)


def _of_statements(name: str, *overloads: str) -> None:
    @kernel(*overloads, out=True)
    def run(a: Any, b: Any, *, out: Array | None = None) -> Any:
        return _stated(name, a, b, promoted(a, b), out)


@kernel("div.Tensor_mode", "div.Scalar_mode", out=True)
def _div_mode(a: Any, b: Any, *, rounding_mode: str | None = None, out: Array | None = None) -> Any:
    kind = promoted(a, b)
    if rounding_mode is None:
        return apply(_typed("{a} / {b}"), a, b, kind=floating(kind), out=out)
    return _stated(f"{rounding_mode}_divide", a, b, kind, out)


_of_statements("floor_divide", "floor_divide", "floor_divide.Scalar")
_of_statements("remainder", *_forms("remainder", "Scalar", "Scalar_Tensor"))
_of_statements("fmod", *_forms("fmod", "Scalar"))
_binary(("maximum",), "isnan({a}) || {a} > {b} ? {a} : {b}", "{a} > {b} ? {a} : {b}")
_binary(("minimum",), "isnan({a}) || {a} < {b} ? {a} : {b}", "{a} < {b} ? {a} : {b}")
_binary(("fmax",), "fmax({a}, {b})", "{a} > {b} ? {a} : {b}")
_binary(("fmin",), "fmin({a}, {b})", "{a} < {b} ? {a} : {b}")
_binary(("atan2",), "atan2({a}, {b})", result=floating)
_binary(("hypot",), "hypot({a}, {b})", result=floating)
_binary(("copysign.Tensor", "copysign.Scalar"), "copysign({a}, {b})", result=floating)
_binary(("nextafter",), "nextafter({a}, {b})")
_binary(
    ("logaddexp",),
    "{a} == {b} ? {a} + (typeof_y0)0.6931471805599453 : "
    "fmax({a}, {b}) + log1p(exp(-fabs({a} - {b})))",
    result=floating,
)
_binary(
    ("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other"),
    "isnan({b}) ? {b} : {a} == 0 ? 0 : {a} * log({b})",
    result=floating,
)
_binary(("heaviside",), "{a} == 0 ? {b} : (typeof_y0)({a} > 0)")


@kernel("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar", out=True)
def _pow(a: Any, b: Any, *, out: Array | None = None) -> Any:
    kind = promoted(a, b)
    if kind.is_floating_point:
        simple = {2: "{a} * {a}", 3: "{a} * {a} * {a}", 0.5: "sqrt({a})", 1: "{a}", -1: "1 / {a}"}
        if not isinstance(b, Array) and b in simple:
            return apply(_typed(simple[b]), a, kind=kind, out=out)
        return apply(_typed("pow({a}, {b})"), a, b, kind=kind, out=out)
    if not isinstance(b, Array) and b < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    return _stated("power", a, b, kind, out)


_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _comparison(name: str, sign: str) -> None:
    @kernel(f"{name}.Tensor", f"{name}.Scalar", out=True)
    def run(a: Any, b: Any, *, out: Array | None = None) -> Any:
        kind = promoted(a, b)
        if kind is torch.bool:
            kind = torch.uint8
        c = _C_TYPES[kind]
        expr = f"y0 = ({c}){{a}} {sign} ({c}){{b}};"
        return apply(expr, a, b, kind=torch.bool, out=out)


_C_TYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "float",
    torch.bfloat16: "float",
    torch.int8: "char",
    torch.int16: "short",
    torch.int32: "int",
    torch.int64: "long",
    torch.uint8: "uchar",
    torch.uint16: "ushort",
    torch.uint32: "uint",
    torch.uint64: "ulong",
}
for _name, _sign in _COMPARISONS.items():
    _comparison(_name, _sign)
for _name, _sign in {"and": "&&", "or": "||", "xor": "!="}.items():

    def _logical(name: str = _name, sign: str = _sign) -> None:
        @kernel(f"logical_{name}", out=True)
        def run(a: Any, b: Any, *, out: Array | None = None) -> Any:
            return apply(f"({{a}} != 0) {sign} ({{b}} != 0)", a, b, kind=torch.bool, out=out)

    _logical()
for _name, _sign in {"and": "&", "or": "|", "xor": "^"}.items():
    _binary(
        (f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar", f"bitwise_{_name}.Scalar_Tensor"),
        f"{{a}} {_sign} {{b}}",
    )
for _name in ("left", "right"):
    _of_statements(
        f"{_name}_shift",
        f"bitwise_{_name}_shift.Tensor",
        f"bitwise_{_name}_shift.Tensor_Scalar",
    )

# --- several operands ----------------------------------------------------------------------------


@kernel("where.self", out=True)
def _where(condition: Array, a: Any, b: Any, *, out: Array | None = None) -> Any:
    return apply(
        "{a} ? (typeof_y0){b} : (typeof_y0){c}", condition, a, b, kind=promoted(a, b), out=out
    )


@kernel("addcmul", out=True)
def _addcmul(a: Array, b: Array, c: Array, *, value: Any = 1, out: Array | None = None) -> Any:
    return apply(_typed("{a} + {d} * {b} * {c}"), a, b, c, value, kind=promoted(a, b, c), out=out)


@kernel("addcdiv", out=True)
def _addcdiv(a: Array, b: Array, c: Array, *, value: Any = 1, out: Array | None = None) -> Any:
    return apply(_typed("{a} + {d} * {b} / {c}"), a, b, c, value, kind=promoted(a, b, c), out=out)


@kernel("lerp.Scalar", "lerp.Tensor", out=True)
def _lerp(a: Array, b: Array, weight: Any, *, out: Array | None = None) -> Any:
    expr = "fabs({c}) < (typeof_y0)0.5 ? {a} + {c} * ({b} - {a}) : {b} - ({b} - {a}) * (1 - {c})"
    return apply(_typed(expr), a, b, weight, kind=kind_of(a.dtype), out=out)


@kernel("clamp", "clamp.Tensor", out=True)
def _clamp(x: Array, min: Any = None, max: Any = None, *, out: Array | None = None) -> Any:
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    ends = [v for v in (min, max) if v is not None]
    kind = promoted(x, *ends)
    real = kind.is_floating_point

    def bound(value: str, limit: str, sign: str) -> str:
        # NaN of the value or of a limit that is an array stays.
        nan = f"isnan({limit}) || " if real else ""
        return f"({nan}{value} {sign} {limit} ? {limit} : {value})"

    if max is None:
        return apply(_typed(bound("{a}", "{b}", "<")), x, min, kind=kind, out=out)
    if min is None:
        return apply(_typed(bound("{a}", "{b}", ">")), x, max, kind=kind, out=out)
    expr = "typeof_y0 v = {a}; const typeof_y0 lo = {b}; const typeof_y0 hi = {c}; "
    expr += f"v = {bound('v', 'lo', '<')}; y0 = {bound('v', 'hi', '>')};"
    return apply(expr, x, min, max, kind=kind, out=out)


@kernel("clamp_min", "clamp_min.Tensor", out=True)
def _clamp_min(x: Array, min: Any, *, out: Array | None = None) -> Any:
    return _clamp(x, min, out=out)


@kernel("clamp_max", "clamp_max.Tensor", out=True)
def _clamp_max(x: Array, max: Any, *, out: Array | None = None) -> Any:
    return _clamp(x, None, max, out=out)


@kernel("hardtanh", out=True)
def _hardtanh(x: Array, low: Any = -1, high: Any = 1, *, out: Array | None = None) -> Any:
    return _clamp(x, low, high, out=out)


@kernel("nan_to_num")
def _nan_to_num(x: Array, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    kind = kind_of(x.dtype)
    if not kind.is_floating_point:
        return apply("{a}", x, kind=kind)
    info = torch.finfo(kind)
    expr = "isnan({a}) ? {b} : {a} == INFINITY ? {c} : {a} == -INFINITY ? {d} : {a}"
    high = info.max if posinf is None else posinf
    low = info.min if neginf is None else neginf
    return apply(_typed(expr), x, nan or 0.0, float(high), float(low), kind=kind)


@kernel("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(x: Array, mask: Array, value: Any) -> Any:
    return apply("{b} ? (typeof_y0){c} : (typeof_y0){a}", x, mask, value, kind=kind_of(x.dtype))


# --- activations and their gradients --------------------------------------------------------------


def _activation(name: str) -> None:
    """Registers an operator that is one of `clprim.ops`, and its gradient."""
    forward: Callable[..., Any] = getattr(ops, name)
    backward: Callable[..., Any] = getattr(ops, f"{name}_backward")

    @kernel(name, out=True)
    def run(x: Array, *args: Any, out: Array | None = None, **options: Any) -> Any:
        if out is None or out.dtype == x.dtype:
            return forward(x, *args, out=out, **options)
        return apply("{a}", forward(x, *args, **options), kind=kind_of(out.dtype), out=out)

    @kernel(f"{name}_backward")
    def gradient(grad: Array, x: Array, *args: Any, **options: Any) -> Any:
        return backward(grad, x, *args, **options)


for _name in ("gelu", "hardsigmoid", "hardswish", "mish", "silu", "softplus"):
    _activation(_name)


@kernel("leaky_relu", out=True)
def _leaky_relu(x: Array, slope: Any = 0.01, *, out: Array | None = None) -> Any:
    return apply(_typed("{a} > 0 ? {a} : {a} * {b}"), x, slope, kind=kind_of(x.dtype), out=out)


@kernel("elu", out=True)
def _elu(
    x: Array, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1, *, out: Array | None = None
) -> Any:
    expr = "{a} <= 0 ? {b} * {c} * expm1({a} * {d}) : {c} * {a}"
    return apply(_typed(expr), x, alpha, scale, input_scale, kind=kind_of(x.dtype), out=out)


@kernel("elu_backward")
def _elu_backward(
    grad: Array, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: Array
) -> Any:
    if is_result:
        expr = "{b} <= 0 ? {a} * {e} * ({b} + {c} * {d}) : {a} * {d}"
    else:
        expr = "{b} <= 0 ? {a} * {e} * {c} * {d} * exp({b} * {e}) : {a} * {d}"
    return apply(_typed(expr), grad, x, alpha, scale, input_scale, kind=kind_of(grad.dtype))


@kernel("threshold", out=True)
def _threshold(x: Array, threshold: Any, value: Any, *, out: Array | None = None) -> Any:
    return apply(
        _typed("{a} <= {b} ? {c} : {a}"), x, threshold, value, kind=kind_of(x.dtype), out=out
    )


@kernel("threshold_backward", out=True)
def _threshold_backward(grad: Array, x: Array, threshold: Any, *, out: Array | None = None) -> Any:
    return apply(
        _typed("{b} <= {c} ? 0 : {a}"), grad, x, threshold, kind=kind_of(grad.dtype), out=out
    )


_BACKWARD = {
    "sigmoid_backward": "{a} * {b} * (1 - {b})",
    "tanh_backward": "{a} * (1 - {b} * {b})",
}
for _name, _expr in _BACKWARD.items():
    _binary((_name,), _expr)


@kernel("leaky_relu_backward")
def _leaky_relu_backward(grad: Array, x: Array, slope: Any, is_result: bool) -> Any:
    return apply(_typed("{b} > 0 ? {a} : {a} * {c}"), grad, x, slope, kind=kind_of(grad.dtype))


@kernel("hardtanh_backward")
def _hardtanh_backward(grad: Array, x: Array, low: Any, high: Any) -> Any:
    return apply(
        _typed("{b} <= {c} || {b} >= {d} ? 0 : {a}"), grad, x, low, high, kind=kind_of(grad.dtype)
    )


@kernel("log_sigmoid", out=True)
def _log_sigmoid(x: Array, *, out: Array | None = None) -> Any:
    found = ops.logsigmoid(x, out=out if out is None or out.dtype == x.dtype else None)
    return found if out is None or found is out else apply("{a}", found, kind=None, out=out)


@kernel("log_sigmoid_forward")
def _log_sigmoid_forward(x: Array) -> Any:
    return ops.logsigmoid(x), empty((0,), x.dtype)


@kernel("log_sigmoid_backward")
def _log_sigmoid_backward(grad: Array, x: Array, buffer: Any) -> Any:
    return ops.logsigmoid_backward(grad, x)


@kernel("logit", out=True)
def _logit(x: Array, eps: float | None = None, *, out: Array | None = None) -> Any:
    kind = floating(kind_of(x.dtype))
    if eps is None:
        return apply(_typed("log({a} / (1 - {a}))"), x, kind=kind, out=out)
    expr = (
        "typeof_y0 v = {a}; v = v < {b} ? {b} : v > 1 - {b} ? 1 - {b} : v; y0 = log(v / (1 - v));"
    )
    return apply(expr, x, eps, kind=kind, out=out)
