"""Pad, of any width in every mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.errors import ShapeError
from clprim.onnx.context import filled
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import BOOL, BYTE

# From the place c of an axis of n elements to that which it repeats.
_PLACES = {
    "edge": "c = clamp(c, 0L, n - 1);",
    "reflect": "if (n > 1) { c = ((c % (2 * n - 2)) + 2 * n - 2) % (2 * n - 2);"
    " c = c < n ? c : 2 * n - 2 - c; } else c = 0;",
    "wrap": "c = ((c % n) + n) % n;",
}


@handler("Pad", host=(1, 2, 3))
def _pad(
    context: Any, attributes: Any, x: Any, pads: Any = None, value: Any = None, axes: Any = None
) -> Any:
    given = attributes.get("pads", attributes.get("paddings")) if pads is None else pads
    given = [int(n) for n in given]
    fill = attributes.get("value", 0.0) if value is None or not value.size else value.item()
    chosen = range(x.ndim) if axes is None else [int(a) % x.ndim for a in axes]
    half = len(given) // 2
    borders = [(0, 0)] * x.ndim
    for axis, before, after in zip(chosen, given[:half], given[half:], strict=True):
        borders[axis] = before, after
    return padded(x, borders, attributes.get("mode", "constant"), fill)


def padded(x: Any, borders: list[tuple[int, int]], mode: str, fill: Any = 0) -> Any:
    """Returns an array with a border.

    Args:
        x: The array.
        borders: Elements before and after each dimension; negative ones are taken away.
        mode: ``constant``, ``edge``, ``reflect`` or ``wrap``.
        fill: Of a constant border.

    Raises:
        ShapeError: A result of negative size, or of no elements to repeat.
    """
    shape = tuple(n + b + a for n, (b, a) in zip(x.shape, borders, strict=True))
    if min(shape, default=0) < 0:
        raise ShapeError(f"a border {borders} of an array of shape {x.shape}")
    if mode == "constant":
        if not x.size:
            return filled(shape, fill, x.dtype)
        if x.dtype == BOOL:
            return padded(x.astype(BYTE), borders, mode, int(fill)).astype(BOOL)
        flat = [n for pair in borders[::-1] for n in pair]
        return ops.pad(x, flat, value=fill) if any(flat) else x
    if not x.size and np.prod(shape):
        raise ShapeError(f"nothing to repeat in an array of shape {x.shape}")
    lines, places = [], []
    for d, pair in enumerate(borders):
        if pair == (0, 0):
            places.append(f"coord({d})")
            continue
        lines.append(f"long c{d}; {{ long n = size_x0({d}), c = (long)coord({d}) - {pair[0]};"
                     f" {_PLACES[mode]} c{d} = c; }}")  # fmt: skip
        places.append(f"c{d}")
    if not lines:
        return x
    return string("\n".join([*lines, f"y0 = at_x0({', '.join(places)});"]), x.dtype, x, shape=shape)
