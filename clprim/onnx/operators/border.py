"""Pad."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.onnx.table import handler
from clprim.onnx.values import BOOL, BYTE

_MODES = {"edge": "replicate", "wrap": "circular"}


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
    mode = attributes.get("mode", "constant")
    return padded(x, borders, _MODES.get(mode, mode), fill)


def padded(x: Any, borders: list[tuple[int, int]], mode: str = "constant", fill: Any = 0) -> Any:
    """Returns an array with borders before and after each dimension, as `clprim.ops.pad` does."""
    flat = [n for pair in borders[::-1] for n in pair]
    if not any(flat):
        return x
    if x.dtype == BOOL:
        return padded(x.astype(BYTE), borders, mode, int(fill)).astype(BOOL)
    return ops.pad(x, flat, mode, fill if mode == "constant" else None)
