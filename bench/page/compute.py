"""Lays out what `bench.clock.compute` measured: a line a job, means, worst lines, a chart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import geometric_mean

from bench.clock.compute import Job, Row
from bench.page.report import Report, Table
from bench.page.targets import Target, Verdict, judge
from bench.peers.peer import Peer

# Peers that wait for all their threads suffer most: such numbers would flatter clprim.
_BUSY = "disturbed"


def compute_report(
    command: str,
    title: str,
    rows: Sequence[Row],
    peers: Sequence[Peer],
    refused: Sequence[str],
    *,
    excuse: str = "",
    options: str = "",
    label: str = "",
) -> Report:
    """Lay rows out for readers.

    Args:
        command: Of ``python -m bench``.
        title: Of the report.
        rows: As `bench.clock.compute.run_compute` returned them.
        peers: Likewise.
        refused: Likewise.
        excuse: Why the promises are not judged, if so.
        options: See `bench.page.report.Report`.
        label: See `bench.page.report.Report`.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.job.group, []).append(row)
    verdicts = {group: _verdicts(group, members, excuse) for group, members in groups.items()}
    return Report(
        command,
        title,
        tables=tuple(
            _table(group, members, peers, verdicts[group]) for group, members in groups.items()
        ),
        verdicts=tuple(verdict for found in verdicts.values() for verdict in found),
        notes=(*_notes(rows, peers), *refused),
        failures=tuple(
            f"{row.job.group}: {row.job.title}: the result of {name} is not exact"
            for row in rows
            for name in row.wrong
        ),
        options=options,
        label=label,
    )


def _verdicts(group: str, rows: Sequence[Row], excuse: str) -> list[Verdict]:
    """Hold a table against its promises: of each peer first the mean, then every row."""
    found: list[Verdict] = []
    for promise in rows[0].job.promises:
        peer = promise.peer
        ratios = {r.job.title: r.ratios[peer].median for r in rows if peer in r.ratios}
        if promise.mean is not None:
            target = Target(peer, promise.mean, f"{peer}: geometric mean, {group}", unit="×")
            values = {peer: geometric_mean(ratios.values())} if ratios else {}
            calm = all(row.calm for row in rows)
            found += judge([target], _all_of(rows), values, excuse or ("" if calm else _BUSY))
        if promise.least is not None:
            target = Target(peer, promise.least, f"{peer}: every row, {group}", unit="×")
            for row in rows:
                title = row.job.title
                values = {peer: ratios[title]} if title in ratios else {}
                found += judge([target], title, values, excuse or ("" if row.calm else _BUSY))
    return found


def _all_of(rows: Sequence[Row]) -> str:
    return f"{len(rows)} rows"


def _table(
    group: str, rows: Sequence[Row], peers: Sequence[Peer], verdicts: Sequence[Verdict]
) -> Table:
    names = [peer.name for peer in peers if any(peer.name in row.ratios for row in rows)]
    others = any(row.algorithm for row in rows)
    lines = [
        (
            _counted(row.job),
            f"{row.job.flops / 1e9:.3g}",
            f"{row.rate / 1e9:.3g}",
            f"{row.share.median:.0%} ({100 * row.share.low:.0f}–{100 * row.share.high:.0f})",
            *(_beside(row, name) for name in names),
            *([row.algorithm or "sums", _errors(row)] if others else []),
            _outcomes(verdicts, row.job.title, row.wrong),
        )
        for row in rows
    ]
    more = ["algorithm", "error: rms / largest"] if others else []
    totals = _totals(rows, names, verdicts)
    return Table(
        f"{group} (GFLOP/s)",
        ("", "GFLOP", "clprim", "share of peak", *names, *more, "target"),
        (*lines, *((*line[:-1], *("" for _ in more), line[-1]) for line in totals)),
    )


def _errors(row: Row) -> str:
    """Print the errors of a result."""
    return " / ".join(f"{error:.1e}" for error in row.errors) if any(row.errors) else "exact"


def _counted(job: Job) -> str:
    return f"{job.title} (×{job.count})" if job.count > 1 else job.title


def _beside(row: Row, name: str) -> str:
    if name not in row.ratios:
        return "–"
    return f"{row.rates[name] / 1e9:.3g} ({row.ratios[name].median:.2f}×)"


def _outcomes(verdicts: Sequence[Verdict], subject: str, wrong: Iterable[str] = ()) -> str:
    """Print what became of the promises about a line."""
    several = len({verdict.target.measure for verdict in verdicts}) > 1
    kept = [
        f"{verdict.target.measure} {verdict}" if several else str(verdict)
        for verdict in verdicts
        if verdict.subject == subject
    ]
    return "\n".join([*kept, *(f"WRONG RESULT: {name}" for name in wrong)])


