"""Plans the kernels of Winograd's convolutions: one that does it all, or three for every block."""

from __future__ import annotations

import math
from dataclasses import replace

from clprim.plan.arguments import Arguments
from clprim.plan.conv.winograd.code import WeightCode, WinogradCode, winograd_code
from clprim.plan.conv.winograd.cut import Cut, image_numbers, lines_ahead, output_numbers
from clprim.plan.conv.winograd.staged import plan_staged
from clprim.plan.conv.winograd.tile import (
    LINE_BYTES,
    WinogradTile,
    image_of,
    transforms_of,
    vector_width,
)
from clprim.plan.kernel import KernelPlan, OperandCode, Plan
from clprim.plan.product.problem import Contraction, index_of, moved_bytes
from clprim.plan.product.register_code import parameters_of
from clprim.traits import DeviceTraits

__all__ = ["plan_winograd"]

# Channels that a work-item transforms the weights of.
WEIGHT_RUN = 32


def plan_winograd(problem: Contraction, traits: DeviceTraits, tile: WinogradTile) -> Plan:
    """Plans the kernels of a convolution that `takes_winograd`.

    Args:
        problem: The convolution; nothing of it may be empty.
        traits: Of the device.
        tile: How the loops are cut.
    """
    image = image_of(problem)
    assert image is not None
    down, across = transforms_of(problem, tile.outputs)
    width = vector_width(problem, traits)
    code = winograd_code(
        problem,
        down,
        across,
        width=width,
        tile_rows=tile.rows,
        tile_vectors=tile.vectors,
        planar_x=problem.gathered.depth[2] != 1,
        line=LINE_BYTES // problem.value.itemsize,
        ahead=traits.prefetch,
        traits=traits,
    )
    cut = Cut.of(problem, code, image, tile, traits)
    weight, packed = _weight(problem, code, cut)
    workspace = {"packed": (packed, problem.value)}
    if tile.fused:
        workspace["partial"] = cut.workers * cut.slice, problem.value
        return Plan((weight, _fused(problem, code, cut)), workspace)
    workspace["transformed"] = problem.groups * cut.v_size, problem.value
    workspace["products"] = problem.groups * cut.m_size, problem.value
    return Plan((weight, *plan_staged(problem, cut, traits)), workspace)


def _fused(problem: Contraction, code: WinogradCode, cut: Cut) -> KernelPlan:
    numbers = {
        **image_numbers(problem, cut),
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
        **lines_ahead(cut, cut.tile_groups),
    }
    parameters, arguments = parameters_of(code, numbers, problem)
    return KernelPlan(
        "conv/winograd/fused",
        replace(code, parameters=parameters),
        arguments,
        (cut.workers,),
        (1,),
        moved_bytes(problem),
        2 * problem.groups * cut.tiles * cut.elements * cut.channels * problem.outputs,
    )


def _weight(problem: Contraction, code: WinogradCode, cut: Cut) -> tuple[KernelPlan, int]:
    """The kernel that transforms the weight, and how many elements that gives.

    They lie as [group][strip][element][channel][output] for the fused kernel, whose blocks meet
    strip after strip, and as [group][element][strip][channel][output] for the others.
    """
    w, channels = problem.packed, problem.depths[2]
    operand = OperandCode.of("x", w.dtype, problem.value, 2)
    numbers = {
        "channels": channels,
        "channels_a_part": WEIGHT_RUN,
        "outputs": problem.outputs,
        "x_start": w.start,
        "x_row": w.depth[0],
        "x_column": w.depth[1],
        "x_channel": w.depth[2],
        "u_element": cut.u_element,
        "u_strip": cut.u_strip,
        "u_group": cut.u_size,
    }
    if w.digits is None or problem.digits is None:
        numbers.update(x_group=w.group, x_output=w.output)
    else:
        numbers.update({f"x_output_{d}": stride for d, stride in enumerate(w.digits)})
        numbers.update(output_1=problem.digits[1], output_2=problem.digits[2])
    index = index_of(problem)
    found = Arguments(index)
    found.memory(operand.storage, "x_memory", "w")
    found.memory(code.value, "packed", read_only=False)
    found.numbers(**numbers)
    packed = problem.groups * cut.u_size
    plan = KernelPlan(
        "conv/winograd/weight",
        WeightCode(
            name=f"{code.name}_weight",
            preamble="",
            parameters=tuple(found.parameters),
            constants=(),
            index=index,
            unified=(),
            doubles=code.value == "double" or operand.value == "double",
            own=(),
            value=code.value,
            width=code.width,
            tile_vectors=code.tile_vectors,
            down=code.down,
            across=code.across,
            x=operand,
            digits=w.digits is not None,
        ),
        tuple(found.arguments),
        (-(-channels // WEIGHT_RUN), cut.strips * code.tile_vectors, problem.groups),
        (1, 1, 1),
        problem.groups * problem.outputs * math.prod(problem.depths) * w.dtype.itemsize
        + packed * problem.value.itemsize,
        packed * code.down.r * code.across.r,
        once=True,
    )
    return plan, packed
