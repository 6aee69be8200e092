"""What the CPU strategies of the gradient in the weight have in common.

Sums of all taps stay in registers while rows are read one after another: vectors of channels
(`channels.py`), or of columns (`planes.py`), whichever are adjacent in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from clprim.plan.depthwise.weight.code import (
    GradientCode,
)
from clprim.plan.kernel import mask_type


@dataclass(frozen=True)
class UnrolledGradientCode(GradientCode):
    """What both kernels print in common."""

    width: int
    kernel: tuple[int, int]
    stride: tuple[int, int]

    @property
    def mask(self) -> str:
        """Type of a lane of what `select` takes beside vectors of sums."""
        return mask_type(self.value)
