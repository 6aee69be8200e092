"""What an elementwise operator is, and the functions of `clprim.ops` that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.errors import ShapeError
from clprim.language.definition import is_taken
from clprim.ops.shared.arguments import Operator, by_kind, dtype_of, number, real
from clprim.pointwise import Pointwise

#: Of `Row.integers`: the string of floats, in the integers' dtype.
SAME = "as floats"


@dataclass(frozen=True, eq=False)
class Row:
    """An elementwise operator.

    Attributes:
        name: PyTorch's where it has one; a dot begins what a variant is called.
        meaning: What it returns, without a full stop.
        floats: C that assigns ``y0`` from arrays ``x0``, … and numbers ``w0``, …; by default
            OpenCL C's function of that name.
        integers: Likewise of integers, which keep their dtype then; else they become float32.
        numbers: Parameters beside the arrays, as Python writes them.
        check: Of the name, the array and the numbers: the numbers as the string takes them.
        gradient: By hand, where the derived one is not PyTorch's or loses digits.
        of_result: Likewise from the result alone, which ``NAME_backward`` takes then.
        backward: What ``NAME_backward`` returns; empty where there is none in `clprim.ops`.
        notes: Of the docstring, beside the first line and arguments.
        shown: Whether `clprim.ops` has it as it stands; else functions by hand call it.
        numpy: Names that NumPy or the Array API has for it.
        torch: Names of PyTorch's overloads.
        onnx: ONNX's name.
    """

    name: str
    meaning: str = ""
    floats: str = ""
    integers: str = ""
    numbers: str = ""
    check: Callable[..., tuple[Any, ...]] | None = None
    gradient: str | None = None
    of_result: str | None = None
    backward: str = ""
    notes: str = ""
    shown: bool = True
    numpy: str = ""
    torch: str = ""
    onnx: str = ""

    @property
    def kernel(self) -> str:
        """What its kernels are called."""
        name = self.name.partition(".")[0]
        return f"{name}_of" if is_taken(name) else name

    def text(self, whole: bool = False) -> str:
        """Returns the string of floats, or that of integers."""
        if whole and self.integers not in ("", SAME):
            return self.integers
        return self.floats or f"y0 = {self.name}((typeof_y0)x0);"

    @cached_property
    def of_floats(self) -> Pointwise:
        """What computes it of floats."""
        return Pointwise(self.text(), name=self.kernel, gradient=self.gradient)

    @cached_property
    def operator(self) -> Operator:
        """What computes it."""
        if self.integers == SAME:
            return self.of_floats
        result_type = None if self.integers else np.float32
        whole = Pointwise(self.text(whole=True), name=self.kernel, result_type=result_type)
        return by_kind(self.of_floats, whole)


@cache
def gradient(row: Row, wrt: tuple[str, ...] = ("x0",)) -> Any:
    """Returns the gradient of a row, derived when it is asked for first."""
    return row.of_floats.gradient(wrt)


@cache
def gradient_of_result(row: Row) -> Any:
    """Returns the gradient of a row that reads its result alone."""
    return Pointwise(row.text(), name=row.kernel, gradient=row.of_result).gradient(saves="y0")


def back(what: str, row: Row, grad: Any, x: Any, *numbers: Any) -> Any:
    """Returns the gradient in the array, or from the result alone where the row has that.

    Raises:
        DTypeError: No arrays.
        ShapeError: Of two shapes.
    """
    label = "x" if row.of_result is None else "output"
    dtype_of(what, "grad", grad)
    dtype_of(what, label, x)
    if row.of_result is not None:
        return gradient_of_result(row)(x, grad=grad, saved=x)
    if grad.shape != x.shape:
        raise ShapeError(f"{what}: grad has shape {grad.shape}, expected that of x, {x.shape}")
    return gradient(row)(x, *numbers, grad=grad)


# --- functions -----------------------------------------------------------------------------------


def signatures(row: Row) -> Iterator[tuple[str, str]]:
    """Yields the functions of a row: names, and parameters with what they return."""
    numbers = [p.strip() for p in row.numbers.split(",") if p.strip()]
    typed = [p if p == "*" else _annotated(p) for p in numbers]
    yield row.name, _signature(["x: Any", *typed], "out: Any = None", "Array")
    if row.backward:
        of = "x: Any" if row.of_result is None else "output: Any"
        yield f"{row.name}_backward", _signature(["grad: Any", of, *typed], "", "Array")


def _annotated(parameter: str) -> str:
    name, _, default = parameter.partition("=")
    return f"{name}: float" + (f" = {default}" if default else "")


def _signature(parameters: list[str], out: str, result: str) -> str:
    star = [] if "*" in parameters or not out else ["*"]
    return f"({', '.join([*parameters, *star, *([out] if out else [])])}) -> {result}"


def functions(rows: Iterable[Row], module: str) -> dict[str, Callable[..., Any]]:
    """Returns the functions of all rows, as if they were written in a module."""
    space: dict[str, Any] = {"__name__": module, "Any": Any, "Array": Array}
    space |= {"real": real, "number": number, "back": back}
    found = {}
    for row in rows:
        if row.shown:
            for name, signature in signatures(row):
                found[name] = _function(row, name, signature, space)
    return found


def _function(row: Row, name: str, signature: str, space: dict[str, Any]) -> Callable[..., Any]:
    """Compiles a function: Python's own arguments, and no step more at a call."""
    labels = [p.partition("=")[0].strip(" *") for p in row.numbers.split(",")]
    labels = [label for label in labels if label]
    own = space | {"row": row}
    if row.check is not None:
        own["check"] = row.check
        numbers = f"*check({name!r}, x, {', '.join(labels)})"
    else:
        kind = "number" if row.integers else "real"
        numbers = ", ".join(f"{kind}({name!r}, {label!r}, {label})" for label in labels)
    if name == row.name:
        body = f"row.operator(x, {numbers}{', ' * bool(numbers)}out=out)"
    else:
        array = "x" if row.of_result is None else "output"
        body = f"back({name!r}, row, grad, {array}, {numbers})"
    text = f"from __future__ import annotations\ndef {name}{signature}:\n    return {body}\n"
    exec(text, own)
    function: Callable[..., Any] = own[name]
    function.__doc__ = row.backward if name != row.name else f"Returns {row.meaning}.{row.notes}"
    return function
