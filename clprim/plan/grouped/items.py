"""Plans the kernel in which work-items of a GPU share a group: they reduce it, then map it.

What the second walk reads lies in a cache still, so memory is read once, and one launch does what
a reduction and a map after it take two or three for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clprim.plan.grouped.code import Shares, group_plan
from clprim.plan.grouped.problem import Groups
from clprim.plan.kernel import Plan, power_of_two
from clprim.plan.machine import GROUP, ITEMS, STARTING, SUB_GROUP, UNROLL, UPDATES
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class ItemsTile:
    """A work-group."""

    lanes: int  # Work-items of a group of elements
    abreast: int  # Groups of elements


def items_tile(problem: Groups, traits: DeviceTraits) -> ItemsTile | None:
    """Returns the tile, or None where elements of a group are no runs, or too many."""
    loops = None if traits.is_cpu else problem.loops
    if loops is None or not loops.together or loops.run.size < SUB_GROUP:
        return None
    size, units = loops.size, traits.compute_units
    stays = traits.cache_bytes // (ITEMS * units)
    if size > STARTING and (loops.groups < units or loops.reduced_bytes > stays):
        return None
    room = _room(problem, traits)
    most = power_of_two(room + 1) // 2
    lanes = min(most, max(SUB_GROUP, power_of_two(min(size // UNROLL, loops.run.size))))
    tile = ItemsTile(lanes, max(1, min(room, 2 * GROUP) // lanes))
    return tile if fits_items(tile, problem, traits) else None


def _room(problem: Groups, traits: DeviceTraits) -> int:
    """Work-items that a work-group may have, whose partials local memory holds."""
    nbytes = problem.definition.taken.partials * problem.value.itemsize
    return min(4 * GROUP, traits.max_work_group_size, traits.local_memory // nbytes)


def fits_items(tile: ItemsTile, problem: Groups, traits: DeviceTraits) -> bool:
    """Whether a device can run it, and work-items take so few elements that sums are accurate."""
    loops, whole = problem.loops, tile.lanes & (tile.lanes - 1) == 0
    if loops is None or not whole or tile.lanes * tile.abreast > _room(problem, traits):
        return False
    return loops.size <= UPDATES * tile.lanes


def near_items(tile: ItemsTile, problem: Groups, traits: DeviceTraits) -> Iterator[ItemsTile]:
    """Yields tiles that are worth timing beside one."""
    del problem, traits
    for lanes in (2 * tile.lanes, tile.lanes // 2):
        yield ItemsTile(lanes, max(1, tile.lanes * tile.abreast // max(1, lanes)))
    yield ItemsTile(tile.lanes, 2 * tile.abreast)
    yield ItemsTile(tile.lanes, -(-tile.abreast // 2))


def plan_items(problem: Groups, traits: DeviceTraits, tile: ItemsTile) -> Plan:
    """Plans the kernel."""
    loops = problem.loops
    assert loops is not None  # it has a tile
    groups, local = -(-loops.groups // tile.abreast), (tile.lanes, tile.abreast)
    shares = Shares("grouped/items", loops.places, (1,), groups, local=local)
    return group_plan(problem, loops, shares, traits)
