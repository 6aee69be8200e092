"""Memory of a graph: temporaries whose lives do not overlap share an allocation.

Allocations are whole buffers and not parts of one: drivers that watch buffers for hazards take
parts that overlap for one another's, which costs at every launch where it does not crash. So the
largest of all allocations is as large as the largest temporary, the second as the largest that is
the second of those alive at once, and so on: less than their sum there cannot be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from clprim.graph.graph import Buffer

# Later than any step.
_FAR = 1 << 40


class Allocations(NamedTuple):
    """Where temporaries lie.

    Attributes:
        sizes: Of the allocations, in bytes.
        of: Of every temporary, which of them it lies in, from its beginning.
        live: Bytes of the largest set of temporaries that are alive at once.
        peak: The first step at which that is alive.
    """

    sizes: tuple[int, ...]
    of: Mapping[Buffer, int]
    live: int
    peak: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all of them; never less than `live`."""
        return sum(self.sizes)


def lives_of(
    steps: Iterable[Iterable[Buffer]], without: Collection[Buffer]
) -> dict[Buffer, tuple[int, int]]:
    """Returns of every temporary the first and the last step that takes it.

    Args:
        steps: What each of them takes, in order.
        without: Temporaries that hold results.
    """
    lives: dict[Buffer, tuple[int, int]] = {}
    for n, step in enumerate(steps):
        for buffer in step:
            if buffer.kind == "temporary" and buffer not in without:
                lives[buffer] = lives.get(buffer, (n, n))[0], n
    return lives


def allocations_of(lives: Mapping[Buffer, tuple[int, int]]) -> Allocations:
    """Gives every temporary an allocation: the largest first, each one that is free.

    It is the greedy assignment by size of Pisarchyk and Lee, "Efficient Memory Management for Deep
    Neural Net Inference", 2020, section 4.2. Of those that are free it is the smallest, or the one
    that would be unused for the shortest time beside it, whichever takes less in all.

    Args:
        lives: The first and the last step of every temporary.
    """
    order = sorted(lives, key=lambda b: (-b.nbytes, lives[b]))
    found = (_assigned(lives, order, nearest) for nearest in (False, True))
    sizes, of = min(found, key=lambda assigned: sum(assigned[0]))
    changes: dict[int, int] = {}
    for buffer, (first, last) in lives.items():
        changes[first] = changes.get(first, 0) + buffer.nbytes
        changes[last + 1] = changes.get(last + 1, 0) - buffer.nbytes
    live = most = peak = 0
    for n in sorted(changes):
        live += changes[n]
        if live > most:
            most, peak = live, n
    return Allocations(tuple(sizes), of, most, peak)


def _assigned(
    lives: Mapping[Buffer, tuple[int, int]], order: Sequence[Buffer], nearest: bool
) -> tuple[list[int], dict[Buffer, int]]:
    """Returns sizes of allocations, and which of them every temporary lies in.

    Args:
        lives: See `allocations_of`.
        order: The temporaries, the largest first.
        nearest: Whether of several the one is taken that is unused for the shortest time.
    """
    sizes: list[int] = []
    taken: list[list[tuple[int, int]]] = []  # of every allocation, the lives of what lies in it
    of: dict[Buffer, int] = {}
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
        of[buffer] = best
        taken[best].append((first, last))
    return sizes, of
