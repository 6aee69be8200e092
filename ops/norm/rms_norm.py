"""Root-mean-square normalisation (Zhang and Sennrich 2019).

It normalises over the last dimensions. Names and arguments are those of `torch.nn.functional`;
float16 and bfloat16 are normalised in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense
from clprim.dtypes import AnyDType
from clprim.gradients.grouped import GroupedGradient
from clprim.graph.repeat import repeatable
from clprim.ops.norm.checks import (
    check_gradient,
    check_result,
    check_rows,
    check_statistics,
    row_shape,
)
from clprim.ops.norm.moments import statistics_dtype
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_mask, real
from clprim.ops.shared.sums import added
from clprim.primitives.grouped import Grouped
from clprim.primitives.reduction import Reduction


@operator(
    onnx="""RMSNormalization(x, weight) epsilon:eps=1e-05 @trailing;
        SimplifiedLayerNormalization(x, weight) epsilon:eps=1e-05 @2 @trailing;
        com.microsoft::SimplifiedLayerNormalization(x, weight) epsilon:eps=1e-05 @2 @trailing;
        com.microsoft::SkipSimplifiedLayerNormalization(x, skip, weight, added)
            epsilon:eps=1e-12 @4 @skip @trailing""",
    sample="x, 4",
    wrt="x weight",
    saves="return_stats: rstd",
)
@repeatable
def rms_norm(
    x: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    eps: float | None = None,
    *,
    return_stats: bool = False,
    out: Any = None,
) -> Array:
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
    operator = _scaling(dtype, weight is not None)
    eps = _added(what, x, eps)
    return operator.apply(x, *gains, eps, axis=axes, out=out, keep=[return_stats])


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

    They are derived from its strings.

    ``rstd`` is as `rms_norm` returned it, computed anew where it is None; of the two gradients
    those are wanted that ``output_mask`` says. All else is as in the call.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.
    """
    what = "rms_norm_backward"
    dtype, axes = check_rows(what, x, normalized_shape, {"weight": weight})
    wanted = check_mask(what, output_mask, ("dx", "dweight"))
    check_gradient(what, grad, x)
    if rstd is None:
        rstd = _root_mean_square(what, x, axes, eps)
    check_statistics(what, row_shape(x, axes), rstd=rstd)
    gains = () if weight is None else (weight,)
    saved = {"grad": grad, "axis": axes, "saved": rstd}
    dx = dweight = None
    if wanted[0]:
        dx = _gradient(dtype, weight is not None)(x, *gains, 0.0, **saved)
    if wanted[1]:
        if weight is None:  # nothing of it is read but shape and dtype
            weight = new_dense(x.shape[len(x.shape) - len(axes) :], statistics_dtype(dtype))
        dweight = _gradient(dtype, True, "x1")(x, weight, 0.0, **saved)
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


@lru_cache(maxsize=64)
def _scaling(dtype: AnyDType, weight: bool) -> Grouped:
    return Grouped(
        "y0 = x0 * x0;",
        **added(1),
        finalize="group_y0 = 1 / sqrt(reduce_y0 / count + w0);",
        each=f"y0 = x0 * group_y0{' * x1' if weight else ''};",
        result_type=dtype,
        partial_type=statistics_dtype(dtype),
        name="rms_norm",
    )


@lru_cache(maxsize=64)
def _gradient(dtype: AnyDType, weight: bool, wrt: str = "x0") -> GroupedGradient:
    return _scaling(dtype, weight).gradient(wrt, saves="group_y0")


@lru_cache(maxsize=8)
def _root(kind: AnyDType) -> Reduction:
    return Reduction(
        "y0 = x0 * x0;",
        **added(1),
        finalize="y0 = 1 / sqrt(reduce_y0 / count + w0);",
        result_type=kind,
        name="root_mean_square",
    )
