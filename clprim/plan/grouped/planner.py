"""Plans a `Grouped`: in one kernel where a near cache holds a group, else pass by pass.

Both come of the same snippets, so which one runs is a matter of speed alone.
"""

from __future__ import annotations

import math

from clprim.plan.grouped.items import plan_items
from clprim.plan.grouped.lanes import plan_lanes
from clprim.plan.grouped.passes import plan_passes
from clprim.plan.grouped.problem import Groups
from clprim.plan.grouped.runs import plan_runs
from clprim.plan.kernel import Plan
from clprim.traits import DeviceTraits


def plan_groups(problem: Groups, traits: DeviceTraits) -> Plan:
    """Plans one call."""
    near = None
    if math.prod(problem.shape):
        ways = (plan_runs, plan_lanes) if traits.is_cpu else (plan_items,)
        near = next((found for way in ways if (found := way(problem, traits))), None)
    return plan_passes(problem, traits) if near is None else Plan((near,))
