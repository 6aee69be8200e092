"""What `clprim doctor` times: workloads against ceilings, and other tiles for the worst one."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import clprim as cp
from clprim.command.tune import call_of, words_of
from clprim.plan.table import Entry, Key
from clprim.runtime.ceilings import Measurement
from clprim.tune.ask import record
from clprim.tune.measure import Effort
from clprim.tune.measure import tune as measured
from clprim.tune.networks import Layer

# Seconds of runs of a workload, and the fewest and most runs.
SECONDS, FEWEST, MOST = 0.5, 3, 50
_LAYERS = (Layer(64, 64, 3, 56, padding=1), Layer(256, 64, 1, 56))


@dataclass(frozen=True)
class Workload:
    """Something to time."""

    name: str
    make: Callable[[], Callable[[], Any]]
    flops: int
    nbytes: int
    tiled: bool = False


@dataclass(frozen=True)
class Timed:
    """What a workload took."""

    workload: Workload
    seconds: float
    share: float
    ceiling: str

    @property
    def rate(self) -> str:
        """What it reached."""
        if self.workload.flops:
            return f"{self.workload.flops / self.seconds / 1e9:.1f} GFLOP/s"
        return f"{self.workload.nbytes / self.seconds / 1e9:.1f} GB/s"


@dataclass(frozen=True)
class Tuning:
    """What other tiles gain for a workload."""

    workload: str
    before: str
    best: str
    gain: float
    tried: int
    entries: dict[Key, Entry] = field(default_factory=dict)


def workloads(*, quick: bool = False) -> Iterator[Workload]:
    """Yields what to time, in both memory formats."""
    images = 1 if quick else 8
    size = 256 if quick else 1024
    many = images if quick else 64  # far more than caches hold
    shape = many, 64, 56, 56
    words = f"matmul {size},{size} {size},{size}"
    yield Workload(f"matmul {size}³", call_of(words), 2 * size**3, 12 * size**2, tiled=True)
    for memory, name in (("contiguous", "NCHW"), ("channels_last", "NHWC")):
        nbytes, make = 8 * math.prod(shape), partial(_map, shape, memory)
        yield Workload(f"y = x · channel + w {name}", make, 0, nbytes)
        words = f"sum {','.join(map(str, shape))} axis=(0,2,3) memory_format={memory}"
        yield Workload(f"sums of channels {name}", call_of(words), 0, 4 * math.prod(shape))
        for layer in _LAYERS[: 1 if quick else None]:
            nbytes = 4 * images * layer.size**2 * (layer.channels + layer.filters)
            conv, flops = call_of(words_of(layer, images, memory)), layer.flops(images)
            yield Workload(f"conv {layer.title} {name}", conv, flops, nbytes, tiled=True)


def _map(shape: tuple[int, ...], memory: str) -> Callable[[], Any]:
    x, channel = cp.ones(shape, memory_format=memory), cp.ones((64, 1, 1))
    return partial(cp.Pointwise("y0 = x0 * x1 + w0;"), x, channel, 2.0)


def timed(workload: Workload, ceilings: Measurement, *, quick: bool = False) -> Timed:
    """Times a workload and compares it with the ceiling that binds it."""
    seconds = _seconds(workload.make(), quick=quick)
    bandwidth, ceiling = ceilings.copy_bandwidth, "copy"
    if "sums" in workload.name:
        bandwidth, ceiling = ceilings.read_bandwidth, "read"
    least = workload.nbytes / bandwidth
    arithmetic = workload.flops / ceilings.fp32_peak
    if arithmetic > least:
        least, ceiling = arithmetic, "float32"
    return Timed(workload, seconds, least / seconds, ceiling)


def _seconds(run: Callable[[], Any], *, quick: bool) -> float:
    """The median of some runs by the host's clock, which stands on no device."""
    run()
    cp.synchronize()
    taken: list[float] = []
    stop = time.perf_counter() + (SECONDS / 10 if quick else SECONDS)
    while len(taken) < FEWEST or (len(taken) < MOST and time.perf_counter() < stop):
        start = time.perf_counter()
        run()
        cp.synchronize()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def tune(workload: Workload, *, quick: bool = False) -> Tuning | None:
    """Times other tiles for a product; None where there are none."""
    cases = record(workload.make())
    effort = Effort(2, 1, 3, 0.1) if quick else Effort()
    found = measured(cases[0], effort) if cases else None
    if found is None:
        return None
    entries = {found.case.key: found.entry} if found.best != found.rule else {}
    words = str(found.rule), str(found.best)
    return Tuning(workload.name, *words, found.gain, found.tried, entries)
