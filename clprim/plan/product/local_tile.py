"""Chooses the tile of a matrix product that a work-group computes out of its local memory.

Every step of k costs a work-item ``rows + columns`` reads of local memory, as vectors, for
``rows · columns`` products, and the group ``tile_rows + tile_columns`` reads of global memory. So
large tiles are good, as long as registers hold the sums, enough groups are left to keep the device
busy, and little of the tiles at the edges is wasted: `clprim.plan.cost` weighs these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from clprim.plan.cost import LAUNCH, GroupWork
from clprim.plan.kernel import power_of_two
from clprim.plan.machine import GROUP, ITEMS, STEPS, SUB_GROUP
from clprim.plan.product.splits import split_depth
from clprim.traits import DeviceTraits

# The part of a work-item's registers that its sums take: operands, prefetched elements and
# addresses need the others.
SUMS_PART = 4
# Times as many sums as the rule takes are worth timing: 128 floats come to 180 to 210 registers,
# which no trait promises, and which pay where reading local memory is what takes the time.
WIDE = 2
# Bound: bytes of local memory that every device has.
LOCAL_BYTES = 32 << 10
# Instructions, a product and a vector from local memory being one: of an access to global memory
# (address, check, waiting), of an element on its way from there, of storing a sum.
READ, ELEMENT, STORE = 21.0, 16.0, 17.0
# Bound: bytes of what is noted of a step of k in local memory: two places, a row and a column.
RECORD_BYTES = 24


@dataclass(frozen=True)
class LocalTile:
    """A tile, and who computes it."""

    items_y: int  # Work-items of a group along the tile's rows and columns
    items_x: int
    rows: int  # Of the sums that each of them keeps; multiples of ``width``
    columns: int
    width: int
    steps: int  # Of depth that are in local memory at a time

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.items_y * self.items_x

    @property
    def tile_rows(self) -> int:
        """Rows of the group's tile."""
        return self.items_y * self.rows

    @property
    def tile_columns(self) -> int:
        """Columns of the group's tile."""
        return self.items_x * self.columns

    def local_bytes(self, itemsize: int) -> int:
        """Returns the bytes of two tiles of each operand, a vector of padding a step, and notes."""
        pitches = self.tile_rows + self.tile_columns + 2 * self.width
        return 2 * self.steps * pitches * itemsize + RECORD_BYTES * self.items

    def fits(self, itemsize: int, traits: DeviceTraits) -> bool:
        """Whether a device has room for it: work-items, registers and local memory."""
        whole = self.rows % self.width == self.columns % self.width == 0
        steps = power_of_two(self.steps) == self.steps <= self.items
        return (
            whole
            and steps
            and self.width == max(2, 16 // itemsize)
            and self.items <= traits.max_work_group_size
            and self.rows * self.columns <= WIDE * most_sums(self.width, itemsize, traits)
            and self.local_bytes(itemsize) <= traits.local_memory
        )


def busy_items(traits: DeviceTraits) -> int:
    """Returns how many work-items keep the device busy."""
    return traits.compute_units * min(ITEMS * GROUP, 2 * traits.max_work_group_size)


def most_sums(width: int, itemsize: int, traits: DeviceTraits) -> int:
    """Returns how many sums a work-item's registers hold; one vector squared at least."""
    return max(traits.register_bytes // SUMS_PART // itemsize, width * width)


@dataclass(frozen=True)
class Sizes:
    """What decides on a tile, beside the device."""

    rows: int
    columns: int
    groups: int
    depth: int
    itemsize: int
    # Elements that are read at once, of what makes rows and of what makes columns
    widths: tuple[int, int] = (1, 1)


@lru_cache(maxsize=256)
def local_tiles(sizes: Sizes, traits: DeviceTraits, *, wide: bool = False) -> tuple[LocalTile, ...]:
    """Returns the tiles that fit a device, what promises most first."""
    itemsize = sizes.itemsize
    width = max(2, 16 // itemsize)
    fewest, sums = 0, most_sums(width, itemsize, traits)
    if wide:
        fewest, sums = sums, WIDE * sums
    largest = min(256, 1 << (traits.max_work_group_size.bit_length() - 1))
    # Several groups at a time find room where there is more.
    memory = min(traits.local_memory, LOCAL_BYTES)
    shapes = [
        (y, x, r, c)
        for items in (256, 128, 64, 32, 16, 8, 4, 2, 1)
        if items <= largest
        for y in (32, 16, 8, 4, 2, 1)
        if items % y == 0 and (y <= 4 * (items // y) and items // y <= 4 * y)
        for x in (items // y,)
        for r in (2 * width, width)
        for c in (4 * width, 2 * width, width)[not wide :]
        if fewest < r * c <= sums
    ]
    tiles = [
        LocalTile(y, x, r, c, width, steps)
        for y, x, r, c in shapes
        for steps in (_steps(LocalTile(y, x, r, c, width, 1), itemsize, memory),)
        if steps
    ]
    # What runs as one vector, where there is room for so many.
    tiles = [tile for tile in tiles if tile.items >= SUB_GROUP] or tiles
    tiles.sort(key=lambda tile: local_cost(tile, sizes, traits))
    return tuple(tiles or ([] if wide else [LocalTile(1, 1, width, width, width, 1)]))


def _steps(tile: LocalTile, itemsize: int, memory: int) -> int:
    """Steps of k for which there is room, a power of two; some, or none."""
    room = memory - RECORD_BYTES * tile.items
    most = min(STEPS, tile.items, room // (tile.local_bytes(itemsize) - RECORD_BYTES * tile.items))
    steps = power_of_two(most + 1) // 2 if most > 0 else 0
    return steps if steps >= min(4, tile.items) else 0


def local_cost(tile: LocalTile, sizes: Sizes, traits: DeviceTraits) -> float:
    """Returns what all takes with a tile, as `clprim.plan.cost` counts."""
    down, across = -(-sizes.rows // tile.tile_rows), -(-sizes.columns // tile.tile_columns)
    tiles = sizes.groups * down * across
    busy = busy_items(traits) // tile.items
    splits, chunk = split_depth(sizes.depth, tile.steps, tiles, busy)
    sums = tile.rows * tile.columns
    local = (tile.rows + tile.columns) / tile.width
    accesses = tile.tile_rows / sizes.widths[0] + tile.tile_columns / sizes.widths[1]
    read = (READ * accesses + ELEMENT * (tile.tile_rows + tile.tile_columns)) / tile.items
    step, ends = sums + local + read, STORE * sums
    work = GroupWork(tiles * splits, tile.items, sums, step, chunk, ends)
    return work.cost(traits) + LAUNCH * (splits > 1)
