"""Graph after graph until the time is up; what differs is printed as a script, small."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

import clprim as cp
from bench.torture.case import WrongError
from bench.torture.graphs.compare import compared
from bench.torture.graphs.functions import draw_program
from bench.torture.graphs.program import Program
from bench.torture.graphs.shrink import shrunk
from clprim.runtime.device import Device

_TOLD_EVERY = 100
_SHRINK = 60.0  # seconds


def torture_graphs(
    devices: Sequence[Device], seconds: float, seed: int, *, say: Callable[[str], None] = print
) -> int:
    end = time.monotonic() + seconds
    number, changed = 0, Counter[str]()
    while time.monotonic() < end:
        run_graph(devices[number % len(devices)], seed, number, changed)
        number += 1
        if number % _TOLD_EVERY == 0:
            say(f"{number} graphs")
    say(f"{number} graphs without a difference")
    counts = (f"{name} {count}" for name, count in changed.most_common())
    say(f"changed by passes: {', '.join(counts)}")
    return number


def run_graph(device: Device, seed: int, number: int, changed: Counter[str] | None = None) -> str:
    """Draws a function and compares its compiled calls; returns what it is."""
    cp.set_device(device)
    mode, drawn = draw_program(seed, number)
    why = _found(drawn, mode, changed)
    if why:
        kind = _kind(why)
        small = shrunk(drawn, lambda other: _kind(_found(other, mode)) == kind, _SHRINK)
        command = f"bench torture --graphs --seed {seed} --case {number} --device {device.index}"
        raise WrongError(
            f"{device}\n{_found(small, mode)}\npython -m {command}\n\n{small.script()}"
        )
    return f"{len(drawn.lines)} lines of {mode} numbers"


def _found(drawn: Program, mode: str, changed: Counter[str] | None = None) -> str:
    """How the compiled call differs, an exception included; nothing where it does not."""
    try:
        return compared(drawn, mode, changed)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _kind(why: str) -> str:
    """What stays of a difference while the function shrinks."""
    return why.partition(":")[0]
