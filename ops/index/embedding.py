"""Rows of a table by number, and what masks and classes are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array, view_of
from clprim.dtypes import AnyDType, as_dtype
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.index.gather import WRAPPED, check_index, index_select
from clprim.ops.index.scatter import index_copy
from clprim.ops.norm.renorm import renorm
from clprim.ops.reduction.extrema import amax
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of, is_array, number
from clprim.ops.shared.dims import whole
from clprim.ops.shared.strings import kernel
from clprim.primitives.quantized_weight import QuantizedWeight, rows_of


@operator(
    torch="embedding -padding_idx -scale_grad_by_freq -sparse; embedding_dense_backward",
    sample="index, empty((2, 3))",
)
def embedding(
    indices: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    *,
    out: Any = None,
) -> Array:
    """Returns rows of a table by number.

    Args:
        indices: Of integers. A negative one counts from the end; one that is still out of bounds
            gives zeros.
        weight: (V, …), a row for each number; or what `quantize_weight` made of (V, K), whose
            rows are float32.
        padding_idx: A row that takes no part in training: it is read as any other, and
            `embedding_backward` gives it no gradient.
        max_norm: The rows that are read are brought to this norm first, *in the table*, where
            theirs is greater; as in PyTorch.
        norm_type: The order of that norm.
        scale_grad_by_freq: Has to do with the gradient only: `embedding_backward` takes it, too.

    Returns:
        The shape of the indices, and that of a row.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> table = cp.asarray(np.float32([[1, 2], [3, 4], [5, 6]]))
        >>> ops.embedding(cp.asarray(np.array([2, 0])), table).get()
        array([[5., 6.],
               [1., 2.]], dtype=float32)
    """
    what = "embedding"
    if isinstance(weight, QuantizedWeight):
        if (padding_idx, max_norm) != (None, None):
            raise DefinitionError(f"{what}: padding_idx= and max_norm= beside a quantised weight")
        return _decoded(what, indices, weight, out)
    dtype_of(what, "weight", weight)
    check_index(what, "indices", indices)
    _row(what, weight, indices.size > 0)
    if padding_idx is not None:
        row_number = whole(what, "padding_idx", padding_idx)
        if not -weight.shape[0] <= row_number < weight.shape[0]:
            raise ShapeError(
                f"{what}: padding_idx={padding_idx} is out of bounds for {weight.shape[0]} rows"
            )
    if max_norm is not None:
        lines = indices.reshape(-1)
        bounded = renorm(index_select(weight, 0, lines), norm_type, 0, max_norm)
        index_copy(weight, 0, lines, bounded, out=weight)
    return _looked_up(indices, weight, out=out)


def _decoded(what: str, indices: Any, weight: QuantizedWeight, out: Any) -> Array:
    """Rows of a quantised table."""
    check_index(what, "indices", indices)
    rows, depth = weight.shape
    spread = view_of(indices, (*indices.shape, 1), (*indices.strides, 0), indices.offset)
    text = WRAPPED.format(c="row", i="x1", n=rows)
    text += f"bool inside = row >= 0 && row < {rows}; row = inside ? row : 0;"
    return rows_of(weight, text, (spread,), shape=(*indices.shape, depth), out=out)


@repeatable
def _looked_up(indices: Any, weight: Any, *, out: Any) -> Array:
    row = _row("embedding", weight, indices.size > 0)
    spread = view_of(
        indices,
        (*indices.shape, *(1 for _ in row)),
        (*indices.strides, *(0 for _ in row)),
        indices.offset,
    )
    element = ", ".join(["c", *(f"coord({indices.ndim + d})" for d in range(len(row)))])
    expr = f"""
        {WRAPPED.format(c="c", i="x0", n="size_x1(0)")}
        bool inside = c >= 0 && c < size_x1(0);
        c = inside ? c : 0;
        y0 = at_x1({element});
        if (!inside) y0 = 0;"""
    operator = kernel(expr, "embedding", weight.dtype)
    return operator(spread, weight, shape=(*indices.shape, *row), out=out)


def _row(what: str, weight: Any, read: bool = True) -> tuple[int, ...]:
    if weight.ndim == 0 or (read and not weight.shape[0]):
        raise ShapeError(f"{what}: expected weight of at least one row, got shape {weight.shape}")
    return tuple(weight.shape[1:])


def check_bags(
    what: str, indices: Any, weight: Any, offsets: Any, mode: str, per_sample_weights: Any
) -> AnyDType:
    """Checks the arguments of `embedding_bag`, and returns the dtype of the weight."""
    dtype: AnyDType = dtype_of(what, "weight", weight)
    check_index(what, "indices", indices)
    if mode not in ("sum", "mean", "max"):
        raise DefinitionError(
            f"{what}: mode={quoted(mode)} is unknown; expected 'sum', 'mean' or 'max'"
        )
    if per_sample_weights is not None:
        if mode != "sum":
            raise DefinitionError(f"{what}: per_sample_weights need mode='sum', got {quoted(mode)}")
        dtype_of(what, "per_sample_weights", per_sample_weights)
        if per_sample_weights.shape != indices.shape:
            raise ShapeError(
                f"{what}: per_sample_weights have shape {per_sample_weights.shape}, expected "
                f"{indices.shape}"
            )
    if len(_row(what, weight, indices.size > 0)) != 1:
        raise ShapeError(f"{what}: expected weight of 2 dimensions, got shape {weight.shape}")
    if (indices.ndim, offsets is None) not in ((1, False), (2, True)):
        raise ShapeError(
            f"{what}: expected indices (B, N), or (N,) with offsets, got shape {indices.shape}"
        )
    if offsets is not None:
        check_index(what, "offsets", offsets)
        if offsets.ndim != 1:
            raise ShapeError(f"{what}: expected offsets (B,), got shape {offsets.shape}")
    return dtype


@operator(sample="index, empty((2, 3))", wrt="weight per_sample_weights")
@repeatable
def embedding_bag(
    indices: Any,
    weight: Any,
    offsets: Any = None,
    *,
    mode: str = "mean",
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Array:
    """Returns sums, means or maxima of rows of a table, a bag of numbers each.

    Args:
        indices: (B, N), bags of one size; or (N,), with ``offsets``. Of integers in bounds.
        weight: (V, D), a row for each number.
        offsets: (B,): where each bag begins.
        mode: ``"sum"``, ``"mean"`` or ``"max"``; a bag without numbers gives zeros.
        per_sample_weights: A factor for each number, of the shape of the indices; for sums only.
        include_last_offset: Whether the last offset is the end of the last bag, and begins none.
        padding_idx: A number that counts for nothing.

    Returns:
        (B, D).
    """
    what = "embedding_bag"
    dtype = check_bags(what, indices, weight, offsets, mode, per_sample_weights)
    arrays = [indices, weight]
    if offsets is None:
        bags = indices.shape[0]
        begin, end, place = "0", "size_x0(1)", "coord(0), k"
    else:
        arrays.append(offsets)
        bags = offsets.shape[0] - bool(include_last_offset)
        begin, place = "max((long)at_x2(coord(0)), 0L)", "k"
        end = "at_x2(coord(0) + 1)"
        if not include_last_offset:
            end = "coord(0) + 1 < size_x2(0) ? at_x2(coord(0) + 1) : size_x0(0)"
        end = f"min((long)({end}), (long)size_x0(0))"
    factor = ""
    if per_sample_weights is not None:
        factor = f" * at_x{len(arrays)}({place})"
        arrays.append(per_sample_weights)
    skip = ""
    if padding_idx is not None:
        row = whole(what, "padding_idx", padding_idx)
        skip = f"if (c == {row % weight.shape[0]}) continue;"
    take = "sum = members == 0 || v > sum || v != v ? v : sum;" if mode == "max" else "sum += v;"
    divided = "members ? sum / members : 0" if mode == "mean" else "sum"
    expr = f"""
        long begin = {begin}, end = {end};
        typeof_x1 sum = 0;
        long members = 0;
        for (long k = begin; k < end; ++k) {{
            {WRAPPED.format(c="c", i=f"at_x0({place})", n="size_x1(0)")}
            {skip}
            if (c < 0 || c >= size_x1(0)) continue;
            typeof_x1 v = at_x1(c, coord(1)){factor};
            {take}
            ++members;
        }}
        y0 = {divided};"""
    operator = kernel(expr, what, dtype)
    return operator(*arrays, shape=(bags, weight.shape[1]))


@operator(sample="x, empty(4, bool), 1", wrt="x")
def masked_fill(x: Any, mask: Any, value: Any, *, out: Any = None) -> Array:
    """Returns x with a value wherever a mask is set.

    Args:
        mask: Of bool; broadcasts with x.
        value: A number, or an array of one element.
        out: Where the result goes; may be x.
    """
    what = "masked_fill"
    dtype = dtype_of(what, "x", x)
    if dtype_of(what, "mask", mask) != np.bool_:
        raise DTypeError(f"{what}: expected bool for mask, got {mask.dtype}")
    if is_array(value):
        if value.size != 1:
            raise ShapeError(f"{what}: value has shape {value.shape}, expected one element")
        one = view_of(value, (), (), value.offset)
        return kernel("y0 = x1 ? (typeof_y0)x2 : x0;", what, dtype)(x, mask, one, out=out)
    fill = number(what, "value", value)
    if dtype.kind in "iub":
        if fill != int(fill):
            raise DTypeError(f"{what}: x of {dtype} cannot hold value={quoted(value)}")
        info = np.iinfo(dtype) if dtype.kind != "b" else None
        if info is not None and not info.min <= fill <= info.max:
            raise DTypeError(f"{what}: x of {dtype} cannot hold value={quoted(value)}")
        fill = dtype.type(int(fill))
    return kernel("y0 = x1 ? w0 : x0;", what, dtype)(x, mask, fill, out=out)


def masked_fill_backward(grad: Any, mask: Any) -> Array:
    """Returns the gradient of `masked_fill` in x, where x has the shape of the result."""
    dtype_of("masked_fill_backward", "grad", grad)
    return masked_fill(grad, mask, 0)


@operator(sample="x, 3")
@repeatable
def one_hot(indices: Any, num_classes: int = -1, *, dtype: Any = np.int64) -> Array:
    """Returns vectors that are 1 in the place of an index and 0 elsewhere.

    Args:
        indices: Of integers.
        num_classes: Length of the vectors. -1 is one more than the greatest index, which is
            downloaded for it.
        dtype: Of the result.

    Returns:
        The shape of the indices, and the length of the vectors. An index out of bounds gives
        zeros.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.one_hot(cp.asarray(np.array([1, 0])), 3).get()
        array([[0, 1, 0],
               [1, 0, 0]])
    """
    what = "one_hot"
    check_index(what, "indices", indices)
    count = whole(what, "num_classes", num_classes, -1)
    if count == -1:
        if not indices.size:
            raise ShapeError(f"{what}: give num_classes= for indices without elements")
        count = int(amax(indices).get()) + 1
    if count < 1:
        raise ShapeError(f"{what}: num_classes={num_classes}: expected at least 1")
    spread = view_of(indices, (*indices.shape, 1), (*indices.strides, 0), indices.offset)
    operator = kernel("y0 = x0 == coord(-1);", what, as_dtype(dtype))
    return operator(spread, shape=(*indices.shape, count))
