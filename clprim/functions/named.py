"""NumPy's functions of elements that follow from the table of operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from clprim.arrays import arithmetic
from clprim.arrays.array import Array
from clprim.arrays.expressions import TRUTHS
from clprim.errors import DTypeError, upload_hint
from clprim.language.traced_value import Value, apply
from clprim.ops.elementwise import operators
from clprim.ops.elementwise.row import Row
from clprim.ops.elementwise.table import ROWS
from clprim.ops.shared.arguments import dtype_of, is_array
from clprim.pointwise import Pointwise


def operator(name: str) -> Callable[..., Any]:
    """NumPy's name of what one of Python's signs does."""

    def compute(x: Any, *, out: Any = None) -> Any:
        dtype_of(name, "x", x)
        if out is not None:
            dtype_of(name, "out", out)
        found = arithmetic.unary(name, x)
        return found if out is None else arithmetic.copy(found, out=out)

    return compute


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


def _logical(name: str) -> Callable[..., Any]:
    """A string of two, of which one may be a number."""
    text = f"y0 = (@ != 0) {TRUTHS[name]} (x0 != 0);"
    of_arrays, of_number = (
        Pointwise(text.replace("@", other), name=f"{name}_of", result_type=np.bool_)
        for other in ("x1", "w0")
    )

    def compute(a: Any, b: Any, *, out: Any = None) -> Any:
        _checked(name, a, b)
        if is_array(a) and is_array(b):
            return of_arrays(a, b, out=out)
        return of_number(*((a, b) if is_array(a) else (b, a)), out=out)

    return compute


def _compute(row: Row) -> Callable[..., Any]:
    """Returns what computes a row."""
    if row.arithmetic.startswith("logical"):
        return _logical(row.arithmetic)
    if row.arithmetic:
        return (operator if len(row.arrays) == 1 else _arithmetic)(row.arithmetic)
    return getattr(operators, row.name) if row.shown else row.operator


def _function(row: Row) -> Callable[..., Array]:
    """Compiles the function, which takes the values of `elementwise` as well."""
    name, given = row.numpy.split()[0], row.operands
    values = " or ".join(f"isinstance({array}, Value)" for array in row.arrays)
    each = "" if "element" in row.meaning else ", of every element"
    text = f"""
def {name}({given}, /, *, out=None):
    if {values}:
        return apply({name!r}, {given})
    return compute({given}, out=out)
"""
    space: dict[str, Any] = {"Value": Value, "apply": apply, "compute": _compute(row)}
    space["__name__"] = __name__
    exec(text, space)
    function: Callable[..., Array] = space[name]
    function.__doc__ = f"Returns {row.meaning}{each}; ``out`` is where the result goes."
    return function


# What a type checker reads stands in named.pyi, which is made from the table as well.
_FUNCTIONS: dict[str, Any] = {}
for _row in ROWS.values():
    if _row.numpy:
        _FUNCTIONS |= dict.fromkeys(_row.numpy.split(), _function(_row))
globals().update(_FUNCTIONS)
__all__ = sorted(_FUNCTIONS)  # noqa: PLE0605
