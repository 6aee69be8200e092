"""Searching in what is sorted, and what that finds: counts and positions of ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl.array as cl_array

from clprim.arrays.array import Array, new_dense
from clprim.arrays.creation import asarray, zeros
from clprim.dtypes import is_integer
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.ops.index.gather import check_index
from clprim.ops.index.scatter import index_add
from clprim.ops.reduction.extrema import amax, amin
from clprim.ops.reduction.reduce import sum as add_up
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating, check_real, check_shape, dtype_of, real
from clprim.ops.shared.dims import whole
from clprim.ops.shared.strings import kernel, lower_bound, places
from clprim.plan.strides import broadcasts_to
from clprim.primitives.order import order_of_keys
from clprim.primitives.scan import Scan

_INT64 = np.dtype(np.int64)
_MOST_BINS = 1 << 24  # more edges than float32 tells apart


@operator(torch="searchsorted.Tensor")
def searchsorted(
    sorted_sequence: Any,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Array:
    """Returns where values would be put into sorted lines, as `torch.searchsorted` does.

    Numbers compare by their values, whatever their dtypes, and NaN comes behind all others, as in
    NumPy.

    Args:
        sorted_sequence: One line, or an array of lines along its last axis.
        values: What to look for; beside several lines of the same shape but for the last axis.
        out_int32: Whether the result is int32.
        right: Whether equal elements come before.
        side: ``"left"`` or ``"right"``, the same in words.
        sorter: Integers of the shape of ``sorted_sequence`` that sort its lines, if they are not.

    Raises:
        ShapeError: Shapes that do not fit, another ``side``, or one that contradicts ``right``.
        DTypeError: No device arrays, a sorter that is none of integers.

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
    check_real(what, sorted_sequence, values)
    ndim = sorted_sequence.ndim
    if ndim == 0 or (ndim > 1 and sorted_sequence.shape[:-1] != values.shape[:-1]):
        raise ShapeError(
            f"{what}: lines of shape {sorted_sequence.shape} and values of {values.shape}: "
            "expected one line, or shapes that are equal but for the last axis"
        )
    if side not in (None, "left", "right") or (right and side == "left"):
        raise ShapeError(f"{what}: side={quoted(side)}, right={right}: expected 'left' or 'right'")
    lines, place = [sorted_sequence], "middle"
    if sorter is not None:
        check_index(what, "sorter", sorter)
        check_shape(what, "sorter", sorter, sorted_sequence.shape)
        lines.append(sorter)
        place = f"at_x2({places(ndim, {ndim - 1: 'middle'})})"
    element = f"at_x1({places(ndim, {ndim - 1: place})})"
    dtypes, after = (sorted_sequence.dtype, values.dtype), right or side == "right"
    text = _place(*dtypes, f"size_x1({ndim - 1})", element, after=after) + "y0 = low;"
    operator = kernel(text, what, np.dtype(np.int32 if out_int32 else np.int64))
    return operator(values, *lines)


def contained(x: Array, line: Array) -> Array:
    """Returns whether each element of ``x`` is one of a sorted line, by value; NaN never is."""
    before, behind = (
        _place(line.dtype, x.dtype, "size_x1(0)", "at_x1(middle)", after=after)
        for after in (False, True)
    )
    text = f"long first; {{ {before} first = low; }} {behind} y0 = low > first && x0 == x0;"
    return kernel(text, "isin", np.dtype(np.bool_))(x, line)


