"""What kernels in a row are spared as phases of one launch, by what each of them takes.

Apart, a kernel waits for the busiest compute unit of the one before it. Phases wait for those whose
results they read alone, so that others fill what a unit has left; and none of them is a launch. All
is counted in multiply-adds one after another, as `DeviceTraits.spared` is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from clprim.plan.cost import IN_FLIGHT, ISSUED, WEIGHTS
from clprim.plan.kernel import KernelPlan
from clprim.plan.launch.walker import Phase
from clprim.plan.machine import LINE, UNROLL
from clprim.traits import DeviceTraits

# What kernels take of the arithmetic that a unit could do meanwhile, in their own; and what those
# that differ are spared, in what equal ones in a row are.
TAKEN, OTHERS = 2.0, 2.5
#: What of their time kernels are spared at least that are worth another program.
WORTH = 0.03


def steps_of(kernel: KernelPlan, traits: DeviceTraits) -> float:
    """Returns what all units together take for a kernel."""
    at_once = IN_FLIGHT * traits.lanes(4) if traits.is_cpu else ISSUED * UNROLL
    lines = kernel.nbytes / LINE * WEIGHTS.far / IN_FLIGHT
    return max(TAKEN * kernel.flops / 2 / at_once, lines)


def gain(phases: Sequence[Phase], traits: DeviceTraits) -> float:
    """Returns what part of their time kernels are spared as phases of one launch."""
    units = traits.compute_units
    all_units = each = longest = 0.0
    ends: list[float] = []
    for phase in phases:
        kernel = phase.kernel
        steps = steps_of(kernel, traits)
        groups = max(1, math.prod(kernel.global_size) // math.prod(kernel.local_size))
        busiest = steps * -(-groups // units) / groups
        all_units += steps
        each += busiest + OTHERS * traits.spared
        ends.append(busiest + max((ends[n] for n in phase.waits), default=0.0))
        longest = max(longest, ends[-1])
    return 1 - max(all_units / units, longest) / each if each else 0.0
