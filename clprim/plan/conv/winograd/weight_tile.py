"""Which gradients in a weight Winograd's algorithm can do, how it cuts them, and when that pays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from clprim.plan.conv.problem import Convolution
from clprim.plan.conv.winograd.tile import (
    INPUT,
    LEAST_OPERATIONS,
    LINE_BYTES,
    NEAR_BYTES,
    OUTPUTS,
    TAPS,
)
from clprim.plan.conv.winograd.transform import Transform, relative_error, transform
from clprim.traits import DeviceTraits

__all__ = [
    "WeightCut",
    "WeightTile",
    "fits_weight",
    "near_weight",
    "takes_weight",
    "weight_error",
    "weight_gain",
    "weight_pays",
    "weight_tile",
]

# Tiles that are transformed at a time at most: sums of more are added up in parts.
MOST_TILES = 2048


@dataclass(frozen=True)
class WeightTile:
    """How the loops are cut.

    Attributes:
        gradients: Rows and columns of the other gradient that a tile has, m; 1 along an axis with
            one tap.
        rows, vectors: Outputs × vectors of channels that are summed up in registers.
        tiles: That are transformed before they are multiplied.
    """

    gradients: int
    rows: int
    vectors: int
    tiles: int


@dataclass(frozen=True)
class WeightCut:
    """The numbers of a gradient; see `WeightTile`.

    Attributes:
        width: Elements of a vector.
        down, across: The transforms.
        lines, columns: Tiles of an image.
        tiles: Of all images.
        chunk: That are transformed at a time.
        channels, outputs: Of a group.
        groups: Of the convolution.
        rows, vectors: Of the tile.
    """

    width: int
    down: Transform
    across: Transform
    lines: int
    columns: int
    tiles: int
    chunk: int
    channels: int
    outputs: int
    groups: int
    rows: int
    vectors: int

    @staticmethod
    def of(p: Convolution, tile: WeightTile, traits: DeviceTraits) -> WeightCut:
        """Returns the cut that a tile asks for."""
        down, across = _transforms(p, tile.gradients)
        lines, columns = -(-p.rows.windows // down.r), -(-p.columns.windows // across.r)
        tiles = p.images * lines * columns
        return WeightCut(
            width=weight_width(p, traits),
            down=down,
            across=across,
            lines=lines,
            columns=columns,
            tiles=tiles,
            chunk=min(tile.tiles, tiles),
            channels=p.channels // p.groups,
            outputs=p.outputs // p.groups,
            groups=p.groups,
            rows=tile.rows,
            vectors=tile.vectors,
        )

    @property
    def elements(self) -> int:
        """Of a transformed tile."""
        return self.down.size * self.across.size

    @property
    def channel_blocks(self) -> int:
        """Vectors of channels."""
        return -(-self.channels // self.width)

    @property
    def output_blocks(self) -> int:
        """Rows of registers of outputs."""
        return -(-self.outputs // self.rows)

    @property
    def strips(self) -> int:
        """Of channels that are multiplied at a time."""
        return -(-self.channel_blocks // self.vectors)

    @property
    def block(self) -> int:
        """From one block of a transformed image to the next; a slot before the first tile."""
        return (self.chunk + 1) * self.width

    def element(self, blocks: int) -> int:
        """From one element to the next; a vector more than all have, which is no power of two."""
        return blocks * self.block + self.width

    def size(self, blocks: int) -> int:
        """Of a transformed image."""
        return self.elements * self.element(blocks)

    @property
    def m_element(self) -> int:
        """From one element of the products to the next."""
        return self.part * self.rows * self.vectors * self.width + self.width

    @property
    def m_size(self) -> int:
        """Products of a part."""
        return self.elements * self.m_element

    @property
    def part(self) -> int:
        """Blocks of outputs that a work-group multiplies at a time, so that sums stay near."""
        itemsize = 4 * self.elements * self.rows * self.vectors * self.width
        return max(1, min(self.output_blocks, NEAR_BYTES // itemsize))

    @property
    def parts(self) -> int:
        """Of outputs."""
        return -(-self.output_blocks // self.part)

    @property
    def items(self) -> int:
        """Parts of the products."""
        return self.groups * self.strips * self.parts


def weight_width(p: Convolution, traits: DeviceTraits) -> int:
    return max(2, traits.lanes(p.value.itemsize))


def _transforms(p: Convolution, gradients: int) -> tuple[Transform, Transform]:
    """F(taps, gradients), down and across."""

    def of(taps: int) -> Transform:
        return transform(taps, gradients) if taps > 1 else transform(1, 1)

    return of(p.rows.kernel), of(p.columns.kernel)


def takes_weight(p: Convolution, traits: DeviceTraits) -> bool:
    """Whether Winograd's algorithm can do a gradient, with the error that is allowed."""
    stepwise = all(axis.stride == axis.dilation == 1 for axis in (p.rows, p.columns))
    images = all(1 in (a.channel, a.column) for a in (p.x, p.y))
    if p.direction != "weight" or p.shuffle is not None or not (stepwise and images):
        return False
    return _admitted(p, traits) != ()


