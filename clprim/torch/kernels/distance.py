"""Distances between all pairs of rows."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.reduction import Reduction
from clprim.torch.kernels.elementwise import apply
from clprim.torch.memory import kind_of
from clprim.torch.table import kernel

_ADD: dict[str, Any] = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}


@lru_cache(maxsize=64)
def _norm(p: float) -> Reduction:
    size = "fabs(x0 - x1)"
    if p == 0:
        return Reduction("y0 = x0 != x1;", **_ADD)
    if p == 1:
        return Reduction(f"y0 = {size};", **_ADD)
    if p == 2:
        square = "typeof_y0 d = x0 - x1; y0 = d * d;"
        return Reduction(square, finalize="y0 = sqrt(reduce_y0);", **_ADD)
    if math.isinf(p):
        step = "reduce_y0 = y0 > reduce_y0 || isnan(y0) ? y0 : reduce_y0;"
        return Reduction(f"y0 = {size};", init="reduce_y0 = 0;", step=step)
    root = f"y0 = pow(reduce_y0, (typeof_y0){1 / p!r});"
    return Reduction(f"y0 = pow({size}, (typeof_y0){p!r});", finalize=root, **_ADD)


@lru_cache(maxsize=64)
def _slope(p: float) -> Reduction:
    """Of the first rows' elements: x2 is the gradient, x3 the distance."""
    head = "(void)x2; (void)x3; typeof_y0 d = x0 - x1; typeof_y0 s = (d > 0) - (d < 0); "
    if p == 0:
        body = "y0 = 0 * x2;"
    elif p == 1:
        body = "y0 = s * x2;"
    elif p == 2:
        body = "y0 = x3 == 0 ? 0 : x2 * d / x3;"
    elif math.isinf(p):
        body = "y0 = fabs(d) == x3 ? s * x2 : 0;"
    else:
        power = f"pow(fabs(d) / x3, (typeof_y0){p - 1!r})"
        body = f"y0 = x3 == 0 || d == 0 ? 0 : s * {power} * x2;"
    return Reduction(head + body, **_ADD)


@kernel("_cdist_forward")
def _cdist(a: Array, b: Array, p: float, mode: Any = None) -> Any:
    if not a.shape[-1]:
        pairs = apply(
            "0 * {a} * {b}", a[..., :, None, 0:0], b[..., None, :, 0:0], kind=kind_of(a.dtype)
        )
        return _norm(1.0)(pairs, pairs, axis=-1)
    return _norm(float(p))(a[..., :, None, :], b[..., None, :, :], axis=-1)


@kernel("_cdist_backward")
def _cdist_backward(grad: Array, a: Array, b: Array, p: float, found: Array) -> Any:
    rows, others = a[..., :, None, :], b[..., None, :, :]
    return _slope(float(p))(rows, others, grad[..., None], found[..., None], axis=-2)
