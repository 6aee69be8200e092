"""Mean and variance of many groups of numbers in one read: what normalisations are built on."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from clprim.ops.norm_arguments import allocate

from clprim.array import Array, view_of
from clprim.dtypes import AnyDType
from clprim.pointwise import Pointwise
from clprim.reduction import Reduction

__all__ = ["moments", "spread_view", "statistics_dtype"]

# Distances from an origin near the data are added up, and their squares. Nothing cancels then as
# E[x²] − E[x]² does where the mean is many times the deviation, and nothing is divided, as
# Welford's recurrence does for every element. Two partials merge as in Chan, Golub and LeVeque
# (1979); about a common origin, that is addition. How good the origin has to be is in their
# paper of 1983 (Algorithms for computing the sample variance, section 3): the error grows with
# 1 + (origin − mean)² / variance.
_MOMENTS: dict[str, Any] = {
    "init": "reduce_y0 = 0; reduce_y1 = 0;",
    "step": "reduce_y0 += y0; reduce_y1 += y0 * y0;",
    "combine": "reduce_y0 += other_y0; reduce_y1 += other_y1;",
    "finalize": """
        typeof_reduce_y0 mean = reduce_y0 / count;  // from the origin; NaN of no elements
        typeof_reduce_y0 variance = reduce_y1 / count - mean * mean;
        y0 = mean;
        y1 = variance < 0 ? 0 : variance;
    """,
}
_INVSTD = "y2 = 1 / sqrt(y1 + w0);"


def statistics_dtype(dtype: AnyDType) -> AnyDType:
    """Returns the dtype of statistics: float32 of short floats, float64 of integers."""
    return np.dtype(np.float64 if dtype.kind in "biu" or dtype.itemsize == 8 else np.float32)


@lru_cache(maxsize=16)
def _reduction(kind: AnyDType, invstd: bool) -> Reduction:
    """Mean from the origin x1, biased variance and, with w0 for eps, 1 / √(variance + eps)."""
    strings = {**_MOMENTS, "finalize": _MOMENTS["finalize"] + (_INVSTD if invstd else "")}
    return Reduction("y0 = x0 - x1;", **strings, result_type=kind, name="moments")


@lru_cache(maxsize=16)
def _median(kind: AnyDType) -> Pointwise:
    """The middle one of three elements: an outlier among them does no harm."""
    expr = """
        typeof_y0 a = x0;
        typeof_y0 b = x1;
        typeof_y0 c = x2;
        typeof_y0 low = a < b ? a : b;
        typeof_y0 high = a < b ? b : a;
        y0 = c < low ? low : c > high ? high : c;
    """
    return Pointwise(expr, result_type=kind, name="origin")


_add = Pointwise("y0 = x0 + x1;", name="mean")


def moments(
    x: Any, axes: tuple[int, ...], eps: float | None = None, *, out: Any = None
) -> tuple[Array, ...]:
    """Returns mean and biased variance along ``axes`` in one read of ``x``.

    Args:
        x: An array of any dtype.
        axes: Which to reduce, sorted.
        eps: Where given, 1 / √(variance + eps) is a third result.
        out: Where the results go: arrays of the kept axes' shape.

    Returns:
        The results, in the dtype that `statistics_dtype` says.
    """
    kind = statistics_dtype(x.dtype)
    origin = _origin(x, axes, kind)
    rest = () if eps is None else (eps,)
    operator = _reduction(kind, eps is not None)
    arrays = (x, spread_view(origin, axes))
    if out is None:
        distance, *others = operator(*arrays, *rest, axis=axes)
        # The sum replaces one of its terms, which is wanted no more.
        return (_add(origin, distance, out=distance), *others)
    distance = allocate(origin.shape, kind)
    operator(*arrays, *rest, axis=axes, out=(distance, *out[1:]))
    return (_add(origin, distance, out=out[0]), *out[1:])


def _origin(x: Any, axes: tuple[int, ...], kind: AnyDType) -> Array:
    """Chooses an origin for every group: the median of its first, middle and last element."""
    kept = [d for d in range(len(x.shape)) if d not in axes]
    shape = tuple(x.shape[d] for d in kept)
    if not math.prod(x.shape[d] for d in axes):
        return allocate(shape, kind).fill(0)
    strides = tuple(x.strides[d] for d in kept)
    places = ([0 for _ in axes], [x.shape[d] // 2 for d in axes], [x.shape[d] - 1 for d in axes])
    views = (
        view_of(
            x,
            shape,
            strides,
            x.offset + sum(at * x.strides[d] for at, d in zip(place, axes, strict=True)),
        )
        for place in places
    )
    result: Array = _median(kind)(*views)
    return result


def spread_view(array: Any, axes: tuple[int, ...]) -> Array:
    """Returns a view with axes of size 1 put in, so that statistics broadcast over their data."""
    shape, strides = list(array.shape), list(array.strides)
    for axis in axes:
        shape.insert(axis, 1)
        strides.insert(axis, array.dtype.itemsize)
    return view_of(array, tuple(shape), tuple(strides), array.offset)
