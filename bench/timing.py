"""Fair clocks: contenders take turns, so that a noisy moment hits all of them."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import clprim as cp

Clock = Literal["host", "device"]
Call = Callable[[], Any]

# OpenMP's threads spin for milliseconds after their work and would slow the next contender down;
# after this pause they sleep.
SETTLE = 0.012
#: A sample of a stream lasts this long at least: tenths of a millisecond drown in the noise.
SAMPLE = 0.004
_MOST_CALLS = 100  # of one stream
# So many calls tell how long one takes: first ones wake threads and touch pages, any may be
# disturbed. Long ones need no second look.
_LOOKS, _LONG = 5, 50
# A gauge this much slower than at its best shared its processor with somebody.
_DISTURBED = 1.2
# So often a race is run again where most of its rounds were disturbed.
_AGAIN = 2


class Sample(NamedTuple):
    """Seconds of one run: on the host, and on the device by its events where there are such."""

    host: float
    device: float | None = None


class Spread(NamedTuple):
    """A median with its quartiles."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Contender:
    """Something that can be run again and again; `work` is what one run does, in any unit."""

    name: str
    work: float
    run: Callable[[], Sample]


@dataclass(frozen=True)
class Result:
    """All runs of one contender, a round each."""

    name: str
    work: float
    samples: tuple[Sample, ...]

    def seconds(self, clock: Clock) -> list[float]:
        times = [getattr(sample, clock) for sample in self.samples]
        if None in times:
            raise ValueError(f"{self.name} was not timed by the {clock}")
        return times

    def rate(self, clock: Clock) -> float:
        return self.work / statistics.median(self.seconds(clock))


def race(
    contenders: Sequence[Contender],
    rounds: int,
    *,
    before: Callable[[], Any] = lambda: None,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Result]:
    """Run contenders in turn, A B C, B C A, …, after a first run of each that does not count.

    Args:
        contenders: With unique names.
        rounds: How often each of them runs.
        before: Called before every run, outside of its time.
        tick: Called after each round.
    """
    collect = gc.isenabled()
    gc.disable()
    samples: dict[str, list[Sample]] = {contender.name: [] for contender in contenders}
    try:
        for contender in contenders:
            contender.run()
        for turn in range(rounds):
            first = turn % len(contenders)
            for contender in (*contenders[first:], *contenders[:first]):
                time.sleep(SETTLE)
                before()
                samples[contender.name].append(contender.run())
            tick()
    finally:
        if collect:
            gc.enable()
    return {c.name: Result(c.name, c.work, tuple(samples[c.name])) for c in contenders}


@dataclass
class Gauge:
    """A contender that takes the same time whenever a machine is left alone, and its best time."""

    contender: Contender
    best: float = math.inf

    def calm(self, result: Result) -> list[int]:
        """Return the rounds in which it was nearly as fast as ever."""
        seconds = result.seconds("host")
        self.best = min(self.best, *seconds)
        return [n for n, taken in enumerate(seconds) if self.near_best(taken)]

    def near_best(self, seconds: float) -> bool:
        """Whether nobody can have disturbed a run of so many seconds."""
        return seconds <= _DISTURBED * self.best


def calm_race(
    contenders: Sequence[Contender],
    gauge: Gauge,
    rounds: int,
    *,
    tick: Callable[[], None] = lambda: None,
) -> tuple[dict[str, Result], bool]:
    """Run contenders and a gauge in turn, and leave out the rounds that somebody disturbed.

    The gauge's time alone decides which rounds count, so this favours no contender. Where less than
    half of the rounds were calm, all of them are in the results, and the second value says so.
    """
    everyone = [*contenders, gauge.contender]
    results = race(everyone, rounds, tick=tick)
    for _ in range(_AGAIN):
        if 2 * len(gauge.calm(results[gauge.contender.name])) >= rounds:
            break
        more = race(everyone, rounds)
        results = {
            name: Result(name, result.work, result.samples + more[name].samples)
            for name, result in results.items()
        }
    calm = gauge.calm(results[gauge.contender.name])
    if 2 * len(calm) < rounds:
        return results, False
    return {
        name: Result(name, result.work, tuple(result.samples[n] for n in calm))
        for name, result in results.items()
    }, True


def spread(values: Sequence[float]) -> Spread:
    if len(values) < 2:
        return Spread(values[0], values[0], values[0])
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(statistics.median(values), low, high)


def ratio(one: Result, other: Result, clock: Clock) -> Spread:
    """Return how many times as fast ``one`` is as ``other``, compared within each round."""
    pairs = zip(one.seconds(clock), other.seconds(clock), strict=True)
    scale = one.work / other.work
    return spread([scale * theirs / mine for mine, theirs in pairs])


def measured_call(name: str, work: float, call: Call, device: cp.Device) -> Contender:
    """Return a contender for a call of clprim, timed by the device and by the host."""

    def run() -> Sample:
        with cp.profile(device) as profile:
            start = time.perf_counter()
            call()
            device.synchronize()
            host = time.perf_counter() - start
        events = profile.events
        end = max(event.start + event.seconds for event in events)
        return Sample(host, end - min(event.start for event in events))

    return Contender(name, work, run)


def host_call(name: str, work: float, call: Call, finish: Call) -> Contender:
    def run() -> Sample:
        start = time.perf_counter()
        call()
        finish()
        return Sample(time.perf_counter() - start)

    return Contender(name, work, run)


def batch(name: str, call: Call, finish: Call, *, calls: int) -> Contender:
    """Return a contender whose sample is the host's time for one of ``calls`` calls in a row.

    What they left to do is finished after the clock has stopped.
    """
    turns = range(calls)

    def run() -> Sample:
        start = time.perf_counter()
        for _ in turns:
            call()
        host = (time.perf_counter() - start) / calls
        finish()
        return Sample(host)

    return Contender(name, 1, run)


def stream(
    name: str, work: float, call: Call, finish: Call, *, seconds: float = SAMPLE, least: int = 1
) -> Contender:
    """Return a contender whose sample is one of many calls in a row, finished together.

    There are as many calls as take ``seconds``, ``least`` at least; they are counted here, once.
    What is called more than once is called once before the clock runs, so that threads are awake.
    """
    call()
    finish()
    taken = math.inf
    for _ in range(_LOOKS):
        start = time.perf_counter()
        call()
        finish()
        taken = min(taken, time.perf_counter() - start)
        if taken > _LONG * seconds:
            break
    turns = range(max(least, math.ceil(seconds / max(taken, seconds / _MOST_CALLS))))

    def run() -> Sample:
        if len(turns) > 1:
            call()
            finish()
        start = time.perf_counter()
        for _ in turns:
            call()
        finish()
        return Sample((time.perf_counter() - start) / len(turns))

    return Contender(name, work, run)
