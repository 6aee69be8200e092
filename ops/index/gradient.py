"""Gradients of reading at indices: what was read from one place is added up there, in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense, view_of
from clprim.arrays.memory import is_dense
from clprim.call.arguments import as_shape
from clprim.dtypes import value_dtype
from clprim.errors import ShapeError
from clprim.ops.index.embedding import check_bags
from clprim.ops.index.gather import WRAPPED, check_index
from clprim.ops.index.index import index
from clprim.ops.index.scatter import index_add, scatter_add
from clprim.ops.index.taking import take_in
from clprim.ops.reduction.reduce import sum as add_up
from clprim.ops.shared.checks import check_shape, dtype_of
from clprim.ops.shared.dims import empty_like, one_dim, spread, whole
from clprim.ops.shared.strings import kernel, lower_bound
from clprim.plan.strides import dense_strides

_INT64 = np.dtype(np.int64)


def gather_backward(
    grad: Any,
    sizes: Sequence[int],
    dim: int | None = None,
    index: Any = None,
    *,
    axis: int | None = None,
) -> Array:
    """Returns the gradient of `gather` or `take_along_dim` in the array that was read.

    Args:
        sizes: Shape of the array.
    """
    zeros = _zeros("gather_backward", sizes, grad)
    return scatter_add(zeros, dim, index, grad, axis=axis, out=zeros)


def _zeros(what: str, sizes: Sequence[int], like: Any) -> Array:
    dtype = dtype_of(what, "grad", like)
    return empty_like(like, as_shape(what, sizes), dtype).fill(0)


def index_select_backward(
    grad: Any,
    sizes: Sequence[int],
    dim: int | None = None,
    index: Any = None,
    *,
    axis: int | None = None,
) -> Array:
    """Returns the gradient of `index_select` in the array that was read; see `gather_backward`."""
    zeros = _zeros("index_select_backward", sizes, grad)
    return index_add(zeros, dim, index, grad, axis=axis, out=zeros)


def take_backward(grad: Any, sizes: Sequence[int], index: Any) -> Array:
    """Returns the gradient of `take` in the array that was read.

    Args:
        sizes: Shape of the array.
    """
    what = "take_backward"
    check_index(what, "index", index)
    return _added(what, grad, sizes, index)


def _added(what: str, grad: Any, sizes: Sequence[int], places: Any) -> Array:
    """Adds elements up where flat positions say."""
    check_shape(what, "grad", grad, places.shape)
    shape = tuple(whole(what, "sizes", n, 0) for n in sizes)
    zeros = new_dense((math.prod(shape),), grad.dtype).fill(0)
    return scatter_add(zeros, 0, places.reshape(-1), grad.reshape(-1), out=zeros).reshape(shape)


def take_along_dim_backward(
    grad: Any,
    sizes: Sequence[int],
    indices: Any,
    dim: int | None = None,
    *,
    axis: int | None = None,
) -> Array:
    """Returns the gradient of `take_along_dim` in the array that was read.

    Args:
        sizes: Shape of the array; where it was repeated, the gradient is summed up.
    """
    what = "take_along_dim_backward"
    dtype_of(what, "grad", grad)
    check_index(what, "indices", indices)
    shape = tuple(whole(what, "sizes", n, 0) for n in sizes)
    at = one_dim(what, grad.ndim, dim, axis)
    fits = indices.ndim == grad.ndim == len(shape) and all(
        n in (1, g) and i in (1, g) and (d != at or i == g)
        for d, (n, i, g) in enumerate(zip(shape, indices.shape, grad.shape, strict=True))
        if d != at or i != g
    )
    if not fits:
        raise ShapeError(
            f"{what}: grad of shape {grad.shape} and indices of {indices.shape} do not fit {shape}"
        )
    wide = spread(indices, grad.shape)
    zeros = empty_like(grad, (*grad.shape[:at], shape[at], *grad.shape[at + 1 :]), grad.dtype)
    found = scatter_add(zeros.fill(0), at, wide, grad, out=zeros)
    repeated = tuple(d for d in range(grad.ndim) if d != at and shape[d] < grad.shape[d])
    return add_up(found, repeated, keepdims=True) if repeated else found


def index_backward(grad: Any, sizes: Sequence[int], indices: Sequence[Any]) -> Array:
    """Returns the gradient of `index` in the array that was read.

    Args:
        sizes: Shape of the array.
        indices: As they were then: arrays, integers and None.
    """
    what = "index_backward"
    dtype_of(what, "grad", grad)
    shape = tuple(whole(what, "sizes", n, 0) for n in sizes)
    numbers = new_dense(shape, _INT64)
    # Counted from 1, as what is out of bounds reads 0.
    kernel("y0 = index + 1;", what, _INT64)(out=numbers)
    read = index(numbers, indices)
    text = "y0 = x0 == 0 ? w0 : x0 - 1;"
    kernel(text, what, _INT64)(read, np.int64(math.prod(shape)), out=read)
    return _added(what, grad, shape, read)


def embedding_bag_backward(
    grad: Any,
    indices: Any,
    weight: Any,
    offsets: Any = None,
    *,
    mode: str = "mean",
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Array, Array | None]:
    """Returns the gradients of `embedding_bag` in weight and, where given, in per_sample_weights.

    Args:
        grad: Of the result, (B, D).
        weight: Likewise; of ``"max"`` and per_sample_weights its elements count.
        mode: Likewise; of equal greatest elements of a bag, the first one gets the gradient.
    """
    what = "embedding_bag_backward"
    dtype = dtype_of(what, "grad", grad)
    check_bags(what, indices, weight, offsets, mode, per_sample_weights)
    last = bool(include_last_offset)
    bags = indices.shape[0] if offsets is None else offsets.shape[0] - last
    flat = indices.reshape(-1)
    rows, width = weight.shape
    check_shape(what, "grad", grad, (bags, width))
    weighted = per_sample_weights is not None
    if not grad.size or not flat.size:
        zeros = new_dense(per_sample_weights.shape, dtype).fill(0) if weighted else None
        return new_dense(weight.shape, dtype).fill(0), zeros
    begins, ends = _ends(what, indices, offsets, last)
    # A row's number, or one too many for what counts for nothing.
    padding = -1 if padding_idx is None else whole(what, "padding_idx", padding_idx) % rows
    text = WRAPPED.format(c="c", i="x0", n="w0")
    text += "y0 = c < 0 || c >= w0 || c == w1 ? w0 : c;"
    numbers = kernel(text, what, _INT64)(flat, np.int64(rows), np.int64(padding))
    # The bag that each number is in, or -1.
    text = lower_bound("size_x0(0)", "at_x0(middle)", "index", after=True)
    text += "y0 = low > 0 && index < at_x1(low - 1) ? low - 1 : -1;"
    bag = kernel(text, what, _INT64)(begins, ends, shape=flat.shape)
    arrays = [grad, numbers, bag]
    factor = "1"
    if weighted:
        factor = "at_x3(coord(0))"
        arrays.append(per_sample_weights.reshape(-1))
    elif mode != "sum":
        arrays.append(_of_bags(what, mode, begins, ends, numbers, weight))
        factor = "(at_x3(b, coord(1)) == coord(0) ? 1 : 0)" if mode == "max" else "1 / at_x3(b)"
    text = f"""
        long b = max((long)at_x2(coord(0)), 0L);
        bool inside = at_x2(coord(0)) >= 0 && at_x1(coord(0)) < w0;
        typeof_x0 v = at_x0(b, coord(1));
        y0 = inside ? v * {factor} : 0;"""
    wide = value_dtype(dtype, [dtype])  # nothing is rounded before it is added up
    source = kernel(text, what, wide)(*arrays, np.int64(rows), shape=(flat.shape[0], width))
    zeros = new_dense(weight.shape, dtype).fill(0)
    dweight = take_in(what, zeros, 0, numbers, source, "sum", out=zeros)
    if not weighted:
        return dweight, None
    slopes = kernel(_FACTORS, what, per_sample_weights.dtype)(grad, numbers, bag, weight)
    return dweight, slopes.reshape(per_sample_weights.shape)


def _ends(what: str, indices: Any, offsets: Any, last: bool) -> tuple[Array, Array]:
    """Where each bag begins and ends; with ``last`` the last offset is but an end."""
    given: tuple[Any, ...] = () if offsets is None else (offsets,)
    first, behind, bags = "index * w0", "(index + 1) * w0", indices.shape[0]
    if offsets is not None:
        first, behind, bags = "at_x0(index)", "at_x0(index + 1)", offsets.shape[0] - last
        if not last:
            behind = f"index + 1 < size_x0(0) ? {behind} : w0"
        first, behind = (f"clamp((long)({end}), 0L, (long)w0)" for end in (first, behind))
    each = np.int64(indices.shape[-1])
    text = f"y0 = {first}; y1 = {behind};"
    begins, ends = kernel(text, what, _INT64, _INT64)(*given, each, shape=(bags,))
    return begins, ends


# Gradients in factors: rows of the table, times those of the result.
_FACTORS = """
    typeof_y0 sum = 0;
    long b = max((long)x2, 0L), c = x1;
    bool inside = x2 >= 0 && c < size_x3(0);
    c = inside ? c : 0;
    for (long d = 0; d < size_x0(1); ++d) sum += at_x0(b, d) * at_x3(c, d);
    y0 = inside ? sum : 0;