def _totals(
    rows: Sequence[Row], names: Sequence[str], verdicts: Sequence[Verdict]
) -> list[tuple[str, ...]]:
    """Return the last lines: means, worst ratios and, where jobs have counts, their sum."""

    def line(title: str, own: str, share: str, cell: Callable[[list[Row], str], str]) -> tuple:
        cells = (cell([row for row in rows if name in row.ratios], name) for name in names)
        return (title, "", own, share, *cells)

    def mean(members: list[Row], name: str) -> str:
        rate = geometric_mean(row.rates[name] for row in members)
        return f"{rate / 1e9:.3g} ({geometric_mean(_medians(members, name)):.2f}×)"

    def worst(members: list[Row], name: str) -> str:
        row = min(members, key=lambda row: row.ratios[name].median)
        return f"{row.ratios[name].median:.2f}×: {row.job.title}"

    rate = geometric_mean(row.rate for row in rows)
    share = geometric_mean(row.share.median for row in rows)
    least = min(rows, key=lambda row: row.share.median)
    means = line("geometric mean", f"{rate / 1e9:.3g}", f"{share:.0%}", mean)
    worsts = line("worst row", "", f"{least.share.median:.0%}: {least.job.title}", worst)
    found = [(*means, _outcomes(verdicts, _all_of(rows))), (*worsts, "")]
    if any(row.job.count > 1 for row in rows):

        def together(members: list[Row], name: str) -> str:
            if len(members) < len(rows):
                return "–"
            theirs = _seconds(rows, lambda row: row.rates[name])
            return f"{1e3 * theirs:.1f} ms ({theirs / mine:.2f}×)"

        mine = _seconds(rows, lambda row: row.rate)
        share = _seconds(rows, lambda row: row.peak) / mine
        all_of = line("all together", f"{1e3 * mine:.1f} ms", f"{share:.0%}", together)
        found.append((*all_of, ""))
    return found


def _medians(rows: Iterable[Row], name: str) -> list[float]:
    return [row.ratios[name].median for row in rows]


def _seconds(rows: Iterable[Row], rate: Callable[[Row], float]) -> float:
    """Return the time of all jobs, each as often as it is counted, at these rates."""
    return sum(row.job.count * row.job.flops / rate(row) for row in rows)


def _notes(rows: Sequence[Row], peers: Sequence[Peer]) -> list[str]:
    jobs = dict.fromkeys(row.job.op for row in rows)
    counted = any(row.job.count > 1 for row in rows)
    notes = [
        "GFLOP/s: a multiply-add counts as two, products with padding included. Everything is "
        "float32 and timed by the host, from the first of as many calls in a row as take 4 ms "
        "until the results are there. Times are medians; the contenders take turns.",
        *(
            [
                "Algorithm: Winograd's where it pays, with the errors it has on these inputs over "
                "the root mean square of the result; operations are counted as in sums of products."
            ]
            if any(row.algorithm for row in rows)
            else []
        ),
        "In brackets: how many times as fast as that peer clprim is, compared round by round "
        "(median). One that takes eight times as long as clprim runs three times only.",
        "`share of peak`: of the fastest kernel that does nothing but multiply and add in "
        "registers, in the same rounds (median, quartiles).",
        _steadiness(rows) if rows else "",
        "clprim writes into memory that is there (`out=`); its weights in forward convolutions "
        "are packed beforehand (`pack_weight`).",
        "The operands are small whole numbers, and every contender's result is compared with "
        "NumPy's, to the bit where it adds up products, before it is timed.",
        "The C library is told to keep freed memory, so that no peer pays for fresh pages.",
        "`all together`: every layer as often as the network has it." if counted else "",
        *(peer.note(jobs) for peer in peers if peer.missing or set(peer.remarks) & set(jobs)),
    ]
    return [note for note in notes if note]


def _steadiness(rows: Sequence[Row]) -> str:
    """Say how calm the machine was: the same kernel was timed beside every row."""
    rates = [row.peak / 1e9 for row in rows]
    disturbed = sum(not row.calm for row in rows)
    return (
        f"That kernel reached {min(rates):.3g} to {max(rates):.3g} GFLOP/s (medians of the rows). "
        "A round in which it was a fifth slower than at its best is left out for everyone, since "
        "something else used the processor. "
        f"{disturbed} of {len(rows)} rows had too few other rounds; they are not judged."
    )
