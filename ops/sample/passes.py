"""Linear maps of images, one dimension after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense, view_of
from clprim.arrays.memory import is_dense
from clprim.ops.shared.strings import kernel


def dense_order(x: Any) -> tuple[int, ...]:
    """Returns the axes of an image's memory format, the slowest first: channels first or last."""
    images = range(2, x.ndim)
    # A dimension of one element has any stride: the others say where the channels are.
    last = x.shape[1] > 1 and any(x.shape[d] > 1 and x.strides[d] > x.strides[1] for d in images)
    return (0, *images, 1) if last else (0, 1, *images)


def along_each(
    what: str,
    text: str,
    x: Any,
    sizes: Sequence[int],
    numbers: Sequence[float],
    out: Any = None,
    given: Callable[[Any, Any, float], tuple[Any, ...]] = lambda x, y, number: (number,),
) -> Array:
    """Returns x with each dimension behind the second in another size.

    Whatever the memory format, a pass sees three dimensions: what is slower in memory than the one
    that changes, this one, and what is faster. Between passes numbers are float32 at least.
    """
    order = dense_order(x)
    wide = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    if not is_dense(x, order):
        dense = new_dense(x.shape, x.dtype, order)
        kernel("y0 = x0;", "copy", x.dtype)(x, out=dense)
        x = dense
    last = len(sizes) - 1
    dtype = x.dtype
    for d, (size, number) in enumerate(zip(sizes, numbers, strict=True)):
        axis = 2 + d
        kept = dtype if d == last else wide
        y = new_dense((*x.shape[:axis], size, *x.shape[axis + 1 :]), kept, order)
        if y.size:
            read, written = _lines(x, order, axis), _lines(y, order, axis)
            kernel(text, what, kept)(read, *given(read, written, number), out=written)
        x = y
    if out is not None:
        kernel("y0 = x0;", what, dtype)(x, out=out)
    return x if out is None else out


def _lines(array: Any, order: Sequence[int], axis: int) -> Array:
    """A dense array as what is slower in memory than an axis, the axis itself, what is faster."""
    at = list(order).index(axis)
    shape = tuple(
        math.prod(array.shape[d] for d in part) for part in (order[:at], (axis,), order[at + 1 :])
    )
    step = array.dtype.itemsize * shape[2]
    return view_of(array, shape, (step * shape[1], step, array.dtype.itemsize), array.offset)
