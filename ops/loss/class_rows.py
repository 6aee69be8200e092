"""The rows of classes that losses of classes are computed of: checked, and their sums.

See `clprim.ops.loss.classes`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array, new_dense
from clprim.dtypes import AnyDType, is_integer
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.ops.loss.reduced import check_reduction
from clprim.ops.norm.checks import channel_view, check_result
from clprim.ops.norm.moments import flat_view, spread_view, statistics_dtype
from clprim.ops.shared.checks import check_floating, dtype_of, real
from clprim.ops.shared.strings import kernel
from clprim.ops.shared.sums import added
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction


class Rows:
    """The rows of classes of a call, checked."""

    def __init__(
        self,
        what: str,
        input: Any,
        target: Any,
        weight: Any,
        ignore_index: Any,
        reduction: Any,
        label_smoothing: Any = None,
    ) -> None:
        self.what, self.input, self.target, self.weight = what, input, target, weight
        self.reduction = check_reduction(what, reduction)
        check_floating(what, "input", input)
        shape = input.shape
        if not shape:
            raise ShapeError(f"{what}: input has shape (), expected (C,), (N, C) or (N, C, d1, …)")
        self.axis = min(1, len(shape) - 1)
        self.count = shape[self.axis]
        self.shape = (*shape[: self.axis], *shape[self.axis + 1 :])
        if self.count < 1 and math.prod(self.shape):
            raise ShapeError(f"{what}: input has shape {shape}, expected at least one class")
        given = dtype_of(what, "target", target)
        self.soft = label_smoothing is not None and given.kind not in "biu"
        expected = shape if self.soft else self.shape
        if not self.soft and given.kind not in "iu":
            raise DTypeError(f"{what}: target is {given}, expected classes: integers")
        if target.shape != expected:
            raise ShapeError(
                f"{what}: target has shape {target.shape}, expected {expected} for an input of "
                f"shape {shape}"
            )
        if weight is not None:
            check_floating(what, "weight", weight)
            if weight.shape != (self.count,):
                raise ShapeError(
                    f"{what}: weight has shape {weight.shape}, expected ({self.count},): one for "
                    "each class"
                )
        if not is_integer(ignore_index):
            raise DTypeError(f"{what}: ignore_index={quoted(ignore_index)}; expected an integer")
        self.ignore_index = int(ignore_index)
        self.smoothing = 0.0
        if label_smoothing is not None:
            self.smoothing = real(what, "label_smoothing", label_smoothing)
            if not 0 <= self.smoothing <= 1:
                raise DefinitionError(
                    f"{what}: label_smoothing={quoted(label_smoothing)}; expected 0 to 1"
                )

    def check_out(self, out: Any) -> None:
        """Refuses ``out=`` of another shape or dtype, or where it overlaps an argument."""
        shape = self.shape if self.reduction == "none" else ()
        given = [a for a in (self.input, self.target, self.weight) if a is not None]
        check_result(self.what, out, shape, self.input.dtype, given)

    def parts(self) -> tuple[float, ...]:
        """What the target, and each class, gets of it where labels are smoothed."""
        return (1 - self.smoothing, self.smoothing / self.count) if self.smoothing else ()

    def first(self) -> Any:
        """The first element of every row, with classes of size 1."""
        return self.input[:1] if self.axis == 0 else self.input[:, :1]

    def flat(self, table: Any) -> Any:
        """The same without the axis of the classes."""
        return flat_view(table, (self.axis,))

    def per_class(self, vector: Any) -> Any:
        """A vector of classes, to broadcast with the input."""
        return channel_view(vector, len(self.input.shape)) if self.axis else vector

    def per_row(self, grad: Any) -> Any:
        """The gradient of the loss, to broadcast with the input."""
        dtype_of(self.what, "grad", grad)
        shape = self.shape if self.reduction == "none" else ()
        if grad.shape != shape:
            raise ShapeError(
                f"{self.what}: grad has shape {grad.shape}, expected that of the loss, {shape}"
            )
        return spread_view(grad, (self.axis,)) if shape else grad

    def numbers(self) -> Any:
        """The classes' numbers, to broadcast with the input."""
        kind = statistics_dtype(self.input.dtype)
        found = new_dense((self.count,), kind)
        _number(out=found)
        return self.per_class(found)

    def even(self) -> Any:
        """The sum of the classes' weights, of shape ()."""
        if not self.smoothing:
            return None
        kind = statistics_dtype(self.input.dtype)
        if self.weight is None:
            return new_dense((), kind).fill(self.count)
        return _sum(kind)(self.weight)

    def reduced(
        self, expr: str, tables: Sequence[Any], numbers: Sequence[float], out: Any
    ) -> Array:
        """Returns the losses of rows, or what comes of them."""
        dtype, none = self.input.dtype, self.reduction == "none"
        kind = statistics_dtype(dtype)
        arrays = list(tables) if self.soft else [self.target, self.input, *tables]
        if not self.soft:
            n = len(arrays)
            expr = self._row(f"at_x{n}(picked)" if self.weight is not None else "1") + expr
            expr = expr.replace("{at}", self._at())
            if not none:
                expr += " y1 = counted;"
            if self.weight is not None:
                arrays.append(self.weight)
        elif none:
            expr = expr.replace(" y1 = 1;", "")
        types = (dtype,) if none else (kind, kind)
        operator = kernel(expr, f"{self.what}_rows", *types)
        result: Array
        if none:
            result = operator(*arrays, *numbers, out=out)
        else:
            found = operator(*arrays, *numbers)
            result = _total(self.reduction, dtype, kind, self.what)(*found, out=out)
        return result

    def tables(self) -> list[Any]:
        """Returns the weight and the number of each row's class, and for a mean all weights' sum.

        The former two broadcast with the input; a class that is ignored has the number -1.
        """
        kind = statistics_dtype(self.input.dtype)
        weights = () if self.weight is None else (self.weight,)
        expr = self._row("at_x2(picked)" if weights else "1")
        expr += "y0 = counted; y1 = ignored ? -1 : x0;\n(void)inside_x1({at});"
        operator = kernel(expr.replace("{at}", self._at()), f"{self.what}_rows", kind, kind)
        found = operator(self.target, self.input, *weights)
        total = [_sum(kind)(found[0])] if self.reduction == "mean" else []
        return [*(spread_view(a, (self.axis,)) if self.shape else a for a in found), *total]

    def _at(self) -> str:
        """Where the input has the class ``picked`` of a row."""
        row = [f"coord({d})" for d in range(len(self.shape))]
        return ", ".join([*row[: self.axis], "picked", *row[self.axis :]])

    def _row(self, weight: str) -> str:
        """Statements that declare ``ignored``, the class ``picked``, its weight ``counted``."""
        return f"""
            const int ignored = x0 == {self.ignore_index};
            const int known = x0 >= 0 && x0 < {self.count};
            const long picked = known ? x0 : 0;
            typeof_y0 counted = ignored ? 0 : known ? {weight} : NAN;
        """


_number = Pointwise("y0 = index;", name="class_numbers")


@lru_cache(maxsize=8)
def _sum(kind: AnyDType) -> Reduction:
    return Reduction("y0 = x0;", **added(1), result_type=kind, name="weights_sum")


@lru_cache(maxsize=64)
def _total(reduction: str, dtype: AnyDType, kind: AnyDType, name: str) -> Reduction:
    finalize = "y0 = reduce_y0 / reduce_y1;" if reduction == "mean" else "y0 = reduce_y0;"
    expr = "y0 = x0; y1 = x1;"
    types: dict[str, Any] = {"result_type": dtype, "partial_type": kind}
    return Reduction(expr, **added(2), finalize=finalize, **types, name=name)
