"""What an elementwise operator is: a row of their table, and what computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from clprim.arrays.expressions import renamed
from clprim.dtypes import AnyDType
from clprim.language.definition import is_taken
from clprim.ops.shared.checks import Operator, by_kind
from clprim.primitives.pointwise import Pointwise

_FLOAT32 = np.dtype(np.float32)
#: Of `Row.integers`: the string of floats, in the integers' dtype.
SAME = "as floats"


@dataclass(frozen=True, eq=False)
class Row:
    """An elementwise operator."""

    name: str
    meaning: str = ""
    floats: str | Callable[[AnyDType], str] = ""
    integers: str = ""
    complexes: str = ""
    operands: str = "x"
    commutes: bool = False
    arithmetic: str = ""
    truth: bool = False
    numbers: str = ""
    check: Callable[..., tuple[Any, ...]] | None = None
    gradient: str | None = None
    of_result: str | None = None
    backward: str | None = None
    notes: str = ""
    shown: bool = True
    numpy: str = ""
    torch: str = ""
    autocast: str = ""
    onnx: str = ""
    sample: str = ""
    slope: str = ""

    @property
    def kernel(self) -> str:
        """What its kernels are called."""
        name = self.name.partition(".")[0]
        return f"{name}_of" if is_taken(name) else name

    @cached_property
    def arrays(self) -> list[str]:
        """The names of the operands."""
        return self.operands.split(", ")

    def text(self, whole: bool = False, dtype: AnyDType = _FLOAT32) -> str:
        """Returns the string of floats, or that of integers."""
        if whole and self.integers not in ("", SAME):
            return self.integers
        if dtype.kind == "c" and self.complexes:
            return self.complexes
        text = self.floats if isinstance(self.floats, str) else self.floats(dtype)
        return text or f"y0 = {self.name}((typeof_y0)x0);"

    @property
    def texts(self) -> tuple[str, str]:
        """The strings of floats and of integers."""
        return self.text(), self.text(whole=True)

    @cached_property
    def of_floats(self) -> Pointwise:
        """What computes it of arrays of floats."""
        return Pointwise(self._of_arrays(), name=self.kernel, gradient=self.gradient)

    def _of_arrays(self, other: str = "x1") -> str:
        operands = f"typeof_y0 a = x0; typeof_y0 b = {other}; " if len(self.arrays) == 2 else ""
        return operands + self.text()

    @cached_property
    def with_number(self) -> Pointwise:
        """What computes it of an array and a number, where operands may change places."""
        gradient = renamed(self.gradient, "x0", "w0")
        return Pointwise(self._of_arrays("w0"), name=self.kernel, gradient=gradient)

    @cached_property
    def operator(self) -> Operator:
        """What computes it."""
        if not self.truth and self.integers == SAME and not self.complexes:
            return self.of_floats
        floats, integers = self.texts
        own = np.bool_ if self.truth else None
        whole = own if self.truth or self.integers else np.float32
        return by_kind(
            Pointwise(floats, name=self.kernel, result_type=own) if self.truth else self.of_floats,
            Pointwise(integers, name=self.kernel, result_type=whole),
            Pointwise(self.complexes or floats, name=self.kernel, result_type=own),
        )


@cache
def gradient(row: Row, wrt: tuple[str, ...] | None = ("x0",)) -> Any:
    """Returns the gradient of a row in arrays, or all, derived when it is asked for first."""
    return row.of_floats.gradient(wrt)


@cache
def gradient_of_result(row: Row) -> Any:
    """Returns the gradient of a row that reads its result alone."""
    return Pointwise(row.text(), name=row.kernel, gradient=row.of_result).gradient(saves="y0")
