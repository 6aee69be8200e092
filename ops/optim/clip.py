"""Clipping of gradients, by their common norm or by value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.dtypes import promote
from clprim.errors import ShapeError
from clprim.graph.repeat import repeatable
from clprim.ops.optim.foreach import Lists, gathered, lists, not_negative, run_all
from clprim.ops.shared.checks import real
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction

__all__ = ["clip_grad_norm", "clip_grad_value"]

_SUM: dict[str, Any] = {"init": "reduce_y0 = 0;", "name": "gradient_norm"}
_SQUARES = Reduction("", step="reduce_y0 += x0 * x0;", **_SUM)
_MAGNITUDES = Reduction("", step="reduce_y0 += fabs(x0);", **_SUM)
_POWERS = Reduction("", step="reduce_y0 += pow(fabs(x0), w0);", **_SUM)
_GREATEST = Reduction(
    "",
    init="reduce_y0 = 0;",
    step="reduce_y0 = !(fabs(x0) <= reduce_y0) ? fabs(x0) : reduce_y0;",
    combine="reduce_y0 = !(other_y0 <= reduce_y0) ? other_y0 : reduce_y0;",
    name="gradient_norm",
)
_TOTAL = Reduction("", step="reduce_y0 += x0;", **_SUM)
_CLAMP = Pointwise("y0 = x0 > w0 ? w0 : x0 < -w0 ? -w0 : x0;", name="clip_value")
_ROOT = Pointwise("y0 = pow(x0, w0);", name="norm_root")
_SCALE = Pointwise(
    "y0 = x1 + w1 > w0 ? x0 * (w0 / (x1 + w1)) : x1 == x1 ? x0 : x0 * x1;", name="clip_norm"
)


@repeatable
def clip_grad_norm(grads: Lists, max_norm: float, norm_type: float = 2.0) -> Array:
    """Scales gradients, in place, so that the norm of all of them is at most ``max_norm``.

    As `torch.nn.utils.clip_grad_norm_`, and without waiting for the device.

    Args:
        grads: The arrays.
        max_norm: The greatest norm there may be.
        norm_type: 2, or another order, or infinity.

    Returns:
        The norm before, an array of no dimensions.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> g = cp.asarray(np.array([30, 40], np.float32))
        >>> ops.optim.clip_grad_norm([g], 1.0).get(), np.round(g.get(), 4)
        (array(50., dtype=float32), array([0.6, 0.8], dtype=float32))
    """
    (most,) = not_negative("clip_grad_norm", max_norm=max_norm)
    order = real("clip_grad_norm", "norm_type", norm_type)
    if not order > 0:
        raise ShapeError(f"clip_grad_norm: norm_type={order} must be positive")
    rows = lists("clip_grad_norm", grads, "grads")
    dtype = promote([np.dtype(np.float32), *(g.dtype for (g,) in rows)])
    arrays = gathered(rows, dtype)
    norms = empty((len(arrays),), dtype)
    kernel = {1.0: _MAGNITUDES, 2.0: _SQUARES, math.inf: _GREATEST}.get(order, _POWERS)
    numbers = (order,) if kernel is _POWERS else ()
    for n, g in enumerate(arrays):
        kernel(g, *numbers, out=norms[n : n + 1].reshape(()))
    total: Array = (_GREATEST if kernel is _GREATEST else _TOTAL)(norms)
    if order not in (1.0, math.inf):
        total = _ROOT(total, 1 / order)
    run_all(_SCALE, [(g, total) for (g,) in rows], (most, 1e-6), 0, shared=1)
    return total


def clip_grad_value(grads: Lists, clip_value: float) -> None:
    """Moves gradients, in place, between ``-clip_value`` and ``clip_value``."""
    (most,) = not_negative("clip_grad_value", clip_value=clip_value)
    run_all(_CLAMP, lists("clip_grad_value", grads, "grads"), (most,), 0)
