"""What a device can do at best: kernels that only copy, read, or multiply and add."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import pyopencl as cl

import clprim as cp
from bench.timing import Contender, Gauge, Sample, host_call
from clprim.runtime.ceilings import (
    Candidate,
    best,
    copy_candidates,
    peak_candidates,
    read_candidates,
)

PEAK = "peak"
# Of all candidates so many take part in the race, chosen by the best of a few looks.
_FINALISTS, _LOOKS = 3, 5
# Read before every run of what is larger than the cache: some processors have a last cache of
# hundreds of megabytes, of which the OpenCL driver says nothing.
_EVICTING = 512 << 20


class Ceilings:
    """The fastest trivial kernels of a device, for as many bytes as a case moves."""

    def __init__(self, device: cp.Device) -> None:
        self.device = device
        self._evicting: Candidate | None = None
        self._key: tuple[str, int] | None = None
        self._finalists: list[Contender] = []

    def finalists(self, kind: str, nbytes: int) -> list[Contender]:
        """Return the best few kernels that ``copy`` or ``read`` nearly so many bytes."""
        wanted = nbytes // 2 if kind == "copy" else nbytes
        grain = 1 << max(0, wanted.bit_length() - 7)  # 2ⁿ-1, 2ⁿ and 2ⁿ+1 share their ceiling
        wanted = min(round(wanted / grain) * grain, self.device.traits.max_allocation)
        if self._key != (kind, wanted):
            self._finalists = []  # its buffers go before new ones come
            candidates = copy_candidates if kind == "copy" else read_candidates
            self._finalists = _fastest(candidates(self.device, wanted), self.before(nbytes))
            self._key = kind, wanted
        return self._finalists

    def before(self, nbytes: int) -> Callable[[], None]:
        """Return what to do before a run on so many bytes: for many, empty the caches of them."""
        traits = self.device.traits
        if nbytes <= traits.cache_bytes:
            return lambda: None
        if self._evicting is None:
            size = min(_EVICTING, traits.max_allocation, self.device.cl.global_mem_size // 8)
            candidates = read_candidates(self.device, size)
            if not candidates:
                raise cp.DeviceError("no kernel that reads can be built for this device")
            self._evicting = candidates[0]
        enqueue = self._evicting.enqueue
        return lambda: enqueue().wait()


def _fastest(candidates: Iterable[Candidate], before: Callable[[], None]) -> list[Contender]:
    ranked = []
    for candidate in candidates:
        contender = ceiling(candidate)
        try:
            looks = []
            for _ in range(_LOOKS):
                before()
                looks.append(contender.run().device or 0)
        except cl.Error:  # too large a work-group, say
            continue
        ranked.append((min(looks) / candidate.work, len(ranked), contender))
    if not ranked:
        raise cp.DeviceError("no kernel that copies or reads runs on this device")
    return [contender for *_, contender in sorted(ranked)[:_FINALISTS]]


def ceiling(candidate: Candidate) -> Contender:
    """Return a contender for a kernel that does nothing but move data, timed by the device."""

    def run() -> Sample:
        start = time.perf_counter()
        event = candidate.enqueue()
        event.wait()
        host = time.perf_counter() - start
        return Sample(host, 1e-9 * (event.profile.end - event.profile.start))

    return Contender(f"ceiling: {candidate.name}", candidate.work, run)


def peak_gauge(device: cp.Device) -> Gauge:
    """Return the best kernel of multiply-adds as the contender that shows what a device can do."""
    candidate = best(peak_candidates(device))[0]
    return Gauge(host_call(PEAK, candidate.work, lambda: candidate.enqueue().wait(), lambda: None))