"""


def _of_bags(what: str, mode: str, begins: Any, ends: Any, numbers: Any, weight: Any) -> Array:
    """Of every bag how many numbers it has, or (of ``max``) which one was chosen in a column."""
    columns = mode == "max"
    take = """
        typeof_x3 v = at_x3(c, coord(1));
        if (members == 0 || v > best || v != v) { best = v; chosen = k; }"""
    text = f"""
        long members = 0, chosen = -1;
        {"typeof_x3 best = 0;" if columns else ""}
        for (long k = at_x0(coord(0)); k < at_x1(coord(0)); ++k) {{
            long c = at_x2(k);
            if (c >= w0) continue;
            {take if columns else ""}
            ++members;
        }}
        y0 = {"chosen" if columns else "members"};"""
    arrays = (begins, ends, numbers, *((weight,) if columns else ()))
    shape = (begins.shape[0], weight.shape[1]) if columns else begins.shape
    return kernel(text, what, _INT64 if columns else value_dtype(weight.dtype, [weight.dtype]))(
        *arrays, np.int64(weight.shape[0]), shape=shape
    )


def embedding_backward(
    grad: Any,
    indices: Any,
    num_weights: int,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
) -> Array:
    """Returns the gradient of `embedding` in its table, (num_weights, …).

    Args:
        num_weights: Rows of the table.
        padding_idx: A row whose gradient is zero; -1 for none.
        scale_grad_by_freq: Whether a row's gradient is divided by how often it was read.
    """
    what = "embedding_backward"
    dtype = dtype_of(what, "grad", grad)
    check_index(what, "indices", indices)
    rows = whole(what, "num_weights", num_weights, 0)
    if grad.shape[: indices.ndim] != indices.shape:
        raise ShapeError(f"{what}: grad {grad.shape} does not fit indices {indices.shape}")
    row = grad.shape[indices.ndim :]
    flat = new_dense(indices.shape, np.dtype(np.int64))
    padding = whole(what, "padding_idx", padding_idx)
    # What is out of bounds is so at the end, where it is not taken for negative again.
    text = WRAPPED.format(c="i", i="x0", n="w0") + "y0 = i < 0 || i == w1 ? w0 : i;"
    kernel(text, what, flat.dtype)(indices, np.int64(rows), np.int64(padding), out=flat)
    dense = grad
    if not is_dense(grad, range(grad.ndim)):
        dense = new_dense(grad.shape, dtype)
        kernel("y0 = x0;", "copy", dtype)(grad, out=dense)
    shape = (flat.size, *row)
    lines = view_of(
        dense, shape, dense_strides(shape, dtype.itemsize, range(len(shape))), dense.offset
    )
    zeros = new_dense((rows, *row), dtype).fill(0)
    how = "mean" if scale_grad_by_freq else "sum"
    return take_in(
        what,
        zeros,
        0,
        flat.reshape(-1),
        lines,
        how,
        include_self=not scale_grad_by_freq,
        out=zeros,
    )
