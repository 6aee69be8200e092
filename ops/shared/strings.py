"""Kernels from strings that an operator writes itself, one for every dtype."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from clprim.primitives.pointwise import Pointwise


@lru_cache(maxsize=1024)
def kernel(expr: str, name: str, *result_type: Any) -> Pointwise:
    """Returns the `Pointwise` of a string, whose results have these dtypes."""
    return Pointwise(expr, name=name, result_type=result_type)


def places(ndim: int, other: Mapping[int, str] | None = None) -> str:
    """Returns coordinates for ``at_xN``: the result's own, but for those that are given."""
    given = other or {}
    return ", ".join(given.get(d, f"coord({d})") for d in range(ndim))


def lower_bound(length: str, element: str, value: str, *, after: bool = False) -> str:
    """C that declares ``low``: how many elements of a sorted line are less than a value."""
    ends = f"{element} > {value}" if after else f"{element} >= {value}"
    return f"""
        long low = 0, high = {length};
        while (low < high) {{
            long middle = low + (high - low) / 2;
            if ({ends}) high = middle;
            else low = middle + 1;
        }}
    """
