"""Which gradients in a weight Winograd's algorithm can do, how it cuts them, and when that pays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from clprim.plan.conv.problem import Convolution
from clprim.plan.conv.winograd.tile import (
    LEAST_TILES,
    OUTPUTS,
    TAPS,
)
from clprim.plan.conv.winograd.transform import relative_error
from clprim.plan.conv.winograd.weight_cut import (
    FAR,
    WeightCut,
    WeightTile,
    transforms,
    weight_width,
)
from clprim.plan.machine import LAUNCH, near
from clprim.traits import DeviceTraits

# Bound: tiles that are transformed at a time, as sums of more are added up in parts.
MOST_TILES = 2048
# Launches that sums of products take at least.
LEAST = 25
# What an element of the transforms costs, in products.
MOVED = 10.0


def weight_applicable(p: Convolution, traits: DeviceTraits) -> bool:
    """Whether it is a gradient in a weight of windows that move pixel by pixel."""
    stepwise = all(axis.stride == axis.dilation == 1 for axis in (p.rows, p.columns))
    images = all(1 in (a.channel, a.column) for a in (p.x, p.y))
    return p.direction == "weight" and p.shuffle is None and stepwise and images


def _admitted(p: Convolution, traits: DeviceTraits) -> tuple[int, ...]:
    """Sizes of tiles that have a transform and no larger error than is allowed."""
    taps = (p.rows.kernel, p.columns.kernel)
    device = traits.is_cpu and traits.local_memory >= near(traits) and p.value.kind == "f"
    some = math.prod(p.x_shape) * math.prod(p.y_shape) > 0
    if not (device and some) or math.prod(taps) <= 1 or any(r not in TAPS for r in taps):
        return ()
    return tuple(m for m in OUTPUTS[max(taps)] if weight_error(p, m) <= p.error)


def weight_error(p: Convolution, gradients: int) -> float:
    """Returns the relative root mean square error that random numbers have."""
    down, across = transforms(p, gradients)
    tiles = -(-p.rows.windows // down.r) * -(-p.columns.windows // across.r) * p.images
    unit = 2.0**-24 if p.value.itemsize == 4 else 2.0**-53
    return relative_error(down, across, min(tiles, MOST_TILES), unit, random_taps=True)


def weight_tile(p: Convolution, traits: DeviceTraits) -> WeightTile | None:
    """Returns the tile that promises most, of those whose errors are allowed."""
    tiles = (t for m in _admitted(p, traits) for t in _tiles_of(p, traits, m))
    return max(tiles, key=lambda tile: weight_gain(p, traits, tile), default=None)


def _tiles_of(p: Convolution, traits: DeviceTraits, gradients: int) -> Iterator[WeightTile]:
    """Yields the tiles of two kernels and of three."""
    width = weight_width(p, traits)
    cut = WeightCut.of(p, WeightTile(gradients, 1, 1, tiles=1, kernels=3), traits)
    vectors = cut.slots(cut.lanes)

    def cost(tile: tuple[int, int]) -> float:
        rows, wide = tile
        step = rows * wide + rows / 2 + wide
        return -(-vectors // wide) * replace(cut, rows=rows).blocks * step

    found = [
        (rows, wide)
        for wide in (3, 2, 1, 4)
        for rows in (width, width // 2, width // 4)
        if rows and _fits_registers(rows, wide, traits) and (wide == 1 or wide <= vectors)
    ]
    tile = WeightTile(gradients, *min(found, key=cost), tiles=1, kernels=3)
    itemsize = p.value.itemsize * cut.elements
    a_tile = itemsize * (cut.slots(cut.channels) + cut.slots(cut.outputs)) * width

    def split(tiles: int, most: int) -> int:
        return -(-tiles // -(-tiles // most))

    # Both transformed images shall stay in the last cache.
    room = traits.cache_bytes // 2 // (a_tile * p.groups)
    yield replace(tile, tiles=split(cut.tiles, max(64, min(room, MOST_TILES))))
    if p.x.dtype == p.y.dtype:
        yield replace(tile, tiles=split(-(-cut.tiles // cut.workers), 2 * LEAST_TILES), kernels=2)


def _fits_registers(rows: int, vectors: int, traits: DeviceTraits) -> bool:
    registers = traits.vector_registers
    return (rows + 1) * vectors < registers


def fits_weight(tile: WeightTile, p: Convolution, traits: DeviceTraits) -> bool:
    """Whether a tile can be taken for an applicable gradient, see `weight_applicable`."""
    fits = weight_width(p, traits) % tile.rows == 0
    fits = fits and _fits_registers(tile.rows, tile.vectors, traits)
    fits = fits and (tile.kernels == 3 or (tile.kernels == 2 and p.x.dtype == p.y.dtype))
    return fits and tile.tiles <= MOST_TILES and tile.gradients in _admitted(p, traits)


def near_weight(tile: WeightTile, p: Convolution, traits: DeviceTraits) -> Iterator[WeightTile]:
    """Yields tiles that are worth timing beside the rule's."""
    for gradients in sorted(_admitted(p, traits), reverse=True):
        for found in _tiles_of(p, traits, gradients):
            candidates = (found, replace(found, tiles=-(-found.tiles // 2)))
            yield from (c for c in candidates if c != tile)


def weight_gain(p: Convolution, traits: DeviceTraits, tile: WeightTile) -> float:
    """Returns how many times as fast as sums of products a tile promises to be."""
    cut = WeightCut.of(p, tile, traits)
    transformed = (cut.slots(cut.channels) + cut.slots(cut.outputs)) * cut.width
    found = cut.slots(cut.lanes) * cut.width * cut.blocks * cut.rows
    # Sums of products copy windows, and the other gradient.
    taps, pixels = math.prod(p.w_shape[1:]), math.prod(p.y_shape) // p.outputs
    sums = pixels * p.outputs * taps + MOVED * pixels * (p.groups * taps + p.outputs)
    products = float(cut.tiles * found)
    moves = MOVED * (cut.tiles * transformed + found)
    # Those who find less to do wait.
    parts = cut.tiles if cut.fused else cut.items
    products *= -(-parts // cut.workers) * cut.workers / parts
    # Far away are either every worker's products or what all tiles are transformed to.
    far = cut.workers * found if cut.fused else cut.tiles * transformed
    moves += FAR * p.value.itemsize / 4 * far
    return sums / (p.groups * cut.elements * (products + moves))


def suits_weight(p: Convolution, traits: DeviceTraits) -> bool:
    """Whether a gradient is large enough for some launches more."""
    sums = math.prod(p.y_shape) * math.prod(p.w_shape[1:])
    return sums >= LEAST * LAUNCH * traits.compute_units
