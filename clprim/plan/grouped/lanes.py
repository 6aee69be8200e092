"""Plans the kernel that reduces and maps short groups of neighbours, a lane of a vector each.

A row of a few classes fills no vector, and merging a vector's lanes takes as long as the row
itself. So as many groups as a vector has lanes are computed side by side, element by element. These
are gathered and scattered one by one, which costs less than exponentials of single numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clprim.language.componentwise import is_componentwise
from clprim.plan.grouped.code import Shares, group_plan
from clprim.plan.grouped.problem import Groups
from clprim.plan.grouped.runs import LEAST
from clprim.plan.kernel import Plan, round_up
from clprim.plan.machine import ITEMS
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class LanesTile:
    """What a work-item takes."""

    groups: int  # A vector of them after another


def lanes_tile(problem: Groups, traits: DeviceTraits) -> LanesTile | None:
    """Returns the tile, or None where groups are no such thing as above, or long."""
    loops = problem.loops if traits.is_cpu else None
    if loops is None or loops.outer.size > 1 or loops.row.size > 1:
        return None
    width, units = traits.lanes(problem.value.itemsize), traits.compute_units
    short = width > 1 and loops.run.size < LEAST * width and loops.together
    if not (short and is_componentwise(problem.definition.finalize)):
        return None
    if loops.groups < width * units:
        return None
    return LanesTile(round_up(max(1, loops.groups // (ITEMS * units)), width))


def fits_lanes(tile: LanesTile, problem: Groups, traits: DeviceTraits) -> bool:
    """Whether work-items take whole vectors of groups."""
    loops, width = problem.loops, traits.lanes(problem.value.itemsize)
    return loops is not None and tile.groups % width == 0 and tile.groups < loops.groups + width


def near_lanes(tile: LanesTile, problem: Groups, traits: DeviceTraits) -> Iterator[LanesTile]:
    """Yields tiles that are worth timing beside one."""
    width = traits.lanes(problem.value.itemsize)
    for groups in (2 * tile.groups, tile.groups // 2):
        yield LanesTile(round_up(groups, width))


def plan_lanes(problem: Groups, traits: DeviceTraits, tile: LanesTile) -> Plan:
    """Plans the kernel."""
    loops, width = problem.loops, traits.lanes(problem.value.itemsize)
    assert loops is not None  # it has a tile
    numbers = {"groups": loops.groups, "groups_an_item": tile.groups, "n": loops.run.size}
    for k, name in enumerate(problem.names):
        numbers[f"{name}_start"] = loops.starts[k]
        numbers[f"{name}_group"] = loops.group.strides[k]
    items = -(-loops.groups // tile.groups)
    shares = Shares("grouped/lanes", numbers, (width, 1), items, begun=LEAST * width)
    return group_plan(problem, loops, shares, traits)
