"""Elements that an index or a mask names, replaced by a number or, in order, by other elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import full, zeros
from clprim.errors import DTypeError, ShapeError
from clprim.ops.index.embedding import masked_fill
from clprim.ops.index.gather import check_index
from clprim.ops.index.scatter import index_copy
from clprim.ops.reduction.reduce import sum as add_up
from clprim.ops.registry import operator
from clprim.ops.scan.cumulative import cumsum
from clprim.ops.shared.checks import dtype_of, is_array, number
from clprim.ops.shared.dims import one_axis, whole
from clprim.ops.shared.strings import kernel
from clprim.ops.sort.search import masked_select
from clprim.plan.strides import broadcast_shapes


@operator(sample="x, 1, empty(2, int64), 1")
def index_fill(
    x: Any,
    dim: int | None = None,
    index: Any = None,
    value: Any = 0,
    *,
    axis: int | None = None,
    out: Any = None,
) -> Array:
    """Returns ``x`` with a number in whole slices: ``y[index[i]] = value`` for the axis 0.

    Args:
        index: A line of integers; negative ones count from the end, others out of bounds write
            nothing.
        value: A number, or an array of no dimensions.
        out: Where the result goes; it may be ``x``.
    """
    what = "index_fill"
    dtype = dtype_of(what, "x", x)
    check_index(what, "index", index)
    at = one_axis(what, x, dim, axis)
    if index.ndim > 1:
        raise ShapeError(f"{what}: index has shape {index.shape}, expected a line of indices")
    lines = x if x.ndim else x.reshape(1)
    index = index if index.ndim else index.reshape(1)
    if is_array(value):
        if value.size != 1:
            raise ShapeError(f"{what}: value has shape {value.shape}, expected one element")
        one = value if value.dtype == dtype else value.astype(dtype)
    else:
        one = full((), number(what, "value", value), dtype)
    shape = (*lines.shape[:at], index.size, *lines.shape[at + 1 :])
    source = view_of(one, shape, (0,) * len(shape), one.offset)
    given = out.reshape(1) if out is not None and not x.ndim else out
    found = index_copy(lines, at, index, source, out=given)
    return found.reshape(x.shape) if out is None else out


def index_fill_backward(
    grad: Any, dim: int | None = None, index: Any = None, *, axis: int | None = None
) -> Array:
    """Returns the gradient of `index_fill` in x: 0 where the number went."""
    dtype_of("index_fill_backward", "grad", grad)
    return index_fill(grad, dim, index, 0, axis=axis)


def _mask(what: str, mask: Any) -> None:
    if dtype_of(what, "mask", mask) != np.bool_:
        raise DTypeError(f"{what}: expected bool for mask, got {mask.dtype}")


@operator(torch="masked_scatter", sample="x, empty(4, bool), x")
def masked_scatter(x: Any, mask: Any, source: Any, *, out: Any = None) -> Array:
    """Returns x with elements of a source, in order, where a mask is set.

    How many these are is downloaded, so that a source that is too short is refused.

    Args:
        mask: Of bool; the two broadcast.
        source: Of x's dtype, with at least as many elements as are set; it is read in C order.
        out: Where the result goes; it may be ``x``.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> mask = cp.asarray(np.array([True, False, True]))
        >>> ops.masked_scatter(cp.zeros(3), mask, cp.asarray(np.float32([5, 7, 9]))).get()
        array([5., 0., 7.], dtype=float32)
    """
    what = "masked_scatter"
    dtype = dtype_of(what, "x", x)
    _mask(what, mask)
    if dtype_of(what, "source", source) != dtype:
        raise DTypeError(f"{what}: source is {source.dtype}, x {dtype}: expected the same dtype")
    shape = broadcast_shapes(what, [x.shape, mask.shape])
    chosen = kernel("y0 = x0;", what, np.dtype(np.int64))(mask, shape=shape)
    count = int(add_up(chosen).get()) if chosen.size else 0
    if count > source.size:
        raise ShapeError(f"{what}: the mask names {count} elements, source has {source.size}")
    if not count:
        return kernel("y0 = x0;", what, dtype)(x, shape=shape, out=out)
    place = cumsum(chosen.reshape(-1), 0).reshape(shape)
    expr = "y0 = x1 ? at_x3(x2 - 1) : x0;"
    return kernel(expr, what, dtype)(x, mask, place, source.reshape(-1), out=out)


def masked_scatter_backward(grad: Any, mask: Any, sizes: Sequence[int]) -> tuple[Array, Array]:
    """Returns the gradients of `masked_scatter` in x, of the result's shape, and in its source.

    Args:
        sizes: Shape of the source.
    """
    what = "masked_scatter_backward"
    dtype = dtype_of(what, "grad", grad)
    _mask(what, mask)
    shape = tuple(whole(what, "sizes", n, 0) for n in sizes)
    wide = kernel("y0 = x0;", what, np.dtype(np.bool_))(mask, shape=grad.shape)
    chosen = masked_select(grad, wide)
    source = zeros((math.prod(shape),), dtype)
    if chosen.size > source.size:
        raise ShapeError(f"{what}: the mask names {chosen.size} elements, sizes={shape}")
    if chosen.size:
        kernel("y0 = x0;", what, dtype)(chosen, out=source[: chosen.size])
    return masked_fill(grad, mask, 0), source.reshape(shape)
