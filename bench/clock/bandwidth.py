"""Runs tables of workloads against the device's own bandwidth and against the peers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyopencl as cl

import clprim as cp
from bench.clock.timing import (
    Contender,
    Result,
    Spread,
    ceiling,
    host_call,
    measured_call,
    race,
    ratio,
)
from bench.page.report import Report, Table
from bench.page.targets import Verdict, judge
from bench.peers.peer import Clprim, Inputs, NumPy, Peer, available_peers
from bench.work.workloads import Workload
from clprim.runtime.ceilings import Candidate, copy_candidates, read_candidates
from clprim.runtime.device import Device

# Of all candidates for a ceiling, so many take part in the race. The first looks, which choose
# them, are few, so that each candidate's best one is compared: what disturbs only adds time.
_FINALISTS = 3
_LOOKS = 5
# Read before every run of what is larger than the cache. Some processors have a last cache of
# hundreds of megabytes, of which the OpenCL driver says nothing: without this, bandwidth would
# depend on who used the same buffer last.
_EVICTING = 512 << 20

_QUICK = "--quick"


@dataclass(frozen=True)
class Row:
    """What was measured of one workload.

    Attributes:
        workload: Which.
        rate: Bytes a second of clprim, on the device.
        rate_with_launch: The same on the host's clock, from the call until the result is there.
        ceiling: Bytes a second of the best kernel that only copies or reads.
        ceiling_name: That kernel.
        share: ``rate / ceiling``, compared round by round.
        peers: Bytes a second of each peer on the host's clock; None where it has no such call.
        verdicts: On the workload's targets.
        correct: Whether clprim's results are NumPy's; None where that was not checked.
    """

    workload: Workload
    rate: float
    rate_with_launch: float
    ceiling: float
    ceiling_name: str
    share: Spread
    peers: dict[str, float | None]
    verdicts: tuple[Verdict, ...]
    correct: bool = True


class Ceilings:
    """The fastest trivial kernels of a device, for as many bytes as a workload moves."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._evicting: Candidate | None = None
        self._key: tuple[str, int] | None = None
        self._finalists: list[Contender] = []

    def finalists(self, kind: str, nbytes: int) -> list[Contender]:
        """Return the best few kernels.

        Args:
            kind: ``copy`` or ``read``.
            nbytes: What each of them should move, nearly.
        """
        wanted = nbytes // 2 if kind == "copy" else nbytes
        grain = 1 << max(0, wanted.bit_length() - 7)  # 2ⁿ-1, 2ⁿ and 2ⁿ+1 share their ceiling
        wanted = min(round(wanted / grain) * grain, self.device.traits.max_allocation)
        if self._key != (kind, wanted):
            self._finalists = []  # its buffers go before new ones come
            candidates = copy_candidates if kind == "copy" else read_candidates
            before = self.before(nbytes)
            self._finalists = _fastest(candidates(self.device, wanted), before)
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
        contender = ceiling(f"ceiling: {candidate.name}", candidate)
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


def measure_workload(
    workload: Workload,
    device: Device,
    ceilings: Ceilings,
    peers: Sequence[Peer],
    *,
    repeats: int,
    quick: bool,
    tick: Callable[[], None] = lambda: None,
) -> Row:
    """Let clprim, its ceiling and its peers take turns at one workload.

    Args:
        workload: What to compute.
        device: Where; the current one.
        ceilings: Of that device.
        peers: Whom to compare with.
        repeats: How often each of them runs.
        quick: Whether the workload is too small for its targets.
        tick: Called ``repeats`` times on the way.

    Raises:
        DeviceError: The device has no room for it.
    """
    inputs = Inputs(workload)
    own = Clprim(device)
    call = own.prepare(workload, inputs)
    reference = NumPy(device).prepare(workload, inputs)
    correct = reference is None or _equal(call(), reference())
    contenders = [measured_call(own.name, workload.nbytes, call, device)]
    finalists = ceilings.finalists(workload.ceiling, workload.nbytes)
    contenders += finalists
    calls = {peer.name: (peer, peer.prepare(workload, inputs)) for peer in peers}
    contenders += [
        host_call(name, workload.nbytes, peer_call, peer.finish)
        for name, (peer, peer_call) in calls.items()
        if peer_call is not None
    ]
    results = race(contenders, repeats, before=ceilings.before(workload.nbytes), tick=tick)
    mine = results[own.name]
    best = max((results[f.name] for f in finalists), key=lambda result: result.rate("device"))
    share = ratio(mine, best, "device")
    values = {"share": share.median, **_times_as_fast(mine, results, calls)}
    return Row(
        workload,
        rate=mine.rate("device"),
        rate_with_launch=mine.rate("host"),
        ceiling=best.rate("device"),
        ceiling_name=best.name.removeprefix("ceiling: "),
        share=share,
        peers={name: results[name].rate("host") if name in results else None for name in calls},
        verdicts=tuple(
            judge(workload.targets, workload.title, values, _excuse(workload, device, quick=quick))
        ),
        correct=correct,
    )


