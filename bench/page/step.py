"""Lays out what `bench.work.step` measured: rates, means, promises, memory."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from bench.clock.timing import Spread
from bench.page.report import Report, Table
from bench.page.targets import Target, Verdict, judge
from bench.work.step import CALLS, COMPILED, TORCH, Footprint, StepRow

_OF = "as fast as PyTorch's CPU"
_LEAST = Target("row", 0.9, f"{_OF}: call by call, every row", unit="×")
_MEAN = Target("mean", 1.3, f"{_OF}: call by call, geometric mean", unit="×")
_COMPILED = {
    name: Target("compiled", bound, f"{_OF}: compiled, {title}, batch 8", unit="×")
    for name, title, bound in (("resnet18", "ResNet-18", 1.9), ("mobilenet_v2", "MobileNetV2", 1.6))
}
_MEMORY = Target("memory", 1.1, "PyTorch's memory of a training step", at_most=True, unit="×")
_NOTES = (
    "Images a second by the host's clock, from the call until the results are there, median run. "
    "Contenders take turns; PyTorch's threads have 12 ms to fall asleep between; rounds in which a "
    "gauge on all cores was disturbed do not count. PyTorch runs as it comes: it takes fresh pages "
    "from the system for every large tensor. `--keep-memory` tells the C library to keep what is "
    "freed, which spares it these.",
    "A training step is forward, cross entropy, backward and SGD with momentum (`fused=True` of "
    "both), channels_last, float32. Dropout and stochastic depth leave everything in, so that "
    "losses can be compared, which they are before anything is timed.",
    "`clprim`: the same code as PyTorch's, call by call, on the device; `compiled`: the step as "
    "one computation, where it can be.",
    "`times as fast`: as PyTorch, compared round by round (median, quartiles).",
)
_MEMORY_NOTE = (
    "Memory: each in a process of its own, by Linux's count of resident pages. A step: what "
    "parameters, momenta and statistics take, and by how much the process grows during three steps "
    "at most, from what it is between steps without gradients and caches. The whole process has "
    "both libraries, and on the device's side compiled kernels and whatever compiled them."
)


def step_report(
    rows: Sequence[StepRow],
    memory: Footprint | None,
    *,
    refused: Sequence[str] = (),
    excuse: str = "",
    options: str = "",
    label: str = "",
) -> Report:
    """Lay rows out for readers.

    Args:
        rows: As `run_steps` returned them.
        memory: As `run_memory` returned it; None where it was not measured.
        refused: Why other rows were not measured.
        excuse: Why targets are not judged, if so.
        options: See `bench.page.report.Report`.
        label: Likewise.
    """
    groups: dict[str, list[StepRow]] = {}
    for row in rows:
        groups.setdefault(row.job.group, []).append(row)
    tables = [_table(group, members) for group, members in groups.items()]
    verdicts = _verdicts(rows, excuse) if rows else []
    if memory is not None:
        tables.append(memory_table(memory))
        subject = f"{memory.job.title}, batch {memory.job.batch}"
        verdicts += judge([_MEMORY], subject, {"memory": memory.times}, excuse)
    failures = [f"{row.label}: clprim and PyTorch disagree" for row in rows if not row.correct]
    failures += [
        f"{row.label}: on the CPU ran {', '.join(row.on_cpu)}" for row in rows if row.on_cpu
    ]
    disturbed = [f"{row.label}: most rounds were disturbed" for row in rows if not row.calm]
    return Report(
        "step",
        "Training steps on the device next to PyTorch on the CPU",
        tables=tuple(tables),
        verdicts=tuple(verdicts),
        notes=(*_NOTES, *([_MEMORY_NOTE] if memory is not None else []), *disturbed),
        failures=(*refused, *failures),
        options=options,
        label=label,
    )


def _verdicts(rows: Sequence[StepRow], excuse: str) -> list[Verdict]:
    """Hold the mean over all networks and batches, and rows, against what is promised."""
    found = judge([_MEAN], f"{len(rows)} rows", {"mean": _mean(rows, CALLS)}, excuse)
    for row in rows:
        subject = f"{row.job.title}, batch {row.job.batch}"
        found += judge([_LEAST], subject, {"row": row.times[CALLS].median}, excuse)
        if row.job.batch == 8 and row.job.name in _COMPILED:
            compiled = row.times.get(COMPILED)
            values = {} if compiled is None else {"compiled": compiled.median}
            found += judge([_COMPILED[row.job.name]], subject, values, excuse)
    return found


def _mean(rows: Sequence[StepRow], name: str) -> float:
    return geometric_mean(row.times[name].median for row in rows)


def _table(group: str, rows: Sequence[StepRow]) -> Table:
    ours = [name for name in (CALLS, COMPILED) if all(name in row.times for row in rows)]
    names = (*ours, TORCH)
    lines = [
        (
            row.job.title,
            *(f"{row.rates[name]:.1f}" for name in names),
            *(_times(row.times[name]) for name in ours),
        )
        for row in rows
    ]
    means = (f"{_mean(rows, name):.2f}×" for name in ours)
    lines.append(("geometric mean", *("" for _ in names), *means))
    heads = (name.replace("clprim", "times as fast") for name in ours)
    return Table(f"{group} (images/s)", ("", *names, *heads), tuple(lines))


def _times(times: Spread) -> str:
    return f"{times.median:.2f}× ({times.low:.2f}–{times.high:.2f})"


def memory_table(memory: Footprint) -> Table:
    """Return the table of what a step takes of memory."""
    mine, theirs = (memory.state + memory.rise[name] for name in (CALLS, TORCH))
    whole, other = (memory.process[name] for name in (CALLS, TORCH))
    rows = tuple(
        (title, f"{a / 1e6:.0f}", f"{b / 1e6:.0f}", f"{a / b:.2f}×")
        for title, a, b in (("a step", mine, theirs), ("the whole process", whole, other))
    )
    title = f"Memory at most, training step of {memory.job.title}, batch {memory.job.batch} (MB)"
    return Table(title, ("", CALLS, TORCH, "times"), rows)
