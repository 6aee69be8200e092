"""The arithmetic that arrays need for themselves: every operator is a string or two."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyopencl.array as cl_array

from clprim import dtypes
from clprim.arrays.operators import Arithmetic, Operators
from clprim.errors import DTypeError, quoted, upload_hint
from clprim.pointwise import Pointwise
from clprim.reduction import Reduction

__all__ = ["astype", "binary", "copy", "fill", "sum", "unary"]

# Operands are converted to the result's type first, as NumPy's universal functions do.
_A, _B = "(typeof_y0)x0", "(typeof_y0)@"
# Python's floor division and remainder round towards minus infinity, C's towards zero.
_FLOAT_MODULO = "typeof_y0 r = fmod(a, b); if (r != 0 && (r < 0) != (b < 0)) r += b;"
_BINARY = {
    "add": f"y0 = {_A} + {_B};",
    "subtract": f"y0 = {_A} - {_B};",
    "multiply": f"y0 = {_A} * {_B};",
    "divide": f"y0 = {_A} / {_B};",
    "bitwise_and": f"y0 = {_A} & {_B};",
    "bitwise_or": f"y0 = {_A} | {_B};",
    "bitwise_xor": f"y0 = {_A} ^ {_B};",
    "left_shift": f"y0 = {_A} << {_B};",
    "right_shift": f"y0 = {_A} >> {_B};",
    "less": "y0 = x0 < @;",
    "less_equal": "y0 = x0 <= @;",
    "greater": "y0 = x0 > @;",
    "greater_equal": "y0 = x0 >= @;",
    "equal": "y0 = x0 == @;",
    "not_equal": "y0 = x0 != @;",
}
_OF_FLOATS = {
    "power": f"y0 = pow({_A}, {_B});",
    "remainder": f"typeof_y0 a = x0, b = @; {_FLOAT_MODULO} y0 = r;",
    "floor_divide": f"typeof_y0 a = x0, b = @; {_FLOAT_MODULO} y0 = round((a - r) / b);",
}
_OF_INTEGERS = {
    # Division by zero gives zero, as in NumPy, instead of whatever the device does.
    "remainder": (
        "typeof_y0 a = x0, b = @; typeof_y0 r = b == 0 ? 0 : a % b; "
        "if (r != 0 && (r < 0) != (b < 0)) r += b; y0 = r;"
    ),
    "floor_divide": (
        "typeof_y0 a = x0, b = @; typeof_y0 q = b == 0 ? 0 : a / b; "
        "if (b != 0 && a % b != 0 && (a < 0) != (b < 0)) q -= 1; y0 = q;"
    ),
    "power": (
        "typeof_y0 base = x0, e = @, p = 1; "
        "for (; e > 0; e >>= 1) { if (e & 1) p *= base; base *= base; } y0 = p;"
    ),
}
_COMPARISONS = frozenset("less less_equal greater greater_equal equal not_equal".split())
_BITWISE = frozenset("bitwise_and bitwise_or bitwise_xor left_shift right_shift".split())
_UNARY = {
    "positive": "y0 = x0;",
    "negative": "y0 = -x0;",
    "absolute": "y0 = x0 < 0 ? -x0 : x0;",
    "invert": "y0 = ~x0;",
}


@lru_cache(maxsize=256)
def _operator(expr: str, name: str, result: Any) -> Pointwise:
    # OpenCL C has a function `remainder`, so no kernel can be called that.
    return Pointwise(expr, name={"remainder": "modulo"}.get(name, name), result_type=result)


_fill = Pointwise("y0 = w0;", name="fill")
sum = Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;", name="sum")


def copy(x: Any, *, out: Any) -> Any:
    """Writes ``x``, which broadcasts, to ``out``, converted to its dtype as C converts."""
    return _operator("y0 = x0;", "copy", out.dtype)(x, out=out)


def astype(x: Any, dtype: Any) -> Any:
    """Returns a copy of ``x`` in another dtype, converted as C converts."""
    return _operator("y0 = x0;", "astype", dtype)(x)


def fill(x: Any, value: Any) -> None:
    """Writes ``value`` to every element of ``x``.

    Raises:
        DTypeError: A value that the dtype cannot hold.
    """
    try:
        value = x.dtype.type(value).item() if x.dtype.kind in "biuf" else float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise DTypeError(f"fill: {quoted(value)} is no {x.dtype}: {error}") from None
    _fill(value, out=x)


def binary(name: str, a: Any, b: Any, *, swapped: bool = False, out: Any = None) -> Any:
    """Applies one of NumPy's binary operators to an array and an array or a number.

    Args:
        name: NumPy's name of the universal function.
        a: An array.
        b: An array, or a number, which adapts to the array's dtype as in NumPy.
        swapped: Whether ``b`` is the left operand.
        out: Where the result goes.

    Raises:
        DTypeError: ``b`` is neither, or the dtypes have no such operator.
    """
    is_array = isinstance(b, cl_array.Array)
    if not is_array and not isinstance(b, int | float | np.generic):
        raise DTypeError(
            f"{name}: expected a device array or a number, got {type(b).__name__}" + upload_hint(b)
        )
    other = b.dtype if is_array else dtypes.scalar_dtype(b, a.dtype)
    common = dtypes.promote([a.dtype, other])
    if name in _BITWISE and common.kind not in "biu":
        raise DTypeError(f"{name}: {a.dtype} and {other} are not integers")
    if name == "subtract" and common.kind == "b":
        raise DTypeError("subtract: bool arrays have no difference; use ^ or ~")
    if name == "divide" and common.kind in "biu":
        common = np.dtype(np.float64)
    if common.kind == "b" and name in ("floor_divide", "remainder", "power"):
        common = np.dtype(np.int8)
    table = _BINARY
    if name in _OF_FLOATS:
        table = _OF_INTEGERS if common.kind in "iu" else _OF_FLOATS
    expr = table[name].replace("@", "x1" if is_array else "w0")
    if swapped:
        expr = _swap(expr, "x1" if is_array else "w0")
    result = np.dtype(np.bool_) if name in _COMPARISONS else common
    operator = _operator(expr, name, result)
    return operator(a, b, out=out)


def _swap(expr: str, other: str) -> str:
    return expr.replace("x0", "\0").replace(other, "x0").replace("\0", other)


def unary(name: str, x: Any) -> Any:
    """Applies ``positive``, ``negative``, ``absolute`` or ``invert`` to an array.

    Raises:
        DTypeError: ``invert`` of a floating array, ``negative`` of a bool array.
    """
    if name == "invert" and x.dtype.kind not in "biu":
        raise DTypeError(f"invert: {x.dtype} is not an integer")
    if name == "negative" and x.dtype.kind == "b":
        raise DTypeError("negative: bool arrays have no negative; use ~")
    expr = "y0 = !x0;" if name == "invert" and x.dtype.kind == "b" else _UNARY[name]
    if name == "absolute" and x.dtype.kind not in "biu":
        expr = "y0 = fabs(x0);"  # of a negative zero as well
    return _operator(expr, name, None)(x)


Operators.arithmetic = Arithmetic(binary, unary, copy, astype, fill)
