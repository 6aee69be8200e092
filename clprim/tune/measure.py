"""Times the candidates of one problem beside the rule's, in memory of its own."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray, zeros
from clprim.call.call import bind
from clprim.call.packed import PackedWeight
from clprim.errors import BuildError
from clprim.plan.grouped.problem import Groups
from clprim.plan.kernel import Choice
from clprim.plan.reduction.problem import Reduced
from clprim.plan.scan.planner import Scanned
from clprim.plan.strategy import Family
from clprim.plan.table import Entry, Key, key_of
from clprim.runtime import tracing
from clprim.runtime.device import Device, on
from clprim.runtime.profile import unseen
from clprim.tune.clock import Clock, gain, race
from clprim.tune.footprint import Workload, memory_of

_Values = np.ndarray[Any, Any]

#: A tile must be so many times as fast as the rule's to be taken: less may be noise.
WORTH = 1.02
# What of the best one's speed earns a place in the final, and how many places there are.
_GOOD, _FINALISTS = 0.9, 4
# The part of a device's memory that operands and result of a problem may take once more.
_ROOM = 4


@dataclass(frozen=True)
class Effort:
    """How much to time."""

    most: int | None = 12  # Candidates, in the order of what they promise; None for all
    first: int = 2  # Rounds of all of them
    rounds: int = 9
    seconds: float = 1.0  # When to stop, beside builds; every candidate is run once in any case


#: At a call, which waits for it.
BRIEF = Effort()


@dataclass(frozen=True)
class Case:
    """A problem to find the best tile for."""

    title: str
    family: Family[Any]
    problem: Workload
    device: Device

    @property
    def key(self) -> Key:
        """What its entry in a table stands under."""
        return key_of(self.family, self.problem)

    @property
    def candidates(self) -> list[Choice]:
        """What there is to time, the rule's choice first."""
        return self.family.candidates(self.problem, self.device.traits)


@dataclass(frozen=True)
class Tuned:
    """What was found of one case."""

    case: Case
    rule: Choice
    best: Choice  # What was fastest; the rule's choice where nothing was worth the change
    seconds: tuple[float, float]
    # How many times as fast as the rule's tile the best one is, the median of all rounds
    gain: float
    tried: int  # How many tiles were timed
    # Tiles whose results were not the rule's: errors, whatever their speed
    wrong: tuple[str, ...] = ()

    @property
    def entry(self) -> Entry:
        """What a table keeps of it."""
        return Entry(self.best, self.gain)

    @property
    def row(self) -> list[str]:
        """What tables show: problem, the rule's tile and its ms, the best one's, gain, tried."""
        before, after = (f"{1e3 * seconds:.3f}" for seconds in self.seconds)
        best = str(self.best) if self.best != self.rule else "the same"
        ends = f"{self.gain:.2f}×", f"{self.tried}"
        return [self.case.title, str(self.rule), before, best, after, *ends]


def tune(case: Case, effort: Effort = BRIEF, *, clock: Clock = race) -> Tuned | None:
    """Times the candidates of one case; None where there is but one, or no room for it."""
    # Sums of products shall agree bit for bit, and what has errors with them up to these. The
    # arrays of the program are not touched, nor are its profiles and traces.
    tried = case.candidates[: effort.most]
    if len(tried) < 2 or not _has_room(case):
        return None
    with tracing.switched_to(None), on(case.device), unseen(case.device):
        calls, wrong = _right(case, tried)
        times = _timed(case.device, tried[0], calls, effort, clock)
    rule, best, most = tried[0], tried[0], 1.0
    for choice, seconds in times.items():
        median, low = gain(seconds, times[rule])
        if median >= WORTH and low >= 1 and median > most:
            best, most = choice, median
    both = float(np.median(times[rule])), float(np.median(times[best]))
    return Tuned(case, rule, best, both, most, len(calls), wrong)


def _timed(
    device: Device,
    rule: Choice,
    calls: Mapping[Choice, Callable[[], Any]],
    effort: Effort,
    clock: Clock,
) -> dict[Choice, list[float]]:
    """Returns the seconds of the fastest few, and of the rule's."""
    begun = time.perf_counter()
    first = clock(device, calls, effort.first, begun + effort.seconds / 2)
    typical = {choice: min(seconds) for choice, seconds in first.items()}
    fast = sorted(typical, key=typical.__getitem__)
    final = [c for c in fast if typical[fast[0]] >= _GOOD * typical[c]][:_FINALISTS]
    final = list(dict.fromkeys([rule, *final]))
    if len(final) == 1:
        return {rule: first[rule]}
    return clock(device, {c: calls[c] for c in final}, effort.rounds, begun + effort.seconds)


