"""What a convolution, in whichever direction, is told beside arrays and numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

from clprim.ops.conv.windows import keys


class Settings(NamedTuple):
    """Settings as users give them; they are checked where the convolution is planned.

    Attributes:
        stride, padding, dilation: Of windows.
        groups: Independent convolutions.
        output_padding: Of a transposed convolution.
        shape: Of the array that a gradient is of.
        depth_to_space, mode: How outputs become pixels.
        algorithm: A strategy's name, or ``auto``.
        epilogue: Its snippet, or None.
        bias: Whether there is one.
        axes: Of the result, as the epilogue counts them.
        prologue: A snippet on ``y0``, an element of x, run where windows of one pixel read it; its
            arrays come last.
    """

    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    groups: Any = 1
    output_padding: Any = 0
    shape: Any = None
    depth_to_space: Any = None
    mode: Any = "CRD"
    algorithm: Any = "auto"
    epilogue: Any = None
    bias: bool = False
    axes: tuple[int, ...] = (0, 1, 2, 3)
    prologue: Any = None

    @property
    def key(self) -> tuple[Any, ...]:
        """Parts of a call's signature: equal only where settings mean the same."""
        *told, bias, axes, prologue = self
        return (*keys(*told), bias, axes, prologue)
