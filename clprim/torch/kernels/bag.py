"""Bags of numbers: sums, means and maxima of a table's rows, and their gradients.

An index is in the bag that ends after it: `_bags` says which for each, and every gradient starts
from that.
"""

from __future__ import annotations

from typing import Any

import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import full
from clprim.functions.creation import arange
from clprim.torch.copying import cast
from clprim.torch.kernels.elementwise import apply
from clprim.torch.kernels.reduction import wide
from clprim.torch.layout import contiguous
from clprim.torch.memory import counted, kind_of
from clprim.torch.table import kernel

_MODES = ("sum", "mean", "max")
# Of a bag: where its indices begin and end.
_BAG = """
    long begin = at_{b}(coord(0));
    long end = coord(0) + 1 < size_{b}(0) ? at_{b}(coord(0) + 1) : size_{a}(0);"""


def _bags(indices: Array, offsets: Array) -> Any:
    """The bag of each index; -1 before the first one."""
    places = arange(indices.shape[0], dtype="int64")
    found = ops.searchsorted(offsets.astype(places.dtype), places, right=True)
    return apply("{a} - 1", found, kind=torch.int64)


def _sizes(indices: Array, offsets: Array, padding_idx: int, rows: int, bags: int) -> Any:
    """How many indices of each bag count."""
    expr = (
        _BAG
        + """
        long members = 0;
        for (long k = begin; k < end; ++k) {{
            long c = at_{a}(k);
            members += c >= 0 && c < {d} && c != {c};
        }}
        y0 = members;"""
    )
    given = (indices, offsets, padding_idx, rows)
    return apply(expr, *given, kind=torch.int64, shape=(bags,))


def _places(weight: Array, indices: Array, offsets: Array, padding_idx: int, bags: int) -> Any:
    """The row that each greatest element of a bag is from; the first one of equal ones."""
    expr = (
        _BAG
        + """
        long row = 0;
        bool found = false;
        typeof_{c} best = 0;
        for (long k = begin; k < end; ++k) {{
            long c = at_{a}(k);
            if (c == {d} || c < 0 || c >= size_{c}(0)) continue;
            typeof_{c} v = at_{c}(c, coord(1));
            if (!found || v > best || (v != v && best == best)) {{
                best = v;
                row = c;
                found = true;
            }}
        }}
        y0 = row;"""
    )
    shape = (bags, weight.shape[1])
    return apply(expr, indices, offsets, weight, padding_idx, kind=torch.int64, shape=shape)


@kernel("_embedding_bag", "_embedding_bag_forward_only", lies=contiguous)
def _embedding_bag(
    weight: Array,
    indices: Array,
    offsets: Array,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    how: dict[str, Any] = {"mode": _MODES[mode], "include_last_offset": include_last_offset}
    padding = None if padding_idx < 0 else padding_idx
    how |= {"per_sample_weights": per_sample_weights, "padding_idx": padding}
    found = ops.embedding_bag(counted(indices), weight, offsets, **how)
    bags = found.shape[0]
    rows = full((0,), 0, "int64")
    if _MODES[mode] == "max":
        rows = _places(weight, indices, offsets, padding_idx, bags)
    sizes = _sizes(indices, offsets, padding_idx, weight.shape[0], bags)
    return found, _bags(indices, offsets), sizes, rows


@kernel("_embedding_bag_backward")
def _embedding_bag_backward(
    grad: Array,
    indices: Array,
    offsets: Array,
    bags: Array,
    sizes: Array,
    rows: Array,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Any,
    padding_idx: int = -1,
) -> Any:
    if sparse:
        raise RuntimeError(
            "embedding_bag: the device has no sparse gradients; leave out sparse=True"
        )
    given = (num_weights, scale_grad_by_freq, mode, per_sample_weights, padding_idx)
    return _embedding_bag_dense_backward(grad, indices, bags, sizes, rows, *given)


@kernel("_embedding_bag_dense_backward")
def _embedding_bag_dense_backward(
    grad: Array,
    indices: Array,
    bags: Array,
    sizes: Array,
    rows: Array,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Any,
    padding_idx: int = -1,
) -> Any:
    kind = kind_of(grad.dtype)
    if _MODES[mode] == "max":
        members = sizes.reshape(-1, 1)
        source = apply("{b} > 0 ? {a} : 0", grad, members, kind=kind)
        zeros = full((num_weights, grad.shape[1]), 0, grad.dtype)
        return ops.scatter_add(zeros, 0, rows, source)
    values = [grad, bags]
    factor = ""
    if _MODES[mode] == "mean":
        values.append(sizes)
        factor = " / max(at_{c}(b), 1L)"
    elif per_sample_weights is not None:
        values.append(per_sample_weights)
        factor = " * at_{c}(coord(0))"
    expr = "long b = at_{b}(coord(0)); typeof_y0 v = at_{a}(b < 0 ? 0 : b, coord(1)); "
    expr += f"y0 = b < 0 ? 0 : v{factor};"
    shape = (indices.shape[0], grad.shape[1])
    if not grad.size or not indices.size:
        return full((num_weights, grad.shape[1]), 0, grad.dtype)
    each = apply(expr, *values, kind=wide(kind), shape=shape)  # not rounded before it is added up
    given = (counted(indices), num_weights, padding_idx, scale_grad_by_freq)
    return cast(ops.embedding_backward(each, *given), kind)


@kernel("_embedding_bag_per_sample_weights_backward")
def _per_sample_weights_backward(
    grad: Array,
    weight: Array,
    indices: Array,
    offsets: Array,
    bags: Array,
    mode: int,
    padding_idx: int = -1,
) -> Any:
    expr = """
        long b = {c}, c = {d};
        bool inside = b >= 0 && c >= 0 && c < size_{b}(0) && c != {e};
        typeof_y0 sum = 0;
        for (long d = 0; inside && d < size_{a}(1); ++d) sum += at_{a}(b, d) * at_{b}(c, d);
        y0 = sum;"""
    given = (grad, weight, bags, indices, padding_idx)
    return apply(expr, *given, kind=kind_of(grad.dtype), shape=indices.shape)
