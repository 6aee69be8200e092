"""Memory of a graph: temporaries whose lives do not overlap lie over one another in one arena."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from clprim.graph.graph import Buffer
from clprim.graph.steps import Step


class Arena(NamedTuple):
    """Where temporaries lie.

    Attributes:
        nbytes: Of the arena.
        offsets: Of every temporary in it.
        live: Bytes of the largest set of temporaries that are alive at once: no arena is smaller.
    """

    nbytes: int
    offsets: Mapping[Buffer, int]
    live: int


def lives_of(steps: Sequence[Step], without: Collection[Buffer]) -> dict[Buffer, tuple[int, int]]:
    """Returns of every temporary the first and the last step that takes it.

    Args:
        steps: In order.
        without: Temporaries that hold results.
    """
    lives: dict[Buffer, tuple[int, int]] = {}
    for n, step in enumerate(steps):
        for _, buffer in step.buffers:
            if buffer.kind == "temporary" and buffer not in without:
                lives[buffer] = lives.get(buffer, (n, n))[0], n
    return lives


def arena_of(lives: Mapping[Buffer, tuple[int, int]], alignment: int) -> Arena:
    """Gives every temporary a place: the largest first, each at the lowest that is free.

    Args:
        lives: The first and the last step of every temporary.
        alignment: Of places, in bytes.
    """
    offsets: dict[Buffer, int] = {}
    placed: list[tuple[int, int, int, int]] = []  # from, to, first, last
    total = 0
    for buffer in sorted(lives, key=lambda b: (-b.nbytes, lives[b])):
        first, last = lives[buffer]
        size = -(-max(buffer.nbytes, 1) // alignment) * alignment
        offset = 0
        for begin, end, born, dead in sorted(placed):
            if born <= last and dead >= first and end > offset:
                if begin >= offset + size:
                    break
                offset = end
        offsets[buffer] = offset
        placed.append((offset, offset + size, first, last))
        total = max(total, offset + size)
    changes: dict[int, int] = {}
    for buffer, (first, last) in lives.items():
        changes[first] = changes.get(first, 0) + buffer.nbytes
        changes[last + 1] = changes.get(last + 1, 0) - buffer.nbytes
    live = most = 0
    for n in sorted(changes):
        live += changes[n]
        most = max(most, live)
    return Arena(total, offsets, most)
