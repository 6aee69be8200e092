"""Winograd's algorithm for the gradient of a convolution in its weight.

An element of the gradient sums up products of an input tile and a tile of the other gradient:
F(r, m) with the roles of taps and outputs exchanged. Both are transformed; then every element of a
transformed tile is a product of matrices whose depth are the tiles, and what that gives is
transformed back once, not for every tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clprim.dtypes import AnyDType, stored_type
from clprim.plan.arguments import Arguments
from clprim.plan.conv.dense import CPU, dense_convolution
from clprim.plan.conv.problem import Convolution
from clprim.plan.conv.winograd.code import AxisCode, WalkCode, axis_code, printed
from clprim.plan.conv.winograd.tile import (
    INPUT,
    LEAST_OPERATIONS,
    LINE_BYTES,
    NEAR_BYTES,
    OUTPUTS,
    TAPS,
)
from clprim.plan.conv.winograd.transform import Transform, relative_error, transform
from clprim.plan.kernel import KernelCode, KernelPlan, OperandCode, Plan, mask_type, round_up
from clprim.plan.permutation import transpose
from clprim.plan.place import Place
from clprim.plan.pointwise.code import Shuffles
from clprim.plan.strategy import Example, Strategy
from clprim.traits import DeviceTraits

__all__ = ["WINOGRAD_WEIGHT", "WeightTile"]

# Tiles that are transformed at a time at most: sums of more are added up in parts.
MOST_TILES = 2048
# Work-groups a compute unit transform, and parts of the products that each multiplies at least.
ITEMS = 4


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
class TransformCode(KernelCode):
    """What conv/winograd/weight_transform.cl.jinja prints.

    Attributes:
        value: Type of what is transformed.
        width: Elements of a vector.
        walk_down, walk_across: How images are cut into tiles.
        advance: Channels from one block to the next, of which a vector holds one.
        panel: Elements of local memory.
        planar_x: Whether the image's pixels of a row are neighbours, not its channels.
        few: Whether channels do not fill a vector.
        ahead: Whether memory is asked for before it is read.
        x: The image.
        turn: How a square of vectors is turned over.
    """

    value: str
    width: int
    walk_down: WalkCode
    walk_across: WalkCode
    advance: int
    panel: int
    planar_x: bool
    few: bool
    ahead: int
    x: OperandCode
    turn: Shuffles | None
    grouped: bool = False

    @property
    def mask(self) -> str:
        """Type of a lane of what `select` takes beside vectors."""
        return mask_type(self.value)


@dataclass(frozen=True)
class ProductCode(KernelCode):
    """What conv/winograd/weight_product.cl.jinja prints.

    Attributes:
        value: Type of sums.
        width: Elements of a vector.
        tile_rows, tile_vectors: Outputs × vectors of channels that are summed up in registers.
        down, across: The transforms of both axes; only those of results are printed.
        y: The result.
        side_by_side: Whether channels are neighbours in it, as in a vector.
        beta: Whether the old result takes part.
    """

    value: str
    width: int
    tile_rows: int
    tile_vectors: int
    down: AxisCode
    across: AxisCode
    y: OperandCode
    side_by_side: bool
    beta: bool


@dataclass(frozen=True)
class _Cut:
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
    def of(p: Convolution, tile: WeightTile, traits: DeviceTraits) -> _Cut:
        """Returns the cut that a tile asks for."""
        down, across = _transforms(p, tile.gradients)
        lines, columns = -(-p.rows.windows // down.r), -(-p.columns.windows // across.r)
        tiles = p.images * lines * columns
        return _Cut(
            width=_width(p, traits),
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


def _width(p: Convolution, traits: DeviceTraits) -> int:
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
    return tuple(m for m in OUTPUTS[max(taps)] if _error(p, m) <= p.error)


def _error(p: Convolution, gradients: int) -> float:
    """The relative root mean square error that random numbers have."""
    down, across = _transforms(p, gradients)
    tiles = -(-p.rows.windows // down.r) * -(-p.columns.windows // across.r) * p.images
    unit = 2.0**-24 if p.value.itemsize == 4 else 2.0**-53
    return relative_error(down, across, min(tiles, MOST_TILES), unit)


def weight_tile(p: Convolution, traits: DeviceTraits) -> WeightTile:
    """Returns the tile that promises most, of those whose errors are allowed."""
    tiles = (_tile_of(p, traits, m) for m in _admitted(p, traits))
    return max(tiles, key=lambda tile: weight_gain(p, traits, tile))


def _tile_of(p: Convolution, traits: DeviceTraits, gradients: int) -> WeightTile:
    width = _width(p, traits)
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
    cut = _Cut.of(p, tile, traits)
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
    fits = tile.rows <= _width(p, traits) and _fits_registers(tile.rows, tile.vectors, traits)
    return fits and tile.tiles <= MOST_TILES and tile.gradients in _admitted(p, traits)


def near_weight(tile: WeightTile, p: Convolution, traits: DeviceTraits) -> Iterator[WeightTile]:
    """Yields tiles that are worth timing beside the rule's."""
    for gradients in sorted(_admitted(p, traits), reverse=True):
        found = _tile_of(p, traits, gradients)
        candidates = (found, replace(found, tiles=-(-found.tiles // 2)))
        yield from (c for c in candidates if c != tile)


def weight_gain(p: Convolution, traits: DeviceTraits, tile: WeightTile) -> float:
    """Returns how many times as fast as sums of products a tile promises to be."""
    cut = _Cut.of(p, tile, traits)
    channels = cut.channel_blocks * cut.width
    outputs = cut.output_blocks * cut.rows
    sums = 2 * math.prod(p.y_shape) * math.prod(p.w_shape[1:])
    products = 2 * cut.elements * cut.tiles * channels * outputs
    moves = cut.elements * cut.tiles * INPUT * (channels + outputs * cut.width // cut.rows)
    back = cut.elements * channels * outputs * INPUT
    return sums / (p.groups * (products + moves + back))


def _pays(p: Convolution, traits: DeviceTraits) -> bool:
    tile = weight_tile(p, traits)
    large = 2 * math.prod(p.y_shape) * math.prod(p.w_shape[1:]) >= LEAST_OPERATIONS
    enough = _Cut.of(p, tile, traits).items >= 2 * traits.compute_units
    return large and enough and weight_gain(p, traits, tile) > 1


def plan_weight(p: Convolution, traits: DeviceTraits, tile: WeightTile) -> Plan:
    """Plans the kernels of a gradient that `takes_weight`.

    Args:
        p: The gradient; nothing of it may be empty.
        traits: Of the device.
        tile: How the loops are cut.
    """
    cut = _Cut.of(p, tile, traits)
    images = (
        _Image(p.x, "x", "inputs", p.rows.size, p.columns.size, p.rows.before, p.columns.before),
        _Image(p.y, "w", "gradients", p.rows.windows, p.columns.windows, 0, 0),
    )
    chunks = range(0, cut.tiles, cut.chunk)
    stages: list[KernelPlan] = []
    for begin in chunks:
        end = min(begin + cut.chunk, cut.tiles)
        stages += [_transform(p, cut, image, begin, end, traits) for image in images]
        stages.append(_product(p, cut, begin, end, traits))
    kept = cut.items if len(chunks) > 1 else _workers(cut, traits)
    workspace = {
        "inputs": (cut.groups * cut.size(cut.channel_blocks), p.value),
        "gradients": (cut.groups * cut.size(cut.output_blocks), p.value),
        "products": (kept * cut.m_size, p.value),
    }
    return Plan(tuple(stages), workspace)


@dataclass(frozen=True)
class _Image:
    """What is transformed: where, as which buffers, how large, with how much padding."""

    place: Place
    buffer: str
    result: str
    rows: int
    columns: int
    rows_before: int
    columns_before: int


def _workers(cut: _Cut, traits: DeviceTraits) -> int:
    return min(cut.items, traits.compute_units)


def _index(p: Convolution, cut: _Cut) -> str:
    """``int`` where 31 bits reach every element, with room for tiles that leave images."""
    h, v = p.rows, p.columns
    reach = [
        p.x.reach(p.images, p.channels, h.padded + 64, v.padded + 64),
        p.y.reach(p.images, p.outputs, h.windows + 64, v.windows + 64),
        p.w.reach(p.outputs, p.channels, h.kernel, v.kernel),
        cut.groups * cut.size(cut.channel_blocks),
        cut.groups * cut.size(cut.output_blocks),
        cut.items * cut.m_size,
    ]
    return "int" if max(reach) < 2**31 - 2**20 else "long"


def _common(p: Convolution, cut: _Cut, name: str, found: Arguments) -> dict[str, Any]:
    """The fields of a `KernelCode` and those that both codes have."""
    return {
        "name": f"{p.name}_winograd{name}",
        "preamble": "",
        "parameters": tuple(found.parameters),
        "constants": (),
        "index": _index(p, cut),
        "unified": (),
        "doubles": stored_type(p.value).value == "double",
        "own": (),
        "value": stored_type(p.value).value,
        "width": cut.width,
    }


def _walk(t: Transform, gradients: bool, value: AnyDType) -> WalkCode:
    """Tiles of either image are ``t.r`` pixels of the other gradient apart."""
    if gradients:
        return WalkCode(t.r, t.r, t.size, printed(t.weight, "d", "v", value))
    return WalkCode(t.r, t.size, t.size, printed(t.input, "d", "v", value))


def _transform(
    p: Convolution, cut: _Cut, image: _Image, begin: int, end: int, traits: DeviceTraits
) -> KernelPlan:
    """Transforms tiles ``begin`` to ``end`` of an image."""
    of_gradients = image.result == "gradients"
    walks = [_walk(t, of_gradients, p.value) for t in (cut.down, cut.across)]
    channels, blocks = cut.channels, cut.channel_blocks
    advance = cut.width
    if of_gradients:
        channels, blocks, advance = cut.outputs, cut.output_blocks, cut.rows
    a = image.place
    planar = a.channel != 1
    panel = LINE_BYTES // p.value.itemsize
    wide = (panel // (walks[0].size * cut.width) - 1) // cut.width * cut.width
    across = walks[1]
    run = max(1, min(cut.columns, (wide - (across.reads - across.step)) // across.step))
    pitch = round_up(run * across.step + across.reads - across.step, cut.width) + 1
    wanted = ITEMS * traits.compute_units
    tiles = end - begin
    a_part = max(1, -(-tiles * p.groups // wanted))
    parts = -(-tiles // a_part)
    some = max(1, min(blocks, blocks * parts * p.groups // wanted))
    found = Arguments(_index(p, cut))
    operand = OperandCode.of("x", a.dtype, p.value, 1)
    found.memory(operand.storage, "x_memory", image.buffer)
    found.memory(stored_type(p.value).value, "transformed", image.result, read_only=False)
    found.numbers(
        x_start=a.start,
        x_group=channels * a.channel,
        x_image=a.image,
        x_row=a.row,
        x_channel=a.channel,
        x_rows=image.rows,
        x_columns=image.columns,
        rows_before=image.rows_before,
        columns_before=image.columns_before,
        channels=channels,
        channel_blocks=blocks,
        tile_lines=cut.lines,
        tile_columns=cut.columns,
        longest_run=run,
        line_pitch=pitch,
        v_element=cut.element(blocks),
        v_block=cut.block,
        v_group=cut.size(blocks),
        tile_begin=begin,
        tile_end=end,
        tiles_a_part=a_part,
        blocks_a_part=some,
    )
    shape = p.y_shape if of_gradients else p.x_shape
    if planar:
        found.numbers(x_size=a.end(*shape))
    else:
        found.numbers(x_column=a.column)
    code = TransformCode(
        **_common(p, cut, f"_{image.result}", found),
        walk_down=walks[0],
        walk_across=walks[1],
        advance=advance,
        panel=panel,
        planar_x=planar,
        few=channels < cut.width,
        ahead=int(traits.prefetch),
        x=operand,
        turn=transpose(cut.width) if planar else None,
    )
    size = (parts, -(-blocks // some), p.groups)
    moved = math.prod(shape) * a.dtype.itemsize * tiles // cut.tiles
    moved += p.groups * cut.size(blocks) * p.value.itemsize
    arguments = tuple(found.arguments)
    return KernelPlan("conv/winograd/weight_transform", code, arguments, size, (1, 1, 1), moved, 0)


def _product(p: Convolution, cut: _Cut, begin: int, end: int, traits: DeviceTraits) -> KernelPlan:
    """Multiplies what became of tiles ``begin`` to ``end``; after the last ones transforms back."""
    w, several = p.w, cut.chunk < cut.tiles
    value = stored_type(p.value).value
    found = Arguments(_index(p, cut))
    y = OperandCode.of("y0", w.dtype, p.value, w.channel)
    found.memory(value, "inputs")
    found.memory(value, "gradients")
    found.memory(value, "products", read_only=False)
    found.memory(y.storage, "y0_memory", "y0", read_only=False)
    if p.epilogue.beta:
        found.scalar(value, "beta", 0)
    found.numbers(
        tiles=end - begin,
        is_first=int(begin == 0),
        is_last=int(end == cut.tiles),
        keeps_all=int(several),
        channels=cut.channels,
        channel_blocks=cut.channel_blocks,
        outputs=cut.outputs,
        output_blocks=cut.output_blocks,
        strips=cut.strips,
        parts=cut.parts,
        blocks_a_part=cut.part,
        items=cut.items,
        block_size=cut.block,
        x_element=cut.element(cut.channel_blocks),
        x_group=cut.size(cut.channel_blocks),
        g_element=cut.element(cut.output_blocks),
        g_group=cut.size(cut.output_blocks),
        m_element=cut.m_element,
        m_size=cut.m_size,
        y0_start=w.start,
        y0_output=w.image,
        y0_channel=w.channel,
        y0_row=w.row,
        y0_column=w.column,
    )
    code = ProductCode(
        **_common(p, cut, "", found),
        tile_rows=cut.rows,
        tile_vectors=cut.vectors,
        down=axis_code(cut.down, p.value),
        across=axis_code(cut.across, p.value),
        y=y,
        side_by_side=w.channel == 1,
        beta=p.epilogue.beta,
    )
    return KernelPlan(
        "conv/winograd/weight_product",
        code,
        tuple(found.arguments),
        (_workers(cut, traits),),
        (1,),
        p.groups * (cut.size(cut.channel_blocks) + cut.size(cut.output_blocks)) * p.value.itemsize
        + math.prod(p.w_shape) * w.dtype.itemsize,
        2 * p.groups * (end - begin) * cut.elements * cut.channels * cut.outputs,
    )


def _examples() -> Iterator[Example[Convolution]]:
    """Both formats, few channels and outputs, several chunks of tiles."""
    asking = replace(CPU, prefetch=True)

    def example(name: str, traits: DeviceTraits, shape: Sequence[int], **options: Any) -> Any:
        problem = replace(dense_convolution(*shape, direction="weight", **options), error=1.0)
        return Example(name, problem, traits)

    yield example("", asking, (2, 32, 14, 64), last=True, beta=True)
    yield example("planes", CPU, (2, 32, 14, 64))
    yield example("few", CPU, (2, 3, 14, 5), last=True)


#: Its label is that of the other directions.
WINOGRAD_WEIGHT: Strategy[Convolution] = Strategy(
    "winograd/weight",
    WeightTile,
    takes=takes_weight,
    rule=weight_tile,
    plan=plan_weight,
    fits=fits_weight,
    near=near_weight,
    meant=_pays,
    examples=_examples,
)
