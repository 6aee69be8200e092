"""The functions that follow from rows: what they do at a call, and how they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.expressions import TRUTHS, renamed
from clprim.dtypes import AnyDType, adapted, promote, scalar_dtype
from clprim.errors import ShapeError
from clprim.ops.elementwise.row import SAME, Row, gradient, gradient_of_result
from clprim.ops.shared.checks import (
    check_floating,
    dtype_of,
    is_array,
    number,
    operand,
    real,
)
from clprim.ops.shared.made import made
from clprim.primitives.arithmetic import binary, copy
from clprim.primitives.arithmetic import unary as arithmetic_of_one
from clprim.primitives.pointwise import Pointwise

# --- calls ---------------------------------------------------------------------------------------


def common_dtype(a: Any, b: Any) -> Any:
    """Returns the dtype that two operands promote to, of which one is an array."""
    arrays = [v.dtype for v in (a, b) if is_array(v)]
    numbers = [scalar_dtype(v, arrays[0]) for v in (a, b) if not is_array(v)]
    return promote([*arrays, *numbers])


def arithmetic(what: str, name: str, a: Any, b: Any, out: Any, dtype: Any = None) -> Array:
    """Applies an operator of `clprim.primitives.arithmetic`; ``dtype`` is that of the result."""
    if not is_array(a) and not is_array(b):
        dtype_of(what, "at least one operand", a)
    if is_array(a):
        b = operand(what, b)
        return binary(name, a, b, out=out, dtype=dtype)
    return binary(name, b, operand(what, a), swapped=True, out=out, dtype=dtype)


@lru_cache(maxsize=1024)
def _operator_of_two(row: Row, a: bool, b: bool, dtype: AnyDType) -> Pointwise:
    left, right = "x0" if a else "w0", "w0" if not b else "x1" if a else "x0"
    text = f"const typeof_y0 a = {left}, b = {right}; {row.text(dtype=dtype)}"
    by_hand = None if dtype.kind in "biu" else renamed(row.gradient, left, right)
    return Pointwise(text, name=row.kernel, result_type=dtype, gradient=by_hand)


def of_two(row: Row, a: Any, b: Any, out: Any) -> Array:
    """Computes a row of two operands, of which one may be a number."""
    name = row.name
    if row.commutes:
        if not is_array(a):
            a, b = b, a
        if is_array(b):
            return row.of_floats(a, b, out=out)
        return row.with_number(a, operand(name, b), out=out)
    if not is_array(a) and not is_array(b):
        dtype_of(name, "at least one operand", a)
    a, b = operand(name, a), operand(name, b)
    dtype = common_dtype(a, b)
    if dtype.kind == "b" or (dtype.kind in "iu" and row.integers != SAME):
        dtype = np.dtype(np.float32)
    operator = _operator_of_two(row, is_array(a), is_array(b), dtype)
    if not is_array(a):
        return operator(b, adapted(a, dtype), out=out)
    return operator(a, b if is_array(b) else adapted(b, dtype), out=out)


def back(what: str, row: Row, grad: Any, x: Any, *numbers: Any) -> Any:
    """Returns the gradient in the array."""
    dtype_of(what, "grad", grad)
    dtype_of(what, "x", x)
    if grad.shape != x.shape:
        raise ShapeError(f"{what}: grad has shape {grad.shape}, expected that of x, {x.shape}")
    return gradient(row)(x, *numbers, grad=grad)


def back_of_result(what: str, row: Row, grad: Any, output: Any) -> Any:
    """Likewise, from the result."""
    dtype_of(what, "grad", grad)
    dtype_of(what, "output", output)
    return gradient_of_result(row)(output, grad=grad, saved=output)


def back_of_two(what: str, row: Row, grad: Any, *operands: Any) -> Any:
    """Returns the gradients in both arrays, which are of floats."""
    dtype_of(what, "grad", grad)
    for label, array in zip(row.arrays, operands, strict=True):
        check_floating(what, label, array)
    return gradient(row, None)(*operands, grad=grad)


# --- without a function of `clprim.ops` ---------------------------------------------------------


def unary(name: str) -> Callable[..., Any]:
    """NumPy's name of what one of Python's signs does."""

    def compute(x: Any, *, out: Any = None) -> Any:
        dtype_of(name, "x", x)
        if out is not None:
            dtype_of(name, "out", out)
        found = arithmetic_of_one(name, x)
        return found if out is None else copy(found, out=out)

    return compute


def _arithmetic(name: str) -> Callable[..., Any]:
    def compute(a: Any, b: Any, *, out: Any = None) -> Any:
        return arithmetic(name, name, a, b, out)

    return compute


def _logical(name: str) -> Callable[..., Any]:
    """A string of two, of which one may be a number, and which may change places."""
    text = f"y0 = (@ != 0) {TRUTHS[name]} (x0 != 0);"
    of_arrays, of_number = (
        Pointwise(text.replace("@", other), name=f"{name}_of", result_type=np.bool_)
        for other in ("x1", "w0")
    )

    def compute(a: Any, b: Any, *, out: Any = None) -> Any:
        a, b = (a, b) if is_array(a) else (b, a)
        dtype_of(name, "at least one operand", a)
        return (of_arrays if is_array(b) else of_number)(a, operand(name, b), out=out)

    return compute


def computed(row: Row) -> Callable[..., Any]:
    """Returns what computes a row."""
    if row.arithmetic.startswith("logical"):
        return _logical(row.arithmetic)
    if row.arithmetic:
        return (unary if len(row.arrays) == 1 else _arithmetic)(row.arithmetic)
    if row.numbers:
        return lambda x, **numbers: row.operator(x, *numbers.values())
    return row.operator


# --- functions -----------------------------------------------------------------------------------


def signatures(row: Row) -> Iterator[tuple[str, str]]:
    """Yields the functions of a row: names, and parameters with what they return."""
    numbers = [p if p == "*" else _annotated(p) for p in _numbers(row)]
    arrays = [f"{name}: Any" for name in row.arrays]
    star = [] if "*" in numbers else ["*"]
    yield row.name, f"({', '.join([*arrays, *numbers, *star, 'out: Any = None'])}) -> Array"
    if row.backward is not None:
        given = arrays if row.of_result is None else ["output: Any"]
        result = "Array" if len(given) == 1 else "tuple[Array, Array]"
        yield _back(row), f"({', '.join(['grad: Any', *given, *numbers])}) -> {result}"


def functions(rows: Iterable[Row], module: str) -> dict[str, Callable[..., Any]]:
    """Returns the functions of all rows that are shown, as if they were written in a module."""
    return {
        name: _function(row, name, signature, module)
        for row in rows
        if row.shown
        for name, signature in signatures(row)
    }


_CALLED: dict[str, Any] = {
    f.__name__: f for f in (arithmetic, back, back_of_result, back_of_two, number, of_two, real)
}


def _numbers(row: Row) -> list[str]:
    return row.numbers.split(", ") if row.numbers else []


def _annotated(parameter: str) -> str:
    name, _, default = parameter.partition("=")
    return f"{name}: float" + (f" = {default}" if default else "")


def _back(row: Row) -> str:
    return f"{row.name}_backward"


def _function(row: Row, name: str, signature: str, module: str) -> Callable[..., Any]:
    """Compiles a function: arguments are Python's own, and a call has no step more."""
    arrays = row.operands
    labels = [p.partition("=")[0] for p in _numbers(row) if p != "*"]
    kind = "number" if row.integers else "real"
    numbers = ", ".join(f"{kind}({name!r}, {label!r}, {label})" for label in labels)
    if row.check is not None:
        numbers = f"*row.check({name!r}, ({arrays},), {', '.join(labels)})"
    given = f"{arrays}, {numbers}" if numbers else arrays
    if name != row.name:
        call = "back" if len(row.arrays) == 1 else "back_of_two"
        body = f"{call}({name!r}, row, grad, {given})"
        if row.of_result is not None:
            body = f"back_of_result({name!r}, row, grad, output)"
        several = "s" * (len(row.arrays) > 1)
        doc = f"Returns the gradient{several} of `{row.name}`{row.backward}"
        doc += "" if doc.endswith("\n") else "."
    else:
        body = f"row.operator({given}, out=out)"
        if row.arithmetic:
            body = f"arithmetic({name!r}, {row.arithmetic!r}, {arrays}, out)"
        elif len(row.arrays) == 2:
            body = f"of_two(row, {arrays}, out)"
        doc = f"Returns {row.meaning}.{row.notes}"
    return made(name, signature, body, module, doc, {**_CALLED, "row": row})
