"""Root-mean-square normalisation (Zhang and Sennrich 2019).

It normalises over the last dimensions. Names and arguments are those of `torch.nn.functional`;
float16 and bfloat16 are normalised in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.call.repeat import repeatable
from clprim.dtypes import AnyDType
from clprim.grouped import GroupedMap
from clprim.ops.norm.arguments import (
    check_gradient,
    check_mask,
    check_result,
    check_statistics,
)
from clprim.ops.norm.moments import statistics_dtype
from clprim.ops.norm.rows import check_rows, near_rows, row_count, row_shape
from clprim.ops.shared.arguments import real
from clprim.pointwise import Pointwise
from clprim.reduction import Reduction

__all__ = ["rms_norm", "rms_norm_backward"]


@repeatable
def rms_norm(
    x: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    eps: float | None = None,
    *,
    return_stats: bool = False,
    out: Any = None,
) -> Any:
    """Returns x / √(mean(x²) + eps) · weight over the last dimensions.

    Args:
        x: (…, *normalized_shape) of floating-point numbers.
        normalized_shape: The last dimensions of ``x``.
        weight: A factor for each element of them, of that shape, or None.
        eps: Added to the mean square; None for the machine epsilon of float32, of float64 for
            float64.
        return_stats: Whether to return (y, rstd), for `rms_norm_backward`.
        out: Where y goes; may be ``x``.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.rms_norm(cp.asarray(np.float32([1, -7])), 2, eps=0).get()
        array([ 0.2, -1.4], dtype=float32)
    """
    what = "rms_norm"
    dtype, axes = check_rows(what, x, normalized_shape, {"weight": weight})
    gains = () if weight is None else (weight,)
    if out is not None:
        check_result(what, out, x.shape, dtype, [x, *gains])
    numbers = [row_count(x, axes), _added(what, x, eps)]
    near = near_rows(
        _near_root(weight is not None), x, [x], [], gains, numbers, axes, out, [return_stats]
    )
    if near is not None:
        return near if return_stats else near[0]
    rstd = _root_mean_square(what, x, axes, eps)
    y = _scale_rows(dtype, weight is not None)(x, rstd, *gains, out=out)
    return (y, rstd) if return_stats else y


@repeatable
def rms_norm_backward(
    grad: Any,
    x: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    rstd: Any = None,
    *,
    eps: float | None = None,
    output_mask: Sequence[bool] = (True, True),
) -> tuple[Array | None, Array | None]:
    """Returns the gradients (dx, dweight) of `rms_norm`.

    With xhat = x · rstd and g = grad · weight: dx = rstd · (g - xhat · mean(g · xhat)) and
    dweight = Σ grad · xhat.

    Args:
        grad: Of the result, of the shape of ``x``.
        x: What was normalised.
        normalized_shape: As in `rms_norm`.
        weight: As in `rms_norm`.
        rstd: As `rms_norm` returned it; computed anew where it is None.
        eps: As in `rms_norm`; of no consequence where ``rstd`` is given.
        output_mask: Which of the two are wanted; None stands for the other.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.
    """
    what = "rms_norm_backward"
    dtype, axes = check_rows(what, x, normalized_shape, {"weight": weight})
    wanted = check_mask(what, output_mask, ("dx", "dweight"))
    check_gradient(what, grad, x)
    if rstd is None:
        rstd = _root_mean_square(what, x, axes, eps)
    check_statistics(what, "rstd", rstd, row_shape(x, axes))
    kind = statistics_dtype(dtype)
    gains = () if weight is None else (weight,)
    dx = dweight = None
    if wanted[0]:
        count = row_count(x, axes)
        near = near_rows(
            _near_root_gradient(weight is not None),
            x,
            [grad, x, *gains],
            [rstd],
            [],
            [1 / max(1, count)],
            axes,
            None,
            [False] * 2,
        )
        if near is not None:
            dx = near[0]
        else:
            sums = _row_sums(kind, weight is not None)(grad, x, *gains, axis=axes, keepdims=True)
            slope = _row_slope(sums, rstd, 1 / max(1, count))
            dx = _scaled_gradient(dtype, weight is not None)(grad, x, rstd, slope, *gains)
    if wanted[1]:
        leading = tuple(range(len(x.shape) - len(axes)))
        dweight = _weight_sums(kind if weight is None else weight.dtype)(
            grad, x, rstd, axis=leading
        )
    return dx, dweight


def _root_mean_square(what: str, x: Any, axes: tuple[int, ...], eps: float | None) -> Array:
    kind = statistics_dtype(x.dtype)
    result: Array = _root(kind)(x, _added(what, x, eps), axis=axes, keepdims=True)
    return result


def _added(what: str, x: Any, eps: float | None) -> float:
    """What is added to the mean square."""
    if eps is None:
        return float(np.finfo(statistics_dtype(x.dtype)).eps)
    return real(what, "eps", eps)


# --- kernels --------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _near_root(weight: bool) -> GroupedMap:
    each = f"y0 = x0 * x1{' * x2' if weight else ''};"
    return GroupedMap("y0 = x0 * x0;", "y0 = 1 / sqrt(x0 / w0 + w1);", each, name="rms_norm")


@lru_cache(maxsize=2)
def _near_root_gradient(weight: bool) -> GroupedMap:
    """Of grad, x and weight; of a row, 1 / root of the mean square."""
    n, g = 2 + weight, "x0 * x2" if weight else "x0"
    return GroupedMap(
        f"y0 = {g} * x1;",
        "y0 = x0 * w0 * x1 * x1; y1 = x1;",
        f"y0 = ({g} - x1 * x{n}) * x{n + 1};",
        name="rms_norm_dx",
    )


@lru_cache(maxsize=64)
def _scale_rows(dtype: AnyDType, weight: bool) -> Pointwise:
    expr = f"y0 = x0 * x1{' * x2' if weight else ''};"
    return Pointwise(expr, result_type=dtype, name="rms_norm")


@lru_cache(maxsize=64)
def _row_sums(kind: AnyDType, weight: bool) -> Reduction:
    """From grad, x and, if there, weight: Σ g · x."""
    return Reduction(
        f"y0 = x0{' * x2' if weight else ''} * x1;",
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
        result_type=kind,
        name="norm_row_sums",
    )


_row_slope = Pointwise("y0 = x0 * w0 * x1 * x1;", name="norm_row_slope")


@lru_cache(maxsize=64)
def _scaled_gradient(dtype: AnyDType, weight: bool) -> Pointwise:
    g = "x0 * x4" if weight else "x0"
    return Pointwise(f"y0 = ({g} - x1 * x3) * x2;", result_type=dtype, name="rms_norm_dx")


@lru_cache(maxsize=64)
def _weight_sums(dtype: AnyDType) -> Reduction:
    return Reduction(
        "y0 = x0 * (x1 * x2);",
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
        result_type=dtype,
        name="norm_weight_sums",
    )


@lru_cache(maxsize=8)
def _root(kind: AnyDType) -> Reduction:
    return Reduction(
        "y0 = x0 * x0;",
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
        finalize="y0 = 1 / sqrt(reduce_y0 / count + w0);",
        result_type=kind,
        name="root_mean_square",
    )
