"""Parameters side by side in one memory, which one kernel steps; and averages of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense
from clprim.arrays.creation import empty, zeros
from clprim.dtypes import is_integer, promote
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.optim.foreach import Lists, gathered, lists, not_negative, run_all
from clprim.ops.reduction.extrema import amax
from clprim.ops.shared.checks import dtype_of, real
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction

__all__ = ["ema", "flat", "swa", "unscale"]

_COPY = Pointwise("y0 = x0;", name="copy")
_MIX = Pointwise("y0 = x1 + w0 * (x0 - x1);", name="average")
_TIMES = Pointwise("y0 = x0 * w0;", name="unscale")
_ANY = Reduction(
    "y0 = isfinite(x0) ? 0 : 1;",
    init="reduce_y0 = 0;",
    step="reduce_y0 = y0 > reduce_y0 ? y0 : reduce_y0;",
    combine="reduce_y0 = other_y0 > reduce_y0 ? other_y0 : reduce_y0;",
    result_type=np.float32,
    name="not_finite",
)


def flat(arrays: Lists, *, fill: float | None = None) -> list[Array]:
    """Returns arrays of the same shapes and values that lie side by side in one memory.

    Where parameters, gradients and states all do, a step of an optimizer, `ema` and
    `clip_grad_norm` are one kernel, however many parameters there are; of arrays that lie apart a
    kernel of an optimizer or of `ema` takes some 20. Gradient operators write into them by
    ``out=``.

    Args:
        arrays: Of one floating dtype.
        fill: A value for all elements, instead of those of ``arrays``; 0 is a first state.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> params = ops.optim.flat([cp.full((2, 2), 1.0), cp.full((3,), 2.0)])
        >>> grads = ops.optim.flat(params, fill=1)
        >>> ops.optim.sgd(params, grads, lr=0.5)  # one kernel
        >>> params[1].get()
        array([1.5, 1.5, 1.5], dtype=float32)
    """
    lists("flat", arrays, "arrays")
    if not arrays:
        return []
    dtype = dtype_of("flat", "arrays[0]", arrays[0])
    if any(a.dtype != dtype for a in arrays):
        raise DTypeError(
            f"flat: arrays of several dtypes: {sorted({str(a.dtype) for a in arrays})}"
        )
    memory = new_dense((sum(a.size for a in arrays),), dtype)
    found, start = [], 0
    for array in arrays:
        whole = memory[start : start + array.size].reshape(array.shape)
        if fill is None:
            _COPY(array, out=whole)
        found.append(whole)
        start += array.size
    if fill is not None:
        memory.fill(fill)
    return found


def ema(averages: Lists, params: Lists, *, decay: float = 0.999) -> None:
    """Moves exponential averages of parameters on: ``decay · average + (1 − decay) · parameter``.

    As `torch.optim.swa_utils.get_ema_multi_avg_fn`.

    Args:
        averages: Arrays, changed in place; the parameters themselves at first.
        params: The parameters.
        decay: What averages keep.
    """
    (kept,) = not_negative("ema", decay=decay)
    if kept > 1:
        raise ShapeError(f"ema: decay={decay} must not be more than 1")
    run_all(_MIX, lists("ema", params, averages=averages), (1 - kept,), 1)


def swa(averages: Lists, params: Lists, *, count: int) -> None:
    """Takes parameters into equal averages of those of some steps.

    As `torch.optim.swa_utils.AveragedModel`.

    Args:
        averages: Arrays, changed in place.
        params: The parameters.
        count: How many steps the averages hold already; at 0 they become the parameters.
    """
    if not is_integer(count) or count < 0:
        raise ShapeError(f"swa: count={quoted(count)}: expected a whole number of at least 0")
    rows = lists("swa", params, averages=averages)
    if count:
        run_all(_MIX, rows, (1 / (count + 1),), 1)
    else:
        for param, average in rows:
            _COPY(param, out=average)


@repeatable
def unscale(grads: Lists, scale: float) -> Array:
    """Divides gradients of a scaled loss by its scale, in place, and says whether one is no number.

    Losses are scaled so that gradients in half precision do not vanish. As
    `torch.amp.GradScaler.unscale_`; who calls skips the step, and halves the scale, where the
    result is 1.

    Args:
        grads: The arrays.
        scale: What the loss was multiplied with.

    Returns:
        1 where an element is infinite or NaN, else 0: an array of no dimensions; nobody waits for
        the device until it is read.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> g = cp.asarray(np.array([4, np.inf], np.float32))
        >>> bool(ops.optim.unscale([g], 4.0)), g.get()
        (True, array([ 1., inf], dtype=float32))
    """
    factor = real("unscale", "scale", scale)
    if not factor > 0:
        raise ShapeError(f"unscale: scale={scale} must be positive")
    rows = lists("unscale", grads, "grads")
    run_all(_TIMES, rows, (1 / factor,), 0)
    return not_finite(rows)


def not_finite(rows: Sequence[Sequence[Any]]) -> Array:
    """Returns 1 where an element is infinite or NaN, else 0.

    Args:
        rows: What `lists` returned of one list.
    """
    arrays = gathered(rows, promote([np.dtype(np.float32), *(g.dtype for (g,) in rows)]))
    found = empty((len(arrays),)) if arrays else zeros((1,))
    for n, g in enumerate(arrays):
        _ANY(g, out=found[n : n + 1].reshape(()))
    return amax(found)
