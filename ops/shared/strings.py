"""Kernels from strings that an operator writes itself, one for every dtype."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from clprim.pointwise import Pointwise

__all__ = ["kernel", "places"]


@lru_cache(maxsize=1024)
def kernel(expr: str, name: str, *result_type: Any) -> Pointwise:
    """Returns the `Pointwise` of a string, whose results have these dtypes."""
    return Pointwise(expr, name=name, result_type=result_type)


def places(ndim: int, other: Mapping[int, str] | None = None) -> str:
    """Returns coordinates for ``at_xN``: the result's own, but for those that are given."""
    given = other or {}
    return ", ".join(given.get(d, f"coord({d})") for d in range(ndim))
