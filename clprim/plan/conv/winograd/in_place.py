"""Winograd's convolutions whose weights are transformed where products need them.

A weight that changes from call to call is not worth a buffer of what it becomes, which is four
times as large as itself and leaves the caches: here a part of it is transformed, and multiplied
while it is near.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from clprim.plan.conv.winograd.code import WinogradCode
from clprim.plan.conv.winograd.cut import Cut, output_numbers
from clprim.plan.conv.winograd.packing import (
    direct_memory,
    direct_numbers,
    weight_code,
    weight_numbers,
)
from clprim.plan.conv.winograd.staged import plan_input
from clprim.plan.kernel import KernelPlan
from clprim.plan.product.problem import Contraction, moved_bytes
from clprim.plan.product.register_code import parameters_of
from clprim.traits import DeviceTraits


def plan_weight_in_place(
    problem: Contraction, cut: Cut, traits: DeviceTraits
) -> Iterator[KernelPlan]:
    """Yields two kernels for every block of tiles."""
    weight = weight_code(problem, cut.code)
    code = replace(
        cut.code,
        name=f"{cut.code.name}_in_place",
        weight=weight,
        lines_ahead=cut.code.tile_rows,
        shuffles=cut.code.shuffles if cut.code.planar else weight.shuffles,
    )
    for begin in range(0, cut.tiles, cut.block):
        end = min(begin + cut.block, cut.tiles)
        yield plan_input(problem, cut, begin, end, traits)
        yield _products(problem, code, cut, begin, end)


def _products(
    problem: Contraction, code: WinogradCode, cut: Cut, begin: int, end: int
) -> KernelPlan:
    """Transforms weights, multiplies tiles ``begin`` to ``end``, transforms back and stores."""
    weight = code.weight
    assert weight is not None
    numbers = {
        **direct_numbers(problem, cut),
        **output_numbers(problem, cut),
        "tile_begin": begin,
        "tile_end": end,
        "chunk_tiles": cut.chunk,
        "chunks": -(-(end - begin) // cut.chunk),
        "strips": cut.strips,
        "groups": problem.groups,
        "channels": cut.channels,
        "channel_blocks": cut.channel_blocks,
        "channels_a_part": cut.part,
        "u_element": cut.u_element,
        "u_size": cut.u_size,
        "v_group": cut.v_size,
        "v_element": cut.v_element,
        "slice": cut.slice,
        **weight_numbers(problem, weight),
    }
    memory = direct_memory(problem, code)
    memory.memory(code.x.storage, "x_memory", problem.gathered.buffer)
    memory.memory(code.value, "transformed")
    memory.memory(code.value, "partial", read_only=False)
    stores = replace(code, partial=False)
    parameters, arguments = parameters_of(stores, numbers, problem, finish=True)
    return KernelPlan(
        "conv/winograd/in_place",
        replace(code, parameters=(*memory.parameters, *parameters)),
        (*memory.arguments, *arguments),
        (cut.workers,),
        (1,),
        moved_bytes(problem),
        2 * problem.groups * (end - begin) * cut.elements * cut.channels * problem.outputs,
    )
