"""What a convolution, in whichever direction, is told beside arrays and numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

from clprim.ops.conv.windows import keys


class Settings(NamedTuple):
    """Settings as users give them; they are checked where the convolution is planned."""

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
