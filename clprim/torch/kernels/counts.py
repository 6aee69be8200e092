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
from clprim.torch.copying import cast, duplicate
from clprim.torch.kernels.elementwise import apply
from clprim.torch.memory import kind_of
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


def _points(x: Array) -> Array:
    """(points, dimensions)."""
    if x.ndim < 2:
        raise RuntimeError(f"histogramdd: expected two dimensions or more, got {x.ndim}")
    return duplicate(x, "contiguous").reshape(math.prod(x.shape[:-1]), x.shape[-1])


@kernel("_histogramdd_bin_edges")
def _edges(
    x: Array,
    bins: Sequence[int],
    *,
    range: Any = None,
    weight: Any = None,
    density: bool = False,
) -> Any:
    points = _points(x)
    if len(bins) != points.shape[1] or (range is not None and len(range) != 2 * len(bins)):
        raise RuntimeError(
            f"histogramdd: expected numbers of bins for {points.shape[1]} dimensions and two ends "
            f"for each, got {len(bins)} and {range}"
        )
    ends = [None] * len(bins) if range is None else list(zip(range[::2], range[1::2], strict=True))
    columns = [duplicate(points[:, d]) for d, _ in enumerate(bins)]
    return [
        ops.histogram(column, count, range=end)[1]
        for column, count, end in zip(columns, bins, ends, strict=True)
    ]


@kernel("_histogramdd_from_bin_cts")
def _counted(
    x: Array,
    bins: Sequence[int],
    *,
    range: Any = None,
    weight: Any = None,
    density: bool = False,
) -> Any:
    return _within(x, _edges(x, bins, range=range), weight=weight, density=density)


@kernel("_histogramdd_from_bin_tensors")
def _within(x: Array, bins: Sequence[Array], *, weight: Any = None, density: bool = False) -> Any:
    points, kind = _points(x), kind_of(x.dtype)
    if len(bins) != points.shape[1] or (weight is not None and weight.shape != x.shape[:-1]):
        raise RuntimeError(
            f"histogramdd: expected edges for {points.shape[1]} dimensions and weights of shape "
            f"{x.shape[:-1]}, got {len(bins)} and {None if weight is None else weight.shape}"
        )
    shape = tuple(edges.shape[0] - 1 for edges in bins)
    total = math.prod(shape)
    given: tuple[Any, ...]
    keys = None  # the interval of each point; `total` for those outside
    for d, edges in enumerate(bins):
        column = duplicate(points[:, d])
        place = ops.searchsorted(edges, column, right=True)
        expr = """
            long n = {d}, low = {a};
            low = low > n && {b} == at_{c}(n) ? n : low;
            bool inside = low >= 1 && low <= n;"""
        if keys is None:
            expr += "y0 = inside ? low - 1 : {e};"
            given = (place, column, edges, shape[d], total)
        else:
            expr += "y0 = inside && {f} < {e} ? {f} * n + low - 1 : {e};"
            given = (place, column, edges, shape[d], total, keys)
        keys = apply(expr, *given, kind=torch.int64, shape=column.shape)
    weights = None if weight is None else duplicate(weight, "contiguous").reshape(-1)
    found = cast(ops.bincount(keys, weights, total + 1)[:total], kind).reshape(shape)
    if density:
        found = apply("{a} / {b}", found, ops.sum(found), kind=kind)
        for d, edges in enumerate(bins):
            width = f"(at_{{b}}(coord({d}) + 1) - at_{{b}}(coord({d})))"
            found = apply(f"{{a}} / {width}", found, edges, kind=kind, shape=shape)
    return found
