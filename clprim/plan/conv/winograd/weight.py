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
from clprim.plan.conv.winograd.tile import LINE_BYTES
from clprim.plan.conv.winograd.transform import Transform
from clprim.plan.conv.winograd.weight_tile import (
    WeightCut,
    WeightTile,
    fits_weight,
    near_weight,
    takes_weight,
    weight_error,
    weight_pays,
    weight_tile,
)
from clprim.plan.kernel import KernelCode, KernelPlan, OperandCode, Plan, mask_type, round_up
from clprim.plan.permutation import transpose
from clprim.plan.place import Place
from clprim.plan.pointwise.code import Shuffles
from clprim.plan.strategy import Example, Strategy
from clprim.traits import DeviceTraits

__all__ = ["WINOGRAD_WEIGHT"]

# Work-groups a compute unit transform, and parts of the products that each multiplies at least.
ITEMS = 4


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


def plan_weight(p: Convolution, traits: DeviceTraits, tile: WeightTile) -> Plan:
    """Plans the kernels of a gradient that `takes_weight`.

    Args:
        p: The gradient; nothing of it may be empty.
        traits: Of the device.
        tile: How the loops are cut.
    """
    cut = WeightCut.of(p, tile, traits)
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


def _workers(cut: WeightCut, traits: DeviceTraits) -> int:
    return min(cut.items, traits.compute_units)


def _index(p: Convolution, cut: WeightCut) -> str:
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


def _common(p: Convolution, cut: WeightCut, name: str, found: Arguments) -> dict[str, Any]:
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
    p: Convolution, cut: WeightCut, image: _Image, begin: int, end: int, traits: DeviceTraits
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


def _product(
    p: Convolution, cut: WeightCut, begin: int, end: int, traits: DeviceTraits
) -> KernelPlan:
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
    meant=weight_pays,
    examples=_examples,
    error=lambda tile, problem: weight_error(problem, tile.gradients),
)
