"""Lays out what `bench.work.norm` measured: a line a shape, means, promises, a chart."""

from __future__ import annotations

from collections.abc import Sequence

from bench.clock.timing import Spread
from bench.page.report import Report, Table
from bench.page.targets import Target, Verdict, judge, mean_times
from bench.work.beside import TORCH
from bench.work.norm import NormRow
from clprim.runtime.device import Device

_SHARE = Target("share", 0.90, "of the best read-only kernel, statistics")
_LEAST = {"training forward": 2.0, "backward": 1.5, "layer norm": 1.0}

_REMARKS = {
    "statistics": "`torch.var_mean` with `correction=0`",
    "training forward": "`torch.nn.functional.batch_norm(training=True)`",
    "backward": "`native_batch_norm_backward`, what autograd calls",
    "inference": "`torch.nn.functional.batch_norm`",
    "layer norm": "`torch.nn.functional.layer_norm`",
}


def norm_report(
    rows: Sequence[NormRow],
    refused: Sequence[str],
    device: Device,
    *,
    quick: bool = False,
    options: str = "",
    label: str = "",
) -> Report:
    """Lay rows out for readers.

    Args:
        rows: As `run_norm` returned them.
        refused: Likewise.
        device: Where it ran.
        quick: Whether everything was too small for its targets.
        options: See `bench.page.report.Report`.
        label: Likewise.
    """
    groups: dict[str, list[NormRow]] = {}
    for row in rows:
        groups.setdefault(row.job.group, []).append(row)
    verdicts = _verdicts(rows, device, quick=quick)
    return Report(
        "norm",
        "Normalisations next to PyTorch",
        tables=tuple(_table(group, members, verdicts) for group, members in groups.items()),
        verdicts=tuple(verdict for found in verdicts.values() for verdict in found),
        notes=(*_notes(rows), *refused),
        failures=tuple(
            f"{row.job.group}: {row.job.title}: clprim and PyTorch disagree"
            for row in rows
            if not row.correct
        ),
        options=options,
        label=label,
    )


def _verdicts(
    rows: Sequence[NormRow], device: Device, *, quick: bool
) -> dict[tuple[str, str], list[Verdict]]:
    """Hold rows and tables against what is promised; keys are (table, row or ``mean``)."""
    found: dict[tuple[str, str], list[Verdict]] = {}
    for row in rows:
        if row.share is not None:
            small = row.job.nbytes <= device.traits.cache_bytes
            excuse = "--quick" if quick else "fits the cache" if small else ""
            subject = f"{row.job.title}, {row.job.group}"
            values = {"share": row.share.median}
            found[row.job.group, row.job.title] = judge([_SHARE], subject, values, excuse)
    for kind, bound in _LEAST.items():
        for memory_format in ("contiguous", "channels_last"):
            members = [
                row
                for row in rows
                if row.job.kind == kind and row.job.memory_format == memory_format and row.times
            ]
            if members:
                where = memory_format if kind != "layer norm" else "all rows"
                of = f"as fast as PyTorch: {kind}, geometric mean, {where}"
                target = Target(kind, bound, of, unit="×")
                values = {kind: mean_times(members)}
                verdict = judge([target], f"{len(members)} rows", values, "--quick" * quick)
                found[members[-1].job.group, "mean"] = verdict
    return found


def _table(
    group: str, rows: Sequence[NormRow], verdicts: dict[tuple[str, str], list[Verdict]]
) -> Table:
    lines = [
        (
            row.job.title,
            f"{row.job.nbytes / 1e6:.1f} MB",
            f"{1e3 * row.seconds:.3f}",
            _share(row),
            "–" if row.theirs is None else f"{1e3 * row.theirs:.3f}",
            "–" if row.times is None else f"{row.times.median:.2f}× ({_quartiles(row.times)})",
            "\n".join(
                [
                    *map(str, verdicts.get((group, row.job.title), ())),
                    *([] if row.correct else ["WRONG RESULT"]),
                ]
            ),
        )
        for row in rows
    ]
    if any(row.times for row in rows):
        outcome = "\n".join(map(str, verdicts.get((group, "mean"), ())))
        lines.append(("geometric mean", "", "", "", "", f"{mean_times(rows):.2f}×", outcome))
    return Table(
        f"{group} (ms)",
        ("", "x", "clprim", "share", TORCH, "times as fast", "target"),
        tuple(lines),
    )


def _share(row: NormRow) -> str:
    if row.share is None:
        return "–"
    return f"{row.share.median:.0%} ({100 * row.share.low:.0f}–{100 * row.share.high:.0f})"


def _quartiles(times: Spread) -> str:
    return f"{times.low:.2f}–{times.high:.2f}"


def _notes(rows: Sequence[NormRow]) -> list[str]:
    kinds = dict.fromkeys(row.job.kind for row in rows)
    calls = "; ".join(f"{kind}: {_REMARKS[kind]}" for kind in kinds)
    return [
        "Milliseconds by the host's clock, from the first of as many calls in a row as take 4 ms "
        "until the results are there, as one operator of a network follows another; both "
        "allocate their results, and the C library is told to keep freed memory, so that PyTorch "
        "does not pay for fresh pages. Times are medians; the contenders take turns.",
        "Before each sample on more than the cache is said to hold, 512 MiB of other memory are "
        "read, so that the data come from memory.",
        "`share`: of the rate of the best kernel that only reads as much, by the device's clock, "
        "from the start of the first kernel to the end of the last, compared round by round "
        "(median, quartiles).",
        "`times as fast`: compared round by round (median, quartiles). A mean's target counts the "
        "rows of all networks in this format.",
        "Results are compared with PyTorch's before anything is timed.",
        f"{TORCH}, on the CPU: {calls}.",
    ]
