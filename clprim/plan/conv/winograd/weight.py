"""Winograd's algorithm for the gradient of a convolution in its weight.

An element of the gradient sums up products of an input tile and a tile of the other gradient:
F(r, m) with the roles of taps and outputs exchanged. Both are transformed; then every element of a
transformed tile is a product of matrices whose depth are the tiles, and what that gives is
transformed back once, not for every tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from clprim.dtypes import stored_type
from clprim.plan.conv.dense import CPU, dense_convolution
from clprim.plan.conv.problem import Convolution
from clprim.plan.conv.winograd.code import axis_code
from clprim.plan.conv.winograd.weight_code import GradientCode
from clprim.plan.conv.winograd.weight_cut import WeightCut, WeightTile
from clprim.plan.conv.winograd.weight_image import Image, image_of
from clprim.plan.conv.winograd.weight_tile import (
    fits_weight,
    near_weight,
    suits_weight,
    weight_applicable,
    weight_error,
    weight_gain,
    weight_tile,
)
from clprim.plan.kernel import KernelPlan, OperandCode, Plan
from clprim.plan.machine import ITEMS
from clprim.plan.parameters import Arguments
from clprim.plan.place import Place
from clprim.plan.strategy import Example, Strategy
from clprim.plan.strides import index_reaching
from clprim.traits import DeviceTraits


def plan_weight(p: Convolution, traits: DeviceTraits, tile: WeightTile) -> Plan:
    """Plans the kernels of an applicable gradient, see `weight_applicable`."""
    cut = WeightCut.of(p, tile, traits)
    # The first one's channels are the lanes of vectors.
    names = ("gradients", "inputs") if cut.swapped else ("inputs", "gradients")
    images = [image_of(p, cut, name, traits) for name in names]
    stages: list[KernelPlan] = []
    if cut.fused:
        stages += [_fused(p, cut, images), _finish(p, cut)]
        kept = cut.workers * cut.groups
        transformed = {"transformed": cut.workers * cut.slice}
    else:
        blocks = range(0, cut.tiles, cut.block)
        for begin in blocks:
            end = min(begin + cut.block, cut.tiles)
            stages += [_transform(p, cut, image, begin, end, traits) for image in images]
            stages.append(_product(p, cut, images, begin, end, ahead=traits.prefetch))
        kept = cut.items if len(blocks) > 1 else cut.workers
        transformed = {i.code.name: cut.groups * cut.size(i.channels) for i in images}
    sizes = {**transformed, "products": kept * cut.m_size}
    return Plan(tuple(stages), {name: (size, p.value) for name, size in sizes.items()})


def _index(p: Convolution, cut: WeightCut) -> str:
    """``int`` where 31 bits reach every element, with room for tiles that leave images."""
    h, v = p.rows, p.columns
    slices, kept = (cut.workers, cut.workers) if cut.fused else (1, cut.items)
    reach = [
        p.x.reach(p.images, p.channels, h.padded + 64, v.padded + 64),
        p.y.reach(p.images, p.outputs, h.windows + 64, v.windows + 64),
        p.w.reach(p.outputs, p.channels, h.kernel, v.kernel),
        slices * cut.slice
        if cut.fused
        else cut.groups * max(cut.size(cut.channels), cut.size(cut.outputs)),
        kept * cut.groups * cut.m_size,
    ]
    return index_reaching(*reach)


def _kernel(
    stage: str,
    p: Convolution,
    cut: WeightCut,
    found: Arguments,
    size: tuple[int, ...],
    nbytes: int,
    flops: int = 0,
    name: str = "",
    **more: Any,
) -> KernelPlan:
    """A kernel with the parameters that were found."""
    value = stored_type(p.value).value
    code = GradientCode(
        name=f"{p.name}_winograd_{name or stage}",
        preamble="",
        parameters=tuple(found.parameters),
        constants=(),
        index=_index(p, cut),
        unified=(),
        doubles=value == "double",
        own=(),
        value=value,
        width=cut.width,
        down=axis_code(cut.down, p.value),
        across=axis_code(cut.across, p.value),
        **more,
    )
    local = (1,) * len(size)
    arguments = tuple(found.arguments)
    return KernelPlan(f"conv/winograd/weight_{stage}", code, arguments, size, local, nbytes, flops)


def _transform(
    p: Convolution, cut: WeightCut, image: Image, begin: int, end: int, traits: DeviceTraits
) -> KernelPlan:
    """Transforms tiles ``begin`` to ``end`` of an image."""
    wanted, tiles = ITEMS * traits.compute_units, end - begin
    slots, size = cut.slots(image.channels), cut.size(image.channels)
    a_part = max(1, -(-tiles * p.groups // wanted))
    parts = -(-tiles // a_part)
    some = max(1, min(slots, slots * parts * p.groups // wanted))
    found = Arguments(_index(p, cut))
    found.memory(image.code.x.storage, "x_memory", image.buffer)
    found.memory(image.code.value, "transformed", image.code.name, read_only=False)
    found.numbers(
        **image.numbers,
        v_group=size,
        tile_begin=begin,
        tile_end=end,
        tiles_a_part=a_part,
        blocks_a_part=some,
    )
    moved = math.prod(image.shape) * image.place.dtype.itemsize * tiles // cut.tiles
    moved += p.groups * size * p.value.itemsize
    name, panel, images = image.code.name, image.panel, (image.code,)
    work = (parts, -(-slots // some), p.groups)
    return _kernel("transform", p, cut, found, work, moved, name=name, images=images, panel=panel)


def _product(
    p: Convolution, cut: WeightCut, images: Sequence[Image], begin: int, end: int, *, ahead: bool
) -> KernelPlan:
    """Multiplies what became of tiles ``begin`` to ``end``; after the last ones transforms back."""
    value = stored_type(p.value).value
    found = Arguments(_index(p, cut))
    for name, image in zip("ba", images, strict=True):
        found.memory(value, f"{name}_memory", image.code.name)
    found.memory(value, "products", read_only=False)
    result = _result(p, cut, found)
    strips, blocks = cut.part
    found.numbers(
        **_product_numbers(cut),
        tiles_there=end - begin,
        is_first=int(begin == 0),
        is_last=int(end == cut.tiles),
        keeps_all=int(cut.block < cut.tiles),
        strip_parts=-(-cut.strips // strips),
        strips_a_part=strips,
        block_parts=-(-cut.blocks // blocks),
        items=cut.items,
        b_size=cut.size(cut.lanes),
        a_size=cut.size(cut.factors),
    )
    nbytes = p.groups * sum(
        cut.size(i.channels) for i in images
    ) * p.value.itemsize + _result_bytes(p)
    size, flops = (min(cut.items, cut.workers),), _flops(cut, end - begin)
    more = {**_rows(cut), **result, "ahead": ahead}
    return _kernel("product", p, cut, found, size, nbytes, flops, **more)


def _fused(p: Convolution, cut: WeightCut, images: Sequence[Image]) -> KernelPlan:
    """Transforms and multiplies; every worker has tiles of its own."""
    value = stored_type(p.value).value
    found = Arguments(_index(p, cut))
    for image in images:
        found.memory(image.code.x.storage, f"{image.code.name}_memory", image.buffer)
    found.memory(value, "transformed", read_only=False)
    found.memory(value, "products", read_only=False)
    for image in images:
        name = image.code.name
        found.numbers(**{f"{name}_{number}": at for number, at in image.numbers.items()})
    found.numbers(
        **_product_numbers(cut),
        groups=cut.groups,
        tiles_all=cut.tiles,
        tiles_a_block=cut.block,
        slice=cut.slice,
        b_size=cut.size(cut.lanes),
    )
    codes = tuple(replace(image.code, numbers=tuple(image.numbers)) for image in images)
    moved = sum(math.prod(image.shape) * image.place.dtype.itemsize for image in images)
    size, flops, panel = (cut.workers,), _flops(cut, cut.tiles), images[0].panel
    return _kernel(
        "fused", p, cut, found, size, moved, flops, images=codes, panel=panel, **_rows(cut)
    )


def _finish(p: Convolution, cut: WeightCut) -> KernelPlan:
    """Adds up what the workers found, in order, and transforms it back."""
    found = Arguments(_index(p, cut))
    found.memory(stored_type(p.value).value, "products")
    result = _result(p, cut, found)
    found.numbers(**_product_numbers(cut), workers=cut.workers, m_worker=cut.groups * cut.m_size)
    size = (cut.blocks, cut.strips, cut.groups)
    nbytes = cut.workers * cut.groups * cut.m_size * p.value.itemsize + _result_bytes(p)
    return _kernel("finish", p, cut, found, size, nbytes, **_rows(cut), **result)


def _rows(cut: WeightCut) -> dict[str, Any]:
    """What a code says of what is multiplied."""
    return {"tile_rows": cut.rows, "tile_vectors": cut.vectors}


def _product_numbers(cut: WeightCut) -> dict[str, int]:
    """What multiplying and transforming back need to know."""
    return {
        "lanes": cut.lanes,
        "lane_slots": cut.slots(cut.lanes),
        "factors": cut.factors,
        "strips": cut.strips,
        "blocks": cut.blocks,
        "blocks_a_part": cut.part[1],
        "slot_size": cut.slot,
        "b_element": cut.element(cut.lanes),
        "a_element": cut.element(cut.factors),
        "m_element": cut.m_element,
        "m_size": cut.m_size,
    }


def _result(p: Convolution, cut: WeightCut, found: Arguments) -> dict[str, Any]:
    """Adds what stores a result to the parameters; returns what a code says of it."""
    w = p.w
    lane, factor = (w.image, w.channel) if cut.swapped else (w.channel, w.image)
    y = OperandCode.of("y0", w.dtype, p.value, lane)
    found.memory(y.storage, "y0_memory", "y0", read_only=False)
    if p.epilogue.beta:
        found.scalar(stored_type(p.value).value, "beta", 0)
    found.numbers(
        y0_start=w.start,
        y0_group=cut.outputs * w.image,
        y0_factor=factor,
        y0_lane=lane,
        y0_row=w.row,
        y0_column=w.column,
    )
    x = OperandCode.of("x", p.x.dtype, p.value, 0)
    g = OperandCode.of("w", p.y.dtype, p.value, 0)
    found.memory(x.storage, "x_memory")
    found.memory(g.storage, "w_memory")
    # Lanes are channels and factors outputs, or the other way round; the other operand has neither.
    lanes = ("factor", "lane") if cut.swapped else ("lane", "factor")
    channel, output = ({f"{o}_{name}": 0 for name in lanes} for o in "xw")
    found.numbers(
        images=p.images,
        **_place("x", p.x, cut.channels, channel | {f"x_{lanes[0]}": p.x.channel}),
        x_rows=p.x_shape[2],
        x_columns=p.x_shape[3],
        rows_before=p.rows.before,
        columns_before=p.columns.before,
        **_place("w", p.y, cut.outputs, output | {f"w_{lanes[1]}": p.y.channel}),
        w_rows=p.rows.windows,
        w_columns=p.columns.windows,
    )
    stored = {"y": y, "side_by_side": lane == 1, "beta": p.epilogue.beta}
    return {**stored, "operands": (x, g)}


def _place(name: str, at: Place, channels: int, own: dict[str, int]) -> dict[str, int]:
    """Where an image lies, of whose group there are so many channels."""
    strides = {"start": at.start, "group": channels * at.channel, "image": at.image}
    strides |= {"row": at.row, "column": at.column}
    return {f"{name}_{n}": stride for n, stride in strides.items()} | own


def _result_bytes(p: Convolution) -> int:
    return math.prod(p.w_shape) * p.w.dtype.itemsize


def _flops(cut: WeightCut, tiles: int) -> int:
    return 2 * cut.groups * tiles * cut.elements * cut.channels * cut.outputs


def _examples() -> Iterator[Example[Convolution]]:
    """Both formats, few channels and outputs, in two kernels and in three."""
    prefetching = replace(CPU, prefetch=True)

    def example(name: str, traits: DeviceTraits, kernels: int, *shape: int, **options: Any) -> Any:
        problem = replace(dense_convolution(*shape, direction="weight", **options), error=1.0)
        tile = weight_tile(problem, traits)
        assert tile is not None
        tile = replace(tile, kernels=kernels, gradients=2)
        return Example(name, problem, traits, tile)

    yield example("", prefetching, 2, 2, 32, 14, 64, last=True, beta=True)
    yield example("planes", replace(CPU, vector_bytes=32), 2, 2, 32, 14, 64)
    yield example("few", CPU, 2, 2, 3, 14, 5, last=True)
    yield example("staged", prefetching, 3, 2, 32, 14, 64, last=True, beta=True)
    yield example("staged-planes", CPU, 3, 2, 32, 14, 64)


#: Its label is that of the other directions.
WINOGRAD_WEIGHT: Strategy[Convolution] = Strategy(
    "winograd/weight",
    WeightTile,
    applicable=weight_applicable,
    rule=weight_tile,
    plan=plan_weight,
    fits=fits_weight,
    near=near_weight,
    preferred=suits_weight,
    pays=lambda p, traits, tile: weight_gain(p, traits, tile) > 1,
    examples=_examples,
    error=lambda tile, problem: weight_error(problem, tile.gradients),
)
