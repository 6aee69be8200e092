"""Where an array of images lies in memory."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.dtypes import AnyDType
from clprim.plan.strides import Operand, broadcast_strides

Shape4 = tuple[int, int, int, int]


@dataclass(frozen=True)
class Place:
    """Where an array's element (image, channel, row, column) lies; strides in elements."""

    # Of a weight an image is an output.

    name: str  # In kernels: ``x``, ``w``, ``y0``, ``bias``, ``x0``, ``x1``, …
    dtype: AnyDType
    start: int
    image: int  # Strides; 0 along what it is broadcast over
    channel: int
    row: int
    column: int

    @classmethod
    def of(cls, name: str, operand: Operand, shape: tuple[int, ...]) -> Place:
        """Describes an array that broadcasts to a shape of four dimensions."""
        strides = broadcast_strides(operand, shape)
        return cls(name, operand.dtype, operand.in_elements(operand.offset), *strides)

    @property
    def strides(self) -> Shape4:
        """All four."""
        return self.image, self.channel, self.row, self.column

    def reach(self, images: int, channels: int, rows: int, columns: int) -> int:
        """The largest distance from the start of memory, as a bound."""
        sizes = (images, channels, rows, columns)
        return abs(self.start) + sum(abs(s) * n for s, n in zip(self.strides, sizes, strict=True))

    def end(self, images: int, channels: int, rows: int, columns: int) -> int:
        """Elements of memory up to the last one."""
        steps = zip(self.strides, (images, channels, rows, columns), strict=True)
        return self.start + sum(max(0, s * (n - 1)) for s, n in steps) + 1
