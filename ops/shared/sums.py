"""Reductions that add up, and the strings of those that add up what their expressions compute."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from clprim.dtypes import AnyDType, value_dtype
from clprim.primitives.reduction import Reduction

#: Adds up along axes.
SUM = Reduction("", init="reduce_y0 = 0;", step="reduce_y0 += x0;", name="sum")


def added(terms: int) -> dict[str, Any]:
    """Returns ``init`` and ``step`` that add up ``y0``, … of every element."""
    return {
        "init": " ".join(f"reduce_y{n} = 0;" for n in range(terms)),
        "step": " ".join(f"reduce_y{n} += y{n};" for n in range(terms)),
    }


@lru_cache(maxsize=16)
def products(dtype: AnyDType) -> Reduction:
    """Returns sums of products of two arrays, in which no product is rounded by itself."""
    return Reduction(
        "",
        init="reduce_y0 = 0;",
        step="reduce_y0 += (typeof_reduce_y0)x0 * (typeof_reduce_y0)x1;",
        result_type=dtype,
        partial_type=value_dtype(dtype, [dtype]),
        name="sum_of_products",
    )
