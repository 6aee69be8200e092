"""Bags of numbers: sums, means and maxima of a table's rows, and their gradients.

An index is in the bag that ends after it; every gradient starts from which that is.
"""

from __future__ import annotations

from typing import Any

import torch

from clprim import ops
from clprim.arrays.creation import full
from clprim.functions.creation import arange
from clprim.torch.copying import cast
from clprim.torch.kernels.elementwise import apply
from clprim.torch.kernels.reduction import wide
from clprim.torch.layout import contiguous
from clprim.torch.table import kernel
from clprim.torch.tensors import counted, kind_of

_MODES = ("sum", "mean", "max")
# Of a bag how many indices count, or the row that each of its greatest elements is from, of equal
# ones the first.
_MEMBERS = """
    long begin = at_{{b}}(coord(0)), members = 0;
    long end = coord(0) + 1 < size_{{b}}(0) ? at_{{b}}(coord(0) + 1) : size_{{a}}(0);
    {declared}
    for (long k = begin; k < end; ++k) {{{{
        long c = at_{{a}}(k);
        if (c < 0 || c >= size_{{c}}(0) || c == {{d}}) continue;
        {chosen}
        ++members;
    }}}}
    y0 = {result};"""
_SIZES = _MEMBERS.format(declared="", chosen="", result="members")
_ROWS = _MEMBERS.format(
    declared="long row = 0; typeof_{c} best = 0;",
    chosen="typeof_{c} v = at_{c}(c, coord(1)); "
    "if (members == 0 || v > best || (v != v && best == best)) {{ best = v; row = c; }}",
    result="row",
)


@kernel("_embedding_bag", "_embedding_bag_forward_only", lies=contiguous, named=True)
def _embedding_bag(a: Any) -> Any:
    indices, offsets, mode = a.indices, a.offsets, _MODES[a.mode]
    found = ops.embedding_bag(
        counted(indices),
        a.weight,
        offsets,
        mode=mode,
        include_last_offset=a.include_last_offset,
        per_sample_weights=a.per_sample_weights,
        padding_idx=None if a.padding_idx < 0 else a.padding_idx,
    )
    given = (indices, offsets, a.weight, a.padding_idx)
    sizes = apply(_SIZES, *given, kind=torch.int64, shape=found.shape[:1])
    rows = full((0,), 0, "int64")
    if mode == "max":
        rows = apply(_ROWS, *given, kind=torch.int64, shape=found.shape)
    places = arange(indices.shape[0], dtype="int64")
    bags = ops.searchsorted(offsets.astype(places.dtype), places, right=True)
    # The bag of each index; -1 before the first one.
    return found, apply("{a} - 1", bags, kind=torch.int64), sizes, rows


@kernel("_embedding_bag_backward", named=True)
def _backward(a: Any) -> Any:
    if a.sparse:
        raise RuntimeError(
            "embedding_bag: the device has no sparse gradients; leave out sparse=True"
        )
    return _dense_backward(a)


@kernel("_embedding_bag_dense_backward", named=True)
def _dense_backward(a: Any) -> Any:
    grad, indices, kind = a.grad, a.indices, kind_of(a.grad.dtype)
    shape = a.num_weights, grad.shape[1]
    if _MODES[a.mode] == "max":
        source = apply("{b} > 0 ? {a} : 0", grad, a.bag_size.reshape(-1, 1), kind=kind)
        return ops.scatter_add(full(shape, 0, grad.dtype), 0, a.maximum_indices, source)
    if not grad.size or not indices.size:
        return full(shape, 0, grad.dtype)
    values = [grad, a.offset2bag]
    factor = ""
    if _MODES[a.mode] == "mean":
        values.append(a.bag_size)
        factor = " / max(at_{c}(b), 1L)"
    elif a.per_sample_weights is not None:
        values.append(a.per_sample_weights)
        factor = " * at_{c}(coord(0))"
    expr = "long b = at_{b}(coord(0)); typeof_y0 v = at_{a}(b < 0 ? 0 : b, coord(1)); "
    expr += f"y0 = b < 0 ? 0 : v{factor};"
    # Not rounded before it is added up.
    each = apply(expr, *values, kind=wide(kind), shape=(indices.shape[0], grad.shape[1]))
    given = (counted(indices), a.num_weights, a.padding_idx, a.scale_grad_by_freq)
    return cast(ops.embedding_backward(each, *given), kind)


@kernel("_embedding_bag_per_sample_weights_backward", named=True)
def _weights_backward(a: Any) -> Any:
    expr = """
        long b = {c}, c = {d};
        bool inside = b >= 0 && c >= 0 && c < size_{b}(0) && c != {e};
        typeof_y0 sum = 0;
        for (long d = 0; inside && d < size_{a}(1); ++d) sum += at_{a}(b, d) * at_{b}(c, d);
        y0 = sum;"""
    given = (a.grad, a.weight, a.offset2bag, a.indices, a.padding_idx)
    return apply(expr, *given, kind=kind_of(a.grad.dtype), shape=a.indices.shape)
