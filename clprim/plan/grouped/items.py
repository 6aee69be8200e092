"""Plans the kernel in which work-items of a GPU share a group: they reduce it, then map it.

What the second walk reads lies in a cache still, so memory is read once, and one launch does what
a reduction and a map after it take two or three for.
"""

from __future__ import annotations

from clprim.plan.grouped.code import group_kernel
from clprim.plan.grouped.loops import inputs_of, loops_of, places_of, walk_together
from clprim.plan.grouped.problem import Groups
from clprim.plan.kernel import KernelPlan, power_of_two
from clprim.plan.machine import GROUP, ITEMS, STARTING, SUB_GROUP, UNROLL, UPDATES
from clprim.traits import DeviceTraits


def plan_items(problem: Groups, traits: DeviceTraits) -> KernelPlan | None:
    """Plans the kernel, or returns None where elements of a group are no runs, or too many."""
    loops = loops_of(problem, traits)
    if loops is None or not walk_together(problem, loops):
        return None
    size, names = loops.row.size * loops.run.size, problem.names
    if loops.run.size < SUB_GROUP or (loops.groups < traits.compute_units and size > STARTING):
        return None
    reduced = inputs_of(problem.definition.reduced)
    nbytes = size * sum(
        problem.arrays[n].dtype.itemsize for n in loops.moving if names[n] in reduced
    )
    if nbytes > traits.cache_bytes // (ITEMS * traits.compute_units) and size > STARTING:
        return None
    partial_bytes = problem.definition.taken.partials * problem.value.itemsize
    room = min(4 * GROUP, traits.max_work_group_size, traits.local_memory // partial_bytes)
    most = power_of_two(room + 1) // 2
    lanes = min(most, max(SUB_GROUP, power_of_two(min(size // UNROLL, loops.run.size))))
    if size > UPDATES * lanes:
        return None
    abreast = max(1, min(room, 2 * GROUP) // lanes)
    return group_kernel(
        "grouped/items",
        problem,
        loops,
        places_of(problem, loops),
        (1,),
        -(-loops.groups // abreast),
        traits,
        begun=0,
        local=(lanes, abreast),
    )
