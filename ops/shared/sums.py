"""The strings of a reduction that adds up what its expression computes."""

from __future__ import annotations

from typing import Any


def added(terms: int) -> dict[str, Any]:
    """Returns ``init`` and ``step`` that add up ``y0``, … of every element.

    Example:
        >>> added(2)
        {'init': 'reduce_y0 = 0; reduce_y1 = 0;', 'step': 'reduce_y0 += y0; reduce_y1 += y1;'}
    """
    return {
        "init": " ".join(f"reduce_y{n} = 0;" for n in range(terms)),
        "step": " ".join(f"reduce_y{n} += y{n};" for n in range(terms)),
    }
