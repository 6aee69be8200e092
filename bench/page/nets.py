"""Lays out what `bench.work.nets` and `bench.work.replayed` measured: rates, means, promises."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import geometric_mean

from bench.clock.timing import Spread
from bench.page.report import Report, Table
from bench.page.targets import Target, Verdict, judge
from bench.peers.nets import Inductor
from bench.peers.onnx_runtime import OnnxRuntime
from bench.peers.peer import Peer
from bench.work.nets import NetRow
from bench.work.replayed import ChainRow, HostRow

_OF = "as fast as the best peer of each row"
_MEANS = {
    8: Target("mean", 1.3, f"{_OF}: geometric mean, batch 8", unit="×"),
    1: Target("mean", 1.15, f"{_OF}: geometric mean, batch 1", unit="×"),
}
_LEAST = Target("row", 0.93, f"{_OF}: every row", unit="×")
_PEERS = {
    name: Target("peer", bound, f"as fast as {name}: geometric mean", unit="×")
    for name, bound in ((Inductor.name, 1.6), (OnnxRuntime.name, 1.25))
}
_KERNELS = {
    name: Target("kernels", bound, "kernels", at_most=True, unit="")
    for name, bound in (("densenet121", 250), ("efficientnet_b0", 85), ("shufflenet_v2_x1_0", 60))
}
_STARTS = {
    "resnet50": (
        Target("cold", 5.0, "first call, nothing on disk", at_most=True, unit=" s"),
        Target("warm", 0.5, "first call, everything on disk", at_most=True, unit=" s"),
    )
}
_CHAIN = Target("share", 0.9, "of a copy's bandwidth: a chain of elementwise operators")
_HOST = Target("µs", 7.0, "of the host for each kernel", at_most=True, unit=" µs")
_NOTES = (
    "Images a second (rows of tokens, of BERT) by the host's clock, until the results are there: "
    "the median sample, which is of calls in a row that take 30 ms, two at least. Contenders take "
    "turns; rounds in which a gauge on all cores was disturbed do not count. All results were "
    "compared with PyTorch's before anything was timed.",
    "`times as fast`: clprim beside each peer, compared round by round (median); beside the "
    "fastest of the other libraries with quartiles.",
    "`kernels`: that one call launches. `MB`: of the device, beside the model and its argument. "
    "`first call`: in a process of its own, with what is made of the network before; nothing on "
    "disk, and everything there.",
)
_CHAIN_NOTE = "A chain: on the device, by its events; bytes are those of argument and result alone."
_HOST_NOTE = "The host's time: of calls in a row, the device finishing after the clock has stopped."


def nets_report(
    rows: Sequence[NetRow],
    peers: Sequence[Peer],
    chain: ChainRow | None = None,
    host: HostRow | None = None,
    *,
    refused: Sequence[str] = (),
    excuse: str = "",
    options: str = "",
    label: str = "",
) -> Report:
    """Lay rows out for readers.

    Args:
        rows: As `run_nets` returned them.
        peers: Likewise.
        chain: As `run_chain` returned it; None where it was not measured.
        host: As `run_host` returned it; likewise.
        refused: Rows that clprim does not run, and why.
        excuse: Why targets are not judged, if so.
        options: See `bench.page.report.Report`.
        label: Likewise.
    """
    groups: dict[str, list[NetRow]] = {}
    for row in rows:
        groups.setdefault(row.job.group, []).append(row)
    tables = []
    for group, members in groups.items():
        tables += [rates_of(group, members, peers), times_of(group, members, peers)]
        tables.append(_costs(group, members))
    verdicts = _verdicts(rows, excuse)
    failures = [*refused, *(f"{r.job.label}: off by {r.error:.1e}" for r in rows if not r.correct)]
    notes = [*(_NOTES if rows else ()), *remarks_of(rows, peers)]
    if chain is not None:
        notes.append(_CHAIN_NOTE)
        tables.append(_chain_table(chain))
        verdicts += judge([_CHAIN], chain.title, {"share": chain.share.median}, excuse)
        failures += [] if chain.correct else [f"{chain.title}: clprim's result is not NumPy's"]
    if host is not None:
        notes.append(_HOST_NOTE)
        tables.append(_host_table(host))
        verdicts += judge([_HOST], host.title, {"µs": 1e6 * host.seconds}, excuse)
    return Report(
        "nets",
        "Whole networks next to PyTorch, its compiler, ONNX Runtime and OpenVINO",
        tables=tuple(tables),
        verdicts=tuple(verdicts),
        notes=tuple(notes),
        failures=tuple(failures),
        options=options,
        label=label,
    )


def remarks_of(rows: Sequence[NetRow], peers: Sequence[Peer]) -> list[str]:
    """Return what peers call, and what rows lack, for the notes."""
    found = [peer.note(["inference"]) for peer in peers] if rows else []
    for row in rows:
        found += [f"{row.job.label}: {peer} is left out: {why}" for peer, why in row.absent.items()]
        found += [f"{row.job.label}: {peer} is left out: other results" for peer in row.wrong]
        found += [] if row.calm else [f"{row.job.label}: most rounds were disturbed"]
    return found


def _verdicts(rows: Sequence[NetRow], excuse: str) -> list[Verdict]:
    """Hold means over all networks, and rows, against what is promised."""
    found: list[Verdict] = []
    raced = [row for row in rows if row.best]
    for batch, target in _MEANS.items():
        members = [row for row in raced if row.job.batch == batch]
        if members:
            mean = _mean(row.times[row.best] for row in members)
            found += judge([target], f"{len(members)} rows", {"mean": mean}, excuse)
    for row in raced:
        found += judge([_LEAST], row.job.label, {"row": row.times[row.best].median}, excuse)
    for name, target in _PEERS.items():
        members = [row for row in raced if name in row.times]
        if members:
            mean = _mean(row.times[name] for row in members)
            found += judge([target], f"{len(members)} rows", {"peer": mean}, excuse)
    for row in rows:
        values = {"kernels": float(row.kernels)}
        if row.start is not None:
            values |= {"cold": row.start.cold, "warm": row.start.warm}
        targets = [_KERNELS[row.job.name]] if row.job.name in _KERNELS else []
        found += judge(targets, row.job.label, values, excuse)
        if row.start is not None:
            found += judge(_STARTS.get(row.job.name, ()), row.job.label, values, excuse)
    return found


def _mean(times: Iterable[Spread]) -> float:
    return geometric_mean(spread.median for spread in times)


def rates_of(group: str, rows: Sequence[NetRow], peers: Sequence[Peer]) -> Table:
    """Return the table of what each contender does in a second."""
    names = ("clprim", *(peer.name for peer in peers))
    lines = tuple(
        (
            row.job.title,
            *(f"{row.job.batch / row.seconds[n]:.1f}" if n in row.seconds else "–" for n in names),
        )
        for row in rows
    )
    return Table(f"{group} (images/s)", ("", *names), lines)


def times_of(group: str, rows: Sequence[NetRow], peers: Sequence[Peer]) -> Table:
    """Return the table of how many times as fast as each peer clprim is."""
    names = tuple(peer.name for peer in peers)
    lines = []
    for row in rows:
        cells = (f"{row.times[n].median:.2f}" if n in row.times else "–" for n in names)
        best = _spread(row.times[row.best]) if row.best else "–"
        lines.append((row.job.title, *cells, row.best or "–", best))
    means = []
    for name in names:
        found = [row.times[name] for row in rows if name in row.times]
        means.append(f"{_mean(found):.2f}" if found else "–")
    best_ones = [row.times[row.best] for row in rows if row.best]
    mean = f"{_mean(best_ones):.2f}" if best_ones else "–"
    lines.append(("geometric mean", *means, "", mean))
    return Table(f"{group}: times as fast as", ("", *names, "best peer", "times it"), tuple(lines))


def _costs(group: str, rows: Sequence[NetRow]) -> Table:
    lines = []
    for row in rows:
        start = ("–", "–")
        if row.start is not None:
            start = f"{row.start.cold:.2f}", f"{row.start.warm:.2f}"
        numbers = (f"{row.kernels}", f"{row.memory / 1e6:.0f}", *start, f"{row.error:.0e}")
        lines.append((row.job.title, *numbers))
    columns = ("", "kernels", "MB", "first call, cold (s)", "first call, warm (s)", "error")
    return Table(f"{group}: what a call takes", columns, tuple(lines))


def _chain_table(row: ChainRow) -> Table:
    rate = row.nbytes / row.seconds
    cells = f"{row.kernels}", f"{rate / 1e9:.1f}", f"{row.copy / 1e9:.1f}", _percent(row.share)
    columns = ("", "kernels", "clprim GB/s", "copy GB/s", "share of the copy")
    return Table("A chain beside a copy, on the device", columns, ((row.title, *cells),))


def _host_table(row: HostRow) -> Table:
    cells = f"{row.kernels}", f"{1e6 * row.seconds:.2f}", f"{1e6 * row.bare:.2f}"
    columns = ("", "kernels", "µs a kernel", "bare enqueue µs")
    return Table("The host's time of a call of many kernels", columns, ((row.title, *cells),))


def _spread(times: Spread) -> str:
    return f"{times.median:.2f}× ({times.low:.2f}–{times.high:.2f})"


def _percent(share: Spread) -> str:
    return f"{share.median:.0%} ({100 * share.low:.0f}–{100 * share.high:.0f})"
