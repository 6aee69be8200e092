"""Distances of vectors, as in `torch.nn.functional`."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.dtypes import AnyDType, promote, value_dtype
from clprim.errors import ShapeError
from clprim.gradients.reduction import ReductionGradient
from clprim.graph.repeat import repeatable
from clprim.ops.gradients.vjp import vjp
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating, real
from clprim.ops.shared.sums import added
from clprim.primitives.reduction import Reduction


@operator(autocast="float32 dist")
@repeatable
def pairwise_distance(
    x1: Any,
    x2: Any,
    p: float = 2.0,
    eps: float = 1e-6,
    keepdim: bool = False,
    *,
    out: Any = None,
) -> Array:
    """Returns the p-norm of x1 - x2 + eps along the last axis.

    Args:
        x1: Of floating-point numbers.
        x2: Likewise; the two broadcast.
        p: The norm: ∞, or more than 0.
        eps: Added to every difference.
        keepdim: Whether the last axis stays, with size 1.
    """
    what = "pairwise_distance"
    dtype = promote([check_floating(what, "x1", x1), check_floating(what, "x2", x2)])
    p, eps = norm_order(what, p), real(what, "eps", eps)
    operator = distance(dtype, p)
    return operator(x1, x2, eps, axis=-1, keepdims=keepdim, out=out)


pairwise_distance_backward = vjp(pairwise_distance, "x1 x2")


def norm_order(what: str, p: Any, *, zero: bool = False) -> float:
    """Returns the order of a norm; a ShapeError unless it is above 0, or 0 where that counts."""
    norm: float = real(what, "p", p)
    if not (norm > 0 or (zero and norm == 0)):
        raise ShapeError(f"{what}: p={norm}; expected {'0 or ' if zero else ''}more than 0")
    return norm


def power_of(p: float) -> tuple[str, str]:
    """A term of the norm of difference d, and the norm of their sum.

    At 0 both are apart, so that gradients are 0 there, as PyTorch's.
    """
    if p == 1:
        return "fabs(d)", "reduce_y0"
    if p == 2:
        return "d * d", "(reduce_y0 == 0 ? 0 : sqrt(reduce_y0))"
    root = f"pow(reduce_y0, (typeof_reduce_y0){1 / p!r})"
    return f"(d == 0 ? 0 : pow(fabs(d), (typeof_y0){p!r}))", f"(reduce_y0 == 0 ? 0 : {root})"


# As in PyTorch, all that are as far count whole.
_FARTHEST = """
    typeof_gx0 d = x0 - x1 + w0;
    typeof_gx0 s = y0 != 0 && fabs(d) == y0 ? (d > 0 ? gy0 : -gy0) : 0;
    gx0 = s;
    gx1 = -s;
"""
#: The step of a greatest element, NaN among them.
LARGER = "reduce_y0 = {0} > reduce_y0 || {0} != {0} ? {0} : reduce_y0;"


@lru_cache(maxsize=64)
def distance(dtype: AnyDType, p: float) -> Reduction:
    """Returns the p-norm of x0 - x1 + w0 as an operator, whose result has this dtype."""
    difference = "typeof_y0 d = x0 - x1 + w0; "
    types: dict[str, Any] = {"result_type": dtype, "partial_type": value_dtype(dtype, [dtype])}
    if math.isinf(p):
        return Reduction(
            difference + "y0 = fabs(d);",
            init="reduce_y0 = 0;",
            step=LARGER.format("y0"),
            combine=LARGER.format("other_y0"),
            gradient=_FARTHEST,
            **types,
            name="pairwise_distance",
        )
    term, norm = power_of(p)
    return Reduction(
        f"{difference}y0 = {term};",
        **added(1),
        finalize=f"y0 = {norm};",
        **types,
        name="pairwise_distance",
    )


@lru_cache(maxsize=64)
def distance_gradient(
    dtype: AnyDType, p: float, wrt: tuple[str, ...] = ("x0", "x1")
) -> ReductionGradient:
    """Returns the gradient of `distance`."""
    return distance(dtype, p).gradient(wrt)
