"""Chooses the tile of a matrix product that stays in registers, and the panel that stays in cache.

On CPUs the numbers follow from the registers: 32 vectors of 64 bytes, else 16. A tile of 14 × 2
vectors fills 28 of 32 with sums and leaves room for a row of the other operand. Measured on two
cores with AVX-512, all tiles from 6 × 2 to 28 × 1 vectors run at the peak; so the tile that wastes
least at the edges is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from clprim.traits import DeviceTraits

__all__ = ["Tile", "choose_tile"]

# Of the second cache, which the panel shares with a strip of the other operand: a part of it that
# every CPU's local memory has room for.
PANEL_BYTES = 256 << 10
# Gathered tiles of a panel: enough that the other operand's strip is read from a near cache.
MOST_TILES = 8


@dataclass(frozen=True)
class Tile:
    """A tile and a panel.

    Attributes:
        rows, vectors, width: ``rows`` × ``vectors`` vectors of ``width`` elements are summed up
            in registers.
        panel: Elements of local memory.
        most_tiles: Gathered tiles that it holds at most.
    """

    rows: int
    vectors: int
    width: int
    panel: int
    most_tiles: int

    def fits(self, traits: DeviceTraits) -> bool:
        """Whether registers hold the sums, and local memory a panel that a tile has room in.

        Args:
            traits: Of the device.
        """
        most = 28 if traits.vector_bytes >= 64 else 12
        lanes = self.rows + self.vectors * self.width
        return self.rows * self.vectors <= most and self.panel >= self.most_tiles * lanes


def choose_tile(rows: int, columns: int, itemsize: int, traits: DeviceTraits) -> Tile:
    """Chooses the tile for a result of so many rows and columns.

    Args:
        rows: Of the result.
        columns: Of the result.
        itemsize: Bytes of a sum.
        traits: Of the device.
    """
    width = max(2, min(16, traits.vector_bytes // itemsize))
    registers = 32 if traits.vector_bytes >= 64 else 16
    vectors = 1 if columns <= width else 2
    most = (registers - 4) // 2
    # A step of depth costs a row each, and about one more for the other operand.
    candidates = [r for r in (14, 12, 8, 4, 2, 1) if r <= most]
    best = min(candidates, key=lambda r: -(-rows // r) * (r + 1))
    panel = min(traits.local_memory, PANEL_BYTES) // itemsize
    return Tile(best, vectors, width, panel, MOST_TILES)
