"""Functions of elements, for arrays and for the values that `elementwise` reads functions with."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

import numpy as np

from clprim import ops
from clprim.arrays import arithmetic
from clprim.arrays.array import Array
from clprim.errors import DTypeError, ShapeError, upload_hint
from clprim.language import traced_value
from clprim.ops.shared.arguments import ByKind, dtype_of, is_array
from clprim.ops.shared.dims import whole
from clprim.pointwise import Pointwise

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "greater",
    "greater_equal",
    "hypot",
    "invert",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "nan_to_num",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "power",
    "real",
    "reciprocal",
    "remainder",
    "right_shift",
    "rint",
    "round",
    "rsqrt",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
    "where",
]

_Function = Callable[..., Array]


def _is_value(*args: Any) -> bool:
    return any(isinstance(a, traced_value.Value) for a in args)


def _function(name: str, compute: Callable[..., Any], meaning: str, parameters: str) -> _Function:
    """Gives a function its name, and lets it take the values of `elementwise` as well."""

    def function(*args: Any, out: Any = None) -> Any:
        if _is_value(*args):
            return traced_value.apply(name, *args)
        return compute(*args, out=out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Returns {meaning}, of every element; ``out`` is where the result goes."
    given = [Parameter(p, Parameter.POSITIONAL_ONLY) for p in parameters.split(", ")]
    out_ = Parameter("out", Parameter.KEYWORD_ONLY, default=None)
    function.__signature__ = Signature([*given, out_])
    return function


def _of_one(name: str, compute: Callable[..., Any], meaning: str) -> _Function:
    return _function(name, compute, meaning, "x")


def _of_two(name: str, compute: Callable[..., Any], meaning: str) -> _Function:
    return _function(name, compute, meaning, "a, b")


# --- of one --------------------------------------------------------------------------------------


def _operator(name: str) -> Callable[..., Any]:
    """NumPy's name of what one of Python's signs does."""

    def compute(x: Any, *, out: Any = None) -> Any:
        dtype_of(name, "x", x)
        if out is not None:
            dtype_of(name, "out", out)
        found = arithmetic.unary(name, x)
        return found if out is None else arithmetic.copy(found, out=out)

    return compute


def _truth(floats: str, others: str, name: str) -> Callable[..., Any]:
    kinds = (Pointwise(text, name=name, result_type=np.bool_) for text in (floats, others))
    return ByKind(*kinds)


exp = _of_one("exp", ops.exp, "e to that power")
exp2 = _of_one("exp2", ops.exp2, "2 to that power")
expm1 = _of_one("expm1", ops.expm1, "e to that power less 1, accurate near 0")
log = _of_one("log", ops.log, "the natural logarithm")
log2 = _of_one("log2", ops.log2, "the logarithm to base 2")
log10 = _of_one("log10", ops.log10, "the logarithm to base 10")
log1p = _of_one("log1p", ops.log1p, "the natural logarithm of 1 + x, accurate near 0")
sqrt = _of_one("sqrt", ops.sqrt, "the square root")
rsqrt = _of_one("rsqrt", ops.rsqrt, "1 by the square root")
reciprocal = _of_one("reciprocal", ops.reciprocal, "1 / x")
square = _of_one("square", ops.square, "the square")
sign = _of_one("sign", ops.sign, "-1, 0 or 1")
floor = _of_one("floor", ops.floor, "the greatest whole number not above it")
ceil = _of_one("ceil", ops.ceil, "the least whole number not below it")
trunc = _of_one("trunc", ops.trunc, "the whole number next towards 0")
erf = _of_one("erf", ops.erf, "the error function")
erfc = _of_one("erfc", ops.erfc, "1 less the error function")
lgamma = _of_one("lgamma", ops.lgamma, "the logarithm of the gamma function's absolute value")
sin = _of_one("sin", ops.sin, "the sine, of radians")
cos = _of_one("cos", ops.cos, "the cosine, of radians")
tan = _of_one("tan", ops.tan, "the tangent, of radians")
sinh = _of_one("sinh", ops.sinh, "the hyperbolic sine")
cosh = _of_one("cosh", ops.cosh, "the hyperbolic cosine")
tanh = _of_one("tanh", ops.tanh, "the hyperbolic tangent")
asin = arcsin = _of_one("asin", ops.asin, "the angle of that sine")
acos = arccos = _of_one("acos", ops.acos, "the angle of that cosine")
atan = arctan = _of_one("atan", ops.atan, "the angle of that tangent")
asinh = arcsinh = _of_one("asinh", ops.asinh, "the inverse hyperbolic sine")
acosh = arccosh = _of_one("acosh", ops.acosh, "the inverse hyperbolic cosine")
atanh = arctanh = _of_one("atanh", ops.atanh, "the inverse hyperbolic tangent")
absolute = abs = fabs = _of_one("absolute", _operator("absolute"), "the absolute value")
negative = _of_one("negative", _operator("negative"), "the number with the other sign")
positive = conj = real = _of_one("positive", _operator("positive"), "the number itself")
invert = bitwise_not = bitwise_invert = _of_one(
    "invert", _operator("invert"), "all bits, or a truth value, the other way round"
)
rint = _of_one("rint", ops.round, "the nearest whole number, of two the even")
isnan = _of_one(
    "isnan", _truth("y0 = x0 != x0;", "(void)x0; y0 = 0;", "is_nan"), "whether it is NaN"
)
isinf = _of_one(
    "isinf",
    _truth("y0 = x0 == INFINITY || x0 == -INFINITY;", "(void)x0; y0 = 0;", "is_inf"),
    "whether it is infinite",
)
isfinite = _of_one(
    "isfinite",
    _truth("y0 = x0 - x0 == 0;", "(void)x0; y0 = 1;", "is_finite"),
    "whether it is neither infinite nor NaN",
)
signbit = _of_one(
    "signbit",
    _truth("y0 = copysign((typeof_x0)1, x0) < 0;", "y0 = x0 < 0;", "sign_bit"),
    "whether its sign is a minus, also of 0",
)


def logical_not(x: Any, /, *, out: Any = None) -> Array:
    """Returns whether an element is 0."""
    if _is_value(x):
        return traced_value.apply("logical_not", x)  # type: ignore[return-value]
    return _not(x, out=out)


_not = Pointwise("y0 = x0 == 0;", name="logical_not", result_type=np.bool_)


def round(x: Any, /, decimals: int = 0, *, out: Any = None) -> Array:
    """Returns the nearest number of so many decimals, of two the even one; integers as they are."""
    if _is_value(x):
        return traced_value.apply("rint", x)  # type: ignore[return-value]
    places = whole("round", "decimals", decimals)
    if not places or dtype_of("round", "x", x).kind in "biu":
        return ops.round(x, out=out)
    if not -308 <= places <= 308:
        raise ShapeError(f"round: decimals={places}: expected -308 to 308")
    return _round(x, 10.0**places, out=out)


_round = Pointwise("y0 = rint(x0 * w0) / w0;", name="round_of")


# --- of two --------------------------------------------------------------------------------------


def _checked(name: str, a: Any, b: Any) -> None:
    for value in (a, b):
        if not is_array(value) and not isinstance(value, int | float | np.generic):
            raise DTypeError(
                f"{name}: expected a device array or a number, got {type(value).__name__}"
                + upload_hint(value)
            )
    if not is_array(a) and not is_array(b):
        raise DTypeError(f"{name}: expected a device array among its operands, got two numbers")


def _arithmetic(name: str) -> Callable[..., Any]:
    def compute(a: Any, b: Any, *, out: Any = None) -> Any:
        _checked(name, a, b)
        if is_array(a):
            return arithmetic.binary(name, a, b, out=out)
        return arithmetic.binary(name, b, a, swapped=True, out=out)

    return compute


def _logical(name: str, word: str) -> Callable[..., Any]:
    """A string of two, of which one may be a number."""
    text = f"y0 = (@ != 0) {word} (x0 != 0);"
    of_arrays, of_number = (
        Pointwise(text.replace("@", other), name=f"logical_{name}_of", result_type=np.bool_)
        for other in ("x1", "w0")
    )

    def compute(a: Any, b: Any, *, out: Any = None) -> Any:
        _checked(f"logical_{name}", a, b)
        if is_array(a) and is_array(b):
            return of_arrays(a, b, out=out)
        return of_number(*((a, b) if is_array(a) else (b, a)), out=out)

    return compute


add = _of_two("add", _arithmetic("add"), "a + b")
subtract = _of_two("subtract", _arithmetic("subtract"), "a - b")
multiply = _of_two("multiply", _arithmetic("multiply"), "a · b")
divide = true_divide = _of_two("divide", _arithmetic("divide"), "a / b, of integers in float64")
floor_divide = _of_two("floor_divide", _arithmetic("floor_divide"), "a / b rounded down")
remainder = mod = _of_two(
    "remainder", _arithmetic("remainder"), "what a // b leaves, with the sign of b"
)
power = pow = _of_two("power", _arithmetic("power"), "a to the power b")
bitwise_and = _of_two("bitwise_and", _arithmetic("bitwise_and"), "the bits that both have")
bitwise_or = _of_two("bitwise_or", _arithmetic("bitwise_or"), "the bits that either has")
bitwise_xor = _of_two("bitwise_xor", _arithmetic("bitwise_xor"), "the bits that one of them has")
left_shift = bitwise_left_shift = _of_two(
    "left_shift", _arithmetic("left_shift"), "a with its bits moved up by b"
)
right_shift = bitwise_right_shift = _of_two(
    "right_shift", _arithmetic("right_shift"), "a with its bits moved down by b"
)
less = _of_two("less", _arithmetic("less"), "whether a < b")
less_equal = _of_two("less_equal", _arithmetic("less_equal"), "whether a ≤ b")
greater = _of_two("greater", _arithmetic("greater"), "whether a > b")
greater_equal = _of_two("greater_equal", _arithmetic("greater_equal"), "whether a ≥ b")
equal = _of_two("equal", _arithmetic("equal"), "whether a = b")
not_equal = _of_two("not_equal", _arithmetic("not_equal"), "whether a ≠ b")
maximum = _of_two("maximum", ops.maximum, "the greater of two, or NaN where either is")
minimum = _of_two("minimum", ops.minimum, "the lesser of two, or NaN where either is")
fmax = _of_two("fmax", ops.fmax, "the greater of two, or the one that is not NaN")
fmin = _of_two("fmin", ops.fmin, "the lesser of two, or the one that is not NaN")
atan2 = arctan2 = _of_two("atan2", ops.atan2, "the angle of the point (b, a), in radians")
hypot = _of_two("hypot", ops.hypot, "√(a² + b²)")
copysign = _of_two("copysign", ops.copysign, "a with the sign of b")
nextafter = _of_two("nextafter", ops.nextafter, "the next number from a towards b")
logaddexp = _of_two("logaddexp", ops.logaddexp, "log(exp(a) + exp(b))")
logical_and = _of_two("logical_and", _logical("and", "&&"), "whether both are not 0")
logical_or = _of_two("logical_or", _logical("or", "||"), "whether either is not 0")
logical_xor = _of_two("logical_xor", _logical("xor", "!="), "whether one of them is not 0")


# --- of three ------------------------------------------------------------------------------------


def where(condition: Any, a: Any = None, b: Any = None, /) -> Any:
    """Returns elements of ``a`` where ``condition`` is not 0, and of ``b`` elsewhere.

    With the condition alone: the positions where it holds, as `nonzero` returns them.
    """
    if _is_value(condition, a, b):
        return traced_value.apply("where", condition, a, b)
    if a is None and b is None:
        found = ops.nonzero(condition)
        return tuple(found[:, d] for d in range(condition.ndim))
    return ops.where(condition, a, b)


def clip(x: Any, /, min: Any = None, max: Any = None, *, out: Any = None) -> Array:
    """Returns elements of ``x`` brought between ``min`` and ``max``; NaN stays NaN."""
    if _is_value(x, min, max):
        return traced_value.apply("clip", x, min, max)  # type: ignore[return-value]
    if min is None and max is None:
        return _operator("positive")(x, out=out)
    return ops.clamp(x, min, max, out=out)


def nan_to_num(
    x: Any, /, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Array:
    """Returns elements of ``x``, and numbers where it is NaN or infinite.

    ``nan`` stands for NaN, ``posinf`` for ∞ and ``neginf`` for -∞: by default 0, the greatest
    number of the dtype and the least one.
    """
    return ops.nan_to_num(x, nan, posinf, neginf)


def isclose(
    a: Array, b: Any, /, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False
) -> Array:
    """Returns whether elements are within ``atol + rtol · |b|`` of each other."""
    if not is_array(b) and not isinstance(b, int | float | np.generic):
        b = Array.namespace.asarray(b)
    return ops.isclose(a, b, rtol, atol, equal_nan)
