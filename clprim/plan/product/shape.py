"""The shape of a tile that stays in registers, as cuts and costs see it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Shape:
    """What a cut asks of tiles; kernels' code says the same."""

    rows: int  # Of a tile, and elements of a vector
    vectors: int
    width: int
    panel: int = 0
    lanes_are_rows: bool = True  # Whether lanes are rows, else columns
    transposed: bool = False  # Of columns; see `Reading`
    alternate: bool = False

    @cached_property
    def lanes(self) -> int:
        """Gathered lanes of a tile."""
        return self.rows if self.lanes_are_rows else self.vectors * self.width

    @cached_property
    def packed_lanes(self) -> int:
        """Outputs of a tile."""
        return self.vectors * self.width if self.lanes_are_rows else self.rows

    @property
    def gathered(self) -> str:
        """What lanes are."""
        return "rows" if self.lanes_are_rows else "columns"
