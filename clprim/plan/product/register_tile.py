"""Chooses the tile of a matrix product that stays in registers, and the panel that stays in cache.

On CPUs the numbers follow from the registers: 32 vectors of 64 bytes, else 16. A tile of 13 × 2
vectors fills 26 of 32 with sums and leaves room for two rows of the other operand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property

from clprim.plan.cost import core_step
from clprim.plan.kernel import Plan
from clprim.traits import DeviceTraits

# Of the second cache, which the panel shares with a strip of the other operand: a part of it that
# every CPU's local memory has room for.
PANEL_BYTES = 256 << 10
# Gathered tiles of a panel: enough that the other operand's strip is read from a near cache.
MOST_TILES = 8
# Tiles whose costs are counted: those whose sums alone take least.
PROMISING = 8
# Rows that a tile has at most: of more columns are read one by one.
MOST_ROWS = 16

# Bound: steps that the loops of a work-item make in all where a device stops them.
SHORT_LOOPS = 65535


@dataclass(frozen=True)
class Tile:
    """What registers hold."""

    rows: int  # ``rows`` × ``vectors`` vectors are summed up
    vectors: int

    @cached_property
    def step(self) -> float:
        """What a step of its sums takes; see `core_step`."""
        return core_step(self.rows * self.vectors, self.rows + self.vectors)

    def fits(self, itemsize: int, most_tiles: int, traits: DeviceTraits) -> bool:
        """Whether registers hold the sums, and local memory a panel that a tile has room in."""
        lanes = self.rows + self.vectors * lanes_of(itemsize, traits)
        room = panel_of(itemsize, traits)
        holds = self.rows * self.vectors <= traits.sums
        holds = holds and (self.rows + 1) * self.vectors < traits.vector_registers
        return holds and room >= most_tiles * lanes

    def fills(self, traits: DeviceTraits) -> bool:
        """Whether many registers have no room beside it for addresses and what is loaded early."""
        taken = (self.rows + 1) * self.vectors + 1
        return not traits.few_registers and taken >= traits.vector_registers - 1


def ends(plan: Plan, tile: Tile, itemsize: int, traits: DeviceTraits) -> bool:
    """Whether the loops of a work-item run to their end; beside sums they copy and store."""
    main, sums = plan.main, tile.rows * tile.vectors * lanes_of(itemsize, traits)
    return main.flops < 2 * SHORT_LOOPS // 4 * sums * math.prod(main.global_size)


def lanes_of(itemsize: int, traits: DeviceTraits) -> int:
    """Returns the elements of a vector of columns; at least two, so that there is one."""
    return max(2, traits.lanes(itemsize))


def panel_of(itemsize: int, traits: DeviceTraits) -> int:
    """Returns the elements of local memory for the gathered operand."""
    return min(traits.local_memory, PANEL_BYTES) // itemsize


@cache
def tiles_of(traits: DeviceTraits, *, plain: bool) -> tuple[Tile, ...]:
    """Returns the tiles that registers have room for, the most rows first."""
    # Beside the sums these hold a row of the other operand and the factor of a row; and what an
    # epilogue reads, unless sums are stored as they are.
    every = (Tile(r, v) for r in range(MOST_ROWS, 0, -1) for v in (4, 3, 2, 1))
    # A tile that wants one register more makes some compilers keep sums in memory all the time.
    sums, registers = traits.sums, traits.vector_registers
    fitting = (t for t in every if t.rows * t.vectors <= sums)
    fitting = (t for t in fitting if (t.rows + 1) * t.vectors < registers)
    return tuple(tile for tile in fitting if plain or not tile.fills(traits))


def promising(rows: int, columns: int, width: int, tiles: Iterable[Tile]) -> list[Tile]:
    """Returns the tiles whose sums alone take least, those first, of a result of such a size."""
    found = []
    for tile in tiles:
        passes = -(-rows // tile.rows) * -(-columns // (tile.vectors * width))
        # Rows that there are not cost as much as others.
        found.append((passes * tile.step, tile.rows, -tile.vectors, tile))
    return [tile for *_, tile in sorted(found)[:PROMISING]]
