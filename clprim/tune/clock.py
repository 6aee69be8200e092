"""The clock of tuning: candidates take turns, so that a noisy moment hits all of them."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from clprim.runtime.device import Device
from clprim.runtime.profile import profile

K = TypeVar("K", bound=Hashable)

# A sample lasts this many seconds at least, as far as so many calls make it.
SAMPLE, MOST_CALLS = 0.004, 100


class Clock(Protocol):
    """Times calls."""

    def __call__(
        self, device: Device, calls: Mapping[K, Callable[[], Any]], rounds: int, stop: float
    ) -> dict[K, list[float]]:
        """Returns seconds of a call, a round each."""


def race(
    device: Device, calls: Mapping[K, Callable[[], Any]], rounds: int, stop: float = math.inf
) -> dict[K, list[float]]:
    """Times calls in turn, A B C, B C A, …; see `Clock`."""
    # On a CPU by the host's clock, as its runtimes start threads for a launch; elsewhere by the
    # device's, as what the host takes for a launch says nothing about tiles.
    keys = [*calls]
    lap = _host if device.traits.is_cpu else _device
    counts = {key: _count(lap(device, call, 1)) for key, call in calls.items()}
    seconds: dict[K, list[float]] = {key: [] for key in keys}
    collect = gc.isenabled()
    gc.disable()
    try:
        for turn in range(rounds):
            first = turn % len(keys)
            for key in (*keys[first:], *keys[:first]):
                seconds[key].append(lap(device, calls[key], counts[key]))
            if time.perf_counter() > stop:
                break
    finally:
        if collect:
            gc.enable()
    return seconds


def gain(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """How many times as fast ``one`` is as ``other``: of rounds the median and lower quartile."""
    ratios = sorted(theirs / mine for mine, theirs in zip(one, other, strict=False))
    return statistics.median(ratios), ratios[(len(ratios) - 1) // 4]


def _count(seconds: float) -> int:
    """Returns how many calls of such a length make a sample."""
    return max(1, min(MOST_CALLS, math.ceil(SAMPLE / max(seconds, 1e-9))))


def _host(device: Device, call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    device.synchronize()
    return (time.perf_counter() - start) / count


def _device(device: Device, call: Callable[[], Any], count: int) -> float:
    with profile(device) as found:
        for _ in range(count):
            call()
    return found.seconds / count
