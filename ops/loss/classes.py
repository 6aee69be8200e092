"""Losses of classes: negative log-likelihood and cross entropy, as in `torch.nn.functional`.

Inputs are (C,), (N, C) or (N, C, d1, …) in any memory format; targets are classes of shape (), (N,)
or (N, d1, …), or for `cross_entropy` probabilities of the input's shape. Sums run in float32 at
least. A class outside 0 … C - 1 that is not ``ignore_index`` makes its loss NaN: the host does not
wait for the device to look.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.call.repeat import repeatable
from clprim.dtypes import AnyDType
from clprim.errors import DefinitionError, DTypeError, ShapeError
from clprim.grouped import Grouped
from clprim.ops.loss.reduced import check_floats, check_reduction
from clprim.ops.norm.arguments import allocate, allocate_like, channel_view, check_result
from clprim.ops.norm.moments import flat_view, spread_view, statistics_dtype
from clprim.ops.shared.arguments import dtype_of, real
from clprim.ops.shared.exponentials import exponentials
from clprim.ops.shared.sums import added
from clprim.pointwise import Pointwise
from clprim.reduction import Reduction

__all__ = ["cross_entropy", "cross_entropy_backward", "nll_loss", "nll_loss_backward"]


@repeatable
def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    out: Any = None,
) -> Array:
    """Returns -weight[target] · input[target] of every row of classes.

    Args:
        input: Logarithms of probabilities, (C,), (N, C) or (N, C, d1, …).
        target: Classes: integers of shape (), (N,) or (N, d1, …).
        weight: A factor for each class, (C,), or None.
        ignore_index: A class whose rows are not counted.
        reduction: ``"mean"`` divides the sum by that of the weights, ``"sum"`` or ``"none"``.
        out: Where the loss goes.

    Raises:
        ShapeError, DTypeError, DefinitionError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.log(np.float32([[0.5, 0.5], [0.25, 0.75]])))
        >>> round(float(ops.nll_loss(x, cp.asarray(np.array([1, 0])), reduction="sum")), 4)
        2.0794
    """
    rows = _Rows("nll_loss", input, target, weight, ignore_index, reduction)
    if out is not None:
        rows.check_out(out)
    return rows.reduced("y0 = ignored ? 0 : -at_x1({at}) * counted;", (), (), out)


@repeatable
def nll_loss_backward(
    grad: Any,
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Array:
    """Returns the gradient of `nll_loss` with respect to its input.

    Args:
        grad: Of the loss: of shape (), or of the target's without reduction.
        input: As in `nll_loss`, for its shape, dtype and memory format.
        target: As in `nll_loss`.
        weight: Likewise.
        ignore_index: Likewise.
        reduction: Likewise.

    Raises:
        ShapeError, DTypeError, DefinitionError: With what was given and what was expected.
    """
    rows = _Rows("nll_loss_backward", input, target, weight, ignore_index, reduction)
    grad = rows.per_row(grad)
    counted, number, *total = rows.tables()
    dx: Array = allocate_like(input, input.dtype)
    _picked_slope(input.dtype, bool(total))(rows.numbers(), number, counted, grad, *total, out=dx)
    return dx


@repeatable
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    out: Any = None,
) -> Array:
    """Returns the cross entropy of logits and classes: `nll_loss` of `log_softmax`.

    The logits are read once, and no array of their size is made.

    Args:
        input: Logits, (C,), (N, C) or (N, C, d1, …).
        target: Classes, integers of shape (), (N,) or (N, d1, …); or probabilities of the input's
            shape.
        weight: A factor for each class, (C,), or None.
        ignore_index: A class whose rows are not counted; of no consequence with probabilities.
        reduction: ``"mean"`` divides the sum by that of the weights (with probabilities, by the
            number of rows), ``"sum"`` or ``"none"``.
        label_smoothing: Of the target, this part is spread evenly over all classes.
        out: Where the loss goes.

    Raises:
        ShapeError, DTypeError, DefinitionError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.log(np.float32([[2, 2, 4], [1, 1, 2]])))
        >>> round(float(ops.cross_entropy(x, cp.asarray(np.array([2, 0])))), 4)
        1.0397
    """
    what = "cross_entropy"
    rows = _Rows(what, input, target, weight, ignore_index, reduction, label_smoothing)
    if out is not None:
        rows.check_out(out)
    # Logits are added up as their distance from the first of a row: nothing large cancels.
    first, even = rows.first(), rows.even()
    gains = () if weight is None else (rows.per_class(weight),)
    kind, smooth = statistics_dtype(input.dtype), rows.smoothing != 0
    if rows.soft:
        operator = _soft_sums(kind, bool(gains), smooth)
        tables = operator(input, first, target, *gains, *rows.parts(), axis=rows.axis)
        expr = "y0 = ((x0 - x4) + x1) * x2 - x3; y1 = 1;"
        return rows.reduced(expr, (*tables, rows.flat(first)), (), out)
    if not smooth:
        tables = _exponentials(kind, 0)(input, axis=rows.axis)
        expr = "y0 = ignored ? 0 : ((x2 - at_x1({at})) + x3) * counted;"
        return rows.reduced(expr, tuple(tables), (), out)
    tables = _even_sums(kind, bool(gains))(input, first, *gains, axis=rows.axis)
    expr = (
        "typeof_y0 even = ((x2 - x5) + x3) * x6 - x4;\n"
        "y0 = ignored ? 0 : ((x2 - at_x1({at})) + x3) * counted * w0 + even * w1;"
    )
    return rows.reduced(expr, (*tables, rows.flat(first), even), rows.parts(), out)


@repeatable
def cross_entropy_backward(
    grad: Any,
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """Returns the gradient of `cross_entropy` with respect to its input.

    Args:
        grad: Of the loss: of shape (), or one of a row without reduction.
        input: As in `cross_entropy`.
        target: Likewise.
        weight: Likewise.
        ignore_index: Likewise.
        reduction: Likewise.
        label_smoothing: Likewise.

    Raises:
        ShapeError, DTypeError, DefinitionError: With what was given and what was expected.
    """
    what = "cross_entropy_backward"
    rows = _Rows(what, input, target, weight, ignore_index, reduction, label_smoothing)
    grad = rows.per_row(grad)
    smooth = rows.smoothing != 0
    gains = () if weight is None else (rows.per_class(weight),)
    result: Array
    if rows.soft:
        scale = 1 / max(1, math.prod(rows.shape)) if reduction == "mean" else 1.0
        operator = _soft_slope(input.dtype, bool(gains), smooth)
        numbers = (*rows.parts(), scale)
        result = operator(input, target, grad, *gains, *numbers, axis=rows.axis)
        return result
    counted, number, *total = rows.tables()
    operands = [input, rows.numbers(), number, counted, grad, *total]
    if not smooth:
        result = _slope(input.dtype, bool(total), None)(*operands, axis=rows.axis)
        return result
    operands += [rows.even(), *gains]
    operator = _slope(input.dtype, bool(total), bool(gains))
    result = operator(*operands, *rows.parts(), axis=rows.axis)
    return result


# --- rows ----------------------------------------------------------------------------------------


class _Rows:
    """The rows of classes of a call, checked.

    Attributes:
        axis: Of the classes.
        count: How many classes.
        shape: Of the target, without classes.
        soft: Whether the target is probabilities.
        smoothing: The part of the target that is spread over all classes.
    """

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
        check_floats(what, "input", input)
        shape = input.shape
        if not shape:
            raise ShapeError(f"{what}: input has shape (), expected (C,), (N, C) or (N, C, d1, …)")
        self.axis = min(1, len(shape) - 1)
        self.count = shape[self.axis]
        if self.count < 1:
            raise ShapeError(f"{what}: input has shape {shape}, expected at least one class")
        self.shape = (*shape[: self.axis], *shape[self.axis + 1 :])
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
            check_floats(what, "weight", weight)
            if weight.shape != (self.count,):
                raise ShapeError(
                    f"{what}: weight has shape {weight.shape}, expected ({self.count},): one for "
                    "each class"
                )
        if isinstance(ignore_index, bool) or not isinstance(ignore_index, int | np.integer):
            raise DTypeError(f"{what}: ignore_index={ignore_index!r}; expected an integer")
        self.ignore_index = int(ignore_index)
        self.smoothing = 0.0
        if label_smoothing is not None:
            self.smoothing = real(what, "label_smoothing", label_smoothing)
            if not 0 <= self.smoothing <= 1:
                raise DefinitionError(
                    f"{what}: label_smoothing={label_smoothing!r}; expected 0 to 1"
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
        found = allocate((self.count,), kind)
        _number(out=found)
        return self.per_class(found)

    def even(self) -> Any:
        """The sum of the classes' weights, of shape ()."""
        if not self.smoothing:
            return None
        kind = statistics_dtype(self.input.dtype)
        if self.weight is None:
            return allocate((), kind).fill(self.count)
        return _sum(kind)(self.weight)

    def reduced(
        self, expr: str, tables: Sequence[Any], numbers: Sequence[float], out: Any
    ) -> Array:
        """Returns the losses of rows, or what comes of them.

        Args:
            expr: Assigns ``y0`` from what `_row` says, or of soft targets from ``tables``.
            tables: Arrays of a value a row.
            numbers: Numbers of ``expr``.
            out: Where the result goes.
        """
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
        operator = _row_map(expr, types, f"{self.what}_rows")
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
        operator = _row_map(expr.replace("{at}", self._at()), (kind, kind), f"{self.what}_rows")
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


