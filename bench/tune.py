"""``python -m bench tune``: the rows of other pages through `clprim.tune`, as a page.

What wins is written to the user's table of the device, which every later plan looks up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import clprim as cp
from bench.case import FORMATS, Case, Options
from bench.cases.arithmetic import conv_cases, depthwise_cases, gemm_cases
from bench.options import WrongError, finish, folder_of, repeats_of
from bench.table import slug
from clprim.plan.families import FAMILIES
from clprim.plan.table import Entry, Key, TuningFile
from clprim.runtime import tables as tuning
from clprim.runtime.tables import IDENTITY
from clprim.tune.ask import record as recorded
from clprim.tune.clock import Clock, race
from clprim.tune.depthwise import DEPTHWISE
from clprim.tune.measure import WORTH, Effort, Tuned, mean_gain, tune
from clprim.tune.measure import Case as Problem
from clprim.tune.networks import NETWORKS

_TITLE = "Tiles of contractions: the rule's and the fastest"
_TUNED = Path(cp.__file__).resolve().parent / "tuned"


def record(cases: Iterable[Case]) -> list[Problem]:
    """Return the contractions of some rows, of each class the first one.

    A convolution that an algorithm with errors can do is one more, if these are allowed: there
    `cp.options(convolution_error=)` decides what is timed.
    """
    found: dict[Key, Problem] = {}
    traits = cp.current_device().traits
    errors = dict.fromkeys((0.0, cp.options.current().convolution_error))
    for case, error in itertools.product(cases, errors):
        with cp.options(convolution_error=error):
            problems = recorded(lambda case=case: case.makers["clprim"](case.data()))  # type: ignore[misc]
        for problem in problems:
            inexact = (problem.family.error(problem.problem, traits, c) for c in problem.candidates)
            if error and not any(inexact):
                continue  # sums of products, as they are without errors
            where = [name for name in FORMATS.values() if name in case.group]
            direction = case.group.partition("gradient")[2]
            words = (case.title, *where, direction.strip(), f"errors up to {error:g}" * bool(error))
            found.setdefault(problem.key, replace(problem, title=", ".join(filter(None, words))))
    return list(found.values())


def tune_all(
    problems: Sequence[Problem],
    rounds: int,
    *,
    clock: Clock = race,
    say: Callable[[str], None] = lambda _: None,
) -> list[Tuned]:
    """Return what `clprim.tune` finds of every problem, with all of its candidates."""
    found = []
    for problem in problems:
        say(problem.title)
        one = tune(problem, Effort(None, 3, rounds, float("inf")), clock=clock)
        if one is not None:
            found.append(one)
    return found


def entries_of(found: Iterable[Tuned]) -> dict[Key, Entry]:
    return {t.case.key: t.entry for t in found}


def to_ship(
    found: Sequence[Tuned], device: cp.Device, names: tuple[str, ...], old: TuningFile | None = None
) -> TuningFile:
    """Return a table for the package: what was better than the rule, and what is old of others."""
    traits = {name: getattr(device.traits, name) for name in IDENTITY}
    before = {} if old is None or old.traits != traits else old.entries
    seen = {t.case.key for t in found}
    changed = {key: entry for key, entry in before.items() if key not in seen}
    changed.update(entries_of(t for t in found if t.best != t.rule))
    return TuningFile(names, device.platform, device.driver, traits, changed, cp.__version__)


def table_of(found: Sequence[Tuned]) -> tuple[str, list[str], list[list[str]]]:
    head = ["problem", "rule's tile", "ms", "best tile", "ms", "gain", "tried"]
    return (
        "Milliseconds of a call, weights that stay packed beforehand",
        head,
        [t.row for t in found],
    )


def notes_of(found: Sequence[Tuned], problems: int, kept: str) -> list[str]:
    """Return what was gained, what is taken, and where it lies."""
    changed = [t for t in found if t.best != t.rule]
    most = max(changed, key=lambda t: t.gain, default=None)
    at_most = f", at most {most.gain:.2f}×: {most.case.title}" if most else ""
    notes = [
        f"gained: {100 * (mean_gain(found) - 1):.1f} % in the geometric mean of {len(found)} "
        f"problems; {len(changed)} of them got another tile than the rule's{at_most}",
        f"a tile is taken if it is {100 * (WORTH - 1):.0f} % faster than the rule's in the median "
        "of rounds that both took part in; results of sums of products were equal bit for bit, "
        "others within the error that their tile has",
        kept,
    ]
    left = problems - len(found)
    return notes + ([f"{left} more have one tile that fits"] if left else [])


def command(args: Options, say: Callable[[str], None]) -> int:
    """Time, keep, say; with ``--ship`` write a table into the package, the page into results."""
    device, args.residual = cp.current_device(), False
    problems = record(gemm_cases(args) if args.products else _layers(args))
    found = tune_all(problems, repeats_of(args), say=say)
    if args.ship:
        tables = args.output or _TUNED
        tables.mkdir(parents=True, exist_ok=True)
        path = tables / f"{slug(device)}.json"
        old = TuningFile.parse(path.read_text("utf-8"), FAMILIES) if path.is_file() else None
        shipped = to_ship(found, device, tuple(args.ship.split(",")), old)
        path.write_text(shipped.text(FAMILIES), encoding="utf-8")
    kept = "kept nowhere: --quick"
    if not args.quick:
        try:
            where = tuning.save(device, entries_of(found), cp.__version__)
        except OSError as error:
            raise WrongError(f"the table cannot be kept: {error}") from None
        kept = f"kept in {where}" if where else "kept nowhere: CLPRIM_CACHE_DIR switches that off"
    failures = [f"{t.case.title}: wrong result of {', '.join(t.wrong)}" for t in found if t.wrong]
    notes = notes_of(found, len(problems), kept)
    folder = args.output or folder_of(args)
    told = {"tables": [table_of(found)], "notes": notes, "failures": failures}
    return finish(args, folder, _TITLE, "ms", **told)


def _layers(args: Options) -> list[Case]:
    """Return the rows of networks; depthwise layers are known by those of `DEPTHWISE`."""
    found, names = [], args.network
    for known, cases in ((NETWORKS, conv_cases), (DEPTHWISE, depthwise_cases)):
        args.network = [name for name in names if name in known]
        found += cases(args)
    return found
