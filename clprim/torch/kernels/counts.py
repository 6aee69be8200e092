"""How often elements occur: modes, runs of equal ones, histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.torch.table import kernel


@kernel("unique_consecutive")
def _unique_consecutive(
    x: Array, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    values, inverse, counts = ops.unique_consecutive(x, True, True, dim)
    nothing = empty((0,), np.dtype(np.int64))
    return values, inverse if return_inverse else nothing, counts if return_counts else nothing


@kernel("unique_dim_consecutive")
def _unique_slices(
    x: Array, dim: int, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    return _unique_consecutive(x, return_inverse, return_counts, dim)


def _columns(x: torch.Tensor, bins: Sequence[Any]) -> list[torch.Tensor]:
    """The coordinates of points, a line for each dimension."""
    if x.ndim < 2 or x.shape[-1] != len(bins):
        raise RuntimeError(
            f"histogramdd: expected points of {len(bins)} dimensions, as there are bins, in an "
            f"array of two or more; got {tuple(x.shape)}"
        )
    return [*x.reshape(-1, x.shape[-1]).T.contiguous().unbind()]


@kernel("_histogramdd_bin_edges", named=True, tensors=True)
def _edges(a: Any) -> Any:
    columns, ends = _columns(a.self, a.bins), a.range
    if ends is not None and len(ends) != 2 * len(a.bins):
        raise RuntimeError(f"histogramdd: expected two ends for each of {a.bins}, got {ends}")
    given = [None] * len(a.bins) if ends is None else [*zip(ends[::2], ends[1::2], strict=True)]
    rows = zip(columns, a.bins, given, strict=True)
    return [torch.histogram(x, bins=count, range=end).bin_edges for x, count, end in rows]


@kernel("_histogramdd_from_bin_cts", named=True, tensors=True)
def _counted(a: Any) -> Any:
    edges = torch.ops.aten._histogramdd_bin_edges(a.self, a.bins, range=a.range)
    how = {"weight": a.weight, "density": a.density}
    return torch.ops.aten._histogramdd_from_bin_tensors(a.self, edges, **how)


@kernel("_histogramdd_from_bin_tensors", named=True, tensors=True)
def _within(a: Any) -> Any:
    x, weight = a.self, a.weight
    columns = _columns(x, a.bins)
    if weight is not None and weight.shape != x.shape[:-1]:
        raise RuntimeError(
            f"histogramdd: expected weights of shape {tuple(x.shape[:-1])}, got "
            f"{tuple(weight.shape)}"
        )
    shape = [edges.shape[0] - 1 for edges in a.bins]
    total = math.prod(shape)
    keys, inside = 0, True  # the interval of each point, and whether it is in one
    for column, edges, count in zip(columns, a.bins, shape, strict=True):
        place = torch.searchsorted(edges, column, right=True)
        place = place - (column == edges[-1]).long()  # the last one has both of its ends
        inside = inside & (place > 0) & (place <= count)
        keys = keys * count + place - 1
    keys = torch.where(inside, keys, total)
    weights = None if weight is None else weight.reshape(-1)
    found = torch.bincount(keys, weights, total + 1)[:total].to(x.dtype).reshape(shape)
    if a.density:
        found = found / found.sum()
        for d, edges in enumerate(a.bins):
            found = found / edges.diff().reshape(-1, *[1] * (len(shape) - 1 - d))
    return found
