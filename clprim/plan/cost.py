"""What work-groups take: one model for those of GPUs, which share local memory, and one for CPUs'.

A compute unit of a GPU runs as many groups side by side as its registers hold, and issues some
instructions at a time. A step of a work-item takes its instructions and what it waits for itself,
whoever else runs; and units end together only where groups divide among them. Costs are
instructions of the busiest unit, one of every lane counted once, so that only their ratios mean
anything.

The numbers are those that predict some 700 timings of random products and convolutions by one GPU
best: `tests/plan/gpu_times.json` holds these, and a test what choosing by the model loses.

A core of a CPU runs one work-item after another, which counts its multiply-adds of vectors and what
else it does in their number; `CoreWork` says which. The weights are what two units of multiply-adds
and one of stores take of each, rounded to where some 2,700 times of random problems and of layers
of networks by cores with AVX-512 agree best; `tests/plan/cpu_times.json` holds a part of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from clprim.plan.machine import STARTING
from clprim.traits import DeviceTraits

# Instructions that a unit issues at a time, each of one work-item.
ISSUED = 128
# What a work-item waits for of its own instructions, in their number.
WAITING = 1.2
# Sums of all work-items side by side on a unit: registers, by what a sum takes with its operands.
SUMS_OF_UNIT = 37_000
# Until a group has begun, and until another kernel has.
START, LAUNCH = 5000.0, 500.0


def fewest_groups(work: float, units: int, starting: float = STARTING) -> int:
    """Returns how many work-groups take a CPU least: g of them start, and a unit waits for one."""
    # A unit takes (work + g · starting) / units, and half of what a group does, work / g / 2.
    return max(units, math.isqrt(int(work * units / (2 * starting))))


@dataclass(frozen=True)
class GroupWork:
    """What a kernel of equal groups does."""

    groups: int
    items: int
    sums: int  # Values that a work-item keeps in registers
    step: float  # Instructions of a work-item, of a step of its loop
    steps: int
    ends: float = 0.0  # Instructions of a work-item beside the loop
    # What it waits for of its own instructions, in their number; 0 where none depends on another
    waiting: float = WAITING
    room: float = math.inf  # Groups that local memory holds side by side on a unit

    def cost(self, traits: DeviceTraits) -> float:
        """Returns instructions of the busiest unit."""
        room = max(1, SUMS_OF_UNIT // (self.sums * self.items))
        of_unit = math.ceil(self.groups / traits.compute_units)
        together = min(of_unit, room, max(1, self.room))
        issued = together * self.items / ISSUED
        instructions = self.steps * self.step + self.ends
        return of_unit / together * (instructions * (self.waiting + issued) + START)


# Sums that a core adds to at the same time, of vectors: two units, each four steps deep. What a
# step of a loop costs beside them, and each of its operands.
IN_FLIGHT, STEP, OPERAND = 8, 2.0, 0.3


@dataclass(frozen=True)
class Weights:
    """What a core takes, in multiply-adds of vectors that it could do meanwhile."""

    full: float  # How much dearer sums are where all registers are taken
    tile: float  # A tile that begins and ends: branches that nobody foresees
    second: float  # A line that comes from the second cache
    far: float  # A line that comes from beyond it
    stored: float  # A vector that is stored; a piece of one is a multiply-add
    wait: float  # A line of memory that waits for others to be written
    turn: float  # A vector that is transposed in registers
    copied: float  # A vector that is copied from memory to where it is read again
    element: float  # Likewise an element
    across: float  # A sum across the lanes of a vector
    group: float  # A work-group that starts
    kernel: float  # A kernel that does


# Of cores with 32 registers of 64 bytes; other CPUs are taken to be like them.
WEIGHTS = Weights(
    full=0.15,
    tile=20.0,
    second=0.75,
    far=3.5,
    stored=4.0,
    wait=8.0,
    turn=6.0,
    copied=30.0,
    element=3.0,
    across=40.0,
    group=2500.0,
    kernel=20_000.0,
)


def core_step(sums: int, operands: int) -> float:
    """Returns what a core takes for a step of a tile of so many sums and operands."""
    return max(sums, operands, IN_FLIGHT) + STEP + OPERAND * operands


@dataclass(frozen=True)
class CoreWork:
    """What the work-groups of a CPU's kernels do, all of them together."""

    steps: float  # Of tiles of sums, each step of each tile counted
    sums: int
    operands: int  # Vectors and factors that a step reads
    full: bool = False  # Whether they leave the registers no room
    tiles: float = 0.0
    second: float = 0.0  # Lines of a cache that come from the second one
    far: float = 0.0  # Lines that come from beyond it
    stores: float = 0.0
    pieces: float = 0.0  # Parts of vectors that are stored one by one
    waits: float = 0.0  # Lines whose stores wait for memory
    turns: float = 0.0
    copies: float = 0.0  # Vectors that are copied to where they are read again
    elements: float = 0.0
    across: float = 0.0  # Sums across the lanes of a vector
    groups: int = 0  # Work-groups; 0 where they are not known yet, and taken to be equal shares
    kernels: int = 1

    def cost(self, traits: DeviceTraits) -> float:
        """Returns the multiply-adds, of vectors, that the busiest core could do meanwhile."""
        w = WEIGHTS
        step = core_step(self.sums, self.operands) + w.full * self.full * self.sums
        work = self.steps * step + w.tile * self.tiles + w.second * self.second + w.far * self.far
        work += w.stored * self.stores + self.pieces + w.wait * self.waits
        work += w.turn * self.turns + w.copied * self.copies + w.element * self.elements
        work += w.across * self.across + w.group * self.groups
        units = traits.compute_units
        share = -(-self.groups // units) / self.groups if self.groups else 1 / units
        return work * share + w.kernel * self.kernels