# --- kernels -------------------------------------------------------------------------------------

_number = Pointwise("y0 = index;", name="class_numbers")


@lru_cache(maxsize=256)
def _row_map(expr: str, types: tuple[AnyDType, ...], name: str) -> Pointwise:
    return Pointwise(expr, result_type=types, name=name)


@lru_cache(maxsize=8)
def _sum(kind: AnyDType) -> Reduction:
    return Reduction("y0 = x0;", **added(1), result_type=kind, name="weights_sum")


@lru_cache(maxsize=64)
def _total(reduction: str, dtype: AnyDType, kind: AnyDType, name: str) -> Reduction:
    finalize = "y0 = reduce_y0 / reduce_y1;" if reduction == "mean" else "y0 = reduce_y0;"
    expr = "y0 = x0; y1 = x1;"
    types: dict[str, Any] = {"result_type": dtype, "partial_type": kind}
    return Reduction(expr, **added(2), finalize=finalize, **types, name=name)


@lru_cache(maxsize=64)
def _exponentials(kind: AnyDType, sums: int, expr: str = "") -> Reduction:
    """To the greatest logit, log Σ exp of distances from it, and sums."""
    results = "".join(f" y{n} = reduce_y{n};" for n in range(2, 2 + sums))
    return Reduction(
        expr,
        **exponentials(sums=sums),
        finalize=f"y0 = reduce_y0; y1 = log(reduce_y1);{results}",
        result_type=kind,
        partial_type=kind,
        name="log_sum_exp",
    )


