"""The strings of a reduction to the greatest element and the sum of exponentials below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# A partial is (greatest element m, Σ exp(x - m)): what is new is scaled to the old greatest
# element, or the old sum to the new one, for one exponential an element (Milakov and Gimelshein
# 2018, Online normalizer calculation for softmax). Equal infinities have no difference: exp(0) is
# meant.
_SCALE = """
    typeof_reduce_y0 up = {0} - reduce_y0;
    typeof_reduce_y0 scale = {0} == reduce_y0 ? 1 : exp(-fabs(up));
"""


def exponentials(
    element: str = "x0", sums: int = 0, parts: Sequence[str] = ("1",)
) -> dict[str, Any]:
    """Returns ``init``, ``step`` and ``combine``; ``sums`` results of the expression are added up.

    The partials are the greatest element, Σ part · exp(element - greatest) of each of the parts,
    Σ y0, Σ y1, …
    """
    count = 1 + len(parts)
    more = range(count, count + sums)
    others = [f"other_y{n}" for n in range(1, count)]
    step = f"\n    typeof_reduce_y0 x = {element};{_taken('x', parts)}"
    return {
        "init": "reduce_y0 = -INFINITY;"
        + "".join(f" reduce_y{n} = 0;" for n in range(1, count + sums)),
        "step": step + "".join(f" reduce_y{n} += y{n - count};" for n in more),
        "combine": _taken("other_y0", others)
        + "".join(f" reduce_y{n} += other_y{n};" for n in more),
    }


def _taken(greatest: str, parts: Sequence[str]) -> str:
    """Takes sums of exponentials below a greatest element into partials."""
    lines = [_SCALE.format(greatest).rstrip()]
    for n, part in enumerate(parts, 1):
        scaled = "scale" if part == "1" else f"{part} * scale"
        lines.append(
            f"    reduce_y{n} = up > 0 ? reduce_y{n} * scale + {part} : reduce_y{n} + {scaled};"
        )
    lines.append(f"    reduce_y0 = up > 0 ? {greatest} : reduce_y0;\n")
    return "\n".join(lines)
