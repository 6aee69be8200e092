"""``python -m bench tune``: the rows of other benchmarks through `clprim.tune`, as a page.

What wins is written to the user's table of the device, which every later plan looks up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import clprim as cp
from bench.clock.compute import Job
from bench.page.report import Report, Table
from bench.peers.compute import Packs
from bench.peers.peer import Inputs
from clprim.plan.table import Entry, Key, TuningFile
from clprim.runtime.device import Device
from clprim.runtime.tables import IDENTITY
from clprim.tune.ask import record as recorded
from clprim.tune.clock import Clock, race
from clprim.tune.measure import WORTH, Case, Effort, Tuned, mean_gain
from clprim.tune.measure import tune as tuned


def record(jobs: Iterable[Job], device: Device) -> list[Case]:
    """Returns the contractions of some jobs, of each class the first one.

    A convolution that an algorithm with errors can do is one more, if these are allowed: there
    `cp.options(convolution_error=)` decides what is timed.

    Args:
        jobs: Rows of ``bench conv`` and ``bench gemm``; each is run once.
        device: Where.
    """
    found: dict[Key, Case] = {}
    errors = dict.fromkeys((0.0, cp.options.current().convolution_error))
    for job, error in itertools.product(jobs, errors):
        with cp.options(convolution_error=error):
            cases = recorded(lambda job=job: Packs(device).prepare(job, Inputs(job)))  # type: ignore[misc]
        for case in cases:
            inexact = (case.family.error(case.problem, device.traits, c) for c in case.candidates)
            if error and not any(inexact):
                continue  # sums of products, as they are without errors
            words = (job.title, _where(job), f"errors up to {error:g}" if error else "")
            found.setdefault(case.key, replace(case, title=", ".join(filter(None, words))))
    return list(found.values())


def tune_all(
    cases: Sequence[Case],
    rounds: int,
    *,
    clock: Clock = race,
    progress: Callable[[str, float], None] = lambda *_: None,
) -> list[Tuned]:
    """Returns what `clprim.tune` finds of every case, with all of its candidates.

    Args:
        cases: Which.
        rounds: Of the last few of each; all run three times first.
        clock: Who times.
        progress: Hears the title of each, and its part of the whole.
    """
    found = []
    for case in cases:
        progress(case.title, 1 / len(cases))
        one = tuned(case, Effort(None, 3, rounds, float("inf")), clock=clock)
        if one is not None:
            found.append(one)
    return found


def entries_of(found: Iterable[Tuned]) -> dict[Key, Entry]:
    """Returns what a table keeps of a run."""
    return {t.case.key: t.entry for t in found}


def to_ship(
    found: Sequence[Tuned], device: Device, names: tuple[str, ...], old: TuningFile | None = None
) -> TuningFile:
    """Returns a table for the package: what was measured to be better than the rule.

    Args:
        found: What `tune_all` returned.
        device: Where.
        names: Parts of the names of devices that it is for.
        old: The table that was there; what it says of other problems stays.
    """
    traits = {name: getattr(device.traits, name) for name in IDENTITY}
    before = {} if old is None or old.traits != traits else old.entries
    seen = {t.case.key for t in found}
    changed = {key: entry for key, entry in before.items() if key not in seen}
    changed.update(entries_of(t for t in found if t.best != t.rule))
    version = cp.__version__
    return TuningFile(names, device.platform, device.driver, traits, changed, version)


def _where(job: Any) -> str:
    formats = {"channels_last": "NHWC", "contiguous": "NCHW"}
    if job.op == "gemm":
        return ""
    direction = {"conv_input": ", by input", "conv_weight": ", by weight"}.get(job.op, "")
    return formats[job.memory_format] + direction


def tune_report(found: Sequence[Tuned], cases: int, kept: str) -> Report:
    """Returns the report of a run.

    Args:
        found: What `tune_all` returned.
        cases: How many there were.
        kept: Where the table lies now.
    """
    rows = tuple(
        (
            t.case.title,
            str(t.rule),
            f"{1e3 * t.seconds[0]:.3f}",
            str(t.best) if t.best != t.rule else "the same",
            f"{1e3 * t.seconds[1]:.3f}",
            f"{t.gain:.2f}×",
            str(t.tried),
        )
        for t in found
    )
    columns = ("problem", "rule's tile", "ms", "best tile", "ms", "gain", "tried")
    changed = [t for t in found if t.best != t.rule]
    mean = mean_gain(found)
    most = max(found, key=lambda t: t.gain, default=None)
    notes = [
        f"gained: {100 * (mean - 1):.1f} % in the geometric mean of {len(found)} problems; "
        f"{len(changed)} of them got another tile than the rule's"
        + (f", at most {most.gain:.2f}×: {most.case.title}" if changed and most else ""),
        f"a tile is taken if it is {100 * (WORTH - 1):.0f} % faster than the rule's in the median "
        "of rounds that both took part in; results of sums of products were equal bit for bit, "
        "others within the error that their tile has",
        kept,
    ]
    if cases > len(found):
        notes.append(f"{cases - len(found)} more have one tile that fits")
    failures = tuple(
        f"{t.case.title}: wrong result of {', '.join(t.wrong)}" for t in found if t.wrong
    )
    title = "Tiles of contractions: the rule's and the fastest"
    table = Table("Milliseconds of a call, weights that stay packed beforehand", columns, rows)
    return Report("tune", title, (table,), notes=tuple(notes), failures=failures)
