"""Counters that say what a call cost: programs built or found, kernels enqueued."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields


@dataclass(slots=True)
class Counters:
    """The running counts of this process, incremented where the work happens.

    A plain object with slots, because the launch path pays for every increment:
    ``counters.launches += 1`` is an attribute load, an addition and a store. There is no lock:
    two threads that increment at the same instant may count once, which a counter can bear.
    """

    builds: int = 0
    disk_hits: int = 0
    memory_hits: int = 0
    plans: int = 0
    launches: int = 0


counters = Counters()


@dataclass(frozen=True)
class Stats:
    """What this process has done so far; two of them subtract to what happened in between."""

    builds: int = 0
    disk_hits: int = 0
    memory_hits: int = 0
    plans: int = 0
    launches: int = 0

    def __sub__(self, before: Stats) -> Stats:
        if not isinstance(before, Stats):
            return NotImplemented
        return Stats(*(new - old for new, old in zip(astuple(self), astuple(before), strict=True)))

    def __str__(self) -> str:
        parts = []
        for field in fields(self):
            count = getattr(self, field.name)
            noun = field.name.replace("_", " ")
            parts.append(f"{count:,} {_singular(noun) if count == 1 else noun}")
        return ", ".join(parts)


def stats() -> Stats:
    """Takes a snapshot of the counters of this process, over all devices and threads.

    Example:
        >>> before = stats()
        >>> (stats() - before).builds
        0
    """
    return Stats(*astuple(counters))


def _singular(noun: str) -> str:
    return noun[:-2] if noun.endswith("ches") else noun[:-1]