def _right(
    case: Case, tried: Sequence[Choice]
) -> tuple[dict[Choice, Callable[[], Any]], tuple[str, ...]]:
    """Returns what runs the candidates whose results are right, and the names of others."""
    memory = Memory(case)
    built = memory.calls(tried)
    errors = {c: case.family.error(case.problem, case.device.traits, c) for c in built}
    wrong: list[str] = []
    expected, allowed = None, 0.0
    for choice in sorted(built, key=lambda choice: errors[choice] > 0):  # sums of products first
        result, error = memory.result(built[choice]), errors[choice]
        if expected is None:
            expected, allowed = result, error
        if error and result.dtype.kind not in "iub" and result.dtype != case.problem.value:
            error += float(Array.namespace.finfo(result.dtype).eps)
        if not _agree(result, expected, error + allowed):
            wrong.append(str(choice))
    calls = {c: run for c, run in built.items() if c == tried[0] or str(c) not in wrong}
    return calls, tuple(wrong)


class Memory:
    """The memory of one case, which its candidates share."""

    def __init__(self, case: Case) -> None:
        self.case = case
        found = memory_of(case.problem).items()
        written = [item for item in found if item[0].startswith(("y", "group_y"))]
        self.results = {name: zeros((size,), t) for name, (size, t) in written}
        read = (item for item in found if item[0] not in self.results)
        self.operands = {
            name: _small(size, dtype, n) for n, (name, (size, dtype)) in enumerate(read, 1)
        }

    def calls(self, choices: Sequence[Choice]) -> dict[Choice, Callable[[], Any]]:
        """Returns what runs each candidate, built by all cores at once."""
        # What a compiler refuses is left out, but for the first.

        def build(choice: Choice) -> Callable[[], Any] | BuildError:
            try:
                return self.call(choice)
            except BuildError as error:
                return error

        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            built = dict(zip(choices, threads.map(build, choices), strict=True))
        first = built[choices[0]]
        if isinstance(first, BuildError):
            raise first
        return {c: run for c, run in built.items() if not isinstance(run, BuildError)}

    def call(self, choice: Choice) -> Callable[[], Any]:
        """Returns what runs a candidate once, a weight that stays packed beforehand."""
        device, problem = self.case.device, self.case.problem
        plan = self.case.family.tuned(problem, device.traits, choice)
        assert plan is not None  # candidates fit
        call = bind(device, problem.name, plan, (*self.results, *self.operands))
        arrays = (*self.results.values(), *self.operands.values())
        if isinstance(problem, Reduced | Groups | Scanned):
            return lambda: call.run(device, arrays, (1,) * len(problem.scalars))
        stays = problem.kept and getattr(problem, "direction", "") != "weight"
        weight = {"w": PackedWeight(self.operands["w"])} if stays else {}
        return lambda: call.run(device, arrays, (), weight)

    def result(self, run: Callable[[], Any]) -> _Values:
        """Returns the results of one run into memory that was cleared, as one array."""
        for y in self.results.values():
            y.fill(0)
        run()
        return np.concatenate([y.get() for y in self.results.values()])


def _has_room(case: Case) -> bool:
    nbytes = [size * dtype.itemsize for size, dtype in memory_of(case.problem).values()]
    most = case.device.cl.global_mem_size // _ROOM
    return sum(nbytes) <= most and max(nbytes) <= case.device.traits.max_allocation


def _agree(result: _Values, expected: _Values, error: float) -> bool:
    """Whether a result is another one but for a relative root mean square error."""
    if not error:
        return np.array_equal(result, expected)
    y, exact = result.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(y) & np.isfinite(exact)
    if not np.array_equal(y[~finite], exact[~finite], equal_nan=True):
        return False
    y, exact = y[finite], exact[finite]
    return bool(np.linalg.norm(y - exact) <= error * np.linalg.norm(exact))


def _small(size: int, dtype: Any, seed: int) -> Array:
    """Small whole numbers: sums are exact, whatever the order."""
    values = np.random.default_rng(seed).integers(-3, 4, size, np.int8)
    return asarray(values.astype(np.float32).astype(dtype))


def mean_gain(found: Sequence[Tuned]) -> float:
    """Returns the geometric mean of gains."""
    return math.exp(sum(math.log(t.gain) for t in found) / len(found)) if found else 1.0
