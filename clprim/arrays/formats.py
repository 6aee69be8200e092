"""Memory formats: which order of memory a user asks for, and which one an operator's result has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.errors import ShapeError, quoted
from clprim.plan.strides import is_channels_last

# By the number of dimensions, the shapes that a format is for.
_CHANNELS_LAST = {
    "channels_last": {4: "(N, C, H, W)", 5: "(N, C, D, H, W)"},
    "channels_last_3d": {5: "(N, C, D, H, W)"},
}


def order_of(shape: Sequence[int], memory_format: str | None) -> Sequence[int]:
    """Returns the order of axes in memory, the slowest first, that a format stands for."""
    known = isinstance(memory_format, str)  # an array would compare element by element
    if memory_format is None or (known and memory_format == "contiguous"):
        return range(len(shape))
    if not known or memory_format not in _CHANNELS_LAST:
        raise ShapeError(
            f"memory_format={quoted(memory_format)} is unknown; expected 'contiguous', "
            "'channels_last' "
            "or 'channels_last_3d'"
        )
    shapes = _CHANNELS_LAST[memory_format]
    if len(shape) not in shapes:
        raise ShapeError(
            f"memory_format={quoted(memory_format)} needs {' or '.join(shapes.values())}, got "
            "shape "
            f"{tuple(shape)}"
        )
    return (0, *range(2, len(shape)), 1)


def order_like(array: Any) -> tuple[int, ...]:
    """Returns the order of axes that a result of four dimensions has: that of its first input.

    That is channels last or contiguous, by PyTorch's rule for strides that could be both.
    """
    return (0, 2, 3, 1) if is_channels_last(array.shape, array.strides) else (0, 1, 2, 3)