def _soft(gain: str, smooth: bool, target: str) -> str:
    """The weighted probability of a class."""
    return f"({target} * w0 + w1){gain}" if smooth else f"{target}{gain}"


def _soft_sums(kind: AnyDType, weight: bool, smooth: bool) -> Reduction:
    """Of logits, first logits, probabilities, weights: Σ t and Σ t · (x - first)."""
    t = _soft(" * x3" if weight else "", smooth, "x2")
    return _exponentials(kind, 2, f"y0 = {t}; y1 = y0 * (x0 - x1);")


def _even_sums(kind: AnyDType, weight: bool) -> Reduction:
    """Of logits, first logits, weights: Σ (x - first)."""
    return _exponentials(kind, 1, f"y0 = (x0 - x1){' * x2' if weight else ''};")


@lru_cache(maxsize=64)
def _picked_slope(dtype: AnyDType, mean: bool) -> Pointwise:
    scale = "x3 / x4" if mean else "x3"
    return Pointwise(
        f"y0 = x0 == x1 ? -x2 * ({scale}) : 0;", result_type=dtype, name="nll_loss_backward"
    )


@lru_cache(maxsize=64)
def _slope(dtype: AnyDType, mean: bool, smooth: bool | None) -> Grouped:
    """Of logits, classes' numbers; of a row its class, weight, gradient; then Σ, weights.

    ``smooth`` is None where labels are not smoothed, else whether classes have weights.
    """
    scale, n = ("x4 / x5", 6) if mean else ("x4", 5)
    finalize = f"""
        typeof_group_y0 scale = {scale};
        group_y0 = reduce_y0;
        group_y1 = 1 / reduce_y1 + (reduce_y0 - reduce_y0);
        group_y2 = x2 < 0 ? 0 : scale * x3{"" if smooth is None else " * w0"};
    """
    each = "typeof_y0 p = exp(x0 - group_y0) * group_y1;"
    if smooth is None:
        each += "y0 = p * group_y2 - (x1 == x2 ? group_y2 : 0);"
    else:
        finalize += f"group_y3 = x2 < 0 ? 0 : scale * w1; group_y4 = group_y2 + group_y3 * x{n};"
        gain = f" * x{n + 1}" if smooth else ""
        each += f"y0 = p * group_y4 - (x1 == x2 ? group_y2 : 0) - group_y3{gain};"
    return Grouped(
        "",
        **exponentials(),
        finalize=finalize,
        each=each,
        result_type=dtype,
        partial_type=statistics_dtype(dtype),
        name="cross_entropy_backward",
    )


@lru_cache(maxsize=64)
def _soft_slope(dtype: AnyDType, weight: bool, smooth: bool) -> Grouped:
    """Of logits, probabilities, a row's gradient, weights."""
    t = _soft(" * x3" if weight else "", smooth, "x1")
    return Grouped(
        f"y0 = {t};",
        **exponentials(sums=1),
        finalize=f"""
            typeof_group_y0 scale = x2 * w{2 if smooth else 0};
            group_y0 = reduce_y0;
            group_y1 = reduce_y2 / reduce_y1 * scale + (reduce_y0 - reduce_y0);
            group_y2 = scale;
        """,
        each=f"y0 = exp(x0 - group_y0) * group_y1 - {t} * group_y2;",
        result_type=dtype,
        partial_type=statistics_dtype(dtype),
        name="cross_entropy_backward",
    )
