"""``python -m bench tune``: times tiles of contractions, keeps the best, says what that gained.

What wins is written to the user's table of the device, which every later plan looks up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import clprim as cp
from bench.clock.compute import Job
from bench.clock.timing import Contender, Result, race, ratio, stream
from bench.page.report import Report, Table
from bench.peers.compute import Packs
from bench.peers.peer import Inputs
from bench.tune.memory import memory_of
from clprim.call.call import bind
from clprim.call.packed import PackedWeight
from clprim.call.signature import Calls
from clprim.plan import table as tuning
from clprim.plan.conv.problem import Convolution
from clprim.plan.kernel import Choice
from clprim.plan.product.problem import Contraction
from clprim.plan.strategy import Family
from clprim.plan.table import Entry, Key, TuningFile
from clprim.runtime.device import Device
from clprim.runtime.tables import IDENTITY, using

Workload = Contraction | Convolution
Clock = Callable[[Sequence[Contender], int], Mapping[str, Result]]

# A tile must be so many times as fast as the rule's to be taken: less may be noise.
_WORTH = 1.02
# Rounds of all candidates, and what of the best one's speed earns a place in the final.
_FIRST, _GOOD, _FINALISTS = 3, 0.9, 4


@dataclass(frozen=True)
class Case:
    """A contraction to find the best tile for.

    Attributes:
        title: For readers.
        family: Whose strategies compute it.
        problem: What to compute.
    """

    title: str
    family: Family[Any]
    problem: Workload

    @property
    def key(self) -> Key:
        """What its entry in a table stands under."""
        return self.family.name, self.family.described.of(self.problem)


@dataclass(frozen=True)
class Tuned:
    """What was found of one case.

    Attributes:
        case: Which.
        rule: What the rule chooses.
        best: What was fastest; the rule's choice where nothing was worth the change.
        seconds: Of both.
        gain: How many times as fast as the rule's tile the best one is, the median of all rounds.
        tried: How many tiles were timed.
        wrong: Tiles whose results were not the rule's: errors, whatever their speed.
    """

    case: Case
    rule: Choice
    best: Choice
    seconds: tuple[float, float]
    gain: float
    tried: int
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Recorder(tuning.Table):
    """An empty table that remembers what it was asked."""

    asked: list[tuple[Family[Any], Workload]] = field(default_factory=list)

    def choice(self, family: Any, problem: Workload) -> None:
        self.asked.append((family, problem))


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
        recorder = _Recorder()
        Calls.forget()
        with using(recorder), cp.options(convolution_error=error):
            Packs(device).prepare(job, Inputs(job))  # runs it once
        for family, problem in recorder.asked:
            if isinstance(problem, Contraction) and problem.digits is not None:
                continue  # results whose outputs become pixels: memory decides there
            tried = family.candidates(problem, device.traits)
            if not tried:
                continue  # left to another family, whose problem follows
            if error and not any(family.error(problem, device.traits, choice) for choice in tried):
                continue  # sums of products, as they are without errors
            words = (job.title, _where(job), f"errors up to {error:g}" if error else "")
            case = Case(", ".join(filter(None, words)), family, problem)
            found.setdefault(case.key, case)
    Calls.forget()
    return list(found.values())


def tune(case: Case, device: Device, rounds: int, *, clock: Clock = race) -> Tuned | None:
    """Times the candidates of one case; None where there is but one.

    Sums of products shall agree bit for bit, and what has errors with them up to these.

    Args:
        case: Which.
        device: Where.
        rounds: Of the last few; all run three times first.
        clock: Who times contenders.
    """
    tried = case.family.candidates(case.problem, device.traits)
    if len(tried) < 2:
        return None
    rule = tried[0]
    bench = _Bench(case, device)
    errors = {choice: case.family.error(case.problem, device.traits, choice) for choice in tried}
    contenders, wrong, expected = {}, [], None
    for choice in sorted(tried, key=lambda choice: errors[choice] > 0):  # sums of products first
        run = bench.call(choice)
        result, error = bench.result(run), errors[choice]
        expected = result if expected is None else expected
        if error and result.dtype != case.problem.value:
            error += float(cp.finfo(result.dtype).eps)
        if not _agree(result, expected, error):
            wrong.append(str(choice))
            continue
        contenders[choice] = stream(str(choice), 1, run, device.synchronize)
    first = clock(list(contenders.values()), _FIRST)
    rates = {choice: first[str(choice)].rate("host") for choice in contenders}
    fast = sorted(rates, key=lambda c: -rates[c])
    final = [c for c in fast if rates[c] >= _GOOD * rates[fast[0]]][:_FINALISTS]
    final = list(dict.fromkeys([rule, *final]))
    last = clock([contenders[c] for c in final], rounds)
    gains = {c: ratio(last[str(c)], last[str(rule)], "host") for c in final}
    best = max(final, key=lambda c: gains[c].median)
    if gains[best].median < _WORTH or gains[best].low < 1:
        best = rule
    seconds = 1 / last[str(rule)].rate("host"), 1 / last[str(best)].rate("host")
    return Tuned(case, rule, best, seconds, gains[best].median, len(contenders), tuple(wrong))


def tune_all(
    cases: Sequence[Case],
    device: Device,
    rounds: int,
    *,
    clock: Clock = race,
    progress: Callable[[str, float], None] = lambda *_: None,
) -> list[Tuned]:
    """Returns what `tune` finds of every case that has more than one candidate."""
    found = []
    for case in cases:
        progress(case.title, 1 / len(cases))
        tuned = tune(case, device, rounds, clock=clock)
        if tuned is not None:
            found.append(tuned)
    return found


def entries_of(found: Iterable[Tuned]) -> dict[Key, Entry]:
    """Returns what a table keeps of a run."""
    return {t.case.key: Entry(t.best, t.gain) for t in found}


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
    return TuningFile(names, device.platform, device.driver, traits, changed)


def _where(job: Any) -> str:
    formats = {"channels_last": "NHWC", "contiguous": "NCHW"}
    if job.op == "gemm":
        return ""
    direction = {"conv_input": ", by input", "conv_weight": ", by weight"}.get(job.op, "")
    return formats[job.memory_format] + direction


class _Bench:
    """The memory of one case, which its candidates share."""

    def __init__(self, case: Case, device: Device) -> None:
        self.case, self.device = case, device
        (size_y, y), *operands = memory_of(case.problem)
        self.y = cp.zeros((size_y,), y)
        self.x, self.w = (_small(size, dtype, n) for n, (size, dtype) in enumerate(operands, 1))

    def call(self, choice: Choice) -> Callable[[], Any]:
        """Returns what runs a candidate once, a weight that stays packed beforehand."""
        device, problem = self.device, self.case.problem
        plan = self.case.family.tuned(problem, device.traits, choice)
        assert plan is not None  # candidates fit
        call = bind(device, problem.name, plan, ("y0", "x", "w"))
        arrays = self.y, self.x, self.w
        stays = problem.kept and getattr(problem, "direction", "") != "weight"
        weight = {"w": PackedWeight(self.w)} if stays else {}
        return lambda: call.run(device, arrays, (), weight)

    def result(self, run: Callable[[], Any]) -> np.ndarray[Any, Any]:
        """Returns the result of one run into memory that was cleared."""
        self.y.fill(0)
        run()
        return self.y.get()


def _agree(result: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], error: float) -> bool:
    """Whether a result is another one but for a relative root mean square error."""
    if not error:
        return np.array_equal(result, expected)
    y, exact = result.astype(np.float64), expected.astype(np.float64)
    return bool(np.linalg.norm(y - exact) <= error * np.linalg.norm(exact))


def _small(size: int, dtype: Any, seed: int) -> Any:
    """Small whole numbers: sums are exact, whatever the order."""
    values = np.random.default_rng(seed).integers(-3, 4, size, np.int8)
    return cp.asarray(values.astype(np.float32).astype(dtype))


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
    mean = math.exp(sum(math.log(t.gain) for t in found) / len(found)) if found else 1.0
    most = max(found, key=lambda t: t.gain, default=None)
    notes = [
        f"gained: {100 * (mean - 1):.1f} % in the geometric mean of {len(found)} problems; "
        f"{len(changed)} of them got another tile than the rule's"
        + (f", at most {most.gain:.2f}×: {most.case.title}" if changed and most else ""),
        f"a tile is taken if it is {100 * (_WORTH - 1):.0f} % faster than the rule's in the median "
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
