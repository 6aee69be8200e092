"""Order, and reading and writing at indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import full
from clprim.torch import private
from clprim.torch.agreeing import line
from clprim.torch.copying import duplicate
from clprim.torch.kernels.elementwise import apply
from clprim.torch.layout import contiguous, in_order, like
from clprim.torch.table import kernel
from clprim.torch.tensors import kind_of

_MASKS = (torch.bool, torch.uint8)


@kernel("nonzero")
def _nonzero(x: Array) -> Any:
    return ops.nonzero(x) if x.ndim else ops.nonzero(x.reshape(-1))[:, :0]


def _indices(x: Array, indices: Sequence[Any]) -> tuple[list[int], list[Any], list[int]]:
    """Returns which dimensions are indexed, by which arrays, and where these go in the result.

    Masks become positions. As in NumPy, the arrays' dimensions stand where the indexed ones stood
    if these are neighbours, and first otherwise.
    """
    axes: list[int] = []
    arrays: list[Any] = []
    at = 0
    for index in indices:
        if index is None:
            at += 1
        elif index.dtype in (np.dtype(np.bool_), np.dtype(np.uint8)):
            places = ops.nonzero(index)
            axes += range(at, at + index.ndim)
            arrays += [duplicate(places[:, d]) for d in range(index.ndim)]
            at += index.ndim
        else:
            axes.append(at)
            arrays.append(index)
            at += 1
    rank = len(np.broadcast_shapes(*(a.shape for a in arrays)))
    rest = x.ndim - len(axes)
    front = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    # The result has the arrays' dimensions first; this brings them to their place.
    order = [*range(rank, rank + front), *range(rank), *range(rank + front, rank + rest)]
    return axes, arrays, order


def _first(x: Array, axes: list[int]) -> Array:
    rest = [d for d in range(x.ndim) if d not in axes]
    return x.transpose(*axes, *rest)


def _as_read(args: Sequence[Any], found: Any) -> Any:
    """In the order of what is read, of which dimensions that are indexed say nothing."""
    x, indices = args[:2]
    if x.is_contiguous():
        return contiguous(args, found)
    axes: list[int] = []
    at = 0
    for index in indices:
        count = index.ndim if index is not None and index.dtype in _MASKS else 1
        if index is not None:
            axes += range(at, at + count)
        at += count
    front = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    kept = [x.stride(d) for d in range(x.ndim) if d not in axes]
    strides = [*kept[:front], *[0] * (found.ndim - len(kept)), *kept[front:]]
    like = torch.empty_strided(found.shape, strides, device="meta")
    return in_order(found, private.elementwise_order(like))


@kernel("index.Tensor", lies=_as_read, indices=1)
def _index(x: Array, indices: Sequence[Any]) -> Any:
    axes, arrays, order = _indices(x, indices)
    return ops.index(_first(x, axes), arrays).transpose(*order)


@kernel("index_put", lies=like(0), indices=1)
def _index_put(x: Array, indices: Sequence[Any], values: Array, accumulate: bool = False) -> Any:
    axes, arrays, order = _indices(x, indices)
    moved = _first(x, axes)
    lead = np.broadcast_shapes(*(a.shape for a in arrays))
    shape = (*lead, *moved.shape[len(axes) :])
    # Values broadcast to what the same index would read.
    read = tuple(shape[d] for d in order)
    wide = apply("{a}", values, kind=kind_of(x.dtype), shape=read)
    found = ops.index_put(moved, arrays, wide.transpose(*np.argsort(order)), accumulate)
    back = np.argsort([*axes, *(d for d in range(x.ndim) if d not in axes)])
    return found.transpose(*back)


def _median_of_nothing(dtype: np.dtype[Any]) -> Array:
    """NaN, or the least whole number."""
    return full((), np.nan if dtype.kind not in "iu" else np.iinfo(dtype).min, dtype)


def _median(name: str, operator: Callable[..., Any]) -> None:
    @kernel(name)
    def whole(x: Array) -> Any:
        return operator(x) if x.size else _median_of_nothing(x.dtype)


for _name in ("median", "nanmedian"):
    _median(_name, getattr(ops, _name))


def _extreme(name: str) -> None:
    operator: Callable[..., Any] = getattr(ops, name)

    @kernel(f"_{name}_helper")
    def unused(x: Array, values: Array, places: Array, dim: int) -> None:
        found, where = operator(line(x), dim)
        apply("{a}", found.reshape(x.shape), kind=kind_of(x.dtype), out=values)
        apply("{a}", where.reshape(x.shape), kind=kind_of(where.dtype), out=places)


_extreme("cummax")
_extreme("cummin")
