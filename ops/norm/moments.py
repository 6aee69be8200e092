"""Mean and variance of many groups of numbers in one read: what normalisations are built on."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense, view_of
from clprim.dtypes import AnyDType
from clprim.ops.shared.sums import added
from clprim.primitives.grouped import Grouped
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction
from clprim.runtime.device import current_device

_FLOAT64 = np.dtype(np.float64)

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
        typeof_reduce_y0 distance = reduce_y0 / count;  // from the origin; NaN of no elements
        {variance}
        y0 = middle + distance;
    """,
}
# What is no more than 0 is 0: the difference of two products may be less, or -0.
_BIASED = """
        typeof_reduce_y0 variance = reduce_y1 / count - distance * distance;
        y1 = variance <= 0 ? 0 : variance;
"""
# What w0 takes from the number of elements leaves degrees of freedom, not less than none.
_CORRECTED = """
        typeof_reduce_y0 freedom = count - w0;
        typeof_reduce_y0 squares = reduce_y1 - distance * reduce_y0;
        squares = squares <= 0 ? 0 : squares;
        typeof_reduce_y0 variance = squares / (freedom < 0 ? 0 : freedom);
        y1 = {result};
"""
_INVSTD = "y2 = 1 / sqrt(y1 + w0);"

# The middle one of three elements is the origin: an outlier among them does no harm. They are
# found anew where they are needed, which mostly costs less than another launch. From an infinity
# there is no distance: 0 is the origin then, and the mean of such data is what NumPy's is.
_ORIGIN = """
    typeof_{kind} a = x{0};
    typeof_{kind} b = x{1};
    typeof_{kind} c = x{2};
    typeof_{kind} low = a < b ? a : b;
    typeof_{kind} high = a < b ? b : a;
    typeof_{kind} below = high < c ? high : c;
    typeof_{kind} median = below < low ? low : below;
    typeof_{kind} middle = median - median == 0 ? median : 0;
"""


def statistics_dtype(dtype: AnyDType) -> AnyDType:
    """Returns the dtype of statistics: float32 of short floats, float64 of integers."""
    return np.dtype(np.float64 if dtype.kind in "biu" or dtype.itemsize == 8 else np.float32)


def origin_of(arrays: int, first: int, kind: str = "y0") -> str:
    """Returns statements that declare ``middle``, the origin, whose arrays are ``x{first}``, ….

    It has the type of the result ``kind``.
    """
    if arrays == 1:
        return f"typeof_{kind} middle = x{first};\n"
    return _ORIGIN.format(*range(first, first + 3), kind=kind)


def about_origin(origins: int) -> dict[str, Any]:
    """Returns the strings of a `Grouped` of (x, origins) that sum up moments.

    Its ``finalize`` goes on after these, which declare ``mean`` and ``variance``.
    """
    return {
        "expr": origin_of(origins, 1) + "y0 = x0 - middle; y1 = y0 * y0;",
        **added(2),
        "finalize": origin_of(origins, 1, "group_y0")
        + """
            typeof_group_y0 distance = reduce_y0 / count;
            typeof_group_y0 mean = middle + distance;
            typeof_group_y0 variance = reduce_y1 / count - distance * distance;
            variance = variance <= 0 ? 0 : variance;
        """,
    }


@lru_cache(maxsize=256)
def standardizing(
    dtype: AnyDType, origins: int, weight: bool, bias: bool, name: str, *, saved: bool = False
) -> Grouped:
    """Returns (x - mean) / √(variance + w0) · weight + bias, of x, its origins, weight and bias.

    The values of a group are the mean, 1 / √(variance + eps), and the variance; then, unless these
    are ``saved`` ones, the origin and the mean's distance from it, which together are not rounded.
    """
    strings = about_origin(origins)
    strings["finalize"] += (
        "group_y0 = mean; group_y1 = 1 / sqrt(variance + w0); group_y2 = variance;"
    )
    if not saved:
        strings["finalize"] += " group_y3 = middle; group_y4 = distance;"
    n = 1 + origins
    # The difference first: what is left of two close numbers is exact, and is what matters.
    each = "y0 = (x0 - group_y0)" if saved else "y0 = (x0 - group_y3 - group_y4)"
    each += " * group_y1" + f" * x{n}" * weight + f" + x{n + weight}" * bias
    kind = statistics_dtype(dtype)
    return Grouped(**strings, each=each + ";", result_type=dtype, partial_type=kind, name=name)


