"""How the loops of Winograd's gradient in the weight are cut, as numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from clprim.plan.conv.problem import Convolution
from clprim.plan.conv.winograd.transform import Transform, transform
from clprim.plan.kernel import round_up
from clprim.plan.machine import second
from clprim.traits import DeviceTraits

# What a float costs that comes from a far cache, in products.
FAR = 16.0


@dataclass(frozen=True)
class WeightTile:
    """How the loops are cut."""

    # Rows and columns of the other gradient that a tile has, m; 1 along an axis with one tap
    gradients: int
    rows: int  # Outputs × vectors of channels that are summed up in registers; rows divide a vector
    vectors: int
    tiles: int  # That are transformed before they are multiplied
    # 2 where one kernel transforms and multiplies, and the other adds up what its workers found; 3
    # where images are transformed by kernels of their own
    kernels: int


@dataclass(frozen=True)
class WeightCut:
    """The numbers of a gradient; see `WeightTile`."""

    width: int
    down: Transform
    across: Transform
    lines: int
    columns: int
    tiles: int
    block: int  # That are transformed before they are multiplied
    channels: int
    outputs: int
    swapped: bool  # Whether outputs are the lanes of vectors, and channels the rows
    groups: int
    rows: int
    vectors: int
    workers: int
    part_bytes: int  # Of products that a worker sums up at a time: they stay in its second cache
    fused: bool  # Whether each of them transforms tiles of its own

    @staticmethod
    def of(p: Convolution, tile: WeightTile, traits: DeviceTraits) -> WeightCut:
        """Returns the cut that a tile asks for."""
        down, across = transforms(p, tile.gradients)
        lines, columns = -(-p.rows.windows // down.r), -(-p.columns.windows // across.r)
        tiles = p.images * lines * columns
        width, channels, outputs = (
            weight_width(p, traits),
            p.channels // p.groups,
            p.outputs // p.groups,
        )
        return WeightCut(
            width=width,
            down=down,
            across=across,
            lines=lines,
            columns=columns,
            tiles=tiles,
            block=min(tile.tiles, tiles),
            channels=channels,
            outputs=outputs,
            swapped=channels < width <= outputs,
            groups=p.groups,
            rows=tile.rows,
            vectors=tile.vectors,
            workers=min(tiles, traits.compute_units),
            part_bytes=second(traits),
            fused=tile.kernels == 2,
        )

    @property
    def elements(self) -> int:
        """Of a transformed tile."""
        return self.down.size * self.across.size

    @property
    def lanes(self) -> int:
        """Channels, or outputs, that are neighbours in vectors of products."""
        return self.outputs if self.swapped else self.channels

    @property
    def factors(self) -> int:
        """The others, each of which a vector is multiplied by."""
        return self.channels if self.swapped else self.outputs

    def slots(self, channels: int) -> int:
        """Vectors of so many channels or outputs."""
        return -(-channels // self.width)

    @property
    def strips(self) -> int:
        """Of vectors of lanes that are multiplied at a time."""
        return -(-self.slots(self.lanes) // self.vectors)

    @property
    def blocks(self) -> int:
        """Rows of registers of factors: whole vectors of them, if there is one."""
        if self.factors < self.width:
            return -(-self.factors // self.rows)
        return self.slots(self.factors) * self.width // self.rows

    @property
    def slot(self) -> int:
        """From one slot of a transformed image to the next."""
        return self.block * self.width

    def element(self, channels: int) -> int:
        """From one element to the next; a vector more than all have, which is no power of two."""
        return self.slots(channels) * self.slot + self.width

    def size(self, channels: int) -> int:
        """Of a transformed image of so many channels or outputs."""
        return self.elements * self.element(channels)

    @property
    def slice(self) -> int:
        """From one worker's transformed tiles to the next one's; again no power of two."""
        return round_up(self.size(self.channels) + self.size(self.outputs), 1024) + self.width

    @cached_property
    def part(self) -> tuple[int, int]:
        """Strips of lanes and blocks of factors that are multiplied at a time."""
        # Few large parts read tiles least often; but their products are to stay near, and no worker
        # shall wait for the last one.
        if self.fused:
            return self.strips, self.blocks
        a_product = 4 * self.elements * self.rows * self.vectors * self.width
        room = max(1, self.part_bytes // a_product)

        def cost(part: tuple[int, int]) -> float:
            vectors, factors = part[0] * self.vectors, part[1] * self.rows
            rounds = -(-self._items(part) // self.workers)
            read = vectors + factors / self.width
            return rounds * (vectors * factors + FAR * read)

        fitting = (
            (strips, blocks)
            for strips in range(1, min(self.strips, room) + 1)
            for blocks in range(1, min(self.blocks, room // strips) + 1)
        )
        return min(fitting, key=cost)

    def _items(self, part: tuple[int, int]) -> int:
        return self.groups * -(-self.strips // part[0]) * -(-self.blocks // part[1])

    @property
    def items(self) -> int:
        """Parts of the products."""
        return self._items(self.part)

    @property
    def m_element(self) -> int:
        """From one element of the products to the next."""
        return math.prod(self.part) * self.rows * self.vectors * self.width + self.width

    @property
    def m_size(self) -> int:
        """Products of a part."""
        return self.elements * self.m_element


def weight_width(p: Convolution, traits: DeviceTraits) -> int:
    """Returns the elements of a vector."""
    return max(2, traits.lanes(p.value.itemsize))


def transforms(p: Convolution, gradients: int) -> tuple[Transform, Transform]:
    """Returns F(taps, gradients), down and across."""

    def of(taps: int) -> Transform:
        return transform(taps, gradients) if taps > 1 else transform(1, 1)

    return of(p.rows.kernel), of(p.columns.kernel)