def _place(line: Any, value: Any, length: str, element: str, *, after: bool) -> str:
    """C that declares ``low``: how many of a sorted line come before ``x0``, by their values."""
    start, end, wanted = "0", length, "typeof_x0 wanted = x0;"
    unsigned = [d.name == "uint64" for d in (line, value)]
    longs = ["ulong" if u else "long" for u in unsigned]
    real = [d.kind not in "biu" for d in (line, value)]
    if real[1] and not real[0]:
        # What is no integer stands between two of them.
        least, end_of = ("0", "0x1p64f") if unsigned[0] else ("-0x1p63f", "0x1p63f")
        start, end = f"x0 < {end_of} ? 0 : {length}", f"x0 < {least} ? 0 : {length}"
        wanted = f"{longs[0]} wanted = ({longs[0]}){'floor' if after else 'ceil'}(x0);"
    elif real[0] and not real[1]:
        to = "double" if line == np.float64 else "float"
        wanted = f"{to} wanted = convert_{to}_{'rtn' if after else 'rtp'}(({longs[1]})x0);"
    elif unsigned[0] and value.kind == "i":
        end, wanted = f"x0 < 0 ? 0 : {length}", "ulong wanted = x0;"
    elif unsigned[1] and line.kind == "i":
        start, wanted = f"x0 > {2**63 - 1}UL ? {length} : 0", "long wanted = x0;"
    ahead = f"{element} <{'=' * after} wanted"
    if all(real):
        # NaN comes last; no condition is of x0 alone, for which a compiler might copy the loop.
        if after:
            start = f"x0 != x0 ? {length} : 0"
        else:
            ahead = f"{element} == {element} && !(wanted <= {element})"
    return f"""
        long low = {start}, high = {end};
        {wanted}
        while (low < high) {{
            long middle = low + (high - low) / 2;
            if ({ahead}) low = middle + 1;
            else high = middle;
        }}
    """


@operator(torch="bucketize.Tensor")
def bucketize(
    input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False
) -> Array:
    """Returns in which bucket between boundaries each element is; see `searchsorted`."""
    for label, array in (("boundaries", boundaries), ("input", input)):
        dtype_of("bucketize", label, array)
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


@operator(numpy="bincount(x, /, weights=None, minlength=0)", torch="bincount")
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Array:
    """Returns how often each number from 0 occurs, or the sums of their weights.

    The length of the result is one more than the greatest number, for which the host waits.

    Args:
        x: A line of integers, none of them negative.
        weights: Of each of them.
        minlength: The least length of the result.
    """
    what = "bincount"
    check_index(what, "x", x)
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


@operator(torch="histc")
def histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    """Returns how many elements are in each of some equal intervals, as `torch.histc` does.

    Args:
        x: An array of numbers. Those of integers are in intervals of integers, as PyTorch's are on
            GPUs.
        bins: How many intervals.
        min: Where the first begins; with ``max`` equal, both are those of the elements.
        max: Where the last ends, which belongs to it.

    Returns:
        A line of ``bins`` numbers in the dtype of ``x``.
    """
    what = "histc"
    if dtype_of(what, "x", x).kind == "b":
        raise DTypeError(f"{what}: x is bool, expected numbers")
    bins = whole(what, "bins", bins, 1)
    low, high = real(what, "min", min), real(what, "max", max)
    if low == high and x.size:
        low, high = amin(x).item(), amax(x).item()
        low, high = (low - 1, high + 1) if low == high else (low, high)
    if not low <= high or not np.isfinite([low, high]).all():
        raise ShapeError(f"{what}: bounds {low} and {high}: expected finite ones in order")
    wide: Any = np.float64 if x.dtype == np.float64 else np.float32
    if x.dtype.kind in "iu":
        wide, limit = np.int64, 1 << 62
        if not -limit <= low <= high <= limit:
            raise ShapeError(f"{what}: bounds {low} and {high}: expected integers of 62 bits")
    text = """
        typeof_w0 place = (x0 - w0) * w2 / (w1 - w0);
        y0 = !(x0 >= w0 && x0 <= w1) ? (uint)w2 : place >= w2 ? (uint)w2 - 1 : (uint)place;
    """
    keys = new_dense(x.shape, np.dtype(np.uint32))
    kernel(text, what, keys.dtype)(x, wide(low), wide(high), wide(bins), out=keys)
    return _counts(what, keys.reshape(-1), bins).astype(x.dtype)


