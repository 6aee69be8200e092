"""Layer normalisation (Ba and others 2016).

It normalises over the last dimensions. Names and arguments are those of `torch.nn.functional`;
float16 and bfloat16 are normalised in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

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
from clprim.ops.norm.moments import moments, near_terms, origins_of, spread_view, statistics_dtype
from clprim.ops.norm.rows import check_rows, near_rows, row_count, row_shape
from clprim.ops.shared.arguments import real
from clprim.pointwise import Pointwise
from clprim.reduction import Reduction

__all__ = ["layer_norm", "layer_norm_backward"]


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
    dtype, axes = check_rows(what, x, normalized_shape, {"weight": weight, "bias": bias})
    eps = real(what, "eps", eps)
    gains = [a for a in (weight, bias) if a is not None]
    if out is not None:
        check_result(what, out, x.shape, dtype, [x, *gains])
    still = origins_of(x, axes, statistics_dtype(dtype))
    operator = _near_layer(len(still), weight is not None, bias is not None)
    numbers = [row_count(x, axes), eps]
    near = near_rows(operator, x, [x], still, gains, numbers, axes, out, [return_stats] * 2)
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
    dtype, axes = check_rows(what, x, normalized_shape, {"weight": weight})
    wanted = check_mask(what, output_mask, ("dx", "dweight", "dbias"))
    check_gradient(what, grad, x)
    if mean is None or rstd is None:
        mean, _, rstd = (spread_view(s, axes) for s in moments(x, axes, real(what, "eps", eps)))
    check_statistics(what, "mean", mean, row_shape(x, axes))
    check_statistics(what, "rstd", rstd, row_shape(x, axes))
    kind = statistics_dtype(dtype)
    gains = () if weight is None else (weight,)
    dx = dweight = dbias = None
    if wanted[0]:
        count = row_count(x, axes)
        near = near_rows(
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
            sums = _row_sums(kind, weight is not None)(
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


@lru_cache(maxsize=64)
def _row_sums(kind: AnyDType, weight: bool) -> Reduction:
    """From grad, x, mean and, if there, weight: Σ g and Σ g · (x - mean)."""
    g = "x0 * x3" if weight else "x0"
    return Reduction(
        f"y0 = {g}; y1 = y0 * (x1 - x2);",
        init="reduce_y0 = 0; reduce_y1 = 0;",
        step="reduce_y0 += y0; reduce_y1 += y1;",
        result_type=kind,
        name="norm_row_sums",
    )


_row_factors = Pointwise("y0 = x0 * w0; y1 = x1 * w0 * x2 * x2;", name="norm_row_factors")


@lru_cache(maxsize=64)
def _row_gradient(dtype: AnyDType, weight: bool) -> Pointwise:
    g = "x0 * x6" if weight else "x0"
    expr = f"y0 = ({g} - x4 - (x1 - x2) * x5) * x3;"
    return Pointwise(expr, result_type=dtype, name="layer_norm_dx")


@lru_cache(maxsize=64)
def _parameter_sums(types: tuple[AnyDType, AnyDType]) -> Reduction:
    return Reduction(
        "y0 = x0 * ((x1 - x2) * x3); y1 = x0;",
        init="reduce_y0 = 0; reduce_y1 = 0;",
        step="reduce_y0 += y0; reduce_y1 += y1;",
        result_type=types,
        name="norm_parameter_sums",
    )
