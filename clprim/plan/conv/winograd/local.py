"""Winograd's convolutions for GPUs: tiles in local memory, a part of their products in registers.

A work-group does a block of tiles and a strip of outputs from the input to the result, so nothing
but the weights, which are transformed before, takes memory between kernels. Any strides will do:
both formats are one kernel, which differs in what neighbouring work-items read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from clprim.plan.conv.winograd.code import AxisCode, axis_code
from clprim.plan.conv.winograd.image import Image, image_of
from clprim.plan.conv.winograd.local_tile import WinogradLocalTile
from clprim.plan.conv.winograd.packing import place_numbers
from clprim.plan.conv.winograd.tile import tiling_of
from clprim.plan.kernel import KernelCode, KernelPlan, OperandCode, Plan, round_up
from clprim.plan.machine import GROUP
from clprim.plan.parameters import Arguments
from clprim.plan.product.problem import Contraction, Output, index_of, moved_bytes
from clprim.plan.product.tiles import UNROLLED
from clprim.plan.store import StoredCode, StoringCode, add_store, storing
from clprim.plan.strides import REACH
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class LocalWeightCode(KernelCode):
    """What conv/winograd/local_weight.cl.jinja prints."""

    value: str  # Type of the transformed weight
    down: AxisCode  # The transforms of both axes
    across: AxisCode
    w: OperandCode
    strip: int  # Outputs that lie side by side in the transformed weight
    digits: bool  # Whether outputs are numbers of three digits
    items: int


@dataclass(frozen=True)
class WinogradLocalCode(StoringCode):
    """What conv/winograd/local.cl.jinja prints; its store takes one element at a time."""

    down: AxisCode  # The transforms of both axes
    across: AxisCode
    x: OperandCode
    along: str  # What neighbouring work-items read: ``channels`` or ``tiles``
    planar: bool  # Whether they store neighbouring tiles, not outputs
    tile: WinogradLocalTile  # How the group cuts its loops
    lanes: int  # Elements of a vector of products
    unroll: int  # Channels that the inner loop takes at a time
    digits: bool  # Whether outputs are numbers of three digits
    direct: OperandCode  # The weight as it is, for results that transforms do not hold

    @property
    def elements(self) -> int:
        """Of a transformed tile."""
        return self.down.size * self.across.size

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.tile.items(self.elements)

    @property
    def local(self) -> int:
        """Vectors of local memory."""
        return self.tile.local(self.elements, self.lanes) // self.lanes

    @property
    def weights(self) -> int:
        """Vectors of transformed weights that are multiplied at a time."""
        return self.elements * self.tile.steps * self.tile.strip // self.lanes

    @property
    def weight_reads(self) -> int:
        """Of them, those that a work-item copies."""
        return self.weights // self.items

    @property
    def pass_outputs(self) -> int:
        """Outputs that are transformed back at a time."""
        return self.tile.item_columns * self.lanes

    @property
    def pass_units(self) -> int:
        """Tiles of an output that are."""
        return self.tile.tiles * self.pass_outputs


def plan_local(problem: Contraction, traits: DeviceTraits, tile: WinogradLocalTile) -> Plan:
    """Plans the two kernels of a convolution: the first one transforms its weight."""
    image = image_of(problem)
    assert image is not None
    code = _code(problem, tile, traits)
    depth = round_up(problem.depths[2], tile.steps)
    strips = -(-problem.outputs // tile.strip)
    tiles = tiling_of(problem, tile.outputs).tiles
    blocks = -(-tiles // tile.tiles)
    packed = problem.groups * strips * depth * code.elements * tile.strip
    items = problem.groups * strips * blocks * code.items
    if max(packed, items) >= REACH:
        code = replace(code, index="long")
    numbers = {
        **_image_numbers(problem, image),
        "channels": problem.depths[2],
        "outputs": problem.outputs,
        "strips": strips,
        "blocks": blocks,
        "tiles": tiles,
        "tile_lines": -(-problem.lanes[1] // code.down.m),
        "tile_columns": -(-problem.lanes[2] // code.across.m),
        "y_rows": problem.lanes[1],
        "y_columns": problem.lanes[2],
        **_output_numbers(problem, code),
        **place_numbers(problem),
        **dict(zip(("w_rows", "w_columns"), problem.depths, strict=False)),
    }
    found = Arguments(code.index)
    found.memory(code.x.storage, "x_memory", problem.gathered.buffer)
    found.memory(code.direct.storage, "w_memory", problem.packed.buffer)
    found.memory(code.value, "packed")
    add_store(found, problem, code)
    found.numbers(**numbers)
    main = KernelPlan(
        "conv/winograd/local",
        replace(code, parameters=tuple(found.parameters)),
        tuple(found.arguments),
        (items,),
        (code.items,),
        moved_bytes(problem),
        2 * problem.groups * numbers["tiles"] * code.elements * problem.depths[2] * problem.outputs,
    )
    weight = _weight(problem, code, strips, depth, packed)
    return Plan((weight, main), {"packed": (packed, problem.value)})


def _code(problem: Contraction, tile: WinogradLocalTile, traits: DeviceTraits) -> WinogradLocalCode:
    tiling = tiling_of(problem, tile.outputs)
    down, across = tiling.down, tiling.across
    stores: dict[str, Any] = storing(problem, 1, lambda array: _stored(problem, array), traits)
    stores["name"] = f"{problem.name}_winograd"
    sums = tile.rows * tile.columns * problem.value.itemsize
    return WinogradLocalCode(
        **stores,
        parameters=(),
        index=index_of(problem),
        down=axis_code(down, problem.value),
        across=axis_code(across, problem.value),
        x=OperandCode.of("x", problem.gathered.dtype, problem.value, 0),
        along="channels" if problem.gathered.depth[2] == 1 else "tiles",
        planar=problem.near.output != 1 or problem.outputs == 1,
        tile=tile,
        lanes=max(2, 16 // problem.value.itemsize),
        unroll=min(tile.steps, max(1, 4 * UNROLLED // sums)),
        digits=problem.digits is not None,
        direct=OperandCode.of("w", problem.packed.dtype, problem.value, 0),
    )


def _stored(problem: Contraction, array: Output) -> StoredCode:
    return StoredCode.at(array.name, array.dtype, problem.value, 2, moves=any(array.lane))


def _image_numbers(problem: Contraction, image: Image) -> dict[str, int]:
    x = problem.gathered
    return {
        "x_start": image.start,
        "x_group": x.group,
        "x_image": x.lane[0],
        "x_row": x.lane[1],
        "x_column": x.lane[2],
        "x_channel": x.depth[2],
        "x_rows": image.rows,
        "x_columns": image.columns,
        "rows_before": image.rows_before,
        "columns_before": image.columns_before,
    }


def _output_numbers(problem: Contraction, code: WinogradLocalCode) -> dict[str, int]:
    numbers: dict[str, int] = {}
    if problem.digits is not None:
        numbers.update(output_1=problem.digits[1], output_2=problem.digits[2])
    for o, place in zip(code.outputs, problem.stored, strict=True):
        numbers[f"{o.name}_start"] = place.start
        if place.digits is None:
            numbers[f"{o.name}_group"] = place.group
            numbers[f"{o.name}_output"] = place.output
        else:
            numbers.update({f"{o.name}_output_{d}": s for d, s in enumerate(place.digits)})
        if o.moves:
            numbers.update({f"{o.name}_{d}": stride for d, stride in enumerate(place.lane)})
    return numbers


def _weight(
    problem: Contraction, code: WinogradLocalCode, strips: int, depth: int, packed: int
) -> KernelPlan:
    """The kernel that transforms the weight, to [group][strip][channel][element][output]."""
    # Channels and outputs that are not there become zeros.
    w, strip = problem.packed, code.tile.strip
    operand = OperandCode.of("w", w.dtype, problem.value, 0)
    weight = LocalWeightCode(
        name=f"{code.name}_weight",
        preamble="",
        parameters=(),
        constants=(),
        index=code.index,
        unified=(),
        doubles=code.value == "double" or operand.value == "double",
        own=(),
        value=code.value,
        down=code.down,
        across=code.across,
        w=operand,
        strip=strip,
        digits=code.digits,
        items=GROUP,
    )
    numbers = {
        "groups": problem.groups,
        "strips": strips,
        "depth": depth,
        "channels": problem.depths[2],
        "outputs": problem.outputs,
        **place_numbers(problem),
    }
    if problem.digits is not None:
        numbers.update(output_1=problem.digits[1], output_2=problem.digits[2])
    found = Arguments(code.index)
    found.memory(operand.storage, "w_memory", w.buffer)
    found.memory(code.value, "packed", read_only=False)
    found.numbers(**numbers)
    taps = math.prod(problem.depths) * problem.groups * problem.outputs
    return KernelPlan(
        "conv/winograd/local_weight",
        replace(weight, parameters=tuple(found.parameters)),
        tuple(found.arguments),
        (round_up(problem.groups * strips * depth * strip, GROUP),),
        (GROUP,),
        taps * w.dtype.itemsize + packed * problem.value.itemsize,
        packed * code.down.r * code.across.r,
        once=True,
    )
