"""Slices whose norm is brought below a bound, as `torch.renorm`."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.errors import ShapeError
from clprim.ops.gradients.vjp import vjp
from clprim.ops.loss.distance import norm_order
from clprim.ops.optim.foreach import not_negative
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating
from clprim.ops.shared.dims import one_dim
from clprim.primitives.grouped import Grouped


@lru_cache(maxsize=64)
def _bounded(p: float) -> Grouped:
    if math.isinf(p):
        term = "fabs(x0)"
        step = "reduce_y0 = y0 > reduce_y0 || y0 != y0 ? y0 : reduce_y0;"
        combine = "reduce_y0 = other_y0 > reduce_y0 || other_y0 != other_y0 ? other_y0 : reduce_y0;"
        norm = "reduce_y0"
    else:
        term = {1.0: "fabs(x0)", 2.0: "x0 * x0"}.get(p, f"pow(fabs(x0), (typeof_y0){p!r})")
        step, combine = "reduce_y0 += y0;", "reduce_y0 += other_y0;"
        root = f"pow(reduce_y0, (typeof_reduce_y0){1 / p!r})"
        norm = {1.0: "reduce_y0", 2.0: "sqrt(reduce_y0)"}.get(p, root)
    return Grouped(
        f"y0 = {term};",
        init="reduce_y0 = 0;",
        step=step,
        combine=combine,
        finalize=f"typeof_reduce_y0 n = {norm}; group_y0 = n > w0 ? w0 / (n + 1e-7) : 1;",
        each="y0 = x0 * group_y0;",
        name="renorm",
    )


@operator(
    autocast="float32 renorm norm.Scalar norm.ScalarOpt_dim linalg_vector_norm",
    torch="renorm",
    sample="x, 2, 1, 1",
)
def renorm(x: Any, p: float, dim: int, maxnorm: float, *, out: Any = None) -> Array:
    """Returns x with slices that are too long scaled to ``maxnorm``, as `torch.renorm`.

    Args:
        x: Of floating numbers and at least two dimensions.
        p: The norm: ∞, or more than 0.
        dim: The dimension that numbers the slices.
        maxnorm: The greatest norm that a slice may have.
        out: Where the result goes; it may be ``x``.

    Raises:
        ShapeError: Fewer dimensions, a norm or a bound that is none.
        DTypeError: No device array of floating numbers.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.renorm(cp.asarray(np.float32([[3, 4], [0.5, 0]])), 2, 0, 1).get().round(4)
        array([[0.6, 0.8],
               [0.5, 0. ]], dtype=float32)
    """
    order, most, axes = _checked("renorm", x, p, dim, maxnorm)
    found: Array = _bounded(order)(x, most, axis=axes, out=out)
    return found


renorm_backward = vjp(renorm, "x")


def _checked(
    what: str, x: Any, p: Any, dim: Any, maxnorm: Any
) -> tuple[float, float, tuple[int, ...]]:
    """The norm's order, its bound, and the axes of a slice."""
    check_floating(what, "x", x)
    if x.ndim < 2:
        raise ShapeError(f"{what}: x has shape {x.shape}, expected at least 2 dimensions")
    order = norm_order(what, p)
    (most,) = not_negative(what, maxnorm=maxnorm)
    at = one_dim(what, x.ndim, dim)
    return order, most, tuple(d for d in range(x.ndim) if d != at)
