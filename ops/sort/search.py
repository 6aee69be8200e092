"""Searching in what is sorted, and what that finds: counts and positions of ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense
from clprim.call.order import order_of_keys
from clprim.errors import DTypeError, ShapeError
from clprim.ops.index.scatter import index_add
from clprim.ops.reduction.extrema import amax, amin
from clprim.ops.shared.arguments import dtype_of, real
from clprim.ops.shared.dims import whole
from clprim.ops.shared.strings import kernel, lower_bound, places
from clprim.plan.strides import broadcasts_to
from clprim.scan import Scan

__all__ = [
    "FIRST",
    "bincount",
    "bucketize",
    "histc",
    "masked_select",
    "nonzero",
    "numbered",
    "searchsorted",
]

_INT64 = np.dtype(np.int64)


def searchsorted(
    sorted_sequence: Any, values: Any, *, out_int32: bool = False, right: bool = False
) -> Array:
    """Returns where values would be put into sorted lines, as `torch.searchsorted` does.

    Args:
        sorted_sequence: One line, or an array of lines along its last axis.
        values: What to look for; beside several lines of the same shape but for the last axis.
        out_int32: Whether the result is int32.
        right: Whether equal elements come before.

    Raises:
        ShapeError: Shapes that do not fit.
        DTypeError: No device arrays.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> line = cp.asarray(np.array([1, 3, 5, 7], np.float32))
        >>> ops.searchsorted(line, cp.asarray(np.array([3, 6], np.float32)), right=True).get()
        array([2, 3])
    """
    what = "searchsorted"
    dtype_of(what, "sorted_sequence", sorted_sequence)
    dtype_of(what, "values", values)
    ndim = sorted_sequence.ndim
    if ndim == 0 or (ndim > 1 and sorted_sequence.shape[:-1] != values.shape[:-1]):
        raise ShapeError(
            f"{what}: lines of shape {sorted_sequence.shape} and values of {values.shape}: "
            "expected one line, or shapes that are equal but for the last axis"
        )
    element = f"at_x1({places(ndim, {ndim - 1: 'middle'})})"
    text = lower_bound(f"size_x1({ndim - 1})", element, "x0", after=right) + "y0 = low;"
    operator = kernel(text, what, np.dtype(np.int32 if out_int32 else np.int64))
    return operator(values, sorted_sequence)


def bucketize(
    input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False
) -> Array:
    """Returns in which bucket between boundaries each element is; see `searchsorted`."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


# --- counts --------------------------------------------------------------------------------------


def _counts(what: str, keys: Any, bins: int) -> Array:
    """How often each key below ``bins`` occurs, of a flat array of uint32 that is lost."""
    if not keys.size:
        out = new_dense((bins,), _INT64)
        out.fill(0)
        return out
    lines = keys.copy()
    order = order_of_keys(what, lines, int(bins).bit_length())
    ordered = kernel("y0 = at_x1(x0);", what, keys.dtype)(order, keys)
    element = "at_x0(middle)"
    text = f"""
        long first;
        {{ {lower_bound("size_x0(0)", element, "coord(0)")} first = low; }}
        {lower_bound("size_x0(0)", element, "coord(0)", after=True)}
        y0 = low - first;
    """
    return kernel(text, what, _INT64)(ordered, shape=(bins,))


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Array:
    """Returns how often each number from 0 occurs, or the sums of their weights.

    The length of the result is one more than the greatest number, for which the host waits.

    Args:
        x: A line of integers, none of them negative.
        weights: Of each of them.
        minlength: The least length of the result.

    Raises:
        ShapeError: More than one dimension, a negative number, weights of another shape.
        DTypeError: No device array of integers.
    """
    what = "bincount"
    if dtype_of(what, "x", x).kind not in "iu":
        raise DTypeError(f"{what}: x is {x.dtype}, expected integers")
    if weights is not None:
        dtype_of(what, "weights", weights)
    if x.ndim != 1 or (weights is not None and weights.shape != x.shape):
        raise ShapeError(f"{what}: expected a line, and weights of its shape, got {x.shape}")
    bins = whole(what, "minlength", minlength, 0)
    if x.size:
        least, greatest = int(amin(x).item()), int(amax(x).item())
        if least < 0 or greatest >= 2**31 - 1:
            raise ShapeError(f"{what}: numbers from {least} to {greatest}: expected 0 to 2³¹ − 2")
        bins = max(bins, greatest + 1)
    if weights is None:
        keys = new_dense(x.shape, np.dtype(np.uint32))
        kernel("y0 = x0;", what, keys.dtype)(x, out=keys)
        return _counts(what, keys, bins)
    dtype = weights.dtype if weights.dtype.kind not in "biu" else np.dtype(np.float64)
    zeros = new_dense((bins,), dtype)
    zeros.fill(0)
    return index_add(zeros, 0, x, weights.astype(dtype)) if bins and x.size else zeros


def histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    """Returns how many elements are in each of some equal intervals, as `torch.histc` does.

    Args:
        x: An array of floating numbers.
        bins: How many intervals.
        min: Where the first begins; with ``max`` equal, both are those of the elements.
        max: Where the last ends, which belongs to it.

    Returns:
        A line of ``bins`` numbers in the dtype of ``x``.

    Raises:
        ShapeError: No intervals, or bounds the wrong way round or not finite.
        DTypeError: No device array of floating numbers.
    """
    what = "histc"
    if dtype_of(what, "x", x).kind in "biu":
        raise DTypeError(f"{what}: x is {x.dtype}, expected a floating dtype")
    bins = whole(what, "bins", bins, 1)
    low, high = real(what, "min", min), real(what, "max", max)
    if low == high and x.size:
        low, high = float(amin(x).item()), float(amax(x).item())
        low, high = (low - 1, high + 1) if low == high else (low, high)
    if not low <= high or not np.isfinite([low, high]).all():
        raise ShapeError(f"{what}: bounds {low} and {high}: expected finite ones in order")
    text = """
        typeof_x0 place = (x0 - w0) / (w1 - w0) * w2;
        y0 = !(x0 >= w0 && x0 <= w1) ? (uint)w2 : place >= w2 ? (uint)w2 - 1 : (uint)place;
    """
    keys = new_dense(x.shape, np.dtype(np.uint32))
    wide = np.float64 if x.dtype == np.float64 else np.float32
    kernel(text, what, keys.dtype)(x, wide(low), wide(high), wide(bins), out=keys)
    return _counts(what, keys.reshape(-1), bins).astype(x.dtype)


# --- positions and distinct values ---------------------------------------------------------------

_number = Scan("y0 = x0 != 0;", init="scan_y0 = 0;", step="scan_y0 += y0;", result_type=_INT64)


def numbered(flags: Any) -> tuple[Array, int]:
    """How many ones there are up to each element of a flat array, and in all."""
    if not flags.size:
        return flags, 0
    numbers: Array = _number(flags)
    return numbers, int(numbers[-1:].get()[0])


def _flat_flags(x: Any) -> Array:
    flags = new_dense(x.shape, np.dtype(np.bool_))
    kernel("y0 = x0 != 0;", "nonzero", flags.dtype)(x, out=flags)
    return flags.reshape(-1)


FIRST = lower_bound("size_x0(0)", "at_x0(middle)", "(coord(0) + 1)")


def nonzero(x: Any) -> Array:
    """Returns the indices of the elements that are not zero, a row each, in C order.

    The host waits for their number.

    Raises:
        DTypeError: No device array.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.nonzero(cp.asarray(np.array([[0, 2], [3, 0]], np.float32))).get()
        array([[0, 1],
               [1, 0]])
    """
    dtype_of("nonzero", "x", x)
    numbers, count = numbered(_flat_flags(x))
    ndim = x.ndim
    if not count or not ndim:
        return new_dense((count, ndim), _INT64)
    lines = [FIRST, "long rest = low, place = 0;"]
    steps = [int(np.prod(x.shape[d + 1 :], dtype=np.int64)) for d in range(ndim)]
    lines += [f"if (coord(1) == {d}) place = rest / w{d}; rest %= w{d};" for d in range(ndim)]
    text = "\n".join([*lines, "y0 = place;"])
    found: Array = kernel(text, "nonzero", _INT64)(
        numbers, *map(np.int64, steps), shape=(count, ndim)
    )
    return found


def masked_select(x: Any, mask: Any) -> Array:
    """Returns the elements of ``x`` where a mask is not zero, a line in C order.

    The host waits for their number. The mask and ``x`` broadcast.

    Raises:
        ShapeError: Shapes that do not broadcast.
        DTypeError: No device arrays.
    """
    what = "masked_select"
    dtype = dtype_of(what, "x", x)
    dtype_of(what, "mask", mask)
    both = kernel("(void)x0; y0 = x1 != 0;", what, np.dtype(np.bool_))
    shape = np.broadcast_shapes(x.shape, mask.shape) if _broadcast(x, mask) else None
    if shape is None:
        raise ShapeError(f"{what}: shapes {x.shape} and {mask.shape} do not broadcast together")
    flags = new_dense(shape, np.dtype(np.bool_))
    both(x, mask, out=flags)
    values = x
    if x.shape != shape:
        values = new_dense(shape, dtype)
        kernel("y0 = x0;", "copy", dtype)(x, out=values)
    numbers, count = numbered(flags.reshape(-1))
    if not count:
        return new_dense((0,), dtype)
    text = FIRST + "y0 = at_x1(low);"
    return kernel(text, what, dtype)(numbers, values.reshape(-1), shape=(count,))


def _broadcast(a: Any, b: Any) -> bool:
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return broadcasts_to(a.shape, shape)
