"""Chooses the tile of a matrix product that stays in registers, and the panel that stays in cache.

On CPUs the numbers follow from the registers: 32 vectors of 64 bytes, else 16. A tile of 13 × 2
vectors fills 26 of 32 with sums and leaves room for two rows of the other operand. From 6 × 2
vectors on products hide all loads; so the tile that wastes least at the edges is taken. One of
14 × 2 leaves a bias or an epilogue no register: it is left to sums that are stored as they are.
With 16 registers a step of k reads nearly as often as it multiplies, least so 6 × 2, 5 × 2, 4 × 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clprim.traits import DeviceTraits

# Of the second cache, which the panel shares with a strip of the other operand: a part of it that
# every CPU's local memory has room for.
PANEL_BYTES = 256 << 10
# Gathered tiles of a panel: enough that the other operand's strip is read from a near cache.
MOST_TILES = 8
# Vectors that registers hold beside sums, as many as there are at most.
SPARE = 4
# Vectors of sums that are so few that registers are 16.
FEW_SUMS = 12
# Rows that a tile may have: few, as each is another kernel to compile, and divisors of what images
# measure.
ROWS = (16, 14, 13, 12, 10, 8, 7, 6, 4, 2, 1)
ROWS_OF_FEW = (12, 10, 8, 7, 6, 5, 4, 2, 1)


@dataclass(frozen=True)
class Tile:
    """What registers hold.

    Attributes:
        rows, vectors: ``rows`` × ``vectors`` vectors are summed up.
    """

    rows: int
    vectors: int

    def fits(self, itemsize: int, most_tiles: int, traits: DeviceTraits) -> bool:
        """Whether registers hold the sums, and local memory a panel that a tile has room in.

        Args:
            itemsize: Bytes of a sum.
            most_tiles: Gathered tiles of a panel.
            traits: Of the device.
        """
        lanes = self.rows + self.vectors * lanes_of(itemsize, traits)
        room = panel_of(itemsize, traits)
        return _holds(self.rows, self.vectors, traits) and room >= most_tiles * lanes


def lanes_of(itemsize: int, traits: DeviceTraits) -> int:
    """Returns the elements of a vector of columns; at least two, so that there is one."""
    return max(2, traits.lanes(itemsize))


def panel_of(itemsize: int, traits: DeviceTraits) -> int:
    """Returns the elements of local memory for the gathered operand."""
    return min(traits.local_memory, PANEL_BYTES) // itemsize


def tile_rows(traits: DeviceTraits) -> tuple[int, ...]:
    """Returns the rows that tiles may have, the most first."""
    return ROWS_OF_FEW if traits.sums <= FEW_SUMS else ROWS


def tile_vectors(traits: DeviceTraits) -> tuple[int, ...]:
    """Returns the vectors that tiles may have, the most first."""
    return (4, 3, 2, 1) if traits.sums <= FEW_SUMS else (4, 2, 1)


def register_tiles(
    traits: DeviceTraits, vectors: tuple[int, ...] | None = None
) -> Iterator[tuple[int, int]]:
    """Yields rows and vectors that registers have room for, the most of both first.

    Args:
        traits: Of the device.
        vectors: That tiles may have; what they usually have where left out.
    """
    for rows in tile_rows(traits):
        wide = vectors or tile_vectors(traits)
        yield from ((rows, v) for v in wide if _holds(rows, v, traits))


def _holds(rows: int, vectors: int, traits: DeviceTraits) -> bool:
    """Whether registers hold sums, a row of the other operand and the factor of a row.

    A tile that wants one register more makes some compilers keep sums in memory all the time.
    """
    sums = traits.sums
    return rows * vectors <= sums and (rows + 1) * vectors < sums + SPARE


def near_tiles(
    rows: int, columns: int, itemsize: int, traits: DeviceTraits, count: int
) -> list[Tile]:
    """Returns tiles worth timing, those of the fewest instructions first; see `choose_tile`.

    Args:
        rows: Of the result, or of what a tile must not cross the end of.
        columns: Likewise.
        itemsize: Bytes of a sum.
        traits: Of the device.
        count: How many.
    """
    width = lanes_of(itemsize, traits)
    tiles = [Tile(r, v) for r, v in register_tiles(traits) if r * v >= traits.sums // 4]

    def cost(tile: Tile) -> float:
        work = -(-rows // tile.rows) * -(-columns // (tile.vectors * width))
        return work * (tile.rows * tile.vectors + tile.rows + tile.vectors)

    return sorted(tiles, key=cost)[:count]


def choose_tile(
    rows: int, columns: int, itemsize: int, traits: DeviceTraits, *, plain: bool
) -> Tile:
    """Chooses the tile for a result of so many rows and columns.

    Args:
        rows: Of the result.
        columns: Of the result.
        itemsize: Bytes of a sum.
        traits: Of the device.
        plain: Whether sums are stored as they are.
    """
    width = lanes_of(itemsize, traits)
    vectors = 1 if columns <= width else 2
    most = 6 if traits.sums <= FEW_SUMS else 14 if plain else 13
    # A step of k costs a row each, and a bit more than one for the other operand.
    candidates = (r for r in tile_rows(traits) if r <= most)
    best = min(candidates, key=lambda r: -(-rows // r) * (r + 1.5))
    return Tile(best, vectors)
