"""Measures what a device can do at best: copy, read, multiply-add. Others are compared with it.

Nobody knows beforehand which form of a trivial kernel a device and its compiler like, so that each
ceiling is the best of several candidates. Run times are the device's own, from profiling events.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import pyopencl as cl

from clprim.errors import BuildError, DeviceError
from clprim.render import environment
from clprim.runtime import program
from clprim.runtime.device import Device
from clprim.runtime.pool import advise_huge_pages

# Far beyond any cache, short enough for a dozen candidates.
_BUFFER = 256 << 20
_LEAST = 1 << 16
_RUNS = 7
# A candidate this much slower than the best one in its first runs is not timed any further.
_HOPELESS = 1.3


@dataclass(frozen=True)
class Measurement:
    """The ceilings of a device."""

    copy_bandwidth: float
    read_bandwidth: float
    fp32_peak: float

    def __str__(self) -> str:
        return (
            f"copy {self.copy_bandwidth / 1e9:.1f} GB/s, read {self.read_bandwidth / 1e9:.1f} "
            f"GB/s, float32 {self.fp32_peak / 1e9:.0f} GFLOP/s"
        )


class Candidate(NamedTuple):
    """A kernel with its buffers, ready to run."""

    name: str
    enqueue: Callable[[], cl.Event]
    work: int


@dataclass(frozen=True)
class _Form:
    """A kernel that copies, reads, or multiplies and adds; see ``measure/ceilings.cl.jinja``.

    ``many`` are the accumulators, or the chains of multiply-adds, that do not wait for each other.
    """

    kind: str
    width: int
    walk: str
    group: int
    many: int = 1
    streaming: bool = False

    def __str__(self) -> str:
        walk = "" if self.kind == "peak" else f", {self.walk}"
        end = ", non-temporal stores" if self.streaming else ""
        end += {"read": f", {self.many} sums", "peak": f", {self.many} chains"}.get(self.kind, "")
        return f"{self.kind} float{self.width}{walk} x{self.group}{end}"


_Copy, _Read, _Peak = (partial(_Form, kind) for kind in ("copy", "read", "peak"))


def copy_candidates(
    device: Device, nbytes: int, queue: cl.CommandQueue | None = None
) -> list[Candidate]:
    """Build kernels that copy ``nbytes``; the best is the ceiling for what reads and writes."""
    nbytes = _even(nbytes)
    queue = queue or _profiling_queue(device)
    source, target = (_filled(device, queue, nbytes) for _ in range(2))
    if device.traits.is_cpu:
        forms = [_Copy(1, "one", 256), _Copy(16, "one", 16), _Copy(1, "chunk", 1)]
        forms += [_Copy(width, "chunk", 1) for width in (4, 8, 16)]
        forms += [_Copy(width, "one", 256, streaming=True) for width in (1, 4, 8, 16)]
        forms += [_Copy(width, "chunk", 1, streaming=True) for width in (4, 8, 16)]
        forms += [_Copy(16, "pieces", 1, streaming=streaming) for streaming in (False, True)]
    else:
        forms = [_Copy(width, "one", group) for width in (1, 2, 4) for group in (64, 256)]
        forms += [_Copy(4, "one", 512), _Copy(8, "one", 128), _Copy(16, "one", 128)]
        forms += [_Copy(width, "spread", 256) for width in (1, 2, 4)]
        forms += [_Copy(width, "one", 256, streaming=True) for width in (1, 2, 4)]
    candidates = []
    for form in forms:
        vectors = nbytes // (4 * form.width)
        items = vectors if form.walk == "one" else _walkers(device, form.walk, vectors)
        arguments = (source, target, np.uint32(vectors))
        work = 2 * nbytes
        candidates += _build(device, queue, form, items=items, arguments=arguments, work=work)
    return candidates


def read_candidates(
    device: Device, nbytes: int, queue: cl.CommandQueue | None = None
) -> list[Candidate]:
    """Build kernels that read ``nbytes``; the best is the ceiling for reductions."""
    nbytes = _even(nbytes)
    queue = queue or _profiling_queue(device)
    source = _filled(device, queue, nbytes)
    if device.traits.is_cpu:
        forms = [_Read(8, "chunk", 1, sums) for sums in (4, 8)]
        forms += [_Read(16, walk, 1, sums) for walk in ("chunk", "pieces") for sums in (1, 2, 4, 8)]
    else:
        forms = [_Read(1, "spread", group, 4) for group in (64, 256)]
        forms += [_Read(2, "spread", 256, 4), _Read(4, "spread", 64, 2)]
        forms += [_Read(4, "spread", 256, sums) for sums in (1, 2, 4)]
    candidates = []
    for form in forms:
        vectors = nbytes // (4 * form.width)
        items = _walkers(device, form.walk, vectors // form.many)
        target = _filled(device, queue, items * 4 * form.width)
        arguments = (source, target, np.uint32(vectors))
        candidates += _build(device, queue, form, items=items, arguments=arguments, work=nbytes)
    return candidates


def peak_candidates(device: Device, queue: cl.CommandQueue | None = None) -> list[Candidate]:
    """Build kernels that do nothing but float32 multiply-adds in registers."""
    queue = queue or _profiling_queue(device)
    units = device.traits.compute_units
    if device.traits.is_cpu:
        forms = [_Peak(8, "one", 1, chains) for chains in (8, 12, 14)]
        forms += [_Peak(16, "one", 1, chains) for chains in (6, 8, 12, 16, 24)]
        items, rounds = 8 * units, 1 << 18
    else:
        sizes = (1, 256, 8), (1, 256, 16), (2, 256, 8), (4, 256, 4), (4, 64, 8), (8, 64, 4)
        forms = [_Peak(width, "one", group, chains) for width, group, chains in sizes]
        items, rounds = 4096 * units, 1 << 14
    candidates = []
    for form in forms:
        target = _filled(device, queue, items * 4 * form.width)
        arguments = (target, np.float32(0.5), np.float32(1.0), np.uint32(rounds))
        work = 2 * form.width * form.many * rounds * items
        candidates += _build(device, queue, form, items=items, arguments=arguments, work=work)
    return candidates


def best(candidates: Iterable[Candidate]) -> tuple[Candidate, float]:
    """Time candidates and return the fastest, with its work a second (median of 7 runs)."""
    fastest: tuple[float, Candidate] | None = None
    for candidate in candidates:
        try:
            candidate.enqueue().wait()  # whatever happens only once
            rate = candidate.work / _seconds(candidate, 2)
            if fastest is None or rate * _HOPELESS > fastest[0]:
                rate = candidate.work / _seconds(candidate, _RUNS)
        except (cl.Error, ZeroDivisionError):  # too large a work-group, or a clock that stands
            continue
        if fastest is None or rate > fastest[0]:
            fastest = rate, candidate
    if fastest is None:
        raise DeviceError("no kernel of those tried could be built, run and timed on this device")
    return fastest[1], fastest[0]


def measure(device: Device) -> Measurement:
    """Find out the ceilings of a device; takes a few seconds and up to 512 MiB there."""
    queue = _profiling_queue(device)
    nbytes = min(_BUFFER, device.traits.max_allocation, device.cl.global_mem_size // 8)
    # One after the other, so that the buffers of one are gone before the next ones come.
    _, copy = best(copy_candidates(device, nbytes, queue))
    _, read = best(read_candidates(device, nbytes, queue))
    _, peak = best(peak_candidates(device, queue))
    return Measurement(copy, read, peak)


@lru_cache(maxsize=16)
def ceilings_of(device: Device) -> Measurement:
    """Returns what `measure` finds, which is asked once a process; takes and raises the same."""
    return measure(device)


def _profiling_queue(device: Device) -> cl.CommandQueue:
    try:
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        return cl.CommandQueue(device.context, device.cl, properties=profiling)
    except cl.Error as error:
        raise DeviceError(f"device {device} cannot profile: {error}") from error


def _filled(device: Device, queue: cl.CommandQueue, nbytes: int) -> cl.Buffer:
    """Return a buffer of ones: memory that was never written may not exist yet."""
    try:
        buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, nbytes)
        if device.traits.is_cpu:
            advise_huge_pages(queue, buffer)  # as the pool does for arrays
        cl.enqueue_fill_buffer(queue, buffer, np.float32(1), 0, nbytes).wait()
    except cl.Error as error:
        raise DeviceError(f"device {device} cannot allocate {nbytes} bytes: {error}") from error
    return buffer


def _even(nbytes: int) -> int:
    """Return a size with few bits set, so that powers of two divide it evenly among work-items."""
    nbytes = max(_LEAST, nbytes)
    grain = max(12, nbytes.bit_length() - 5)
    return nbytes >> grain << grain


def _walkers(device: Device, walk: str, steps: int) -> int:
    """Return how many work-items share ``steps`` evenly.

    Enough of them to keep all compute units busy until the end, but with some steps each, so that
    starting one does not count. ``pieces`` are ``chunk``s of some 32 KiB: cores then walk close to
    each other, which some memory likes.
    """
    wanted, least = {"chunk": (64, 16), "pieces": (1 << 20, 512)}.get(walk, (2048, 4))
    most = min(wanted * device.traits.compute_units, steps // least)
    items = steps & -steps  # the largest power of two that divides
    while items > max(1, most):
        items //= 2
    return items


def _build(
    device: Device,
    queue: cl.CommandQueue,
    form: _Form,
    *,
    items: int,
    arguments: tuple[cl.Buffer | np.generic, ...],
    work: int,
) -> list[Candidate]:
    """Return the candidate, or nothing where the device cannot have it."""
    if form.group > device.traits.max_work_group_size or items % form.group:
        return []
    source = environment().get_template("measure/ceilings.cl.jinja").render(form=form)
    try:
        kernel = program.kernel_of(device, source, ["-cl-mad-enable"], form.kind)
    except (BuildError, DeviceError):
        return []

    def enqueue() -> cl.Event:
        # The arguments are named here, because a kernel does not keep its buffers alive.
        return kernel(queue, (items,), (form.group,), *arguments)

    return [Candidate(str(form), enqueue, work)]


def _seconds(candidate: Candidate, runs: int) -> float:
    """Return the median time of a candidate on the device."""
    times = []
    for _ in range(runs):
        event = candidate.enqueue()
        event.wait()
        times.append(event.profile.end - event.profile.start)
    return statistics.median(times) * 1e-9
