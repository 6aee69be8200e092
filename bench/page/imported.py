"""Lays out what `bench.work.imported` measured: times, means, promises."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import geometric_mean

from bench.clock.timing import Spread
from bench.page.report import Report, Table
from bench.page.targets import Target, Verdict, judge
from bench.peers.nets import OpenVino
from bench.peers.onnx_runtime import OnnxRuntime
from bench.peers.peer import Peer
from bench.work.imported import EXPORTED, PACKAGES, ImportedRow

_ORT, _VINO = OnnxRuntime.name, OpenVino.name
_MEANS = (
    (PACKAGES, _ORT, Target("mean", 1.5, f"as fast as {_ORT}: packages' models, mean", unit="×")),
    (EXPORTED, _ORT, Target("mean", 1.25, f"as fast as {_ORT}: exported, mean", unit="×")),
    (EXPORTED, _VINO, Target("mean", 1.1, f"as fast as {_VINO}: exported, mean", unit="×")),
)
_LEAST = Target("row", 0.95, f"as fast as {_ORT}: every package's model", unit="×")
_LOADING = Target("loading", 2.0, f"loading beside {_ORT}'s session", at_most=True, unit="×")
_NOTES = (
    "Milliseconds of a call by the host's clock, until the results are there: the median sample, "
    "which is of calls in a row that take 30 ms, two at least. Contenders take turns; rounds in "
    "which a gauge on all cores was disturbed do not count.",
    "`error`: of the outputs, relative to the largest number of each, beside ONNX Runtime's "
    "without its optimisations. Where that differs from itself with them by more than a quarter of "
    "1e-4, four times as much is right.",
    "`loading`: in a new process, reading the file and the first call with kernels on disk; the "
    "session's creation, which no call is a part of.",
)


def imported_report(
    rows: Sequence[ImportedRow],
    peers: Sequence[Peer],
    *,
    refused: Sequence[str] = (),
    absent: Sequence[str] = (),
    excuse: str = "",
    options: str = "",
    label: str = "",
) -> Report:
    """Lays rows out for readers.

    Args:
        rows: As `run_imported` returned them.
        peers: Likewise.
        refused: Rows that clprim does not run, and why.
        absent: Packages with models that are not installed.
        excuse: Why targets are not judged, if so.
        options: See `bench.page.report.Report`.
        label: Likewise.
    """
    groups: dict[str, list[ImportedRow]] = {}
    for row in rows:
        groups.setdefault(row.job.group, []).append(row)
    tables = []
    for group, members in groups.items():
        tables += [_times(group, members, peers), _costs(group, members)]
    notes = [*_NOTES, *(peer.note(["imported"]) for peer in peers)]
    for row in rows:
        notes += [f"{row.job.label}: {peer} is left out: {why}" for peer, why in row.absent.items()]
        notes += [] if row.calm else [f"{row.job.label}: most rounds were disturbed"]
    notes += [f"not installed, and not measured: {', '.join(absent)}"] if absent else []
    failures = [*refused, *(f"{r.job.label}: off by {r.error:.1e}" for r in rows if not r.correct)]
    failures += [f"{row.job.label}: {text}" for row in rows for text in row.host]
    return Report(
        "onnx",
        "ONNX models next to ONNX Runtime and OpenVINO",
        tables=tuple(tables),
        verdicts=tuple(_verdicts(rows, excuse)),
        notes=tuple(notes),
        failures=tuple(failures),
        options=options,
        label=label,
    )


def _verdicts(rows: Sequence[ImportedRow], excuse: str) -> list[Verdict]:
    found: list[Verdict] = []
    for kind, peer, target in _MEANS:
        times = [row.times[peer] for row in rows if row.job.kind == kind and peer in row.times]
        if times:
            found += judge([target], f"{len(times)} rows", {"mean": _mean(times)}, excuse)
    for row in rows:
        if row.job.kind == PACKAGES and _ORT in row.times:
            found += judge([_LEAST], row.job.label, {"row": row.times[_ORT].median}, excuse)
        if row.loading is not None:
            share = row.loading.own / row.loading.session
            found += judge([_LOADING], row.job.label, {"loading": share}, excuse)
    return found


def _mean(times: Iterable[Spread]) -> float:
    return geometric_mean(spread.median for spread in times)


def _times(group: str, rows: Sequence[ImportedRow], peers: Sequence[Peer]) -> Table:
    names = [peer.name for peer in peers]
    lines = []
    for row in rows:
        cells = [f"{1e3 * row.seconds[n]:.2f}" if n in row.seconds else "–"
                 for n in ("clprim", *names)]  # fmt: skip
        cells += [f"{row.times[n].median:.2f}" if n in row.times else "–" for n in names]
        lines.append((row.job.title, *cells))
    means = []
    for name in names:
        times = [row.times[name] for row in rows if name in row.times]
        means.append(f"{_mean(times):.2f}" if times else "–")
    lines.append(("geometric mean", *("" for _ in ("clprim", *names)), *means))
    columns = ("", "clprim", *names, *(f"times as fast as {name}" for name in names))
    return Table(f"{group} (ms)", columns, tuple(lines))


def _costs(group: str, rows: Sequence[ImportedRow]) -> Table:
    lines = []
    for row in rows:
        cells = ["–", "–"]
        if row.loading is not None:
            cells = [f"{1e3 * row.loading.own:.0f}", f"{1e3 * row.loading.session:.0f}"]
        lines.append((row.job.title, f"{row.kernels}", *cells, f"{row.error:.0e}"))
    columns = ("", "kernels", "loading (ms)", "a session (ms)", "error")
    return Table(f"{group}: what a call takes", columns, tuple(lines))
