"""What work-groups of a GPU take: the one model for strategies that use local memory.

A compute unit runs as many groups side by side as its registers hold, and issues some instructions
at a time. A step of a work-item takes its instructions and what it waits for itself, whoever else
runs; and units end together only where groups divide among them. Costs are instructions of the
busiest unit, one of every lane counted once, so that only their ratios mean anything.

The numbers are those that predict some 700 timings of random products and convolutions by one GPU
best: `tests/plan/gpu_times.json` holds these, and a test what choosing by the model loses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from clprim.traits import DeviceTraits

# Instructions that a unit issues at a time, each of one work-item.
ISSUED = 128
# What a work-item waits for of its own instructions, in their number.
WAITING = 1.2
# Sums of all work-items side by side on a unit: registers, by what a sum takes with its operands.
SUMS_OF_UNIT = 37_000
# Until a group has begun, and until another kernel has.
START, LAUNCH = 5000.0, 500.0


# Elements that a CPU's work-item walks over in the time that the next one takes to start.
STARTING = 4096


def fewest_groups(elements: int, units: int) -> int:
    """Returns how many work-groups of a CPU take least: g of them start, and a unit waits for one.

    A unit takes (elements + g · STARTING) / units, and half a group's elements, elements / g / 2.

    Args:
        elements: That all walk over.
        units: Compute units.
    """
    return max(units, math.isqrt(elements * units // (2 * STARTING)))


@dataclass(frozen=True)
class GroupWork:
    """What a kernel of equal groups does.

    Attributes:
        groups: How many there are.
        items: Work-items of each.
        sums: Values that a work-item keeps in registers.
        step: Instructions of a work-item, of a step of its loop.
        steps: Of the loop.
        ends: Instructions of a work-item beside the loop.
        waiting: What it waits for of its own instructions, in their number; 0 where none depends on
            another.
    """

    groups: int
    items: int
    sums: int
    step: float
    steps: int
    ends: float = 0.0
    waiting: float = WAITING

    def cost(self, traits: DeviceTraits) -> float:
        """Returns instructions of the busiest unit.

        Args:
            traits: Of the device.
        """
        room = max(1, SUMS_OF_UNIT // (self.sums * self.items))
        of_unit = math.ceil(self.groups / traits.compute_units)
        together = min(of_unit, room)
        issued = together * self.items / ISSUED
        instructions = self.steps * self.step + self.ends
        return of_unit / together * (instructions * (self.waiting + issued) + START)
