"""What plans take every machine for, beside its traits: one name for one quantity.

Each number has its unit and where it comes from; `near` and `second` are shares of a core's own
caches, which traits know.
"""

from __future__ import annotations

from clprim.traits import DeviceTraits

# Bytes of a line of a cache: of x86, and of most AArch64.
LINE = 64
# Bytes of a page, and between lines that share a set of a first cache of 64 sets.
PAGE = 4096
# Bytes that are prefetched ahead of a stream: a page, where hardware's prefetchers end.
AHEAD = PAGE
# Steps of a loop before which a line of memory is prefetched that no hardware foresees.
STEPS_AHEAD = 8
# Work-items (of GPUs, work-groups) a compute unit: the last one to finish leaves an eighth idle.
ITEMS = 8
# Elements that are walked over while a work-item starts, or a GPU's next kernel.
STARTING = 4096
# Those of a work-item beside which its start does not matter.
WORK = ITEMS * STARTING
# Multiply-adds of a compute unit that take as long as another launch, some ten microseconds.
LAUNCH = 100_000
# Work-items of a GPU that run as one vector, of 64 where none are of 32.
SUB_GROUP = 32
# Those of a group that shares nothing: two sub-groups of 32, one of 64.
GROUP = 2 * SUB_GROUP
# Steps of a GPU's work-item from barrier to barrier, which make these rare.
STEPS = 16
# Sums or vectors that a work-item takes side by side: one for each cycle of a multiply-add.
UNROLL = 4
# Taps of a row of a window that are written out: as many as windows of networks have.
TAPS = 7
# Bound: loops over what is no row that a kernel has text for.
LOOPS = 4
# Bound: values added one after another into one sum. Rounding errors grow with their number, so
# longer sums are cut into several, which are added up.
CHAIN = 8192
# Bound: values one after another into what is updated, as means are, or is itself a result.
UPDATES = 512


def near(traits: DeviceTraits) -> int:
    """Returns the bytes that stay in a core's first cache beside what passes through it: a half."""
    return traits.l1_bytes // 2


def second(traits: DeviceTraits) -> int:
    """Returns the bytes that stay in a core's second cache beside operands that pass: a half."""
    return traits.l2_bytes // 2


def scratch(traits: DeviceTraits) -> int:
    """Returns the bytes of local memory that rows of images may take: a piece of a second cache."""
    return min(traits.local_memory, traits.l2_bytes // 16)
