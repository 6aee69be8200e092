"""An inverted residual as one problem, and how its three parts are cut into tiles.

expand      1 × 1: channels → middle channels
depthwise   each middle channel by itself
project     1 × 1: middle channels → outputs
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from clprim.dtypes import AnyDType
from clprim.plan.depthwise.code import unrolls
from clprim.plan.depthwise.problem import Depthwise
from clprim.plan.depthwise.problem import index_of as depthwise_index
from clprim.plan.kernel import power_of_two, round_up
from clprim.plan.machine import UNROLL, second
from clprim.plan.place import Place
from clprim.plan.product.problem import Contraction
from clprim.plan.product.problem import index_of as contraction_index
from clprim.plan.product.register_code import ContractionCode, contraction_code
from clprim.plan.product.shape import Shape
from clprim.traits import DeviceTraits

# Rows that a tile of a product may have: few, as each is another kernel to compile.
ROWS = (14, 12, 9, 7, 4, 2, 1)


@dataclass(frozen=True)
class InvertedResidual:
    """What to compute; what lies between the three has any strides, as it is never stored."""

    # The first product; None where the depthwise convolution reads the input
    expand: Contraction | None
    depthwise: Depthwise  # The convolution; ``x`` is the input's place where there is no ``expand``
    # The last product, with the operator's epilogue; None where the depthwise convolution writes
    # the result, whose channels are one behind another
    project: Contraction | None

    @property
    def value(self) -> AnyDType:
        """What sums are added up in."""
        return self.depthwise.value

    @property
    def x(self) -> Place:
        """The input, as the place of its pixels."""
        if self.expand is None:
            return replace(self.depthwise.x, name="a")
        x = self.expand.gathered
        return Place("a", x.dtype, x.start, x.lane[0], x.depth[2], x.lane[1], x.lane[2])

    @property
    def channels(self) -> int:
        """What the first product sums up; 1 where there is none."""
        return 1 if self.expand is None else math.prod(self.expand.depths)

    @property
    def index(self) -> str:
        """OpenCL C type that reaches every element."""
        products = [p for p in (self.expand, self.project) if p is not None]
        indices = {depthwise_index(self.depthwise), *map(contraction_index, products)}
        return "long" if "long" in indices else "int"


@dataclass(frozen=True)
class ResidualMemory:
    """How local memory is divided; all sizes in elements."""

    rows: int  # Of the result, of a step
    pitch: int  # From a pixel of the middle to the next one
    middle: int  # Channels of the middle, in whole tiles
    ring_rows: int  # Rows of the ring, and a row's size
    ring_row: int
    between: int  # Results of the depthwise convolution
    places: int  # Of every array of places
    nbytes: int


@dataclass(frozen=True)
class ResidualTiles:
    """The tiles of the three, and the local memory between them."""

    width: int
    expand: tuple[int, int]  # Rows and vectors of the first product's tile
    # The last product, as matrix products are printed, if there is one
    project: ContractionCode | None
    unrolled: bool  # Whether the taps of the depthwise convolution are unrolled
    rows: int
    room: ResidualMemory  # How local memory is divided
    near: int  # Elements of it for values
    outputs: int  # Of the last product, or of the depthwise convolution

    @property
    def expand_strips(self) -> int:
        """Strips of the first product's weight."""
        return self.room.middle // (self.width * self.expand[1])

    @property
    def project_strips(self) -> int:
        """Strips of the last product's weight."""
        return 0 if self.project is None else -(-self.outputs // self.project.packed_lanes)


def residual_tiles(what: InvertedResidual, traits: DeviceTraits) -> ResidualTiles | None:
    """Chooses tiles, and divides local memory."""
    # None where memory has no room, as GPUs' has none for rows of so many channels, channels fill
    # no vector, the three calculate in several types, or rows of the first product lie apart.
    if not _suits(what):
        return None
    d, expand, project = what.depthwise, what.expand, what.project
    itemsize, sums = what.value.itemsize, traits.sums
    width = _width(d.channels, itemsize, traits)
    if width < 2:
        return None
    first = (1, 1) if expand is None else _block(d.columns.inputs, d.channels, width, sums)
    code, kept = None, 4
    if project is not None:
        last = _block(d.columns.outputs, project.outputs, width, sums)
        code = replace(product_code(project, last, width, traits), index=what.index)
        kept += (4 if code.index == "int" else 8) * sum(o.moves for o in code.outputs)
    unrolled = unrolls(d.rows, d.columns)
    two = unrolled and (d.rows.stride, d.rows.kernel) == (1, 3) and sums == 28
    rows = 2 if two else 1
    room = _room(what, width, width * first[1], rows, kept, traits)
    if room is None:
        return None
    near = (_local(traits) - kept * room.places) // itemsize
    outputs = d.channels if project is None else project.outputs
    return ResidualTiles(width, first, code, unrolled, rows, room, near, outputs)


def product_code(
    what: Contraction, tile: tuple[int, int], width: int, traits: DeviceTraits
) -> ContractionCode:
    """Returns one of the two products as it is printed."""
    return contraction_code(what, Shape(*tile, width), traits, along="depth", unit=UNROLL)


def _suits(what: InvertedResidual) -> bool:
    """Whether all three calculate in one type, and the first product's rows follow each other."""
    d, expand, x = what.depthwise, what.expand, what.x
    values = {w.value for w in (d, what.project, expand) if w is not None}
    if len(values) > 1 or d.multiplier != 1:
        return False
    if what.project is None and (d.y.dtype != d.value or d.y.channel != 1 or d.epilogue.beta):
        return False
    return expand is None or d.rows.inputs == 1 or x.row == d.columns.inputs * x.column


def _width(channels: int, itemsize: int, traits: DeviceTraits) -> int:
    """Lanes of a vector: what a register has, or the largest power of two that channels fill."""
    most = min(traits.lanes(itemsize), channels)
    largest = power_of_two(max(1, most))
    return largest if largest == most else largest // 2


def _block(pixels: int, outputs: int, width: int, sums: int) -> tuple[int, int]:
    """Rows and vectors of a tile, for lines of so many pixels: those that cost least."""
    # A step of k costs a product for each sum, and loads of what they share.
    wide = -(-outputs // width)

    def cost(tile: tuple[int, int]) -> float:
        rows, vectors = tile
        return -(-wide // vectors) / rows * (rows * vectors + rows + vectors)

    tiles = [(r, v) for r in ROWS if r <= pixels for v in (1, 2, 3, 4) if r * v <= sums]
    return min(tiles, key=cost)


def _local(traits: DeviceTraits) -> int:
    """Bytes of local memory for everything, which stay in a second cache."""
    return min(traits.local_memory, second(traits) // 4)


def _room(
    what: InvertedResidual, width: int, whole: int, tile_rows: int, kept: int, traits: DeviceTraits
) -> ResidualMemory | None:
    """Divides local memory among as many rows of the result as fit; None where not one does."""
    h, v = what.depthwise.rows, what.depthwise.columns
    itemsize = what.value.itemsize
    middle = round_up(what.depthwise.channels, whole)
    # Pixels a power of two apart would all go to the same few places of the nearest cache.
    pitch = middle + (width if middle * itemsize % 1024 == 0 else 0)
    ring_row = max(v.before + v.inputs, (v.outputs - 1) * v.stride + v.reach) * pitch
    best = None
    for rows in range(1, h.outputs + 1):
        ring_rows = min((rows - 1) * h.stride + h.reach, h.inputs)
        pixels = max(ring_rows * v.inputs, rows * v.outputs)
        places = power_of_two(pixels)
        between = round_up(rows, tile_rows) * v.outputs * pitch if what.project else 0
        nbytes = (2 * middle + ring_rows * ring_row + between) * itemsize + kept * places
        if nbytes > _local(traits):
            break
        best = ResidualMemory(rows, pitch, middle, ring_rows, ring_row, between, places, nbytes)
    return best
