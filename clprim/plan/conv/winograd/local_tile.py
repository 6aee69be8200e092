"""Chooses the tiles of Winograd's convolutions that work-groups of a GPU keep in local memory.

What is counted are instructions, and what `clprim.plan.cost` makes of them. The smallest tile is
the rule's, as larger ones read more for each product; the tuner times those too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from clprim.plan import machine
from clprim.plan.conv.winograd.image import image_of
from clprim.plan.conv.winograd.tile import LEAST_GAIN, Tiling, admitted, tiling_of
from clprim.plan.cost import ISSUED, LAUNCH, GroupWork
from clprim.plan.kernel import power_of_two, round_up
from clprim.plan.product.local_tile import LOCAL_BYTES, WIDE, most_sums
from clprim.plan.product.matrix import cost_of_units
from clprim.plan.product.problem import Contraction
from clprim.plan.product.sub_groups import suits_sub_groups
from clprim.plan.product.tiles import cost_of_tiles
from clprim.plan.strategy import CANDIDATES
from clprim.traits import DeviceTraits

# Work-items of a group at most.
MOST_ITEMS = 288
# Instructions beside the products: of an element that is transformed and of one that is transformed
# back, for every row and column that its tile has beside two (additions, reads and writes); of a
# transformed weight that is copied; of one that the transform of weights writes.
INPUT, OUTPUT, COPY, WEIGHT = 2.5, 7.5, 22.0, 10.0


@dataclass(frozen=True)
class WinogradLocalTile:
    """How a work-group cuts its loops; every size is a power of two."""

    outputs: int  # Rows and columns of outputs of a tile, m; 1 along an axis with one tap
    tiles: int
    strip: int
    rows: int  # Tiles × outputs whose products, of one element, a work-item sums up
    columns: int
    steps: int  # Channels that are in local memory at a time

    @property
    def item_rows(self) -> int:
        """Work-items along the tiles of an element."""
        return self.tiles // self.rows

    @property
    def item_columns(self) -> int:
        """Work-items along its outputs."""
        return self.strip // self.columns

    def items(self, elements: int) -> int:
        """Returns the work-items of a group."""
        return elements * self.item_rows * self.item_columns

    def local(self, elements: int, width: int) -> int:
        """Returns the elements of local memory: both operands, and in their place some products."""
        products = self.tiles * self.item_columns * width
        return elements * max(self.steps * (self.tiles + self.strip), products)


def local_tile(problem: Contraction, traits: DeviceTraits) -> WinogradLocalTile | None:
    """Returns the rule's tile: the best one of the smallest size, which has the smallest error."""
    return next(iter(local_tiles(problem, traits)), None)


