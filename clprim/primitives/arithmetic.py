"""The arithmetic that arrays need for themselves: every operator is a string or two."""

from __future__ import annotations

import operator as py_operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyopencl.array as cl_array

from clprim import dtypes
from clprim.arrays.array import Array
from clprim.arrays.expressions import GRADIENTS, MIRRORED, SIGNS, comparison, renamed, statements
from clprim.arrays.operators import Arithmetic, Operators
from clprim.dtypes import NO_ARRAY, AnyDType, require_number
from clprim.errors import ComplexError, DTypeError, OverlapError, quoted, upload_hint
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction
from clprim.runtime.device import current_device

# Operands are converted to the result's type first, as NumPy's universal functions do.
_A, _B = "(typeof_y0)x0", "(typeof_y0)@"
_OPERANDS = "const typeof_y0 a = x0, b = @;"
_BOOL = np.dtype(np.bool_)
_NUMBERS = (int, float, complex, np.generic)  # a union written in place would be made at every call
_BINARY = {name: f"y0 = {_A} {sign} {_B};" for name, sign in SIGNS.items()}
# Powers of floats that need no function, and are exact or nearly so; NumPy's choice.
_POWERS = {2: "y0 = x0 * x0;", 0.5: "y0 = sqrt(x0);", -1: "y0 = 1 / x0;"}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "less": py_operator.lt,
    "less_equal": py_operator.le,
    "greater": py_operator.gt,
    "greater_equal": py_operator.ge,
    "equal": py_operator.eq,
    "not_equal": py_operator.ne,
}
_BITWISE = frozenset("bitwise_and bitwise_or bitwise_xor left_shift right_shift".split())
#: What there is of complex numbers.
_COMPLEX = frozenset("add subtract multiply divide power equal not_equal".split())
_UNARY = {
    "positive": "y0 = x0;",
    "negative": "y0 = -x0;",
    "absolute": "y0 = x0 < 0 ? -x0 : x0;",
    "invert": "y0 = ~x0;",
}


@lru_cache(maxsize=256)
def _operator(
    expr: str, name: str, result: Any, gradient: str | None = None
) -> Callable[..., Array]:
    # OpenCL C has functions `remainder` and `fmod`, so no kernel can be called that.
    name = {"remainder": "modulo", "fmod": "fmod_of"}.get(name, name)
    return Pointwise(expr, name=name, result_type=result, gradient=gradient)


_fill = Pointwise("y0 = w0;", name="fill")
sum = Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;", name="sum")


def copy(x: Any, *, out: Any) -> Array:
    """Writes ``x``, which broadcasts, to ``out``, converted to its dtype as C converts."""
    if not isinstance(out, cl_array.Array):
        raise DTypeError(f"expected a device array for out, got {quoted(out)}{upload_hint(out)}")
    return _apart(_operator(_converting(x, out.dtype, "copy"), "copy", out.dtype), x, out=out)


def astype(x: Any, dtype: Any) -> Array:
    """Returns a copy of ``x`` in another dtype, converted as C converts."""
    return _operator(_converting(x, dtype, "astype"), "astype", dtype)(x)


def _converting(x: Any, dtype: AnyDType, name: str) -> str:
    """The string that converts an array to a dtype."""
    given = getattr(x, "dtype", dtype)
    if given.kind != "c" or dtype.kind == "c":
        return "y0 = x0;"
    if dtype.kind != "b":
        raise ComplexError(
            f"{name}: {given} to {dtype} loses imaginary parts: take x.real, x.imag or abs(x)"
        )
    return "y0 = x0 != 0;"


def fill(x: Any, value: Any) -> None:
    """Writes ``value`` to every element of ``x``."""
    try:
        require_number(value, x.dtype)
        value = x.dtype.type(value).item() if x.dtype.kind in "biufc" else float(value)
    except NO_ARRAY as error:
        raise DTypeError(f"fill: {quoted(value)} is no {x.dtype}: {error}") from None
    _fill(value, out=x)


def binary(
    name: str, a: Any, b: Any, *, swapped: bool = False, out: Any = None, dtype: Any = None
) -> Array:
    """Applies one of NumPy's binary operators to an array and an array or a number."""
    is_array = isinstance(b, cl_array.Array)
    if not is_array and not isinstance(b, _NUMBERS):
        raise DTypeError(
            f"{name}: expected a device array or a number, got {type(b).__name__}" + upload_hint(b)
        )
    if not is_array and a.dtype.itemsize == 2:
        b = dtypes.adapted(b, a.dtype)
    if name in _COMPARISONS:
        return _compare(MIRRORED.get(name, name) if swapped else name, a, b, is_array, out)
    if name == "power" and not swapped and type(b) in (int, float) and b in _POWERS:
        simple = None if a.dtype.kind in "biu" else _operator(_POWERS[b], name, a.dtype)
        if simple is not None:
            return simple(a) if out is None else _apart(simple, a, out=out)
    if name == "divide" and type(b) is int and a.dtype.kind in "iu":
        b, other = _divisor(b), a.dtype  # a quotient is floating, so that no bounds matter
    else:
        other = b.dtype if is_array else dtypes.scalar_dtype(b, a.dtype)
    operator, common = _binary_operator(name, a.dtype, other, is_array, swapped, dtype)
    if name == "power" and common.kind == "i" and not (is_array or swapped) and b < 0:
        raise DTypeError(f"power: {quoted(b)} of {a.dtype}: a negative power is no integer")
    return operator(a, b) if out is None else _apart(operator, a, b, out=out)


