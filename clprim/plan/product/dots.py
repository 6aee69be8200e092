"""Products of few outputs whose operands both lie along the depth: inner products, on CPUs.

A layer of a network that sees few images reads its weight once and does little with it. Here its
rows are read as they lie, several at a time, each beside all of a tile's outputs;
product/dots.cl.jinja draws it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from clprim.plan.cost import CoreWork
from clprim.plan.kernel import KernelPlan, OperandCode, Plan
from clprim.plan.machine import CHAIN
from clprim.plan.product.problem import Contraction, moved_bytes
from clprim.plan.product.register_code import ContractionCode, contraction_code, parameters_of
from clprim.plan.product.register_tile import lanes_of
from clprim.plan.product.shape import Shape
from clprim.plan.strategy import Weighed
from clprim.traits import DeviceTraits

# Outputs of a tile, which is another kernel to compile, and lanes that are read side by side.
_MOST = 8


@dataclass(frozen=True)
class DotsTile:
    """What registers hold."""

    outputs: int
    lanes: int  # Read side by side; sums are ``outputs`` × ``lanes`` vectors along the depth


@dataclass(frozen=True)
class DotsCode(ContractionCode):
    """What product/dots.cl.jinja prints."""

    side_by_side: int = 1  # Lanes that are read at a time
    halves: tuple[int, ...] = ()  # Lengths of the halves that a vector of sums is added up by


def dots_applicable(what: Contraction, traits: DeviceTraits) -> bool:
    """Whether both operands are matrices that lie along the depth."""
    x, w, width = what.gathered, what.packed, lanes_of(what.value.itemsize, traits)
    matrices = x.bounds is None and what.digits is None and what.plain is None
    matrices = matrices and what.prologue.snippet is None
    lines = what.depths[:2] == (1, 1) and x.depth[2] == 1 == w.depth[2]
    return matrices and lines and what.depths[2] <= CHAIN * width


def suits_dots(what: Contraction, traits: DeviceTraits) -> bool:
    """Whether lanes are columns of a CPU's, as of a matrix beside a weight."""
    # Pixels are not, which have the same bits where outputs become pixels of a larger image.
    return traits.is_cpu and what.near.lane[2] == 1 and what.gathered.lane[2] != 1


def fits_dots(tile: DotsTile, _: Contraction, traits: DeviceTraits) -> bool:
    """Whether registers hold a tile's sums, and its lanes divide a vector."""
    sizes = tile.outputs, tile.lanes
    powers = all(0 < n <= _MOST and n & (n - 1) == 0 for n in sizes)
    return powers and math.prod(sizes) <= traits.sums


def dots_tiles(what: Contraction, traits: DeviceTraits) -> list[Weighed]:
    """Returns the tiles of an applicable contraction, those of the least cost first."""
    powers = [1 << n for n in range(_MOST.bit_length())]
    every = (DotsTile(outputs, lanes) for outputs in powers for lanes in reversed(powers))
    fitting = [tile for tile in every if fits_dots(tile, what, traits)]
    weighed = (Weighed(dots_cost(what, traits, tile), tile) for tile in fitting)
    return sorted(weighed, key=lambda one: one.cost)


def dots_cost(what: Contraction, traits: DeviceTraits, tile: DotsTile) -> float:
    """Returns what a tile costs, as `CoreWork` counts."""
    width, lanes = lanes_of(what.value.itemsize, traits), math.prod(what.lanes)
    side_by_side = min(tile.lanes, width)
    groups = what.groups * -(-lanes // width)
    tiles = groups * width // side_by_side * -(-what.outputs // tile.outputs)
    return CoreWork(
        steps=tiles * -(-what.depths[2] // width),
        sums=tile.outputs * side_by_side,
        operands=tile.outputs + side_by_side,
        tiles=tiles,
        across=tiles * tile.outputs * side_by_side,
        groups=groups,
    ).cost(traits)


def plan_dots(what: Contraction, traits: DeviceTraits, tile: DotsTile) -> Plan:
    """Plans the kernel of an applicable contraction, see `dots_applicable`."""
    width = lanes_of(what.value.itemsize, traits)
    base = contraction_code(
        what,
        Shape(tile.outputs, 1, width, lanes_are_rows=False),
        traits,
        along="depth",
    )
    fields = {name: getattr(base, name) for name in base.__dataclass_fields__}
    fields.update(
        w=OperandCode.of("w", what.packed.dtype, what.value, 0),
        side_by_side=min(tile.lanes, width),
        halves=tuple(width >> n for n in range(1, width.bit_length())),
    )
    code = DotsCode(**fields)
    lanes, depth = math.prod(what.lanes), what.depths[2]
    x, w = what.gathered, what.packed
    numbers = {
        "lanes": lanes,
        "lane_1": max(1, what.lanes[1]),
        "lane_2": max(1, what.lanes[2]),
        "outputs": what.outputs,
        "packed_tiles": -(-what.outputs // tile.outputs),
        "depth": depth,
        "x_start": x.start,
        "x_group": x.group,
        **{f"x_lane_{d}": stride for d, stride in enumerate(x.lane)},
        "w_start": w.start,
        "w_group": w.group,
        "w_output": w.output,
    }
    parameters, arguments = parameters_of(code, numbers, what)
    main = KernelPlan(
        "product/dots",
        replace(code, parameters=parameters),
        arguments,
        (-(-lanes // width), 1, what.groups),
        (1, 1, 1),
        moved_bytes(what),
        2 * what.groups * lanes * what.outputs * depth,
    )
    return Plan((main,), {})
