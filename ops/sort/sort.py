"""Sorting along an axis, and what follows from it: the greatest, the median, quantiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import asarray
from clprim.call.repeat import repeatable
from clprim.errors import DTypeError, ShapeError
from clprim.ops.shared.arguments import dtype_of, is_array
from clprim.ops.shared.dims import empty_like, one_axis, whole
from clprim.ops.shared.strings import kernel, places
from clprim.ops.sort.keys import first_along, order_along, with_axis

__all__ = ["argsort", "kthvalue", "median", "quantile", "sort", "sort_backward", "topk"]


def _sorted(what: str, x: Any, axis: int, descending: bool, first: int, count: int) -> Any:
    """Values and indices of ``count`` elements from number ``first`` in sorted order."""
    flat = x if x.ndim else view_of(x, (1,), (x.dtype.itemsize,), x.offset)
    shape = (*flat.shape[:axis], count, *flat.shape[axis + 1 :])
    values = empty_like(flat, shape, x.dtype)
    indices = empty_like(flat, shape, np.dtype(np.int64))
    if math.prod(shape):
        end, last = first + count, flat.ndim - 1
        found, order = (
            (order_along(what, flat, axis, descending=descending), None)
            if end == flat.shape[axis]
            else first_along(what, flat, axis, end, descending=descending)
        )
        place, given = "x0", [found if order is None else order]
        if order is not None:
            place = f"at_x2({places(flat.ndim, {axis: 'x0'})})"
            given.append(found)
        given = [with_axis(a, last, axis) for a in given]
        given[0] = given[0][(slice(None),) * axis + (slice(first, end),)]
        text = f"long at = {place}; y0 = at_x1({places(flat.ndim, {axis: 'at'})}); y1 = at;"
        pick = kernel(text, what, x.dtype, np.dtype(np.int64))
        pick(given[0], flat, *given[1:], out=(values, indices))
    if x.ndim:
        return values, indices
    return values.reshape(()), indices.reshape(())


@repeatable
def sort(
    x: Any,
    dim: int | None = None,
    descending: bool = False,
    stable: bool = False,
    *,
    axis: int | None = None,
) -> tuple[Array, Array]:
    """Returns (values, indices) sorted along an axis; equal elements keep their order.

    A NaN is greater than any number, and -0 equals 0.

    Args:
        x: An array.
        dim: Along which axis; the last one by default.
        descending: Whether the greatest come first.
        stable: Taken as PyTorch has it; the order of equal elements is always kept.
        axis: The same as ``dim``, by NumPy's name.

    Returns:
        Two arrays of the shape of ``x``; indices are int64.

    Raises:
        ShapeError: An axis that is not there, or of 2³¹ elements.
        DTypeError: No device array.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> values, indices = ops.sort(cp.asarray(np.array([3, 1, 2], np.float32)))
        >>> values.get(), indices.get()
        (array([1., 2., 3.], dtype=float32), array([1, 2, 0]))
    """
    at = one_axis("sort", x, dim, axis, -1)
    count = x.shape[at] if x.ndim else 1
    values, indices = _sorted("sort", x, at, bool(descending), 0, count)
    return values, indices


def argsort(
    x: Any,
    dim: int | None = None,
    descending: bool = False,
    stable: bool = False,
    *,
    axis: int | None = None,
) -> Array:
    """Returns the indices that sort an array along an axis; see `sort`."""
    return sort(x, dim, descending, stable, axis=axis)[1]


@repeatable
def topk(
    x: Any,
    k: int,
    dim: int | None = None,
    largest: bool = True,
    sorted: bool = True,
    *,
    axis: int | None = None,
) -> tuple[Array, Array]:
    """Returns (values, indices) of the k greatest elements along an axis, the greatest first.

    Args:
        x: An array.
        k: How many.
        dim: Along which axis; the last one by default.
        largest: Whether the greatest are asked for, or the least.
        sorted: Taken as PyTorch has it; they are always sorted.
        axis: The same as ``dim``, by NumPy's name.

    Raises:
        ShapeError: More than there are, or an axis that is not there.
        DTypeError: No device array, or k that is no integer.
    """
    at = one_axis("topk", x, dim, axis, -1)
    length = x.shape[at] if x.ndim else 1
    if whole("topk", "k", k, 0) > length:
        raise ShapeError(f"topk: k={k} of {length} elements along axis {at}")
    values, indices = _sorted("topk", x, at, bool(largest), 0, int(k))
    return values, indices


def sort_backward(
    grad: Any, dim: int | None, indices: Any, sizes: tuple[int, ...], *, axis: int | None = None
) -> Array:
    """Returns the gradient of what `sort`, `topk`, `kthvalue` or `median` chose along an axis.

    Args:
        grad: Gradient in the values.
        dim: Along which axis.
        indices: As they were returned: each at most once along the axis.
        sizes: Shape of what was sorted.
        axis: The same as ``dim``, by NumPy's name.

    Raises:
        ShapeError: An axis that is not there, shapes that do not fit.
        DTypeError: No device arrays, or indices that are no integers.
    """
    what = "sort_backward"
    dtype_of(what, "indices", indices)
    at = one_axis(what, grad, dim, axis)
    sizes = tuple(sizes)
    rest = [s[:at] + s[at + 1 :] for s in (tuple(grad.shape), sizes)]
    if grad.shape != indices.shape or rest[0] != rest[1]:
        raise ShapeError(
            f"{what}: grad {grad.shape} and indices {indices.shape} do not fit sizes {sizes}"
        )
    # Where does each element go? The order of the indices is the inverse, if they are all there; of
    # some, a search in their order finds out.
    values, order = sort(indices, at)
    text = f"""
        long low = 0, high = size_x0({at});
        while (low < high) {{
            long middle = (low + high) / 2;
            if (at_x0({places(grad.ndim, {at: "middle"})}) < coord({at})) low = middle + 1;
            else high = middle;
        }}
        bool there = low < size_x0({at});
        low = there ? low : 0;
        there = there && at_x0({places(grad.ndim, {at: "low"})}) == coord({at});
        long from = at_x1({places(grad.ndim, {at: "low"})});
        typeof_y0 value = at_x2({places(grad.ndim, {at: "from"})});
        y0 = there ? value : 0;
    """
    out = empty_like(grad, sizes, grad.dtype)
    if grad.size:
        kernel(text, what, grad.dtype)(values, order, grad, out=out)
    else:
        out.fill(0)
    return out


def kthvalue(
    x: Any, k: int, dim: int | None = None, keepdim: bool = False, *, axis: int | None = None
) -> tuple[Array, Array]:
    """Returns (value, index) of the k-th least element along an axis, counted from 1.

    Raises:
        ShapeError: There is no such element, or an axis that is not there.
        DTypeError: No device array, or k that is no integer.
    """
    at = one_axis("kthvalue", x, dim, axis, -1)
    length = x.shape[at] if x.ndim else 1
    if not 1 <= whole("kthvalue", "k", k) <= length:
        raise ShapeError(f"kthvalue: k={k}: there are {length} elements along axis {at}")
    return _one("kthvalue", x, at, int(k) - 1, keepdim)


def _one(what: str, x: Any, at: int, place: int, keepdim: bool) -> tuple[Array, Array]:
    values, indices = _sorted(what, x, at, False, place, 1)
    if keepdim or not x.ndim:
        return values, indices
    shape = x.shape[:at] + x.shape[at + 1 :]
    return tuple(  # type: ignore[return-value]
        view_of(a, shape, a.strides[:at] + a.strides[at + 1 :], a.offset) for a in (values, indices)
    )


def median(
    x: Any, dim: int | None = None, keepdim: bool = False, *, axis: int | None = None
) -> Any:
    """Returns the median: of all elements, or (values, indices) along an axis.

    As `torch.median`: of an even number the lower one, and NaN where there is one.

    Args:
        x: An array.
        dim: Along which axis; None for all elements.
        keepdim: Whether the axis stays, with size 1.
        axis: The same as ``dim``, by NumPy's name.

    Raises:
        ShapeError: No elements, or an axis that is not there.
        DTypeError: No device array.
    """
    dtype_of("median", "x", x)
    everything = dim is None and axis is None
    if everything:
        x = x.reshape(-1)
    at = one_axis("median", x, dim, axis, -1)
    length = x.shape[at] if x.ndim else 1
    if not length:
        raise ShapeError(f"median: no elements along axis {at} of shape {x.shape}")
    values, indices = _one("median", x, at, (length - 1) // 2, True)
    if x.dtype.kind not in "biu" and x.size:
        # The greatest is a NaN if there is one; of several NaN, the first.
        last, place = _sorted("median", x, at, True, 0, 1)
        text = "y0 = x1 != x1 ? x1 : x0; y1 = x1 != x1 ? x3 : x2;"
        chosen = kernel(text, "median", x.dtype, np.dtype(np.int64))
        values, indices = chosen(values, last, indices, place)
    if everything:
        return values.reshape(())
    if keepdim or not x.ndim:
        return values, indices
    shape = x.shape[:at] + x.shape[at + 1 :]
    return tuple(
        view_of(a, shape, a.strides[:at] + a.strides[at + 1 :], a.offset) for a in (values, indices)
    )


_BETWEEN = {
    "linear": "y0 = low + (high - low) * part;",
    "lower": "y0 = low;",
    "higher": "y0 = part > 0 ? high : low;",
    "midpoint": "y0 = part > 0 ? low + (high - low) / 2 : low;",
    "nearest": "y0 = part > 0.5 || (part == 0.5 && below % 2 == 1) ? high : low;",
}


def quantile(
    x: Any,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    axis: int | None = None,
) -> Array:
    """Returns quantiles of all elements, or along an axis; NaN where there is one.

    Args:
        x: An array of floating numbers.
        q: A number in [0, 1], or a sequence of them, which become the first axis of the result.
        dim: Along which axis; None for all elements.
        keepdim: Whether the axis stays, with size 1.
        interpolation: linear, lower, higher, nearest or midpoint.
        axis: The same as ``dim``, by NumPy's name.

    Raises:
        ShapeError: No elements, a number outside, an axis that is not there.
        DTypeError: No device array of floating numbers.
    """
    what = "quantile"
    if dtype_of(what, "x", x).kind in "biu":
        raise DTypeError(f"{what}: x is {x.dtype}, expected a floating dtype")
    if interpolation not in _BETWEEN:
        raise ShapeError(f"{what}: interpolation={interpolation!r}: one of {', '.join(_BETWEEN)}")
    try:
        given = np.asarray(q.get() if is_array(q) else q, np.float64)
    except (TypeError, ValueError, OverflowError):  # words, and what float takes of no number
        given = np.full((), np.nan)
    if given.ndim > 1 or isinstance(q, str | bytes) or not ((given >= 0) & (given <= 1)).all():
        raise ShapeError(f"{what}: q={q!r}: expected a number in [0, 1], or some of them")
    ndim = x.ndim
    flat = dim is None and axis is None
    if flat:
        x = x.reshape(-1)
    at = one_axis(what, x, dim, axis, -1)
    x = x if x.ndim else x.reshape(1)
    length = x.shape[at]
    if not length:
        raise ShapeError(f"{what}: no elements along axis {at} of shape {x.shape}")
    ordered, _ = sort(x, at)
    kept = x.shape[:at] + x.shape[at + 1 :]
    wide = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    where = given.reshape(-1) * (length - 1)
    spread = (-1, *(1 for _ in kept))
    below = asarray(np.floor(where).astype(np.int64).reshape(spread))
    part = asarray((where - np.floor(where)).astype(wide).reshape(spread))

    def element(place: str) -> str:
        own = [f"coord({d + 1})" for d in range(len(kept))]
        own.insert(at, place)
        return f"at_x2({', '.join(own)})"

    text = f"""
        long below = x0, next = below + 1 < size_x2({at}) ? below + 1 : below;
        typeof_y0 low = {element("below")}, high = {element("next")};
        typeof_y0 greatest = {element(f"size_x2({at}) - 1")}, part = x1;
        {_BETWEEN[interpolation]}
        y0 = greatest != greatest ? greatest : y0;
    """
    found: Array = kernel(text, what, x.dtype)(below, part, ordered, shape=(where.size, *kept))
    if keepdim:
        rest = (1,) * ndim if flat else (*kept[:at], 1, *kept[at:])
        found = found.reshape((where.size, *rest))
    return found if given.ndim else found.reshape(found.shape[1:])