def _divisor(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        raise DTypeError(f"divide: {quoted(number)} is out of bounds for a float") from None


@lru_cache(maxsize=1024)
def _binary_operator(
    name: str, a: AnyDType, other: AnyDType, is_array: bool, swapped: bool, dtype: AnyDType | None
) -> tuple[Callable[..., Array], AnyDType]:
    """Returns what computes a binary operator of two dtypes, and the result's dtype."""
    common = dtypes.promote([a, other]) if dtype is None else dtype
    if common.kind == "c" and name not in _COMPLEX:
        raise ComplexError(f"{name}: complex numbers have none: {a} and {other}")
    if name in _BITWISE and common.kind not in "biu":
        raise DTypeError(f"{name}: {a} and {other} are not integers")
    if name == "subtract" and common.kind == "b":
        raise DTypeError("subtract: bool arrays have no difference; use ^ or ~")
    if name == "divide" and common.kind in "biu":
        common = np.dtype(np.float64)
    if common.kind == "b" and name not in _BINARY:
        common = np.dtype(np.int8)
    expr = _BINARY.get(name) or f"{_OPERANDS} {statements(name, common)}"
    label = "x1" if is_array else "w0"
    expr = expr.replace("@", label)
    places = (label, "x0") if swapped else ("x0", label)
    if swapped:
        expr = _swap(expr, label)
    gradient = GRADIENTS.get(name) if common.kind not in "biu" else None
    return _operator(expr, name, common, renamed(gradient, *places)), common


def _apart(operator: Callable[..., Array], *given: Any, out: Any) -> Array:
    """Calls an operator; where ``out`` lies over a part of an operand, with copies, as NumPy."""
    try:
        return operator(*given, out=out)
    except OverlapError:
        copies = (astype(a, a.dtype) if isinstance(a, cl_array.Array) else a for a in given)
        return operator(*copies, out=out)


def _compare(name: str, a: Any, b: Any, is_array: bool, out: Any) -> Array:
    """Compares numbers as what they are, whichever dtypes hold them."""
    if type(b) is int and a.dtype.kind in "iu":
        least, greatest = dtypes.bounds(a.dtype)
        if not least <= b <= greatest:  # the same for all elements
            return _operator("y0 = x0 != x0 || w0 != 0;", name, _BOOL)(
                a, _COMPARISONS[name](0, b), out=out
            )
    other = b.dtype if is_array else dtypes.scalar_dtype(b, a.dtype)
    fp64 = current_device().traits.fp64
    return _comparison_operator(name, a.dtype, other, is_array, fp64)(a, b, out=out)


@lru_cache(maxsize=1024)
def _comparison_operator(
    name: str, a: AnyDType, other: AnyDType, is_array: bool, fp64: bool
) -> Callable[..., Array]:
    paired = "c" in (a.kind, other.kind)
    if paired and name not in _COMPLEX:
        raise ComplexError(f"{name}: complex numbers have no order: {a} and {other}")
    expr = comparison(name, "x0", "x1" if is_array else "w0", a, other, fp64 and not paired)
    return _operator(f"y0 = {expr};", name, _BOOL)


def _swap(expr: str, other: str) -> str:
    return expr.replace("x0", "\0").replace(other, "x0").replace("\0", other)


def unary(name: str, x: Any) -> Array:
    """Applies ``positive``, ``negative``, ``absolute`` or ``invert`` to an array."""
    if name == "invert" and x.dtype.kind not in "biu":
        raise DTypeError(f"invert: {x.dtype} is not an integer")
    if name == "negative" and x.dtype.kind == "b":
        raise DTypeError("negative: bool arrays have no negative; use ~")
    expr = "y0 = !x0;" if name == "invert" and x.dtype.kind == "b" else _UNARY[name]
    if name == "absolute" and x.dtype.kind not in "biu":
        expr = "y0 = abs(x0);" if x.dtype.kind == "c" else "y0 = fabs(x0);"  # of -0 as well
    return _operator(expr, name, None)(x)


Operators.arithmetic = Arithmetic(binary, unary, copy, astype, fill)
