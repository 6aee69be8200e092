"""Functions of one argument, elementwise: one line each.

Names are PyTorch's. Floats keep their dtype; integers and bool become float32, PyTorch's default
dtype, but for `abs`, `sign`, `square` and the roundings, which keep them.
"""

from __future__ import annotations

import builtins
import math
from typing import Any, Protocol

from clprim.arrays.array import Array
from clprim.errors import DTypeError, ShapeError
from clprim.ops.shared.arguments import ByKind, Operator, by_kind, dtype_of, of_reals
from clprim.ops.shared.dims import whole
from clprim.pointwise import Pointwise

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "frac",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "reciprocal",
    "round",
    "rsqrt",
    "sign",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]


#: By name, what the functions here compute with.
OPERATORS: dict[str, ByKind] = {}


class Function(Protocol):
    """What every function here is: an array in, an array out."""

    def __call__(self, x: Any, *, out: Any = None) -> Array: ...


def _function(name: str, operator: Operator, meaning: str) -> Function:
    """Gives an operator a name, a signature and a docstring."""

    def function(x: Any, *, out: Any = None) -> Array:
        return operator(x, out=out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Returns {meaning}, of every element of ``x``.\n\n"
        "Args:\n"
        "    x: An array.\n"
        "    out: Where the result goes; it may be ``x``.\n"
    )
    return function


def _real(name: str, meaning: str, expr: str = "") -> Function:
    """A function of real numbers: ``expr``, or OpenCL C's own of that name."""
    OPERATORS[name] = of_reals(expr or f"y0 = {name}((typeof_y0)x0);", f"{name}_of")
    return _function(name, OPERATORS[name], meaning)


def _kept(name: str, meaning: str, floats: str, integers: str) -> Function:
    """A function that integers keep their dtype in."""
    kernel = f"{name}_of"
    OPERATORS[name] = by_kind(Pointwise(floats, name=kernel), Pointwise(integers, name=kernel))
    return _function(name, OPERATORS[name], meaning)


# Giles, Approximating the erfinv function, 2010, for float32, and Winitzki's approximation (2008)
# for what only float64 holds so near 1; two steps of Newton's method, or four, make its digits.
_CENTRE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
           -0.00125372503, -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
         -0.0076224613, 0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


def _horner(coefficients: tuple[float, ...], at: str) -> str:
    text = f"(typeof_y0){coefficients[0]!r}"
    for c in coefficients[1:]:
        text = f"({text} * {at} + (typeof_y0){c!r})"
    return text


# By what is left of 1, which erf near 1 no longer tells.
_NEWTON = f"""
    v -= (p < (typeof_y0)0.5 ? erf(v) - p : 1 - p - erfc(v))
        / ((typeof_y0){2 / math.sqrt(math.pi)!r} * exp(-v * v));
"""
ERFINV = f"""
    typeof_y0 p = fabs((typeof_y0)x0), w = -log((1 - p) * (1 + p));
    typeof_y0 c = w - (typeof_y0)2.5, t = sqrt(w) - 3;
    typeof_y0 v = p * (w < 5 ? {_horner(_CENTRE, "c")} : {_horner(_TAIL, "t")});
    if (w >= 16) {{
        t = (typeof_y0){2 / (math.pi * 0.147)!r} - w / 2;
        v = sqrt(sqrt(t * t + w / (typeof_y0)0.147) - t);
        {_NEWTON} {_NEWTON}
    }}
    {_NEWTON} {_NEWTON}
    y0 = p == 1 ? copysign((typeof_y0)INFINITY, x0) : p < 1 ? copysign(v, x0) : (typeof_y0)NAN;
"""
ENTR = "typeof_y0 x = x0; y0 = x > 0 ? -x * log(x) : x < 0 ? -(typeof_y0)INFINITY : x * x;"
SINC = f"typeof_y0 x = x0; y0 = x == 0 ? 1 : sinpi(x) / ((typeof_y0){math.pi!r} * x);"