@lru_cache(maxsize=64)
def _reduction(kind: AnyDType, partial: AnyDType, more: str, origins: int) -> Reduction:
    """Mean and biased variance.

    ``more`` is what w0 does: it is ``eps`` of a third result, 1 / √(variance + eps), or the
    ``correction`` of the variance, or of the ``deviation`` that stands in its place; or nothing.
    """
    text = _BIASED
    if more in _RESULT:
        text = _CORRECTED.replace("{result}", _RESULT[more])
    finalize = origin_of(origins, 1, "reduce_y0") + _MOMENTS["finalize"].format(variance=text)
    strings = {**_MOMENTS, "finalize": finalize + (_INVSTD if more == "eps" else "")}
    expr = origin_of(origins, 1) + "y0 = x0 - middle;"
    return Reduction(expr, **strings, result_type=kind, partial_type=partial, name="moments")


_RESULT = {"correction": "variance", "deviation": "sqrt(variance)"}


@lru_cache(maxsize=16)
def _median(kind: AnyDType) -> Pointwise:
    return Pointwise(origin_of(3, 0) + "y0 = middle;", result_type=kind, name="origin")


# Of groups in runs of so few elements another kernel finds the origins, which each run would find
# anew, if there are so many runs.
_SHORT_RUN = 256
_RUNS_A_GROUP = 8
_MANY_RUNS = 5000


def moments(
    x: Any,
    axes: tuple[int, ...],
    eps: float | None = None,
    *,
    correction: float | None = None,
    root: bool = False,
    out: Any = None,
) -> tuple[Array, ...]:
    """Returns mean and biased variance along ``axes`` in one read of ``x``.

    With ``correction`` squares are added up in float64 on CPUs that have it: those of the largest
    and the least float32 fit, and reading ``x`` takes longer. GPUs' float64 is often slow.
    """
    kind = statistics_dtype(x.dtype)
    origins = origins_of(x, axes, kind)
    if len(origins) > 1 and _in_short_runs(x, axes):
        origins = (_median(kind)(*origins),)
    more, partial = "eps" if eps is not None else "", kind
    if correction is not None:
        traits = current_device().traits
        partial = _FLOAT64 if traits.is_cpu and traits.fp64 else kind
        more = "deviation" if root else "correction"
    rest = tuple(w for w in (eps, correction) if w is not None)
    operator = _reduction(kind, partial, more, len(origins))
    into = None if out is None else tuple(spread_view(o, axes) for o in out)
    found = operator(x, *origins, *rest, axis=axes, keepdims=True, out=into)
    return out or tuple(flat_view(array, axes) for array in found)


def origins_of(x: Any, axes: tuple[int, ...], kind: AnyDType) -> tuple[Array, ...]:
    """Returns views of every group's first, middle and last element; or of integers their median.

    Integers are subtracted as floating-point numbers only where one of the two is one.
    """
    shape = tuple(1 if d in axes else size for d, size in enumerate(x.shape))
    if not all(x.shape[d] for d in axes):
        return (new_dense(shape, kind).fill(0),)
    itemsize = x.dtype.itemsize
    strides = tuple(itemsize if d in axes else stride for d, stride in enumerate(x.strides))
    middle = last = x.offset
    for d in axes:
        middle += x.shape[d] // 2 * x.strides[d]
        last += (x.shape[d] - 1) * x.strides[d]
    views = tuple(view_of(x, shape, strides, offset) for offset in (x.offset, middle, last))
    return (_median(kind)(*views),) if x.dtype.kind in "biu" else views


def _in_short_runs(x: Any, axes: tuple[int, ...]) -> bool:
    """Whether the elements of a group lie side by side a few at a time, and there are many."""
    run = 1
    for d in reversed(range(len(x.shape))):
        if d not in axes or x.strides[d] != run * x.dtype.itemsize:
            break
        run *= x.shape[d]
    group = math.prod(x.shape[d] for d in axes)
    many = group >= _RUNS_A_GROUP * run and x.size >= _MANY_RUNS * run
    return 1 < run <= _SHORT_RUN and many


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