def run_bandwidth(
    workloads: Sequence[Workload],
    device: Device,
    *,
    repeats: int,
    quick: bool,
    progress: Callable[[str, float], None],
) -> tuple[list[Row], list[Peer], list[str]]:
    """Measure all rows of a table.

    Args:
        workloads: The rows.
        device: Where; the current one.
        repeats: Runs of each contender.
        quick: Whether the workloads are too small for their targets.
        progress: Told what is under way and by which part of the whole it has just moved on.

    Returns:
        The rows, the peers, and a remark on each row that the device has no room for.
    """
    ceilings = Ceilings(device)
    peers = available_peers(device)
    rows, refused = [], []
    part = 1 / (len(workloads) * repeats)
    for workload in workloads:
        about = f"{workload.group}: {workload.title}"
        progress(about, 0)
        try:
            row = measure_workload(
                workload,
                device,
                ceilings,
                peers,
                repeats=repeats,
                quick=quick,
                tick=lambda about=about: progress(about, part),
            )
            rows.append(row)
        except cp.DeviceError as error:
            refused.append(f"{about}: not measured: {error}")
        device.pool.free_held()
    return rows, peers, refused


def bandwidth_report(
    command: str, title: str, rows: Sequence[Row], peers: Sequence[Peer], refused: Sequence[str]
) -> Report:
    """Lay rows out for readers."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.workload.group, []).append(row)
    return Report(
        command,
        title,
        tables=tuple(_table(group, members, peers) for group, members in groups.items()),
        verdicts=tuple(verdict for row in rows for verdict in row.verdicts),
        notes=(*_notes(rows, peers), *refused),
        failures=tuple(
            f"{row.workload.group}: {row.workload.title}: clprim's result is not NumPy's"
            for row in rows
            if not row.correct
        ),
    )


def _equal(mine: object, reference: object) -> bool:
    """Whether results are the same, to the bit: sums of small integers are exact."""
    one = mine if isinstance(mine, tuple) else (mine,)
    other = reference if isinstance(reference, tuple) else (reference,)
    return len(one) == len(other) and all(
        np.array_equal(a.get(), b) for a, b in zip(one, other, strict=True)
    )


def _times_as_fast(
    mine: Result, results: dict[str, Result], names: Iterable[str]
) -> dict[str, float]:
    return {
        f"times {name}": ratio(mine, results[name], "host").median
        for name in names
        if name in results
    }


def _excuse(workload: Workload, device: Device, *, quick: bool) -> str:
    if quick:
        return _QUICK
    if workload.beyond_cache and workload.nbytes <= device.traits.cache_bytes:
        return "fits the cache"
    return ""


def _table(group: str, rows: Sequence[Row], peers: Sequence[Peer]) -> Table:
    return Table(
        f"{group} (GB/s)",
        (
            "",
            "data",
            "clprim",
            "ceiling",
            "share",
            "with launch",
            *(p.name for p in peers),
            "target",
        ),
        tuple(
            (
                row.workload.title,
                _size(row.workload.nbytes),
                _gb(row.rate),
                f"{row.workload.ceiling} {_gb(row.ceiling)}",
                f"{row.share.median:.0%} ({100 * row.share.low:.0f}–{100 * row.share.high:.0f})",
                _gb(row.rate_with_launch),
                *(_gb(row.peers[peer.name]) for peer in peers),
                _outcomes(row),
            )
            for row in rows
        ),
    )


def _outcomes(row: Row) -> str:
    return "\n".join([*map(str, row.verdicts), *([] if row.correct else ["WRONG RESULT"])])


def _size(nbytes: float) -> str:
    return f"{nbytes / 1e6:.1f} MB" if nbytes >= 1e5 else f"{nbytes / 1e3:.1f} KB"


def _notes(rows: Sequence[Row], peers: Sequence[Peer]) -> list[str]:
    kernels = dict.fromkeys(row.ceiling_name for row in rows)
    ops = dict.fromkeys(row.workload.op for row in rows)
    copies = any(row.workload.ceiling == "copy" and row.workload.axes for row in rows)
    notes = [
        "GB/s counts every input once and every result once. Times are medians. Before each run on "
        "more than the cache is said to hold, 512 MiB of other memory are read, so that the data "
        "come from memory.",
        "clprim and ceiling: on the device, by its profiling events. `share`: of the ceiling, "
        "compared round by round (median, quartiles); the contenders take turns.",
        "`with launch`: clprim on the host's clock, from the call until the result is there; so "
        "are the peers.",
        "Where a row's ceiling is `copy`, what it sums has length 1, so that it writes as much as "
        "it reads."
        if copies
        else "",
        f"The ceilings' kernels: {'; '.join(kernels)}.",
        *(peer.note(ops) for peer in peers),
    ]
    return [note for note in notes if note]


def _gb(rate: float | None) -> str:
    return "–" if rate is None else f"{rate / 1e9:.1f}"
