"""What `clprim doctor` times: workloads against ceilings, and other tiles for the worst one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import clprim as cp
from clprim import ops
from clprim.plan.table import Entry, Key
from clprim.runtime.ceilings import Measurement
from clprim.tune.ask import record
from clprim.tune.measure import Effort
from clprim.tune.measure import tune as measured

# Seconds of runs of a workload, and the fewest and most runs.
SECONDS, FEWEST, MOST = 0.5, 3, 50


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
    elements = many * 64 * 56 * 56
    yield Workload(f"matmul {size}³", lambda: _product(size), 2 * size**3, 12 * size**2, tiled=True)
    for memory, name in (("contiguous", "NCHW"), ("channels_last", "NHWC")):
        yield Workload(
            f"y = x · channel + w {name}",
            lambda memory=memory: _map(many, memory),  # type: ignore[misc]
            0,
            8 * elements,
        )
        yield Workload(
            f"sums of channels {name}",
            lambda memory=memory: _sums(many, memory),  # type: ignore[misc]
            0,
            4 * elements,
        )
        for kernel, channels, outputs in ((3, 64, 64), (1, 256, 64)):
            flops = 2 * images * channels * outputs * 56 * 56 * kernel**2
            nbytes = 4 * images * 56 * 56 * (channels + outputs)
            yield Workload(
                f"conv {kernel}×{kernel} {channels}→{outputs} 56² {name}",
                lambda k=kernel, c=channels, o=outputs, memory=memory: _conv(  # type: ignore[misc]
                    images, c, o, k, memory
                ),
                flops,
                nbytes,
                tiled=True,
            )
            if quick:
                break


def _array(*shape: int, memory: str = "contiguous") -> Any:
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return cp.asarray(values, memory_format=memory)


def _product(size: int) -> Callable[[], Any]:
    a, b = _array(size, size), _array(size, size)
    return lambda: ops.matmul(a, b)


def _map(images: int, memory: str) -> Callable[[], Any]:
    x, channel = _array(images, 64, 56, 56, memory=memory), _array(64, 1, 1)
    scale = cp.Pointwise("y0 = x0 * x1 + w0;")
    return lambda: scale(x, channel, 2.0)


def _sums(images: int, memory: str) -> Callable[[], Any]:
    x = _array(images, 64, 56, 56, memory=memory)
    return lambda: ops.sum(x, axis=(0, 2, 3))


def _conv(images: int, channels: int, outputs: int, kernel: int, memory: str) -> Callable[[], Any]:
    x = _array(images, channels, 56, 56, memory=memory)
    w = _array(outputs, channels, kernel, kernel)
    return lambda: ops.conv2d(x, w, padding=kernel // 2)


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
