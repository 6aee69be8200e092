"""Plans the order of unsigned keys: which of a line's elements comes first, stable, by digits.

Lines lie one after another. There are four ways:

* ``sort/rank``: short lines. A work-item an element counts those that come before it.
* ``sort/lines``: many longer lines, on a CPU. A work-item an entire line, digit by digit.
* ``sort/count`` and ``sort/scatter``: everything else. A line is cut in chunks. For every digit
  each work-item counts the values in its chunk, a scan turns all counts into places, and the
  work-items move their elements there, in order.
* ``sort/group_count`` and ``sort/group_scatter`` do so on a GPU, where a work-group shares a chunk
  and orders it in local memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from clprim.plan.kernel import KernelCode, KernelPlan, Plan, round_up
from clprim.plan.machine import GROUP, ITEMS, UNROLL, WORK
from clprim.plan.parameters import Arguments
from clprim.plan.scan.family import SCANS, sums_along
from clprim.plan.strides import Operand, index_reaching, row_major_strides
from clprim.traits import DeviceTraits

# Elements of a line up to which counting is faster than moving: on a CPU, and on a GPU.
SHORT = {True: 48, False: 1024}
# Bits of a digit, likewise: a CPU's work-item keeps 256 counts in its nearest cache, a GPU's 16 in
# registers.
DIGIT = {True: 8, False: 4}
# Elements of each of a GPU's work-items that share a chunk.
EACH = 2 * UNROLL

INT32 = np.dtype(np.int32)


@dataclass(frozen=True)
class SortCode(KernelCode):
    """What the templates of sorting print."""

    key: str  # OpenCL C type of keys
    digit: int  # Bits that are looked at at a time
    passes: int = 0  # How many times that is, where one kernel does all of it
    first: bool = False  # Whether elements are still in the order that they came in
    last: bool = False  # Whether keys are not needed any more
    ordered: bool = False  # Whether the least keys are kept in order, of a selection
    lanes: int = 1  # Keys that a selection looks at at a time
    items: int = 1  # Work-items that share a chunk, and elements of each of them
    each: int = 1


@dataclass(frozen=True)
class Work:
    """How many work-items there are, of which so many are a group, and elements of a chunk."""

    items: int
    group: int = 1
    chunk: int = 0  # A whole line's where left out


@dataclass(frozen=True)
class Keys:
    """What is to be ordered: ``keys``, which may be lost, as 32-bit numbers in ``order``."""

    lines: int
    length: int
    bits: int  # Of a key, from the lowest one on, in which keys may differ
    key_bytes: int

    def __str__(self) -> str:
        return f"{self.lines} lines of {self.length} keys of {self.bits} bits"

    @property
    def key(self) -> str:
        """OpenCL C type."""
        return {4: "uint", 8: "ulong"}[self.key_bytes]

    def kernel(
        self,
        name: str,
        buffers: list[tuple[str, str, str, bool]],
        traits: DeviceTraits,
        work: Work,
        numbers: Mapping[str, int] = MappingProxyType({"shift": 0}),
        **fields: Any,
    ) -> KernelPlan:
        """One kernel; of buffers type, name in the kernel, name in the call, whether only read."""
        index = index_reaching(self.lines * self.length)
        found, small = Arguments(index), Arguments("int")
        for kind, inside, outside, read in buffers:
            found.memory(kind, f"{inside}_memory", outside, read_only=read)
        chunk = work.chunk or self.length
        found.numbers(lines=self.lines, n=self.length, chunk=chunk, pieces=-(-self.length // chunk))
        small.numbers(**numbers)
        code = SortCode(
            name=name.replace("/", "_"),
            parameters=(*found.parameters, *small.parameters),
            index=index,
            doubles=False,
            key=self.key,
            digit=DIGIT[traits.is_cpu],
            **fields,
        )
        arguments = (*found.arguments, *small.arguments)
        size, nbytes = round_up(work.items, work.group), self.key_bytes + 4
        elements = self.lines * self.length
        return KernelPlan(name, code, arguments, (size, 1), (work.group, 1), elements * nbytes, 0)

    def passes(self, traits: DeviceTraits) -> int:
        """How many digits there are."""
        return -(-self.bits // DIGIT[traits.is_cpu])

    def workspace(self) -> dict[str, tuple[int, np.dtype[np.generic]]]:
        """Keys and their order once more."""
        elements = self.lines * self.length
        return {"keys_b": (elements, np.dtype(f"u{self.key_bytes}")), "order_b": (elements, INT32)}


def plan_rank(what: Keys, traits: DeviceTraits) -> Plan | None:
    """Plans a work-item an element; None of long lines."""
    if what.length > SHORT[traits.is_cpu]:
        return None
    buffers = [(what.key, "keys", "keys", True), ("int", "order", "order", False)]
    work = Work(what.lines * what.length, min(GROUP, traits.max_work_group_size))
    return Plan((what.kernel("sort/rank", buffers, traits, work),))


def plan_lines(what: Keys, traits: DeviceTraits) -> Plan | None:
    """Plans a work-item a line; None of few long ones, and on a GPU."""
    few = what.lines < traits.compute_units and what.length > WORK // 2
    if few or not traits.is_cpu:
        return None
    buffers = [
        (what.key, "keys", "keys", False),
        ("int", "order", "order", False),
        (what.key, "other_keys", "keys_b", False),
        ("int", "other_order", "order_b", False),
    ]
    passes = what.passes(traits)
    kernel = what.kernel("sort/lines", buffers, traits, Work(what.lines), passes=passes)
    return Plan((kernel,), what.workspace())


def plan_count(what: Keys, traits: DeviceTraits) -> Plan | None:
    """Plans a work-item a chunk of a line, a digit at a time; None on a GPU."""
    if not traits.is_cpu:
        return None
    pieces = min(-(-what.length // (WORK // 2)), ITEMS * traits.compute_units)
    return _by_chunks("sort/", what, traits, -(-what.length // pieces), 1)


def plan_group(what: Keys, traits: DeviceTraits) -> Plan | None:
    """Plans a work-group a chunk of a line, a digit at a time; None on a CPU."""
    if traits.is_cpu:
        return None
    items = 4 * GROUP  # whose keys, order and counts local memory is to hold
    while items > 1 and (
        items > traits.max_work_group_size
        or items * (EACH * (what.key_bytes + 4) + 32) + 256 > traits.local_memory
    ):
        items //= 2
    return _by_chunks("sort/group_", what, traits, items * EACH, items)


def _by_chunks(way: str, what: Keys, traits: DeviceTraits, chunk: int, group: int) -> Plan:
    """Counts, places and moves for every digit; a work-group of so many has a chunk."""
    pieces, digit, passes = -(-what.length // chunk), DIGIT[traits.is_cpu], what.passes(traits)
    shape = (what.lines, pieces << digit)
    counts = Operand(shape, tuple(4 * s for s in row_major_strides(shape)), 0, INT32)
    places = SCANS.plan(sums_along(counts, counts, 1, "sort_places", exclusive=True), traits)
    work = Work(what.lines * pieces * group, group, chunk)
    fields = {} if traits.is_cpu else {"items": group, "each": EACH}
    stages: list[KernelPlan] = []
    keys, order = "keys", ""
    for n in range(passes):
        last, shift = n == passes - 1, {"shift": n * digit}
        # The last pass writes to the result; before, two buffers take turns.
        keys_to = "keys_b" if keys == "keys" else "keys"
        order_to = "order" if (passes - 1 - n) % 2 == 0 else "order_b"
        count = [(what.key, "keys", keys, True), ("int", "counts", "counts", False)]
        stages.append(what.kernel(f"{way}count", count, traits, work, shift, **fields))
        stages += [stage.renamed({"x0": "counts", "y0": "counts"}) for stage in places.stages]
        move = [(what.key, "keys", keys, True), ("int", "counts", "counts", True)]
        move += [] if n == 0 else [("int", "order", order, True)]
        move += [] if last else [(what.key, "sorted_keys", keys_to, False)]
        move += [("int", "sorted_order", order_to, False)]
        ends = {**fields, "first": n == 0, "last": last}
        stages.append(what.kernel(f"{way}scatter", move, traits, work, shift, **ends))
        keys, order = keys_to, order_to
    memory = {"counts": (what.lines * (pieces << digit), INT32)}
    return Plan(tuple(stages), {**what.workspace(), **memory, **places.workspace})
