"""Lays out what `bench.work.operators` measured: a table a family, means, promises."""

from __future__ import annotations

from collections.abc import Sequence

from bench.page.report import Report, Table
from bench.page.targets import Target, Verdict, judge, mean_times
from bench.work.beside import TORCH
from bench.work.operator_case import MEMORY
from bench.work.operators import OpRow
from clprim.runtime.device import Device

_SHARE = Target("share", 0.85, "of the best copying or reading kernel")
_MEAN = Target("mean", 1.5, "as fast as PyTorch, geometric mean of all rows", unit="×")
_LEAST = Target("times", 0.9, "as fast as PyTorch, each row", unit="×")


def ops_report(
    rows: Sequence[OpRow],
    refused: Sequence[str],
    device: Device,
    *,
    quick: bool = False,
    options: str = "",
    label: str = "",
) -> Report:
    """Lay rows out for readers.

    Args:
        rows: As `run_ops` returned them.
        refused: Likewise.
        device: Where it ran.
        quick: Whether everything was too small for its targets.
        options: See `bench.page.report.Report`.
        label: Likewise.
    """
    families: dict[str, list[OpRow]] = {}
    for row in rows:
        families.setdefault(row.job.case.family, []).append(row)
    verdicts = {id(row): _verdicts(row, device, quick=quick) for row in rows}
    found = [verdict for row in rows for verdict in verdicts[id(row)]]
    compared = [row for row in rows if row.job.case.family != MEMORY and row.times]
    if compared:
        subject = f"{len(compared)} rows"
        found += judge([_MEAN], subject, {"mean": mean_times(compared)}, "--quick" * quick)
    return Report(
        "ops",
        "Operators next to PyTorch",
        tables=tuple(_table(family, members, verdicts) for family, members in families.items()),
        verdicts=tuple(found),
        notes=(*_NOTES, *refused),
        failures=tuple(
            f"{row.job.case.family}: {row.job.title}: clprim and PyTorch disagree"
            for row in rows
            if not row.correct
        ),
        options=options,
        label=label,
    )


def _verdicts(row: OpRow, device: Device, *, quick: bool) -> list[Verdict]:
    subject = f"{row.job.title}, {row.job.case.family}"
    excuse = "--quick" if quick else ""
    if row.share is not None:
        small = row.nbytes <= device.traits.cache_bytes
        held = excuse or ("fits the cache" if small else "")
        return judge([_SHARE], subject, {"share": row.share.median}, held)
    if row.times is not None:
        return judge([_LEAST], subject, {"times": row.times.median}, excuse)
    return []


def _table(family: str, rows: Sequence[OpRow], verdicts: dict[int, list[Verdict]]) -> Table:
    bound = any(row.share is not None for row in rows)
    lines = [_line(row, verdicts[id(row)], bound=bound) for row in rows]
    if any(row.times for row in rows):
        blank = ("",) if bound else ()
        lines.append(("geometric mean", "", "", *blank, "", f"{mean_times(rows):.2f}×", ""))
    columns = ("", "x", "clprim", *(("share",) if bound else ()), TORCH, "times as fast", "target")
    return Table(f"{family} (ms)", columns, tuple(lines))


def _line(row: OpRow, verdicts: Sequence[Verdict], *, bound: bool) -> tuple[str, ...]:
    share, times = row.share, row.times
    shown = "–"
    if share is not None:
        shown = f"{share.median:.0%} ({100 * share.low:.0f}–{100 * share.high:.0f})"
    return (
        row.job.title,
        f"{row.nbytes / 1e6:.1f} MB",
        f"{1e3 * row.seconds:.3f}",
        *((shown,) if bound else ()),
        "–" if row.theirs is None else f"{1e3 * row.theirs:.3f}",
        "–" if times is None else f"{times.median:.2f}× ({times.low:.2f}–{times.high:.2f})",
        "\n".join([*map(str, verdicts), *([] if row.correct else ["WRONG RESULT"])]),
    )


_NOTES = (
    "Milliseconds by the host's clock, from the first of as many calls in a row as take 4 ms until "
    "the results are there, as one operator of a network follows another; both allocate their "
    "results, and the C library is told to keep freed memory, so that PyTorch does not pay for "
    "fresh pages. Times are medians; the contenders take turns.",
    "Before each sample on more than the cache is said to hold, 512 MiB of other memory are read, "
    "so that the data come from memory.",
    "`x`: all that is given and returned, once each. `share`: of the rate of the best kernel that "
    "only copies (or, for sums, reads) as much, by the device's clock, compared round by round "
    "(median, quartiles).",
    "`times as fast`: compared round by round (median, quartiles). The mean's target counts every "
    "row of every table but that of what memory bounds.",
    "PyTorch's backward is `torch.autograd.grad` of a kept graph, its Adam the fused one; clprim's "
    "parameters lie side by side (`ops.optim.flat`). Results are compared with PyTorch's before "
    "anything is timed; of `sort` and `topk` the values, since equal ones have any order there.",
)
