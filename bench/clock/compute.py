"""Runs tables of products and convolutions against the device's arithmetic and against peers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

import clprim as cp
from bench.clock.timing import (
    SAMPLE,
    Contender,
    Gauge,
    Result,
    Spread,
    calm_race,
    host_call,
    race,
    ratio,
    stream,
)
from bench.peers.compute import Packs, compute_peers, fetch, keep_memory
from bench.peers.peer import Inputs, Peer
from clprim.options import current_options
from clprim.runtime.ceilings import Candidate, best, peak_candidates
from clprim.runtime.device import Device

_PEAK = "peak"
# NumPy's threads, which made the reference, spin for tens of milliseconds after their work.
_CALM = 0.1
# A contender that takes this much longer than clprim runs a few times only: the outcome is clear.
_SLOW, _FEW = 8, 3


@dataclass(frozen=True)
class Promise:
    """What a table's rows are to reach beside a peer.

    Attributes:
        peer: Its name.
        mean: Least geometric mean of all rows' ratios; None where none is promised.
        least: Least ratio of any row; None where none is promised.
    """

    peer: str
    mean: float | None = None
    least: float | None = None


class Job(Protocol):
    """One row of a table: `bench.work.gemm.Gemm` or `bench.work.conv.Conv`."""

    @property
    def title(self) -> str:
        """For readers; unique in its group."""

    @property
    def group(self) -> str:
        """The table that it stands in."""

    @property
    def op(self) -> str:
        """What is computed: the name of the peers' methods."""

    @property
    def count(self) -> int:
        """How often the whole has it."""

    @property
    def flops(self) -> int:
        """Operations of one run; a multiply-add counts as two."""

    @property
    def promises(self) -> tuple[Promise, ...]:
        """Of all rows of the group."""

    def reference(self, inputs: Inputs) -> np.ndarray[Any, Any]:
        """Return the result, exactly, from inputs of small whole numbers."""


@dataclass(frozen=True)
class Row:
    """What was measured of one job.

    Attributes:
        job: Which.
        rate: Operations a second of clprim on the host's clock, until the results are there.
        peak: Operations a second of the best kernel that only multiplies and adds.
        share: ``rate / peak``, compared round by round.
        rates: Operations a second of each peer that can do it.
        ratios: How many times as fast as that peer clprim is, compared round by round.
        wrong: Whose results are not exact; those are not timed.
        calm: Whether nobody else used the processor meanwhile, for most of the time.
        errors: Root mean square and largest error of clprim's result, over the result's root mean
            square; 0 where it is exact.
        algorithm: ``winograd``, or nothing for sums of products.
    """

    job: Job
    rate: float
    peak: float
    share: Spread
    rates: dict[str, float]
    ratios: dict[str, Spread]
    wrong: tuple[str, ...] = ()
    calm: bool = True
    errors: tuple[float, float] = (0.0, 0.0)
    algorithm: str = ""


def measure_job(
    job: Job,
    device: Device,
    peak: Gauge,
    peers: Sequence[Peer],
    *,
    repeats: int,
    tick: Callable[[], None] = lambda: None,
) -> Row:
    """Let clprim, the device's arithmetic and the peers take turns at one job.

    Args:
        job: What to compute.
        device: Where; the current one.
        peak: The device's best kernel of multiply-adds; see `peak_gauge`.
        peers: Whom to compare with.
        repeats: How often each of them runs.
        tick: Called ``repeats`` times on the way.

    Raises:
        DeviceError: The device has no room for it.
    """
    inputs = Inputs(job)
    expected = job.reference(inputs)
    own = Packs(device)
    calls = {peer: peer.prepare(job, inputs) for peer in (own, *peers)}
    calls = {peer: call for peer, call in calls.items() if call is not None}
    errors = {peer: _errors(peer, call, expected) for peer, call in calls.items()}
    # Sums of whole numbers are exact; other algorithms may have the error that clprim allows, or
    # that a peer is known for.
    algorithm = _algorithm(own, calls[own])
    allowed = current_options().convolution_error if algorithm else 0.0
    wrong = [p for p, (rms, _) in errors.items() if not rms <= (allowed if p is own else p.error)]
    time.sleep(_CALM)
    contenders = {
        peer.name: stream(peer.name, job.flops, call, peer.finish, seconds=SAMPLE)
        for peer, call in calls.items()
        if peer is own or peer not in wrong
    }
    mine = contenders.pop(own.name)
    looks = {name: contender.run().host for name, contender in contenders.items()}
    limit = _SLOW * mine.run().host
    fast = [contenders[name] for name, seconds in looks.items() if seconds <= limit]
    slow = [contenders[name] for name, seconds in looks.items() if seconds > limit]
    results, calm = calm_race([mine, *fast], peak, repeats, tick=tick)
    ratios = _ratios(mine, results, fast)
    if slow:
        few = race([mine, *slow], min(_FEW, repeats))
        ratios |= _ratios(mine, few, slow)
        results = few | results
    return Row(
        job,
        rate=results[own.name].rate("host"),
        peak=results[_PEAK].rate("host"),
        share=ratio(results[own.name], results[_PEAK], "host"),
        rates={name: results[name].rate("host") for name in ratios},
        ratios=ratios,
        wrong=tuple(peer.name for peer in wrong),
        calm=calm,
        errors=errors[own],
        algorithm=algorithm,
    )


