"""Mean and variance of many groups of numbers in one read: what normalisations are built on."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from clprim.dtypes import AnyDType
from clprim.reduction import Reduction

__all__ = ["moments", "standardizer", "statistics_dtype"]

# A partial is (how many, origin, Σ(x − origin), Σ(x − origin)²); the origin is the first element
# met. Nothing is divided, as Welford's recurrence does for every element, and nothing cancels as
# E[x²] − E[x]² does where the mean is many times the deviation: the origin is one of the elements.
# Were it an outlier, digits could go, but only within its own partial, of a few hundred elements.
_INIT = "reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0; reduce_y3 = 0;"
_STEP = """
    reduce_y1 = reduce_y0 == 0 ? x0 : reduce_y1;
    typeof_reduce_y0 z = x0 - reduce_y1;
    reduce_y0 += 1;
    reduce_y2 += z;
    reduce_y3 += z * z;
"""
# As Chan, Golub and LeVeque (1979) merge means and squares, but for sums about an origin, which
# becomes the mean of both: moving it by d turns Σ into Σ − n d and Σ² into Σ² + d (n d − 2 Σ). The
# division does not wait for the sum. Of a partial without elements all is 0.
_COMBINE = """
    typeof_reduce_y0 total = reduce_y0 + other_y0;
    typeof_reduce_y0 part = 1 / (total == 0 ? 1 : total);
    typeof_reduce_y0 from = reduce_y0 == 0 ? other_y1 : reduce_y1;
    typeof_reduce_y0 sum = reduce_y2 + other_y2 + other_y0 * (other_y1 - from);
    reduce_y1 = from + sum * part;
    typeof_reduce_y0 d = reduce_y1 - from;
    typeof_reduce_y0 other_d = reduce_y1 - other_y1;
    reduce_y3 += d * (reduce_y0 * d - 2 * reduce_y2);
    reduce_y3 += other_y3 + other_d * (other_y0 * other_d - 2 * other_y2);
    reduce_y2 += other_y2 - reduce_y0 * d - other_y0 * other_d;
    reduce_y0 = total;
"""
_FINALIZE = """
    typeof_reduce_y0 mean = reduce_y2 / count;  // from the origin; NaN of no elements
    typeof_reduce_y0 variance = (reduce_y3 - mean * reduce_y2) / count;
    y0 = reduce_y1 + mean;
    y1 = variance < 0 ? 0 : variance;
"""


def statistics_dtype(dtype: AnyDType) -> AnyDType:
    """Returns the dtype of statistics: float32 of short floats, float64 of integers."""
    return np.dtype(np.float64 if dtype.kind in "biu" or dtype.itemsize == 8 else np.float32)


@lru_cache(maxsize=64)
def moments(dtype: AnyDType) -> Reduction:
    """Returns the reduction of an array of ``dtype`` to its mean and biased variance."""
    return Reduction(
        "",
        init=_INIT,
        step=_STEP,
        combine=_COMBINE,
        finalize=_FINALIZE,
        result_type=statistics_dtype(dtype),
        name="moments",
    )


@lru_cache(maxsize=64)
def standardizer(dtype: AnyDType) -> Reduction:
    """Returns the same with a third result, 1 / √(variance + w0)."""
    return Reduction(
        "",
        init=_INIT,
        step=_STEP,
        combine=_COMBINE,
        finalize=_FINALIZE + "y2 = 1 / sqrt(y1 + w0);",
        result_type=statistics_dtype(dtype),
        name="standardizer",
    )
