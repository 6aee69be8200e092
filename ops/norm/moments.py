"""Mean and variance of many groups of numbers in one read: what normalisations are built on."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array, view_of
from clprim.dtypes import AnyDType
from clprim.ops.norm.arguments import allocate
from clprim.pointwise import Pointwise
from clprim.reduction import Reduction

__all__ = [
    "distances",
    "flat_view",
    "moments",
    "near_terms",
    "origin_of",
    "origins_of",
    "spread_view",
    "statistics_dtype",
]

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

# The middle one of three elements is the origin: an outlier among them does no harm. They are
# found anew where they are needed, which costs nothing beside another launch.
_ORIGIN = """
    typeof_y0 a = x{0};
    typeof_y0 b = x{1};
    typeof_y0 c = x{2};
    typeof_y0 low = a < b ? a : b;
    typeof_y0 high = a < b ? b : a;
    typeof_y0 middle = c < low ? low : c > high ? high : c;
"""


def statistics_dtype(dtype: AnyDType) -> AnyDType:
    """Returns the dtype of statistics: float32 of short floats, float64 of integers."""
    return np.dtype(np.float64 if dtype.kind in "biu" or dtype.itemsize == 8 else np.float32)


def origin_of(arrays: int, first: int) -> str:
    """Returns statements that declare ``middle``, the origin, whose arrays are ``x{first}``, …."""
    if arrays == 1:
        return f"typeof_y0 middle = x{first};\n"
    return _ORIGIN.format(*range(first, first + 3))


def near_terms(origins: int) -> tuple[str, str]:
    """Returns the sums of a `GroupedMap` of (x, origins), and how its values begin.

    The values are of two sums, the origins and w0, the number of elements. They declare ``mean``
    and ``variance``.
    """
    sums = origin_of(origins, 1) + "y0 = x0 - middle; y1 = y0 * y0;"
    values = origin_of(origins, 2) + (
        "typeof_y0 distance = x0 / w0;\n"
        "typeof_y0 mean = middle + distance;\n"
        "typeof_y0 variance = x1 / w0 - distance * distance;\n"
        "variance = variance < 0 ? 0 : variance;\n"
    )
    return sums, values


@lru_cache(maxsize=32)
def _reduction(kind: AnyDType, invstd: bool, origins: int) -> Reduction:
    """Mean from the origin, biased variance and, with w0 for eps, 1 / √(variance + eps)."""
    strings = {**_MOMENTS, "finalize": _MOMENTS["finalize"] + (_INVSTD if invstd else "")}
    expr = origin_of(origins, 1) + "y0 = x0 - middle;"
    return Reduction(expr, **strings, result_type=kind, name="moments")


@lru_cache(maxsize=32)
def _mean(kind: AnyDType, origins: int) -> Pointwise:
    """The origin and the mean's distance from it."""
    expr = origin_of(origins, 0) + f"y0 = middle + x{origins};"
    return Pointwise(expr, result_type=kind, name="mean")


@lru_cache(maxsize=16)
def _median(kind: AnyDType) -> Pointwise:
    return Pointwise(origin_of(3, 0) + "y0 = middle;", result_type=kind, name="origin")


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
    if out is None:
        origins, (distance, *others) = distances(x, axes, eps)
        target = distance  # the sum replaces one of its terms, which is wanted no more
    else:
        target, *others = (spread_view(o, axes) for o in out)
        shape = target.shape
        distance = allocate(shape, kind)
        origins, _ = distances(x, axes, eps, out=(distance, *others))
    mean = _mean(kind, len(origins))(*origins, distance, out=target)
    return out or tuple(flat_view(array, axes) for array in (mean, *others))


def distances(
    x: Any, axes: tuple[int, ...], eps: float | None = None, *, out: Any = None
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Returns what `origin_of` reads, and the mean's distance from there with the other moments.

    Who has a pass over the means ahead adds the two up there, and saves a launch.

    Args:
        x: An array of any dtype.
        axes: Which to reduce, sorted; they stay, with size 1, in all that is returned.
        eps: Where given, 1 / √(variance + eps) follows the variance.
        out: Where distance, variance, … go.
    """
    kind = statistics_dtype(x.dtype)
    origins = origins_of(x, axes, kind)
    rest = () if eps is None else (eps,)
    operator = _reduction(kind, eps is not None, len(origins))
    return origins, operator(x, *origins, *rest, axis=axes, keepdims=True, out=out)


def origins_of(x: Any, axes: tuple[int, ...], kind: AnyDType) -> tuple[Array, ...]:
    """Returns views of every group's first, middle and last element; or of integers their median.

    Integers are subtracted as floating-point numbers only where one of the two is one.
    """
    shape = tuple(1 if d in axes else size for d, size in enumerate(x.shape))
    if not all(x.shape[d] for d in axes):
        return (allocate(shape, kind).fill(0),)
    itemsize = x.dtype.itemsize
    strides = tuple(itemsize if d in axes else stride for d, stride in enumerate(x.strides))
    middle = last = x.offset
    for d in axes:
        middle += x.shape[d] // 2 * x.strides[d]
        last += (x.shape[d] - 1) * x.strides[d]
    views = tuple(view_of(x, shape, strides, offset) for offset in (x.offset, middle, last))
    return (_median(kind)(*views),) if x.dtype.kind in "biu" else views


def spread_view(array: Any, axes: tuple[int, ...]) -> Array:
    """Returns a view with axes of size 1 put in, so that statistics broadcast over their data."""
    shape, strides = list(array.shape), list(array.strides)
    for axis in axes:
        shape.insert(axis, 1)
        strides.insert(axis, array.dtype.itemsize)
    return view_of(array, tuple(shape), tuple(strides), array.offset)


def flat_view(array: Any, axes: tuple[int, ...]) -> Array:
    """Returns a view without ``axes``, whose size is 1."""
    kept = [d for d in range(len(array.shape)) if d not in axes]
    shape = tuple(array.shape[d] for d in kept)
    return view_of(array, shape, tuple(array.strides[d] for d in kept), array.offset)
