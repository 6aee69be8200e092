"""Plans the kernels of Winograd's convolutions: one that does it all, or some for every block."""

from __future__ import annotations

from dataclasses import replace

from clprim.plan.conv.winograd.code import WinogradCode, winograd_code
from clprim.plan.conv.winograd.cut import Cut, lines_ahead, output_numbers
from clprim.plan.conv.winograd.image import image_of
from clprim.plan.conv.winograd.in_place import plan_weight_in_place
from clprim.plan.conv.winograd.packing import direct_memory, direct_numbers, plan_weight
from clprim.plan.conv.winograd.staged import plan_staged
from clprim.plan.conv.winograd.tile import (
    WinogradTile,
    tiling_of,
)
from clprim.plan.kernel import KernelPlan, Plan
from clprim.plan.machine import LINE
from clprim.plan.product.problem import Contraction, moved_bytes
from clprim.plan.product.register_code import parameters_of
from clprim.traits import DeviceTraits


def plan_winograd(problem: Contraction, traits: DeviceTraits, tile: WinogradTile) -> Plan:
    """Plans the kernels of a convolution that `winograd_tile` finds a tile for."""
    image = image_of(problem)
    assert image is not None
    code = winograd_code(problem, tiling_of(problem, tile.outputs), tile, traits)
    cut = Cut.of(problem, code, image, tile, traits)
    slices = cut.workers * cut.slice, problem.value
    transformed = problem.groups * cut.v_size, problem.value
    if tile.kernels == 2:
        workspace = {"partial": slices, "transformed": transformed}
        return Plan(tuple(plan_weight_in_place(problem, cut, traits)), workspace)
    weight, packed = plan_weight(problem, code, cut)
    workspace = {"packed": (packed, problem.value)}
    if tile.fused:
        workspace["partial"] = slices
        return Plan((weight, _fused(problem, code, cut)), workspace)
    workspace["transformed"] = transformed
    workspace["products"] = problem.groups * cut.m_size, problem.value
    return Plan((weight, *plan_staged(problem, cut, traits)), workspace)


def _fused(problem: Contraction, code: WinogradCode, cut: Cut) -> KernelPlan:
    numbers = {
        **direct_numbers(problem, cut),
        **output_numbers(problem, cut),
        "strips": cut.strips,
        "tiles": cut.tiles,
        "blocks": -(-cut.tiles // cut.block),
        "block_tiles": cut.block,
        "groups": problem.groups,
        "u_element": cut.u_element,
        "u_strip": cut.u_strip,
        "v_size": cut.v_size,
        "slice": cut.slice,
    }
    code = replace(code, lines_ahead=lines_ahead(cut, cut.tile_groups))
    some = _pixels_ahead(problem, cut)
    if some:
        code = replace(code, pixels_ahead=some)
        part = some * cut.channel_blocks
        numbers["parts_ahead"] = -(-_lines_of_a_row(problem, cut) // part)
        numbers["part_ahead"] = part * LINE // problem.gathered.dtype.itemsize
    parameters, arguments = parameters_of(code, numbers, problem)
    memory = direct_memory(problem, code)
    return KernelPlan(
        "conv/winograd/fused",
        replace(code, parameters=(*memory.parameters, *parameters)),
        (*memory.arguments, *arguments),
        (cut.workers,),
        (1,),
        moved_bytes(problem),
        2 * problem.groups * cut.tiles * cut.elements * cut.channels * problem.outputs,
    )


def _lines_of_a_row(problem: Contraction, cut: Cut) -> int:
    """How many lines a tile has not read of a row of its pixels, all channels side by side."""
    x = problem.gathered
    return -(-cut.code.across.walk.step * x.depth[1] * x.dtype.itemsize // LINE)


def _pixels_ahead(problem: Contraction, cut: Cut) -> int:
    """How many lines of the next block's pixels a step of the products prefetches."""
    # So many that they are near when the block begins; none where they would not stay near, or lie
    # apart, as planes do, where a prefetch costs as much as it gains.
    code = cut.code
    if not code.ahead or code.planar_x or code.few:
        return 0
    lines = cut.block * code.down.walk.step * _lines_of_a_row(problem, cut)
    steps = cut.strips * cut.elements * cut.tile_groups * cut.channel_blocks
    return -(-lines // steps) if lines * LINE <= cut.part_bytes else 0