@operator(torch="histogram.bin_ct histogram.bins_tensor")
def histogram(
    x: Any,
    bins: Any = 10,
    *,
    range: Any = None,
    weight: Any = None,
    density: bool = False,
) -> tuple[Array, Array]:
    """Returns (histogram, edges) of all elements, as `torch.histogram` and `numpy.histogram` do.

    Elements outside, and NaN, count nowhere; the last interval has its upper edge.

    Args:
        x: An array of floating numbers.
        bins: How many equal intervals, or their edges in order: a line of them, or numbers.
        range: Where the first of equal intervals begins and the last ends; by default the least and
            the greatest element, for which the host waits.
        weight: Of the shape of ``x``: added up in place of ones.
        density: Whether the result is divided so that its integral is 1.

    Returns:
        Arrays of n and n + 1 elements in the dtype of ``x``.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.array([1, 2, 1, 4], np.float32))
        >>> counts, edges = ops.histogram(x, [0, 2, 3, 4])
        >>> counts.get()
        array([2., 1., 1.], dtype=float32)
    """
    what = "histogram"
    dtype = check_floating(what, "x", x)
    edges = _edges(what, x, bins, range)
    count = edges.size - 1
    text = f"""
        {lower_bound("size_x1(0)", "at_x1(middle)", "x0", after=True)}
        long last = size_x1(0) - 1;
        low = low > last && x0 == at_x1(last) ? last : low;
        y0 = low < 1 || low > last || x0 != x0 ? (uint)last : (uint)(low - 1);
    """
    keys = new_dense(x.shape, np.dtype(np.uint32))
    kernel(text, what, keys.dtype)(x, edges, out=keys)
    if weight is None:
        found = _counts(what, keys.reshape(-1), count).astype(dtype)
    else:
        if dtype_of(what, "weight", weight) != dtype or weight.shape != x.shape:
            raise ShapeError(
                f"{what}: weight is {weight.dtype} of shape {weight.shape}, expected {dtype} of "
                f"{x.shape}"
            )
        own = new_dense(x.shape, dtype)
        kernel("y0 = x0;", "copy", dtype)(weight, out=own)
        found = index_add(zeros((count + 1,), dtype), 0, keys.reshape(-1), own.reshape(-1))[:count]
    if density:
        found = kernel("y0 = x0 / (x1 * (at_x2(index + 1) - at_x2(index)));", what, dtype)(
            found, add_up(found), edges
        )
    return found, edges


def _edges(what: str, x: Any, bins: Any, range_: Any) -> Array:
    """The edges of intervals in the dtype of x."""
    if is_integer(bins):
        count = whole(what, "bins", bins, 1)
        if count > _MOST_BINS:
            raise ShapeError(f"{what}: bins={count}: expected at most {_MOST_BINS:,}")
        if range_ is None:
            ends = (float(amin(x).item()), float(amax(x).item())) if x.size else (0.0, 1.0)
        else:
            if not isinstance(range_, Sequence) or len(range_) != 2:
                raise ShapeError(f"{what}: range={quoted(range_)}: expected (least, greatest)")
            ends = (real(what, "range[0]", range_[0]), real(what, "range[1]", range_[1]))
        low, high = ends if ends[0] != ends[1] else (ends[0] - 0.5, ends[1] + 0.5)
        if not low < high or not np.isfinite([low, high]).all():
            raise ShapeError(f"{what}: range {ends}: expected finite bounds in order")
        host = np.linspace(low, high, count + 1)
    else:
        if range_ is not None:
            raise ShapeError(
                f"{what}: bins are edges already; range={quoted(range_)} says so again"
            )
        try:
            host = np.asarray(bins.get() if isinstance(bins, cl_array.Array) else bins, np.float64)
        except (TypeError, ValueError, OverflowError):
            host = np.empty(0)
        if host.ndim != 1 or host.size < 2 or not (np.diff(host) >= 0).all():
            raise ShapeError(f"{what}: bins={quoted(bins)}: expected a number, or edges in order")
    wide = np.float64 if x.dtype == np.float64 else np.float32
    return asarray(host.astype(wide)).astype(x.dtype)


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


@operator(numpy="argwhere(x, /)")
def nonzero(x: Any) -> Array:
    """Returns the indices of the elements that are not zero, a row each, in C order.

    The host waits for their number.

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
    return kernel(text, "nonzero", _INT64)(numbers, *map(np.int64, steps), shape=(count, ndim))


@operator(torch="masked_select")
def masked_select(x: Any, mask: Any) -> Array:
    """Returns the elements of ``x`` where a mask is not zero, a line in C order.

    The host waits for their number. The mask and ``x`` broadcast.
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
