"""The kernels of Winograd's convolutions one after another: transforms, products, transforms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from clprim.plan.conv.winograd.code import WinogradCode
from clprim.plan.conv.winograd.cut import Cut, image_numbers, lines_ahead, output_numbers
from clprim.plan.conv.winograd.packing import direct_memory, direct_numbers
from clprim.plan.kernel import KernelPlan, round_up
from clprim.plan.machine import ITEMS, second
from clprim.plan.parameters import Arguments
from clprim.plan.product.problem import Contraction
from clprim.plan.product.register_code import parameters_of
from clprim.traits import DeviceTraits

# The parts of a code that only a kernel that stores prints.
_NO_STORE: dict[str, Any] = {
    "epilogue": "",
    "extras": (),
    "unified": (),
    "own": (),
    "bias": False,
    "scalars": (),
    "coords": (),
    "sizes": (),
    "beta": False,
    "digits": False,
    "vector_store": False,
    "streaming": False,
    "planar": False,
    "direct": None,
}


def plan_staged(problem: Contraction, cut: Cut, traits: DeviceTraits) -> Iterator[KernelPlan]:
    """Yields three kernels for every block of tiles."""
    for begin in range(0, cut.tiles, cut.block):
        end = min(begin + cut.block, cut.tiles)
        yield plan_input(problem, cut, begin, end, traits)
        yield _product(problem, cut, end - begin, traits)
        yield _output(problem, cut, begin, end, _wanted(traits))


def _wanted(traits: DeviceTraits) -> int:
    return ITEMS * traits.compute_units


def plan_input(
    problem: Contraction, cut: Cut, begin: int, end: int, traits: DeviceTraits
) -> KernelPlan:
    """Plans the kernel that transforms the input of tiles ``begin`` to ``end``."""
    wanted = _wanted(traits)
    groups, blocks, tiles = problem.groups, cut.channel_blocks, end - begin
    a_part = round_up(max(1, tiles * groups // wanted), cut.code.tile_rows)
    parts = -(-tiles // a_part)
    some = max(1, min(blocks, blocks * parts * groups // wanted))
    numbers = {
        **image_numbers(problem, cut),
        "tile_begin": begin,
        "tile_end": end,
        "v_group": cut.v_size,
        "tiles_a_part": a_part,
        "blocks_a_part": some,
    }
    size = (parts, -(-blocks // some), groups)
    x, itemsize = problem.gathered, problem.value.itemsize
    nbytes = x.size * x.dtype.itemsize * tiles // cut.tiles + groups * cut.v_size * itemsize
    return _kernel("input", problem, cut.code, numbers, ("x", "transformed"), size, nbytes, 0)


def _product(problem: Contraction, cut: Cut, tiles: int, traits: DeviceTraits) -> KernelPlan:
    """Multiplies; a part of the tiles stays in a second cache while all weights are streamed."""
    code, itemsize = cut.code, problem.value.itemsize
    tile_groups = -(-tiles // code.tile_rows)
    stays = second(traits) // 4
    most = max(1, stays // (code.tile_rows * cut.channels * itemsize))
    pieces = -(-tile_groups // most)
    a_part = -(-tile_groups // pieces)
    items = pieces * problem.groups * cut.elements
    some = max(1, min(cut.strips, cut.strips * items // _wanted(traits)))
    numbers = {
        "channels": cut.channels,
        "channel_blocks": cut.channel_blocks,
        "tile_groups": tile_groups,
        "groups_a_part": a_part,
        "strips": cut.strips,
        "strips_a_part": some,
        "u_group": cut.u_size,
        "u_element": cut.u_element,
        "u_strip": cut.u_strip,
        "v_group": cut.v_size,
        "v_element": cut.v_element,
        "m_group": cut.m_size,
        "m_element": cut.m_element,
        "m_strip": cut.m_strip,
    }
    size = (pieces, -(-cut.strips // some), problem.groups * cut.elements)
    nbytes = problem.groups * (cut.v_size + cut.m_size) * itemsize
    flops = 2 * problem.groups * tiles * cut.elements * cut.channels * problem.outputs
    code = replace(code, shuffles=None, lines_ahead=lines_ahead(cut, a_part))
    return _kernel(
        "product",
        problem,
        code,
        numbers,
        ("packed", "transformed", "products"),
        size,
        nbytes,
        flops,
    )


def _output(problem: Contraction, cut: Cut, begin: int, end: int, wanted: int) -> KernelPlan:
    """Transforms the products of tiles ``begin`` to ``end`` back, and stores them."""
    code, groups = cut.code, problem.groups
    a_part = -(-(end - begin) // max(1, wanted // groups))
    if code.planar:  # whole vectors of pixels
        a_part = round_up(a_part, max(1, code.rows // code.across.m))
    parts = -(-(end - begin) // a_part)
    some = max(1, min(cut.strips, cut.strips * parts * groups // wanted))
    numbers = {
        **direct_numbers(problem, cut),
        **output_numbers(problem, cut),
        "tile_begin": begin,
        "tile_end": end,
        "m_group": cut.m_size,
        "m_strip": cut.m_strip,
        "tiles_a_part": a_part,
        "strips": cut.strips,
        "strips_a_part": some,
    }
    code = replace(
        code, name=f"{cut.code.name}_output", shuffles=code.shuffles if code.planar else None
    )
    memory = direct_memory(problem, code)
    memory.memory(code.x.storage, "x_memory", problem.gathered.buffer)
    parameters, arguments = parameters_of(code, numbers, problem, finish=True)
    plan = KernelPlan(
        "conv/winograd/output",
        replace(code, parameters=(*memory.parameters, *parameters)),
        (*memory.arguments, *arguments),
        (parts, -(-cut.strips // some), groups),
        (1, 1, 1),
        groups * cut.m_size * problem.value.itemsize,
        0,
    )
    return plan.renamed({"partial": "products"})


def _kernel(
    stage: str,
    problem: Contraction,
    code: WinogradCode,
    numbers: dict[str, int],
    memory: tuple[str, ...],
    size: tuple[int, ...],
    nbytes: int,
    flops: int,
) -> KernelPlan:
    """A kernel that does not store the result."""
    found = Arguments(code.index)
    for name in memory:
        storage = code.x.storage if name == "x" else code.value
        parameter = "x_memory" if name == "x" else name
        found.memory(storage, parameter, read_only=name != memory[-1])
    found.numbers(**numbers)
    code = replace(
        code, name=f"{code.name}_{stage}", parameters=tuple(found.parameters), **_NO_STORE
    )
    template = f"conv/winograd/{stage}"
    return KernelPlan(template, code, tuple(found.arguments), size, (1, 1, 1), nbytes, flops)
