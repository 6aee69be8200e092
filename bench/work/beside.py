"""Measures a call next to PyTorch's, and next to the best kernel that moves as many bytes."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple, TypeVar

import clprim as cp
from bench.clock.bandwidth import Ceilings
from bench.clock.timing import Spread, measured_call, race, ratio, stream
from bench.peers.compute import keep_memory
from clprim.runtime.device import Device

TORCH = "PyTorch"
_CALM = 0.1  # NumPy's and PyTorch's threads spin for a while after their work

J = TypeVar("J")
R = TypeVar("R")
#: PyTorch's call, and whether its results and ours agree.
Rival = Callable[[], tuple[Callable[[], Any], bool]]


class Raced(NamedTuple):
    """What was measured of one call.

    Attributes:
        seconds: Of clprim on the host's clock, from the call until the results are there.
        share: Of the best reading or copying kernel, on the device; None where none was asked for.
        theirs: Seconds of PyTorch; None where it is missing.
        times: How many times as fast as PyTorch clprim is, compared round by round.
        correct: Whether both agree.
    """

    seconds: float
    share: Spread | None
    theirs: float | None
    times: Spread | None
    correct: bool


def race_torch(
    nbytes: int,
    call: Callable[[], Any],
    rival: Rival,
    bound: str,
    device: Device,
    ceilings: Ceilings,
    repeats: int,
    tick: Callable[[], None],
) -> Raced:
    """Measure a call.

    Args:
        nbytes: Moved by it.
        call: Ours.
        rival: Makes PyTorch's; asked where PyTorch is there.
        bound: ``read`` or ``copy``: the kernels whose bandwidth is the bound; empty for none.
        device: Where.
        ceilings: Of the device.
        repeats: Runs of each contender.
        tick: Told of each.
    """
    contenders = [stream("clprim", nbytes, call, device.synchronize)]
    correct = True
    peer = importlib.util.find_spec("torch") is not None
    if peer:
        other, correct = rival()
        contenders.append(stream(TORCH, nbytes, other, lambda: None))
        time.sleep(_CALM)
    finalists = []
    if bound:
        finalists = ceilings.finalists(bound, nbytes)
        contenders += [measured_call("on the device", nbytes, call, device), *finalists]
    results = race(contenders, repeats, before=ceilings.before(nbytes), tick=tick)
    share = None
    if finalists:
        best = max((results[f.name] for f in finalists), key=lambda r: r.rate("device"))
        share = ratio(results["on the device"], best, "device")
    return Raced(
        seconds=median(results["clprim"].seconds("host")),
        share=share,
        theirs=median(results[TORCH].seconds("host")) if peer else None,
        times=ratio(results["clprim"], results[TORCH], "host") if peer else None,
        correct=correct,
    )


def run_rows(
    jobs: Sequence[J],
    device: Device,
    measure: Callable[[J, Device, Ceilings, int, Callable[[], None]], R],
    about: Callable[[J], str],
    *,
    repeats: int,
    progress: Callable[[str, float], None],
) -> tuple[list[R], list[str]]:
    """Measure all rows.

    Args:
        jobs: The rows.
        device: Where; the current one.
        measure: Measures one of them.
        about: Names one.
        repeats: Runs of each contender.
        progress: Told what is under way and by which part of the whole it has just moved on.

    Returns:
        The rows, and a remark on each row that the device has no room for.
    """
    keep_memory()
    ceilings = Ceilings(device)
    rows, refused = [], []
    part = 1 / (len(jobs) * repeats)
    for job in jobs:
        name = about(job)
        progress(name, 0)
        try:
            tick = lambda name=name: progress(name, part)  # noqa: E731
            rows.append(measure(job, device, ceilings, repeats, tick))
        except cp.DeviceError as error:
            refused.append(f"{name}: not measured: {error}")
        device.pool.free_held()
    return rows, refused