def _admitted(p: Convolution, traits: DeviceTraits) -> tuple[int, ...]:
    """Sizes of tiles that have a transform and no larger error than is allowed."""
    taps = (p.rows.kernel, p.columns.kernel)
    device = traits.is_cpu and traits.local_memory >= LINE_BYTES and p.value.kind == "f"
    some = math.prod(p.x_shape) * math.prod(p.y_shape) > 0
    if not (device and some) or math.prod(taps) <= 1 or any(r not in TAPS for r in taps):
        return ()
    return tuple(m for m in OUTPUTS[max(taps)] if weight_error(p, m) <= p.error)


def weight_error(p: Convolution, gradients: int) -> float:
    """Returns the relative root mean square error that random numbers have."""
    down, across = _transforms(p, gradients)
    tiles = -(-p.rows.windows // down.r) * -(-p.columns.windows // across.r) * p.images
    unit = 2.0**-24 if p.value.itemsize == 4 else 2.0**-53
    return relative_error(down, across, min(tiles, MOST_TILES), unit, random_taps=True)


def weight_tile(p: Convolution, traits: DeviceTraits) -> WeightTile:
    """Returns the tile that promises most, of those whose errors are allowed."""
    tiles = (_tile_of(p, traits, m) for m in _admitted(p, traits))
    return max(tiles, key=lambda tile: weight_gain(p, traits, tile))


def _tile_of(p: Convolution, traits: DeviceTraits, gradients: int) -> WeightTile:
    width = weight_width(p, traits)
    vectors = -(-(p.channels // p.groups) // width)
    outputs = p.outputs // p.groups

    def cost(tile: tuple[int, int]) -> float:
        rows, wide = tile
        step = rows * wide + rows / 2 + wide
        return -(-outputs // rows) * -(-vectors // wide) * step

    found = [
        (rows, wide)
        for wide in (3, 2, 1)
        for rows in range(width, 0, -1)
        if _fits_registers(rows, wide, traits) and (wide == 1 or wide <= vectors)
    ]
    tile = WeightTile(gradients, *min(found, key=cost), 1)
    cut = WeightCut.of(p, tile, traits)
    # Both transformed images shall stay in the last cache.
    columns = (cut.channel_blocks + cut.output_blocks) * width * p.groups
    room = traits.cache_bytes // 2 // (p.value.itemsize * cut.elements * columns)
    most = max(64, min(room, MOST_TILES))
    chunks = -(-cut.tiles // most)
    return replace(tile, tiles=-(-cut.tiles // chunks))


def _fits_registers(rows: int, vectors: int, traits: DeviceTraits) -> bool:
    registers = 32 if traits.vector_bytes >= 64 else 16
    return (rows + 1) * vectors < registers


def fits_weight(tile: WeightTile, p: Convolution, traits: DeviceTraits) -> bool:
    """Whether a tile can be taken for a gradient that `takes_weight`."""
    fits = tile.rows <= weight_width(p, traits) and _fits_registers(tile.rows, tile.vectors, traits)
    return fits and tile.tiles <= MOST_TILES and tile.gradients in _admitted(p, traits)


def near_weight(tile: WeightTile, p: Convolution, traits: DeviceTraits) -> Iterator[WeightTile]:
    """Yields tiles that are worth timing beside the rule's."""
    for gradients in sorted(_admitted(p, traits), reverse=True):
        found = _tile_of(p, traits, gradients)
        candidates = (found, replace(found, tiles=-(-found.tiles // 2)))
        yield from (c for c in candidates if c != tile)


def weight_gain(p: Convolution, traits: DeviceTraits, tile: WeightTile) -> float:
    """Returns how many times as fast as sums of products a tile promises to be."""
    cut = WeightCut.of(p, tile, traits)
    channels = cut.channel_blocks * cut.width
    outputs = cut.output_blocks * cut.rows
    sums = 2 * math.prod(p.y_shape) * math.prod(p.w_shape[1:])
    products = 2 * cut.elements * cut.tiles * channels * outputs
    moves = cut.elements * cut.tiles * INPUT * (channels + outputs * cut.width // cut.rows)
    back = cut.elements * channels * outputs * INPUT
    return sums / (p.groups * (products + moves + back))


def weight_pays(p: Convolution, traits: DeviceTraits) -> bool:
    """Whether the rule's tile is faster than sums of products."""
    tile = weight_tile(p, traits)
    large = 2 * math.prod(p.y_shape) * math.prod(p.w_shape[1:]) >= LEAST_OPERATIONS
    enough = WeightCut.of(p, tile, traits).items >= 2 * traits.compute_units
    return large and enough and weight_gain(p, traits, tile) > 1
