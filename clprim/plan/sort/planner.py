"""Plans the order of unsigned keys: which of a line's elements comes first, stable, by digits.

Lines lie one after another. There are three ways:

* ``sort/rank``: short lines. A work-item an element counts those that come before it.
* ``sort/lines``: many longer lines, on a CPU. A work-item an entire line, digit by digit.
* ``sort/count`` and ``sort/scatter``: everything else. A line is cut in chunks. For every digit
  each work-item counts the values in its chunk, a scan turns all counts into places, and the
  work-items move their elements there, in order. On a GPU ``sort/group_count`` and
  ``sort/group_scatter`` do so, in which a work-group shares a chunk and orders it in local memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clprim.plan.kernel import (
    Argument,
    Buffer,
    KernelCode,
    KernelPlan,
    Parameter,
    Plan,
    round_up,
)
from clprim.plan.machine import GROUP, ITEMS, UNROLL, WORK
from clprim.plan.scan.family import SCANS, sums_along
from clprim.plan.snippets import REACH
from clprim.plan.strides import Operand, row_major_strides
from clprim.traits import DeviceTraits

# Elements of a line up to which counting is faster than moving: on a CPU, and on a GPU.
SHORT = {True: 48, False: 1024}
# Bits of a digit, likewise: a CPU's work-item keeps 256 counts in its nearest cache, a GPU's 16 in
# registers.
DIGIT = {True: 8, False: 4}
# Elements of each of a GPU's work-items that share a chunk.
EACH = 2 * UNROLL

_INT32 = np.dtype(np.int32)


@dataclass(frozen=True)
class SortCode(KernelCode):
    """What the templates of sorting print."""

    key: str  # OpenCL C type of keys
    digit: int  # Bits that are looked at at a time
    passes: int  # How many times that is
    first: bool  # Whether elements are still in the order that they came in
    last: bool  # Whether keys are not needed any more
    ordered: bool = False  # Whether the least keys are kept in order, of a selection
    lanes: int = 1  # Keys that a selection looks at at a time
    items: int = 1  # Work-items that share a chunk, and elements of each of them
    each: int = 1


def plan_order(lines: int, length: int, bits: int, key_bytes: int, traits: DeviceTraits) -> Plan:
    """Plans the order of ``keys``, which may be lost, as 32-bit numbers in ``order``."""
    cpu = traits.is_cpu
    if length <= SHORT[cpu]:
        return Plan((Sort(lines, length, 0, key_bytes, traits, 1).rank(),))
    digit = DIGIT[cpu]
    passes = -(-bits // digit)
    pieces = 1
    if not cpu or lines < traits.compute_units:
        pieces = -(-length // (WORK // 2 if cpu else _sharing(key_bytes, traits) * EACH))
        pieces = min(pieces, ITEMS * traits.compute_units) if cpu else pieces
    sort = Sort(lines, length, passes, key_bytes, traits, pieces)
    key = np.dtype(f"u{key_bytes}")
    workspace = {"keys_b": (lines * length, key), "order_b": (lines * length, _INT32)}
    if cpu and pieces == 1:
        return Plan((sort.lines_kernel(),), workspace)
    return sort.by_chunks(workspace)


def _sharing(key_bytes: int, traits: DeviceTraits) -> int:
    """How many work-items share a chunk, whose keys, order and counts local memory is to hold."""
    items = 4 * GROUP
    while items > 1 and (
        items > traits.max_work_group_size
        or items * (EACH * (key_bytes + 4) + 32) + 256 > traits.local_memory
    ):
        items //= 2
    return items


class Sort:
    """One call, as `plan_order` takes it."""

    def __init__(
        self,
        lines: int,
        length: int,
        passes: int,
        key_bytes: int,
        traits: DeviceTraits,
        pieces: int,
    ) -> None:
        self.lines, self.length, self.passes, self.traits = lines, length, passes, traits
        self.sharing = 1 if traits.is_cpu else _sharing(key_bytes, traits)
        self.chunk = -(-length // pieces) if traits.is_cpu else self.sharing * EACH
        self.pieces = -(-length // self.chunk)
        self.digit = DIGIT[traits.is_cpu]
        self.key_bytes = key_bytes
        self.key = {4: "uint", 8: "ulong"}[key_bytes]
        self.index = "int" if lines * length < REACH else "long"

    def kernel(
        self,
        template: str,
        buffers: list[tuple[str, str, str, bool]],
        items: int,
        *,
        shift: int = 0,
        first: bool = False,
        last: bool = False,
        kept: tuple[int, int] | None = None,
    ) -> KernelPlan:
        """One kernel; of buffers type, name in the kernel, name in the call, whether only read."""
        # Of a selection, ``kept`` are how many keys are kept, and how many there is room for.
        parameters = [
            Parameter.memory(kind, f"{name}_memory", read_only=read)
            for kind, name, _, read in buffers
        ]
        arguments: list[Argument] = [Buffer(name) for _, _, name, _ in buffers]
        numbers = [("lines", self.lines), ("n", self.length), ("chunk", self.chunk)]
        numbers += [("pieces", self.pieces)]
        parameters += [Parameter.number(self.index, name) for name, _ in numbers]
        arguments += [number for _, number in numbers]
        more = [("shift", shift)] if kept is None else [("k", kept[0]), ("room", kept[1])]
        for name, number in more:
            parameters.append(Parameter.number("int", name))
            arguments.append(number)
        group = 1 if self.traits.is_cpu else min(GROUP, self.traits.max_work_group_size)
        if template == "sort/rank":
            group = min(GROUP, self.traits.max_work_group_size)
        shared = template.startswith("sort/group_")
        if shared:
            group, items = self.sharing, items * self.sharing
        code = SortCode(
            name=template.replace("/", "_"),
            parameters=tuple(parameters),
            index=self.index,
            doubles=False,
            key=self.key,
            digit=self.digit,
            passes=self.passes,
            first=first,
            last=last,
            ordered=kept is not None and kept[0] == kept[1],
            lanes=self.traits.lanes(self.key_bytes) if kept else 1,
            items=group if shared else 1,
            each=EACH if shared else 1,
        )
        elements = self.lines * self.length
        return KernelPlan(
            template=template,
            code=code,
            arguments=tuple(arguments),
            global_size=(round_up(items, group), 1),
            local_size=(group, 1),
            nbytes=elements * (self.key_bytes + 4),
            flops=0,
        )

    def rank(self) -> KernelPlan:
        """A work-item an element."""
        buffers = [(self.key, "keys", "keys", True), ("int", "order", "order", False)]
        return self.kernel("sort/rank", buffers, self.lines * self.length)

    def lines_kernel(self) -> KernelPlan:
        """A work-item a line."""
        buffers = [
            (self.key, "keys", "keys", False),
            ("int", "order", "order", False),
            (self.key, "other_keys", "keys_b", False),
            ("int", "other_order", "order_b", False),
        ]
        return self.kernel("sort/lines", buffers, self.lines)

    def by_chunks(self, workspace: dict[str, tuple[int, np.dtype[np.generic]]]) -> Plan:
        """A work-item a chunk of a line, a digit at a time."""
        counts = (self.lines, self.pieces << self.digit)
        strides = tuple(4 * s for s in row_major_strides(counts))
        operand = Operand(counts, strides, 0, _INT32)
        sums = sums_along(operand, operand, 1, "sort_places", exclusive=True)
        places = SCANS.plan(sums, self.traits)
        stages: list[KernelPlan] = []
        way = "sort/" if self.traits.is_cpu else "sort/group_"
        keys, order = "keys", ""
        for n in range(self.passes):
            shift, last = n * self.digit, n == self.passes - 1
            # The last pass writes to the result; before, two buffers take turns.
            keys_to = "keys_b" if keys == "keys" else "keys"
            order_to = "order" if (self.passes - 1 - n) % 2 == 0 else "order_b"
            count = [(self.key, "keys", keys, True), ("int", "counts", "counts", False)]
            stages.append(self.kernel(f"{way}count", count, self.lines * self.pieces, shift=shift))
            stages += [stage.renamed({"x0": "counts", "y0": "counts"}) for stage in places.stages]
            move = [(self.key, "keys", keys, True), ("int", "counts", "counts", True)]
            move += [] if n == 0 else [("int", "order", order, True)]
            move += [] if last else [(self.key, "sorted_keys", keys_to, False)]
            move += [("int", "sorted_order", order_to, False)]
            stages.append(
                self.kernel(
                    f"{way}scatter",
                    move,
                    self.lines * self.pieces,
                    shift=shift,
                    first=n == 0,
                    last=last,
                )
            )
            keys, order = keys_to, order_to
        counted = (self.lines * (self.pieces << self.digit), _INT32)
        return Plan(tuple(stages), {**workspace, "counts": counted, **places.workspace})