def peak_gauge(candidate: Candidate) -> Gauge:
    """Return a kernel of multiply-adds as the contender that shows what the device can do."""

    def run() -> None:
        candidate.enqueue().wait()

    return Gauge(host_call(_PEAK, candidate.work, run, lambda: None))


def _errors(
    peer: Peer, call: Callable[[], Any], expected: np.ndarray[Any, Any]
) -> tuple[float, float]:
    """Root mean square and largest error of a call's result, relative to what is expected."""
    result = call()
    peer.finish()
    found = fetch(result)
    if found.shape != expected.shape:
        return math.inf, math.inf
    if np.array_equal(found, expected):
        return 0.0, 0.0
    difference = np.abs(found.astype(np.float64) - expected)
    scale = math.sqrt(float(np.mean(np.square(expected, dtype=np.float64)))) or 1.0
    return math.sqrt(float(np.mean(difference**2))) / scale, float(difference.max()) / scale


def _algorithm(own: Packs, call: Callable[[], Any]) -> str:
    """The algorithm of clprim's kernels, if it is not sums of products."""
    with cp.profile() as profile:
        call()
        own.finish()
    return "winograd" if any("winograd" in event.name for event in profile.events) else ""


def _ratios(
    mine: Contender, results: dict[str, Result], others: Iterable[Contender]
) -> dict[str, Spread]:
    return {c.name: ratio(results[mine.name], results[c.name], "host") for c in others}


def run_compute(
    jobs: Sequence[Job],
    device: Device,
    *,
    repeats: int,
    wanted: Sequence[str] | None = None,
    more: Sequence[Peer] = (),
    progress: Callable[[str, float], None],
) -> tuple[list[Row], list[Peer], list[str]]:
    """Measure all rows of a table.

    Args:
        jobs: The rows.
        device: Where; the current one.
        repeats: Runs of each contender.
        wanted: Parts of the names of the peers to compare with; None for all.
        more: Peers of these jobs alone.
        progress: Told what is under way and by which part of the whole it has just moved on.

    Returns:
        The rows, the peers, and a remark on each row that the device has no room for.
    """
    keep_memory()
    peers = [
        peer
        for peer in (*compute_peers(device), *more)
        if wanted is None or any(part.lower() in peer.name.lower() for part in wanted)
    ]
    progress("the device's own arithmetic", 0)
    peak = peak_gauge(best(peak_candidates(device))[0])
    rows, refused = [], []
    part = 1 / (len(jobs) * repeats)
    for job in jobs:
        about = f"{job.group}: {job.title}"
        progress(about, 0)
        try:
            row = measure_job(
                job,
                device,
                peak,
                peers,
                repeats=repeats,
                tick=lambda about=about: progress(about, part),
            )
            rows.append(row)
        except cp.DeviceError as error:
            refused.append(f"{about}: not measured: {error}")
        device.pool.free_held()
    # What passed for the best in a busy beginning may have been bettered since.
    rows = [
        replace(row, calm=row.calm and peak.near_best(peak.contender.work / row.peak))
        for row in rows
    ]
    return rows, peers, refused
