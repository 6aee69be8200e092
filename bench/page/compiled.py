"""Lays out networks and training steps that `torch.compile` compiled, beside PyTorch's compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import geometric_mean

from bench.page.nets import rates_of, remarks_of, times_of
from bench.page.report import Report, Table
from bench.page.step import memory_table
from bench.page.targets import Target, Verdict, judge
from bench.peers.nets import Inductor
from bench.peers.peer import Peer
from bench.work.nets import NetRow
from bench.work.step import CALLS, COMPILED, INDUCTOR, TORCH, Footprint, StepRow

_OF = "as fast as inductor"
_TRANSFORMERS = ("vit_b_16", "swin_t", "bert")
_MEANS = {
    batch: Target("mean", 1.6, f"{_OF}, frozen: CNNs, geometric mean, batch {batch}", unit="×")
    for batch in (1, 8)
}
_LEAST = Target("row", 1.0, f"{_OF}, frozen: every CNN", unit="×")
_TOKENS = Target("row", 1.0, f"{_OF}, frozen: ViT-B/16, Swin-T, BERT-base", unit="×")
_STEPS = Target("mean", 1.8, f"{_OF}: training steps, geometric mean", unit="×")
_LEAST_STEP = Target("row", 1.3, f"{_OF}: every training step", unit="×")
_MEMORY = Target("memory", 0.8, "PyTorch's memory of a training step", at_most=True, unit="×")
_FIRST = Target("first", 1.0, "inductor's time to the first result", at_most=True, unit="×")
_NOTES = (
    "Images a second (rows of tokens, of BERT) by the host's clock, until the results are there. "
    "Contenders take turns; rounds in which a gauge on all cores was disturbed do not count. All "
    "results and losses were compared with PyTorch's before anything was timed.",
    "A training step is forward, cross entropy, backward and SGD with momentum (`fused=True` of "
    "all), channels_last, float32. Compiled are the forward pass with the loss, and the backward "
    "pass; `clprim` there is the same step call by call.",
)
_FIRST_NOTE = (
    "First results: `torch.compile` of ResNet-50 and its first call, batch 8, without gradients, "
    "in the second of two processes: kernels and graphs are on disk. Imports do not count."
)


def compiled_report(
    rows: Sequence[NetRow],
    peers: Sequence[Peer],
    steps: Sequence[StepRow],
    memory: Footprint | None,
    firsts: Mapping[str, float] | None,
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
        steps: As `run_steps` returned them.
        memory: As `run_memory` returned it; None where it was not measured.
        firsts: As `run_firsts` returned it; likewise.
        refused: Rows that clprim does not run, and why.
        excuse: Why targets are not judged, if so.
        options: See `bench.page.report.Report`.
        label: Likewise.
    """
    tables = []
    for group in dict.fromkeys(row.job.group for row in rows):
        members = [row for row in rows if row.job.group == group]
        tables += [rates_of(group, members, peers), times_of(group, members, peers)]
    for group in dict.fromkeys(row.job.group for row in steps):
        tables.append(_steps_table(group, [row for row in steps if row.job.group == group]))
    verdicts = [*_verdicts(rows, excuse), *_step_verdicts(steps, excuse)]
    notes = [*_NOTES, *remarks_of(rows, peers)]
    notes += [f"{r.label}: {INDUCTOR} did not run: {r.absent}" for r in steps if r.absent]
    notes += [f"{r.label}: most rounds were disturbed" for r in steps if not r.calm]
    if memory is not None:
        tables.append(memory_table(memory))
        verdicts += judge([_MEMORY], memory.job.title, {"memory": memory.times}, excuse)
    if firsts is not None:
        tables.append(_firsts_table(firsts))
        share = firsts["clprim"] / firsts["inductor"]
        verdicts += judge([_FIRST], "ResNet-50", {"first": share}, excuse)
        notes.append(_FIRST_NOTE)
    wrong = [f"{r.job.label}: off by {r.error:.1e}" for r in rows if not r.correct]
    wrong += [f"{r.label}: losses differ" for r in steps if not r.correct]
    wrong += [f"{r.job.title}: on the CPU ran {', '.join(r.on_cpu)}" for r in steps if r.on_cpu]
    return Report(
        "torch",
        "torch.compile with clprim as its backend, next to PyTorch and its own compiler",
        tables=tuple(tables),
        verdicts=tuple(verdicts),
        notes=tuple(notes),
        failures=(*refused, *wrong),
        options=options,
        label=label,
    )


def _verdicts(rows: Sequence[NetRow], excuse: str) -> list[Verdict]:
    found: list[Verdict] = []
    raced = [row for row in rows if Inductor.name in row.times]
    images = [row for row in raced if row.job.name not in _TRANSFORMERS]
    for batch, target in _MEANS.items():
        times = [row.times[Inductor.name].median for row in images if row.job.batch == batch]
        if times:
            found += judge([target], f"{len(times)} rows", {"mean": geometric_mean(times)}, excuse)
    for row in raced:
        target = _LEAST if row in images else _TOKENS
        found += judge([target], row.job.label, {"row": row.times[Inductor.name].median}, excuse)
    return found


def _step_verdicts(steps: Sequence[StepRow], excuse: str) -> list[Verdict]:
    times = [(row, row.beside.median) for row in steps if row.beside is not None]
    if not times:
        return []
    mean = geometric_mean(time for _, time in times)
    found = judge([_STEPS], f"{len(times)} rows", {"mean": mean}, excuse)
    for row, time in times:
        subject = f"{row.job.title}, batch {row.job.batch}"
        found += judge([_LEAST_STEP], subject, {"row": time}, excuse)
    return found


def _steps_table(group: str, rows: Sequence[StepRow]) -> Table:
    names = (COMPILED, CALLS, TORCH, INDUCTOR)
    lines = [
        (
            row.job.title,
            *(f"{row.rates[name]:.1f}" if name in row.rates else "–" for name in names),
            "–" if row.beside is None else f"{row.beside.median:.2f}×",
        )
        for row in rows
    ]
    times = [row.beside.median for row in rows if row.beside is not None]
    mean = f"{geometric_mean(times):.2f}×" if times else "–"
    lines.append(("geometric mean", *("" for _ in names), mean))
    columns = ("", *names, "times as fast as inductor")
    return Table(f"{group} (images a second)", columns, tuple(lines))


def _firsts_table(firsts: Mapping[str, float]) -> Table:
    names = tuple(firsts)
    cells = tuple(f"{firsts[name]:.2f}" for name in names)
    return Table("The first result, everything on disk (s)", ("", *names), (("", *cells),))
