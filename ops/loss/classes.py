"""Losses of classes: negative log-likelihood and cross entropy, as in `torch.nn.functional`.

Inputs are (C,), (N, C) or (N, C, d1, …) in any memory format; targets are classes of shape (), (N,)
or (N, d1, …), or for `cross_entropy` probabilities of the input's shape. Sums run in float32 at
least. A class outside 0 … C - 1 that is not ``ignore_index`` makes its loss NaN: the host does not
wait for the device to look.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.dtypes import AnyDType
from clprim.gradients.grouped import GroupedGradient
from clprim.graph.repeat import repeatable
from clprim.ops.loss.class_rows import Rows
from clprim.ops.norm.moments import statistics_dtype
from clprim.ops.registry import operator
from clprim.ops.shared.exponentials import exponentials
from clprim.ops.shared.strings import kernel
from clprim.primitives.grouped import Grouped
from clprim.primitives.reduction import Reduction


@operator(
    autocast="float32 nll_loss nll_loss2d nll_loss_nd",
    torch="nll_loss_forward nll_loss2d_forward @of_classes @none;"
    "nll_loss_backward nll_loss2d_backward -total_weight @of_classes_gradient @none",
    onnx="""NegativeLogLikelihoodLoss ignore_index=-4611686018427387904 reduction='mean';
        SoftmaxCrossEntropyLoss ignore_index=-4611686018427387904 reduction='mean' @2 @logits""",
    sample='x, empty((0, 4, 4), int64), reduction="none"',
    wrt="input",
)
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

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.log(np.float32([[0.5, 0.5], [0.25, 0.75]])))
        >>> round(float(ops.nll_loss(x, cp.asarray(np.array([1, 0])), reduction="sum")), 4)
        2.0794
    """
    rows = Rows("nll_loss", input, target, weight, ignore_index, reduction)
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
    """Returns the gradient of `nll_loss` with respect to its input."""
    rows = Rows("nll_loss_backward", input, target, weight, ignore_index, reduction)
    grad = rows.per_row(grad)
    counted, number, *total = rows.tables()
    operands = (input, rows.numbers(), number, counted, grad, *total)
    scale = "x4 / x5" if total else "x4"
    text = f"(void)x0; y0 = x1 == x2 ? -(x3 * ({scale})) : 0;"
    return kernel(text, "nll_loss", input.dtype)(*operands)


@operator(
    autocast="float32 cross_entropy_loss",
    sample='x, empty((0, 4, 4), int64), reduction="none"',
    wrt="input",
)
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

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.log(np.float32([[2, 2, 4], [1, 1, 2]])))
        >>> round(float(ops.cross_entropy(x, cp.asarray(np.array([2, 0])))), 4)
        1.0397
    """
    what = "cross_entropy"
    rows = Rows(what, input, target, weight, ignore_index, reduction, label_smoothing)
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
    """Returns the gradient of `cross_entropy` with respect to its input."""
    what = "cross_entropy_backward"
    rows = Rows(what, input, target, weight, ignore_index, reduction, label_smoothing)
    grad = rows.per_row(grad)
    smooth = rows.smoothing != 0
    gains = () if weight is None else (rows.per_class(weight),)
    if rows.soft:
        scale = 1 / max(1, math.prod(rows.shape)) if reduction == "mean" else 1.0
        operands = [input, target, grad, *gains]
        numbers = (*rows.parts(), scale)
        operator = _gradient(input.dtype, _soft_rows(bool(gains), smooth))
    else:
        counted, number, *total = rows.tables()
        operands = [input, rows.numbers(), number, counted, grad, *total]
        operands += [rows.even(), *gains] if smooth else []
        numbers = rows.parts()
        operator = _gradient(input.dtype, _hard(bool(total), smooth, bool(gains)))
    return operator(*operands, *numbers, grad=1.0, axis=rows.axis)


# --- kernels -------------------------------------------------------------------------------------


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
def _gradient(dtype: AnyDType, each: str) -> GroupedGradient:
    """The gradient of what adds up to the cross entropy of a row, in the logits.

    Values of a row are its greatest logit, 1 / Σ exp of distances from it, 1 / number of classes.
    """
    return Grouped(
        "",
        **exponentials(),
        finalize="""
            group_y0 = reduce_y0;
            group_y1 = 1 / reduce_y1 + (reduce_y0 - reduce_y0);
            group_y2 = 1 / count;
        """,
        each="typeof_y0 top = group_y0 - log(group_y1);" + each,
        result_type=dtype,
        partial_type=statistics_dtype(dtype),
        name="cross_entropy",
    ).gradient("x0")


def _hard(mean: bool, smooth: bool, weight: bool) -> str:
    """Of logits, numbers; of a row its class, weight, gradient; Σ of rows, of classes, weights."""
    # Where all rows are ignored, so is the sum of no weights.
    scale, n = ("x4 / (x5 == 0 ? 1 : x5)", 6) if mean else ("x4", 5)
    # log Σ exp of the row, which every class counts with its weight, goes to all in equal parts.
    if not smooth:
        return f"typeof_y0 f = x3 * ({scale}); y0 = f * top * group_y2 - (x1 == x2 ? f * x0 : 0);"
    gain = f" * x{n + 1}" if weight else ""
    return f"""
        typeof_y0 scale = ({scale}) * (x2 >= 0);
        typeof_y0 f = scale * (x3 * w0);
        typeof_y0 even = scale * w1;
        y0 = (f + even * x{n}) * top * group_y2 - (x1 == x2 ? f * x0 : 0) - even{gain} * x0;
    """


def _soft_rows(weight: bool, smooth: bool) -> str:
    """Of logits, probabilities, a row's gradient, weights."""
    t = _soft(" * x3" if weight else "", smooth, "x1")
    return f"y0 = {t} * (x2 * w{2 if smooth else 0}) * (top - x0);"
