"""Memory formats: which order of memory a user asks for, and which one an operator's result has."""

from __future__ import annotations

from collections.abc import Sequence

import pyopencl.array as cl_array

from clprim.errors import ShapeError
from clprim.plan.strides import is_channels_last

__all__ = ["order_like", "order_of"]


def order_of(shape: Sequence[int], memory_format: str | None) -> Sequence[int]:
    """Returns the order of axes in memory, the slowest first, that a format stands for.

    Raises:
        ShapeError: An unknown format, or channels last of a shape that has not four dimensions.
    """
    if memory_format in (None, "contiguous"):
        return range(len(shape))
    if memory_format == "channels_last":
        if len(shape) != 4:
            raise ShapeError(f"memory_format='channels_last' needs (N, C, H, W), got shape {shape}")
        return (0, 2, 3, 1)
    raise ShapeError(
        f"memory_format={memory_format!r} is unknown; expected 'contiguous' or 'channels_last'"
    )


def order_like(array: cl_array.Array) -> tuple[int, ...]:
    """Returns the order of axes that a result of four dimensions has: that of its first input.

    That is channels last or contiguous, by PyTorch's rule for strides that could be both.
    """
    return (0, 2, 3, 1) if is_channels_last(array.shape, array.strides) else (0, 1, 2, 3)
