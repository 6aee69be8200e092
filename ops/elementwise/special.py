"""Functions of one argument and numbers, what stands for infinities and NaN, and gradients."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.ops.elementwise.functions import ENTR, ERFINV, SINC
from clprim.ops.shared.arguments import dtype_of, of_reals, real
from clprim.ops.shared.strings import kernel
from clprim.pointwise import Pointwise

__all__ = [
    "entr_backward",
    "erfinv_backward",
    "logit",
    "logit_backward",
    "nan_to_num",
    "nan_to_num_backward",
    "sinc_backward",
]

_SERIES = "0"
for _k in range(6, 0, -1):
    _c = (-1) ** (_k - 1) * 2 * _k / math.factorial(2 * _k + 1)
    _SERIES = f"((typeof_x0){_c!r} + z * {_SERIES})"
_BY_HAND = {
    "entr": (ENTR, "gx0 = -(gy0 * (1 + log(x0)));"),
    "erfinv": (ERFINV, f"gx0 = gy0 * ((typeof_y0){math.sqrt(math.pi) / 2!r} * exp(y0 * y0));"),
    # Near 0 the first terms of its series, where the quotient cancels.
    "sinc": (
        SINC,
        f"typeof_x0 z = x0 * x0 * (typeof_x0){math.pi**2!r}; "
        f"gx0 = gy0 * (fabs(x0) < (typeof_x0)0.1 ? -(typeof_x0){math.pi**2!r} * x0 * {_SERIES} "
        ": (cospi(x0) - y0) / x0);",
    ),
}


@cache
def _of_one(name: str) -> Any:
    text, by_hand = _BY_HAND[name]
    return Pointwise(text, name=f"{name}_of", gradient=by_hand).gradient("x0")


def _gradient_of_one(name: str, grad: Any, x: Any) -> Array:
    dtype_of(f"{name}_backward", "grad", grad)
    dtype_of(f"{name}_backward", "x", x)
    found: Array = _of_one(name)(x, grad=grad)
    return found


def entr_backward(grad: Any, x: Any) -> Array:
    """Returns the gradient of `entr`: -1 - log x, ∞ at 0 and NaN below."""
    return _gradient_of_one("entr", grad, x)


def erfinv_backward(grad: Any, x: Any) -> Array:
    """Returns the gradient of `erfinv`."""
    return _gradient_of_one("erfinv", grad, x)


def sinc_backward(grad: Any, x: Any) -> Array:
    """Returns the gradient of `sinc`, 0 at 0."""
    return _gradient_of_one("sinc", grad, x)


# Near a half, where the quotient is near 1, by what is left of that.
_LOG_ODDS = (
    "y0 = x > (typeof_y0)0.25 && x < (typeof_y0)0.75 ? log1p((2 * x - 1) / (1 - x)) "
    ": log(x / (1 - x));"
)
LOGIT = f"typeof_y0 x = x0; {_LOG_ODDS}"
LOGIT_WITHIN = f"""
    typeof_y0 x = x0, high = 1 - (typeof_y0)w0;
    x = x < w0 ? (typeof_y0)w0 : x > high ? high : x;
    {_LOG_ODDS}
"""
_logit = {False: of_reals(LOGIT, "logit"), True: of_reals(LOGIT_WITHIN, "logit")}


# Infinite at both ends, NaN beyond; or 0 beyond both bounds.
_LOGIT_SLOPE = """
    gx0 = x0 > 0 && x0 < 1 ? gy0 / (x0 * (1 - x0))
        : x0 == 0 || x0 == 1 ? gy0 * INFINITY : (typeof_x0)NAN;
"""
_LOGIT_WITHIN_SLOPE = """
    gx0 = x0 >= w0 && x0 <= 1 - w0 ? gy0 / (x0 * (1 - x0)) : x0 == x0 ? 0 : (typeof_x0)NAN;
"""


@cache
def _logit_gradient(within: bool) -> Any:
    text, by_hand = (LOGIT_WITHIN, _LOGIT_WITHIN_SLOPE) if within else (LOGIT, _LOGIT_SLOPE)
    return Pointwise(text, name="logit", gradient=by_hand).gradient("x0")


def logit(x: Any, eps: float | None = None, *, out: Any = None) -> Array:
    """Returns log(x / (1 - x)), the inverse of `sigmoid`.

    Args:
        x: An array.
        eps: Where given, x is brought between ``eps`` and ``1 - eps`` first; else there is no
            result (NaN) below 0 and above 1.
        out: Where the result goes; it may be ``x``.
    """
    if eps is None:
        return _logit[False](x, out=out)
    return _logit[True](x, real("logit", "eps", eps), out=out)


def logit_backward(grad: Any, x: Any, eps: float | None = None) -> Array:
    """Returns the gradient of `logit`: 0 outside of ``eps`` and ``1 - eps``, or NaN without it."""
    what = "logit_backward"
    dtype_of(what, "grad", grad)
    dtype_of(what, "x", x)
    numbers = () if eps is None else (real(what, "eps", eps),)
    found: Array = _logit_gradient(eps is not None)(x, *numbers, grad=grad)
    return found


_BFLOAT16 = 3.3895313892515355e38
_FINITE = "y0 = x0 != x0 ? w0 : x0 == INFINITY ? w1 : x0 == -INFINITY ? w2 : x0;"


def nan_to_num(
    x: Any,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Any = None,
) -> Array:
    """Returns x with numbers in place of NaN and of infinities; integers stay as they are.

    Args:
        x: An array.
        nan: What stands for NaN.
        posinf: What stands for ∞: the greatest number of x's dtype by default.
        neginf: What stands for -∞: the least one by default.
        out: Where the result goes; it may be ``x``.

    Raises:
        DTypeError: Not such numbers.
    """
    what = "nan_to_num"
    dtype = dtype_of(what, "x", x)
    if dtype.kind in "biu":
        copied: Array = kernel("y0 = x0;", what, dtype)(x, out=out)
        return copied
    most = _BFLOAT16 if dtype.kind != "f" else float(np.finfo(dtype).max)
    found: Array = kernel(_FINITE, what, dtype)(
        x,
        real(what, "nan", 0.0 if nan is None else nan),
        most if posinf is None else real(what, "posinf", posinf),
        -most if neginf is None else real(what, "neginf", neginf),
        out=out,
    )
    return found


def nan_to_num_backward(grad: Any, x: Any) -> Array:
    """Returns the gradient of `nan_to_num`: 0 where x is not finite."""
    what = "nan_to_num_backward"
    dtype = dtype_of(what, "grad", grad)
    dtype_of(what, "x", x)
    found: Array = kernel("y0 = x1 - x1 == 0 ? x0 : 0;", what, dtype)(grad, x)
    return found