exp = _real("exp", "e to that power")
exp2 = _real("exp2", "2 to that power")
expm1 = _real("expm1", "e to that power less 1, accurate near 0")
log = _real("log", "the natural logarithm")
log2 = _real("log2", "the logarithm to base 2")
log10 = _real("log10", "the logarithm to base 10")
log1p = _real("log1p", "the natural logarithm of 1 + x, accurate near 0")
sqrt = _real("sqrt", "the square root")
rsqrt = _real("rsqrt", "1 by the square root")
reciprocal = _real("reciprocal", "1 / x", "y0 = 1 / (typeof_y0)x0;")
sin = _real("sin", "the sine, of radians")
cos = _real("cos", "the cosine, of radians")
tan = _real("tan", "the tangent, of radians")
sinc = _real("sinc", "sin(π x) / (π x), and 1 at 0", SINC)
asin = _real("asin", "the angle of that sine, in radians")
acos = _real("acos", "the angle of that cosine, in radians")
atan = _real("atan", "the angle of that tangent, in radians")
sinh = _real("sinh", "the hyperbolic sine")
cosh = _real("cosh", "the hyperbolic cosine")
tanh = _real("tanh", "the hyperbolic tangent")
asinh = _real("asinh", "the inverse hyperbolic sine")
acosh = _real("acosh", "the inverse hyperbolic cosine")
atanh = _real("atanh", "the inverse hyperbolic tangent")
erf = _real("erf", "the error function")
erfc = _real("erfc", "1 less the error function, accurate where it is small")
erfinv = _real("erfinv", "the number of that error function, ±∞ of ±1 and NaN beyond", ERFINV)
entr = _real("entr", "-x · log x, 0 at 0 and -∞ below", ENTR)
lgamma = _real("lgamma", "the logarithm of the gamma function's absolute value")

_SIGN = "y0 = x0 > 0 ? 1 : x0 < 0 ? -1 : x0 == 0 ? 0 : x0;"
# Constants alone: llvmpipe errs where ?: chooses between one and a char.
_INTEGER_SIGN = "y0 = x0 > 0 ? 1 : x0 < 0 ? -1 : 0;"
abs = _kept("abs", "the absolute value", "y0 = fabs(x0);", "y0 = x0 < 0 ? -x0 : x0;")
sign = _kept("sign", "-1, 0 or 1, and of NaN NaN, as in NumPy,", _SIGN, _INTEGER_SIGN)
square = _kept("square", "the square", "y0 = x0 * x0;", "y0 = x0 * x0;")
floor = _kept("floor", "the greatest whole number not above it", "y0 = floor(x0);", "y0 = x0;")
ceil = _kept("ceil", "the least whole number not below it", "y0 = ceil(x0);", "y0 = x0;")
trunc = _kept("trunc", "the whole number next towards 0", "y0 = trunc(x0);", "y0 = x0;")
frac = _kept("frac", "what is left without `trunc`", "y0 = x0 - trunc(x0);", "y0 = x0 - x0;")

# Integers are round already.
_round = OPERATORS["round"] = by_kind(
    Pointwise("y0 = rint(x0);", name="round_of"), Pointwise("y0 = x0;", name="round_of")
)
_MOST_PLACES = 308  # of float64
RESCALED = {
    False: Pointwise("y0 = rint(x0 * w0) / w0;", name="round_of"),
    True: Pointwise("y0 = rint(x0 / w0) * w0;", name="round_of"),
}


def round(x: Any, *, decimals: int = 0, out: Any = None) -> Array:
    """Returns the nearest number with so many decimals, of two the even one.

    Args:
        x: An array; integers are round already.
        decimals: Digits after the point; of floats also negative, for digits before it.
        out: Where the result goes; it may be ``x``.

    Raises:
        DTypeError: ``decimals`` is no integer, or negative for integers.
        ShapeError: More than 308 digits.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.round(cp.asarray(np.float32([1.26, -0.5])), decimals=1).get()
        array([ 1.3, -0.5], dtype=float32)
    """
    places = whole("round", "decimals", decimals)
    if places == 0 or dtype_of("round", "x", x).kind in "biu":
        if places < 0:
            raise DTypeError(f"round: decimals={places} of {x.dtype}: expected 0 or more")
        return _round(x, out=out)
    if builtins.abs(places) > _MOST_PLACES:
        raise ShapeError(f"round: decimals={places}: expected -{_MOST_PLACES} to {_MOST_PLACES}")
    found: Array = RESCALED[places < 0](x, 10.0 ** builtins.abs(places), out=out)
    return found
