"""Plans the kernel that reduces and maps short groups of neighbours, a lane of a vector each.

A row of a few classes fills no vector, and merging a vector's lanes takes as long as the row
itself. So as many groups as a vector has lanes are computed side by side, element by element. These
are gathered and scattered one by one, which costs less than exponentials of single numbers.
"""

from __future__ import annotations

from clprim.language.componentwise import is_componentwise
from clprim.plan.grouped.code import group_kernel
from clprim.plan.grouped.loops import loops_of, walk_together
from clprim.plan.grouped.problem import Groups
from clprim.plan.grouped.runs import LEAST
from clprim.plan.kernel import KernelPlan, round_up
from clprim.plan.machine import ITEMS
from clprim.traits import DeviceTraits


def plan_lanes(problem: Groups, traits: DeviceTraits) -> KernelPlan | None:
    """Plans the kernel, or returns None where groups are no such thing as above, or long."""
    loops = loops_of(problem, traits) if traits.is_cpu else None
    if loops is None or loops.outer.size > 1 or loops.row.size > 1:
        return None
    width = traits.lanes(problem.value.itemsize)
    n, groups = loops.run.size, loops.groups
    few = groups < width * traits.compute_units
    if width < 2 or n >= LEAST * width or few or not walk_together(problem, loops):
        return None
    if not is_componentwise(problem.definition.finalize):
        return None
    an_item = round_up(max(1, groups // (ITEMS * traits.compute_units)), width)
    numbers = {"groups": groups, "groups_an_item": an_item, "n": n}
    for k, name in enumerate(problem.names):
        numbers[f"{name}_start"] = loops.starts[k]
        numbers[f"{name}_group"] = loops.group.strides[k]
    items = -(-groups // an_item)
    return group_kernel(
        "grouped/lanes", problem, loops, numbers, (width, 1), items, traits, begun=LEAST * width
    )
