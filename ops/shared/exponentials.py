"""The strings of a reduction to the greatest element and the sum of exponentials below it."""

from __future__ import annotations

from typing import Any

# A partial is (greatest element m, Σ exp(x - m)): what is new is scaled to the old greatest
# element, or the old sum to the new one, for one exponential an element (Milakov and Gimelshein
# 2018, Online normalizer calculation for softmax). Equal infinities have no difference: exp(0) is
# meant.
_STEP = """
    typeof_reduce_y0 x = {0};
    typeof_reduce_y0 up = x - reduce_y0;
    typeof_reduce_y0 scale = x == reduce_y0 ? 1 : exp(-fabs(up));
    reduce_y1 = up > 0 ? reduce_y1 * scale + 1 : reduce_y1 + scale;
    reduce_y0 = up > 0 ? x : reduce_y0;
"""
_COMBINE = """
    typeof_reduce_y0 up = other_y0 - reduce_y0;
    typeof_reduce_y0 scale = other_y0 == reduce_y0 ? 1 : exp(-fabs(up));
    reduce_y1 = up > 0 ? reduce_y1 * scale + other_y1 : reduce_y1 + other_y1 * scale;
    reduce_y0 = up > 0 ? other_y0 : reduce_y0;
"""


def exponentials(element: str = "x0", sums: int = 0) -> dict[str, Any]:
    """Returns ``init``, ``step`` and ``combine``; ``sums`` results of the expression are added up.

    The partials are the greatest element, Σ exp(element - greatest), Σ y0, Σ y1, …
    """
    more = range(2, 2 + sums)
    return {
        "init": "reduce_y0 = -INFINITY; reduce_y1 = 0;"
        + "".join(f" reduce_y{n} = 0;" for n in more),
        "step": _STEP.format(element) + "".join(f" reduce_y{n} += y{n - 2};" for n in more),
        "combine": _COMBINE + "".join(f" reduce_y{n} += other_y{n};" for n in more),
    }
