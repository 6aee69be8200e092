"""Layer normalisation (Ba and others 2016) and its root-mean-square form (Zhang, Sennrich 2019).

Both normalise over the last dimensions. Names and arguments are those of `torch.nn.functional`;
float16 and bfloat16 are normalised in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from clprim.ops.common import real
from clprim.ops.moments import moments, near_terms, origins_of, spread_view, statistics_dtype
from clprim.ops.norm_arguments import (
    allocate_like,
    check_floats,
    check_gradient,
    check_mask,
    check_result,
    check_statistics,
)

from clprim.array import Array
from clprim.dtypes import AnyDType
from clprim.errors import ShapeError
from clprim.grouped import GroupedMap
from clprim.pointwise import Pointwise
from clprim.reduction import Reduction
from clprim.repeat import repeatable

__all__ = ["layer_norm", "layer_norm_backward", "rms_norm", "rms_norm_backward"]


@repeatable
def layer_norm(
    x: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    return_stats: bool = False,
    out: Any = None,
) -> Any:
    """Returns (x - mean) / √(variance + eps) · weight + bias over the last dimensions.

    Args:
        x: (…, *normalized_shape) of floating-point numbers.
        normalized_shape: The last dimensions of ``x``.
        weight: A factor for each element of them, of that shape, or None.
        bias: A summand likewise, or None.
        eps: Added to the biased variance.
        return_stats: Whether to return (y, mean, rstd), for `layer_norm_backward`: of the shape of
            ``x`` with 1 in place of the last dimensions.
        out: Where y goes; may be ``x``.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[1, 3], [2, 6]]))
        >>> ops.layer_norm(x, 2, bias=cp.full(2, 1.0), eps=0).get()
        array([[0., 2.],
               [0., 2.]], dtype=float32)
    """
    what = "layer_norm"
    dtype, axes = _check(what, x, normalized_shape, {"weight": weight, "bias": bias})
    eps = real(what, "eps", eps)
    gains = [a for a in (weight, bias) if a is not None]
    if out is not None:
        check_result(what, out, x.shape, dtype, [x, *gains])
    still = origins_of(x, axes, statistics_dtype(dtype))
    operator = _near_layer(len(still), weight is not None, bias is not None)
    numbers = [_count(x, axes), eps]
    near = _near(operator, x, [x], still, gains, numbers, axes, out, [return_stats] * 2)
    if near is not None:
        return near if return_stats else near[0]
    mean, _, rstd = (spread_view(s, axes) for s in moments(x, axes, eps))
    y = _apply(dtype, weight is not None, bias is not None)(x, mean, rstd, *gains, out=out)
    return (y, mean, rstd) if return_stats else y


@repeatable
def layer_norm_backward(
    grad: Any,
    x: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    mean: Any = None,
    rstd: Any = None,
    *,
    eps: float = 1e-5,
    output_mask: Sequence[bool] = (True, True, True),
) -> tuple[Array | None, Array | None, Array | None]:
    """Returns the gradients (dx, dweight, dbias) of a layer normalisation.

    With xhat = (x - mean) · rstd, g = grad · weight and means over the last dimensions:
    dx = rstd · (g - mean(g) - xhat · mean(g · xhat)); dweight = Σ grad · xhat and dbias = Σ grad
    over the others.

    Args:
        grad: Of the result, of the shape of ``x``.
        x: What was normalised.
        normalized_shape: As in `layer_norm`.
        weight: As in `layer_norm`.
        mean: As `layer_norm` returned it; computed anew where it or ``rstd`` is None.
        rstd: Likewise.
        eps: Likewise; of no consequence where ``rstd`` is given.
        output_mask: Which of the three are wanted; None stands for the others.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.
    """
    what = "layer_norm_backward"
    dtype, axes = _check(what, x, normalized_shape, {"weight": weight})
    wanted = check_mask(what, output_mask, ("dx", "dweight", "dbias"))
    check_gradient(what, grad, x)
    if mean is None or rstd is None:
        mean, _, rstd = (spread_view(s, axes) for s in moments(x, axes, real(what, "eps", eps)))
    check_statistics(what, "mean", mean, _row_shape(x, axes))
    check_statistics(what, "rstd", rstd, _row_shape(x, axes))
    kind = statistics_dtype(dtype)
    gains = () if weight is None else (weight,)
    dx = dweight = dbias = None
    if wanted[0]:
        count = _count(x, axes)
        near = _near(
            _near_gradient(weight is not None),
            x,
            [grad, x, *gains],
            [mean, rstd],
            [],
            [1 / max(1, count)],
            axes,
            None,
            [False] * 4,
        )
        if near is not None:
            dx = near[0]
        else:
            sums = _row_sums(kind, True, weight is not None)(
                grad, x, mean, *gains, axis=axes, keepdims=True
            )
            means = _row_factors(*sums, rstd, 1 / max(1, count))
            dx = _row_gradient(dtype, weight is not None)(grad, x, mean, rstd, *means, *gains)
    if wanted[1] or wanted[2]:
        leading = tuple(range(len(x.shape) - len(axes)))
        types = (kind if weight is None else weight.dtype, kind)
        found = _parameter_sums(types)(grad, x, mean, rstd, axis=leading)
        dweight, dbias = (f if w else None for f, w in zip(found, wanted[1:], strict=True))
    return dx, dweight, dbias


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
    dtype, axes = _check(what, x, normalized_shape, {"weight": weight})
    gains = () if weight is None else (weight,)
    if out is not None:
        check_result(what, out, x.shape, dtype, [x, *gains])
    numbers = [_count(x, axes), _added(what, x, eps)]
    near = _near(
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
    dtype, axes = _check(what, x, normalized_shape, {"weight": weight})
    wanted = check_mask(what, output_mask, ("dx", "dweight"))
    check_gradient(what, grad, x)
    if rstd is None:
        rstd = _root_mean_square(what, x, axes, eps)
    check_statistics(what, "rstd", rstd, _row_shape(x, axes))
    kind = statistics_dtype(dtype)
    gains = () if weight is None else (weight,)
    dx = dweight = None
    if wanted[0]:
        count = _count(x, axes)
        near = _near(
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
            sums = _row_sums(kind, False, weight is not None)(
                grad, x, *gains, axis=axes, keepdims=True
            )
            slope = _row_slope(sums, rstd, 1 / max(1, count))
            dx = _scaled_gradient(dtype, weight is not None)(grad, x, rstd, slope, *gains)
    if wanted[1]:
        leading = tuple(range(len(x.shape) - len(axes)))
        dweight = _weight_sums(kind if weight is None else weight.dtype)(
            grad, x, rstd, axis=leading
        )
    return dx, dweight


def _near(
    operator: GroupedMap,
    x: Any,
    moving: Sequence[Any],
    still: Sequence[Any],
    extra: Sequence[Any],
    numbers: Sequence[float],
    axes: tuple[int, ...],
    out: Any,
    kept: Sequence[bool],
) -> tuple[Array, ...] | None:
    """Maps rows of x in one kernel, or returns None where a near cache holds none.

    Returned are the result, which goes to ``out`` or to a new array like x, and those values of a
    row that are to be kept. The others are those of `GroupedMap`.
    """
    kind = statistics_dtype(x.dtype)
    if out is None:
        out = allocate_like(x, x.dtype)
    like = origins_of(x, axes, kind)[0]
    values = [allocate_like(like, kind) if wanted else None for wanted in kept]
    done = operator(moving, still, extra, numbers, axes=axes, out=out, kept=values)
    return (out, *(v for v in values if v is not None)) if done else None


# --- kernels --------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _apply(dtype: AnyDType, weight: bool, bias: bool) -> Pointwise:
    expr = "y0 = (x0 - x1) * x2" + (" * x3" if weight else "") + (f" + x{3 + weight};" * bias)
    return Pointwise(expr.rstrip(";") + ";", result_type=dtype, name="layer_norm")


@lru_cache(maxsize=16)
def _near_layer(origins: int, weight: bool, bias: bool) -> GroupedMap:
    sums, values = near_terms(origins)
    values += "y0 = mean; y1 = 1 / sqrt(variance + w1);"
    each = "y0 = (x0 - x1) * x2" + " * x3" * weight + f" + x{3 + weight}" * bias + ";"
    return GroupedMap(sums, values, each, name="layer_norm")


@lru_cache(maxsize=2)
def _near_gradient(weight: bool) -> GroupedMap:
    """Of grad, x and weight; of a row, mean and 1 / deviation."""
    n, g = 2 + weight, "x0 * x2" if weight else "x0"
    return GroupedMap(
        f"y0 = {g}; y1 = y0 * (x1 - x{n});",
        "y0 = x0 * w0; y1 = x2; y2 = x1 * w0 * x3 * x3; y3 = x3;",
        f"y0 = ({g} - x{n} - (x1 - x{n + 1}) * x{n + 2}) * x{n + 3};",
        name="layer_norm_dx",
    )


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
def _row_sums(kind: AnyDType, mean: bool, weight: bool) -> Reduction:
    """From grad, x, mean and weight, the latter two if there: Σ g and Σ g · (x - mean)."""
    g = f"x0 * x{2 + mean}" if weight else "x0"
    expr = f"y0 = {g}; y1 = y0 * (x1 - x2);" if mean else f"y0 = {g} * x1;"
    numbers = range(1 + mean)
    return Reduction(
        expr,
        init=" ".join(f"reduce_y{n} = 0;" for n in numbers),
        step=" ".join(f"reduce_y{n} += y{n};" for n in numbers),
        result_type=kind,
        name="norm_row_sums",
    )


_row_factors = Pointwise("y0 = x0 * w0; y1 = x1 * w0 * x2 * x2;", name="norm_row_factors")
_row_slope = Pointwise("y0 = x0 * w0 * x1 * x1;", name="norm_row_slope")


@lru_cache(maxsize=64)
def _row_gradient(dtype: AnyDType, weight: bool) -> Pointwise:
    g = "x0 * x6" if weight else "x0"
    expr = f"y0 = ({g} - x4 - (x1 - x2) * x5) * x3;"
    return Pointwise(expr, result_type=dtype, name="layer_norm_dx")


@lru_cache(maxsize=64)
def _scaled_gradient(dtype: AnyDType, weight: bool) -> Pointwise:
    g = "x0 * x4" if weight else "x0"
    return Pointwise(f"y0 = ({g} - x1 * x3) * x2;", result_type=dtype, name="rms_norm_dx")


@lru_cache(maxsize=64)
def _parameter_sums(types: tuple[AnyDType, AnyDType]) -> Reduction:
    return Reduction(
        "y0 = x0 * ((x1 - x2) * x3); y1 = x0;",
        init="reduce_y0 = 0; reduce_y1 = 0;",
        step="reduce_y0 += y0; reduce_y1 += y1;",
        result_type=types,
        name="norm_parameter_sums",
    )


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


# --- arguments ------------------------------------------------------------------------------------


def _root_mean_square(what: str, x: Any, axes: tuple[int, ...], eps: float | None) -> Array:
    kind = statistics_dtype(x.dtype)
    result: Array = _root(kind)(x, _added(what, x, eps), axis=axes, keepdims=True)
    return result


def _added(what: str, x: Any, eps: float | None) -> float:
    """What is added to the mean square."""
    if eps is None:
        return float(np.finfo(statistics_dtype(x.dtype)).eps)
    return real(what, "eps", eps)


def _count(x: Any, axes: tuple[int, ...]) -> int:
    """Elements of a row."""
    return math.prod(x.shape[d] for d in axes)


def _row_shape(x: Any, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if d in axes else size for d, size in enumerate(x.shape))


def _check(
    what: str, x: Any, normalized_shape: int | Sequence[int], parameters: dict[str, Any]
) -> tuple[AnyDType, tuple[int, ...]]:
    """Checks x and what there is one of an element; returns the dtype and the last axes."""
    dtype = check_floats(what, "x", x)
    try:
        shape = (
            (int(normalized_shape),)
            if isinstance(normalized_shape, int | np.integer)
            else tuple(int(s) for s in normalized_shape)
        )
    except (TypeError, ValueError):
        raise ShapeError(
            f"{what}: normalized_shape={normalized_shape!r}; expected an integer or several"
        ) from None
    if not shape or x.shape[len(x.shape) - len(shape) :] != shape or len(shape) > len(x.shape):
        raise ShapeError(
            f"{what}: x has shape {x.shape}, expected its last dimensions to be "
            f"normalized_shape={shape}"
        )
    for label, array in parameters.items():
        if array is None:
            continue
        check_floats(what, label, array)
        if array.shape != shape:
            raise ShapeError(
                f"{what}: {label} has shape {array.shape}, expected normalized_shape={shape}"
            )
    return dtype, tuple(range(len(x.shape) - len(shape), len(x.shape)))
