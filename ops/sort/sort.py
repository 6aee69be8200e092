"""Sorting along an axis, and the first or the k-th element of that order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clprim.arrays.array import Array, view_of
from clprim.errors import ShapeError
from clprim.graph.repeat import repeatable
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.dims import empty_like, one_axis, whole
from clprim.ops.shared.strings import kernel, places
from clprim.ops.sort.keys import first_along, order_along, with_axis


def in_order(what: str, x: Any, axis: int, descending: bool, first: int, count: int) -> Any:
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
def ordered(what: str, x: Any, at: int) -> tuple[Array, Array]:
    """Returns values and indices along an axis, the least first."""
    count = x.shape[at] if x.ndim else 1
    found: tuple[Array, Array] = in_order(what, x, at, False, 0, count)
    return found


@operator(torch="sort sort.stable stable=True @like", wrt="x", saves="indices")
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
        dim: Along which axis; the last one by default.
        descending: Whether the greatest come first.
        stable: Taken as PyTorch has it; the order of equal elements is always kept.

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
    values, indices = in_order("sort", x, at, bool(descending), 0, count)
    return values, indices


@operator()
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


@operator(
    torch="topk",
    onnx="TopK(x, k: Number) axis:dim=-1 largest=1 -sorted @2",
    sample="x, 1, 1",
    wrt="x",
    saves="indices",
    backward="sort_backward",
)
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
        k: How many.
        dim: Along which axis; the last one by default.
        largest: Whether the greatest are asked for, or the least.
        sorted: Taken as PyTorch has it; they are always sorted.
    """
    at = one_axis("topk", x, dim, axis, -1)
    length = x.shape[at] if x.ndim else 1
    if whole("topk", "k", k, 0) > length:
        raise ShapeError(f"topk: k={k} of {length} elements along axis {at}")
    values, indices = in_order("topk", x, at, bool(largest), 0, int(k))
    return values, indices


def sort_backward(
    grad: Any, dim: int | None, indices: Any, sizes: tuple[int, ...], *, axis: int | None = None
) -> Array:
    """Returns the gradient of what `sort`, `topk`, `kthvalue` or `median` chose along an axis.

    Args:
        grad: Gradient in the values.
        indices: As they were returned: each at most once along the axis.
        sizes: Shape of what was sorted.
    """
    what = "sort_backward"
    dtype_of(what, "indices", indices)
    at = one_axis(what, grad, dim, axis, -1)
    sizes = tuple(sizes)
    rest = [s[:at] + s[at + 1 :] for s in (tuple(grad.shape), sizes)]
    if grad.shape != indices.shape or rest[0] != rest[1]:
        raise ShapeError(
            f"{what}: grad {grad.shape} and indices {indices.shape} do not fit sizes {sizes}"
        )
    if not sizes:
        return kernel("y0 = x0;", what, grad.dtype)(grad.reshape(()))
    # Where does each element go? The order of the indices is the inverse, if they are all there; of
    # some, a search in their order finds out.
    values, order = ordered(what, indices, at)
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


@operator(torch="kthvalue", sample="x, 1, 1")
def kthvalue(
    x: Any, k: int, dim: int | None = None, keepdim: bool = False, *, axis: int | None = None
) -> tuple[Array, Array]:
    """Returns (value, index) of the k-th least element along an axis, counted from 1."""
    at = one_axis("kthvalue", x, dim, axis, -1)
    length = x.shape[at] if x.ndim else 1
    if not 1 <= whole("kthvalue", "k", k) <= length:
        raise ShapeError(f"kthvalue: k={k}: there are {length} elements along axis {at}")
    values, indices = in_order("kthvalue", x, at, False, int(k) - 1, 1)
    return (values, indices) if keepdim or not x.ndim else without(at, values, indices)


def without(axis: int, values: Array, indices: Array) -> tuple[Array, Array]:
    """Returns views of both without an axis of size 1."""

    def one(a: Array) -> Array:
        shape, strides = a.shape, a.strides
        kept = strides[:axis] + strides[axis + 1 :]
        return view_of(a, shape[:axis] + shape[axis + 1 :], kept, a.offset)

    return one(values), one(indices)
