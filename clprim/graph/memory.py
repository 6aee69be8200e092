"""Memory of a graph: temporaries whose lives do not overlap share it.

On CPUs they are parts of one allocation. Elsewhere drivers that watch buffers for hazards take
parts that overlap for one another's, which costs at every launch where it does not crash: there
temporaries have whole allocations. The largest of those is as large as the largest temporary, the
second as the largest that is the second of those alive at once, and so on: less than their sum
there cannot be.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from clprim.graph.graph import Buffer
from clprim.runtime.device import Device

# Later than any step.
_FAR = 1 << 40


class Allocations(NamedTuple):
    """Where temporaries lie."""

    sizes: tuple[int, ...]
    of: Mapping[Buffer, tuple[int, int]]
    live: int
    peak: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all of them; never less than `live`."""
        return sum(self.sizes)


def lives_of(
    steps: Iterable[Iterable[Buffer]], without: Collection[Buffer]
) -> dict[Buffer, tuple[int, int]]:
    """Returns of every temporary the first and the last step that takes it."""
    lives: dict[Buffer, tuple[int, int]] = {}
    for n, step in enumerate(steps):
        for buffer in step:
            if buffer.kind == "temporary" and buffer not in without:
                lives[buffer] = lives.get(buffer, (n, n))[0], n
    return lives


def grain_of(device: Device) -> int:
    """Returns at multiples of how many bytes parts of an allocation begin; 0: there are none."""
    return device.cl.mem_base_addr_align // 8 if device.traits.is_cpu else 0


def allocations_of(lives: Mapping[Buffer, tuple[int, int]], grain: int = 0) -> Allocations:
    """Gives every temporary its place.

    Whole allocations are given to the largest first, parts of one to those first that take most
    bytes for most steps, each what is free: the greedy assignments of Pisarchyk and Lee, "Efficient
    Memory Management for Deep Neural Net Inference", 2020, section 4. Of what is free it is the
    smallest, or what leaves more beside it: whichever takes less in all.
    """
    changes: dict[int, int] = {}
    for buffer, (first, last) in lives.items():
        changes[first] = changes.get(first, 0) + buffer.nbytes
        changes[last + 1] = changes.get(last + 1, 0) - buffer.nbytes
    live = most = peak = 0
    for n in sorted(changes):
        live += changes[n]
        if live > most:
            most, peak = live, n
    if grain:
        found = [_parts(lives, grain, most, ends=ends) for ends in (False, True)]
    else:
        order = sorted(lives, key=lambda b: (-b.nbytes, lives[b]))
        found = [_assigned(lives, order, nearest) for nearest in (False, True)]
    sizes, of = min(found, key=lambda assigned: sum(assigned[0]))
    return Allocations(tuple(sizes), of, most, peak)


def _parts(
    lives: Mapping[Buffer, tuple[int, int]], grain: int, room: int, *, ends: bool
) -> tuple[list[int], dict[Buffer, tuple[int, int]]]:
    """Returns the size of one allocation, and where every temporary lies in it."""

    def taken(buffer: Buffer) -> int:
        return -(-max(buffer.nbytes, 1) // grain) * grain

    def weight(buffer: Buffer) -> int:
        first, last = lives[buffer]
        return buffer.nbytes * (last - first + 1)

    room = -(-room // grain) * grain
    placed: list[tuple[int, int, int, int]] = []  # begin, end, first and last step
    of: dict[Buffer, tuple[int, int]] = {}
    for buffer in sorted(lives, key=weight, reverse=True):
        (first, last), size = lives[buffer], taken(buffer)
        begin, gap, free = -1, 0, 0
        for low, high, born, dead in placed:
            if born <= last and dead >= first:
                if low - free >= size and (begin < 0 or low - free < gap):
                    begin, gap = free, low - free
                free = max(free, high)
        if ends and free and room - free >= size and (begin < 0 or room - free < gap):
            begin = room - size
        if begin < 0:
            begin = free
        insort(placed, (begin, begin + size, first, last))
        of[buffer] = 0, begin
    return [max(high for _, high, _, _ in placed)] if placed else [], of


def _assigned(
    lives: Mapping[Buffer, tuple[int, int]], order: Sequence[Buffer], nearest: bool
) -> tuple[list[int], dict[Buffer, tuple[int, int]]]:
    """Returns sizes of whole allocations, and which of them every temporary lies in."""
    sizes: list[int] = []
    taken: list[list[tuple[int, int]]] = []  # of every allocation, the lives of what lies in it
    of: dict[Buffer, tuple[int, int]] = {}
    for buffer in order:
        first, last = lives[buffer]
        best, least = len(sizes), float("inf")
        for n in reversed(range(len(sizes))):
            before, after = -_FAR, _FAR
            for born, dead in taken[n]:
                if dead < first:
                    before = max(before, dead)
                elif born > last:
                    after = min(after, born)
                else:
                    break
            else:
                if after - before < least:
                    best, least = n, after - before
                if not nearest:
                    break
        if best == len(sizes):
            sizes.append(max(buffer.nbytes, 1))
            taken.append([])
        of[buffer] = best, 0
        taken[best].append((first, last))
    return sizes, of