def local_tiles(problem: Contraction, traits: DeviceTraits) -> list[WinogradLocalTile]:
    """Returns the tiles worth timing, the smallest first, and of a size what promises most."""
    found: list[WinogradLocalTile] = []
    for tiling in _admitted(problem):
        tiles = sorted(_candidates(tiling, traits), key=lambda tile: _cost(tiling, traits, tile))
        found += tiles[: CANDIDATES // 2]
    return found


def fits_local(tile: WinogradLocalTile, problem: Contraction, traits: DeviceTraits) -> bool:
    """Whether a tile can be taken for a convolution that `local_tile` finds one for."""
    return any(t.outputs == tile.outputs and _fits(tile, t, traits) for t in _admitted(problem))


def _fits(tile: WinogradLocalTile, tiling: Tiling, traits: DeviceTraits) -> bool:
    itemsize, elements = tiling.problem.value.itemsize, tiling.elements
    width = max(2, 16 // itemsize)
    sizes = (tile.tiles, tile.strip, tile.rows, tile.columns, tile.steps)
    whole = all(power_of_two(size) == size for size in sizes)
    whole = whole and width <= tile.rows <= tile.tiles and width <= tile.columns <= tile.strip
    # Every work-item copies as many vectors of weights.
    whole = whole and tile.steps * tile.rows * tile.columns >= width * tile.tiles
    return (
        whole
        and tile.tiles * tile.steps <= tile.items(elements) <= traits.max_work_group_size
        and tile.rows * tile.columns <= WIDE * most_sums(width, itemsize, traits)
        and tile.local(elements, width) * itemsize <= traits.local_memory
    )


def suits_local(problem: Contraction, traits: DeviceTraits) -> bool:
    """Whether a convolution is large, and sums of products need local memory as well."""
    # That delivers half of what is multiplied here.
    if suits_sub_groups(problem, traits):
        return False
    sums = math.prod(problem.lanes) * math.prod(problem.depths) * problem.outputs
    large = problem.groups * sums >= machine.LAUNCH * traits.compute_units
    # Of fewer than two vectors nobody has timed it, and most of a strip is idle.
    fewest = 2 * max(2, 16 // problem.value.itemsize)
    return large and min(problem.depths[2], problem.outputs) >= fewest


def pays_local(problem: Contraction, traits: DeviceTraits, tile: WinogradLocalTile) -> bool:
    """Whether a tile promises enough beside sums of products."""
    cost = _cost(tiling_of(problem, tile.outputs), traits, tile)
    sums = min(cost_of_tiles(problem, traits), cost_of_units(problem, traits))
    return sums / cost > LEAST_GAIN


def _admitted(problem: Contraction) -> list[Tiling]:
    """The tilings of windows that move pixel by pixel, on a GPU."""
    image = image_of(problem)
    stepwise = image is not None and image.strides == (1, 1)
    return admitted(problem, chains=False) if stepwise else []


def _candidates(tiling: Tiling, traits: DeviceTraits) -> Iterator[WinogradLocalTile]:
    """Yields what fits in any order; sums and a transformed tile share half of the registers."""
    itemsize, elements = tiling.problem.value.itemsize, tiling.elements
    width = max(2, 16 // itemsize)
    sums = most_sums(width, itemsize, traits)
    memory = min(traits.local_memory, LOCAL_BYTES) // itemsize
    most = min(MOST_ITEMS, traits.max_work_group_size)
    for rows, columns in itertools.product((2 * width, width), repeat=2):
        room = traits.register_bytes // 2 // itemsize - elements
        if rows * columns > max(min(sums, room), width * width):
            continue
        for y, x in itertools.product((8, 4, 2, 1), repeat=2):
            if elements * y * x > most or not y <= 2 * x <= 4 * y:
                continue
            tile = WinogradLocalTile(tiling.outputs, y * rows, x * columns, rows, columns, 1)
            limit = min(machine.STEPS, tile.items(elements) // tile.tiles)
            limit = min(limit, memory // (elements * (tile.tiles + tile.strip)))
            if limit >= 1:
                found = replace(tile, steps=1 << (limit.bit_length() - 1))
                within = found.local(elements, width) <= memory
                if within and _fits(found, tiling, traits):
                    yield found


def _cost(tiling: Tiling, traits: DeviceTraits, tile: WinogradLocalTile) -> float:
    """What all takes with a tile, as `clprim.plan.cost` counts."""
    problem, elements = tiling.problem, tiling.elements
    width = max(2, 16 // problem.value.itemsize)
    more = max(0, tiling.down.size - 2) + max(0, tiling.across.size - 2)
    strips = -(-problem.outputs // tile.strip)
    depth, items = round_up(problem.depths[2], tile.steps), tile.items(elements)
    read = (1 / tile.rows + 1 / tile.columns) / width
    step = tile.tiles * tile.strip * (1 + read) + INPUT * more * tile.tiles + COPY * tile.strip
    work = GroupWork(
        -(-tiling.tiles // tile.tiles) * strips * problem.groups,
        items,
        tile.rows * tile.columns + elements // 2,  # some of a transformed tile live beside sums
        elements * step / items,
        depth,
        OUTPUT * more * tile.tiles * tile.strip * elements / items,
    )
    if problem.kept:
        return work.cost(traits)
    weights = problem.groups * elements * strips * tile.strip * depth
    return work.cost(traits) + LAUNCH + WEIGHT * weights / (traits.compute_units * ISSUED)
