"""Elements written, counted and found by value or place."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import empty, full
from clprim.torch.agreeing import line
from clprim.torch.copying import cast, duplicate
from clprim.torch.kernels.elementwise import apply
from clprim.torch.layout import like
from clprim.torch.table import kernel
from clprim.torch.tensors import counted


def _flat(x: Array) -> Array:
    """The elements in C order as one line of their own."""
    return duplicate(x, "contiguous").reshape(-1)


@kernel("index_fill.int_Scalar", "index_fill.int_Tensor", lies=like(0))
def _index_fill(x: Array, dim: int, index: Array, value: Any) -> Any:
    if isinstance(value, Array) and value.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    if isinstance(value, complex):
        value = full((), value, x.dtype)
    return ops.index_fill(x, dim, index, value)


@kernel("index_reduce")
def _index_reduce(
    x: Array, dim: int, index: Array, source: Array, reduce: str, *, include_self: bool = True
) -> Any:
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin, got {reduce}"
        )
    lines, given, index = line(x), line(source), line(index)
    if not given.size:
        return duplicate(x)
    dim %= lines.ndim
    spread = index.reshape([-1 if d == dim else 1 for d in range(given.ndim)])
    places = counted(apply("{a}", spread, kind=torch.int64, shape=given.shape))
    found = ops.scatter_reduce(lines, dim, places, given, reduce, include_self=include_self)
    return found.reshape(x.shape)


@kernel("put", lies=like(0))
def _put(x: Array, index: Array, source: Array, accumulate: bool = False) -> Any:
    if x.dtype != source.dtype or index.size != source.size:
        raise RuntimeError(
            "put_(): expected a source of the tensor's dtype with as many elements as the index, "
            f"got {x.dtype}, {source.dtype}, {source.size} and {index.size}"
        )
    if not index.size:
        return duplicate(x)
    return ops.index_put(_flat(x), [_flat(index)], _flat(source), accumulate).reshape(x.shape)


@kernel("_unique2")
def _unique(
    x: Array, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    nothing = empty((0,), np.dtype(np.int64))
    if not x.size:
        places = empty(x.shape, nothing.dtype)
        return empty((0,), x.dtype), places if return_inverse else nothing, nothing
    values, inverse, counts = ops.unique(_flat(x), True, True, True)
    places = inverse.reshape(x.shape)
    return values, places if return_inverse else nothing, counts if return_counts else nothing


@kernel("_unique")
def _unique_values(x: Array, sorted: bool = True, return_inverse: bool = False) -> Any:
    return _unique(x, sorted, return_inverse)[:2]


@kernel("repeat_interleave.Tensor")
def _repeat_interleave(repeats: Array, *, output_size: int | None = None) -> Any:
    if not repeats.size:
        return empty((0,), repeats.dtype)
    if repeats.ndim != 1 or int(ops.amin(repeats).get()) < 0:
        raise RuntimeError("repeats can not be negative, and has one dimension")
    edges = ops.cumsum(cast(repeats, torch.int64), 0)
    total = int(edges[-1:].get()[0])
    if output_size is not None and output_size != total:
        raise RuntimeError(f"allocated size does not match required size: {output_size}, {total}")
    places = apply("(typeof_y0)index", kind=torch.int64, shape=(total,))
    return ops.searchsorted(edges, places, right=True).astype(repeats.dtype)


@kernel("nonzero_static")
def _nonzero_static(x: Array, *, size: int, fill_value: int = -1) -> Any:
    found = ops.nonzero(x) if x.ndim else ops.nonzero(x.reshape(-1))[:, :0]
    made = full((size, x.ndim), fill_value, np.dtype(np.int64))
    count = min(size, found.shape[0])
    if count and x.ndim:
        apply("{a}", found[:count], kind=torch.int64, out=made[:count])
    return made
