"""What ``python -m bench regret`` measures: rules against all candidates, on random shapes."""

from __future__ import annotations

import itertools
import math
import random
import secrets
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import clprim as cp
from bench.case import Options
from bench.options import WrongError, finish, folder_of
from bench.table import Table
from clprim import ops
from clprim.plan.kernel import Choice
from clprim.tune.ask import record
from clprim.tune.clock import gain, race
from clprim.tune.measure import Effort, Memory, Tuned, tune

_ROUNDS = 9
#: All candidates of a problem, or a few of them.
THOROUGH, QUICK = Effort(None, 2, _ROUNDS, 6.0), Effort(3, 1, 1, 0.0)
_IMAGES = (1, 2, 3, 5, 8)
_CHANNELS = (3, 8, 12, 20, 24, 40, 48, 64, 72, 96, 112, 160, 200, 256, 320, 480)
_OUTPUTS = (8, 16, 24, 40, 56, 64, 80, 112, 128, 192, 240, 320, 384, 512)
_SIZES = (5, 7, 10, 13, 14, 17, 20, 26, 28, 33, 40, 52, 56, 64, 80)
_WINDOWS = ((1, 1), (1, 1), (1, 2), (3, 1), (3, 1), (3, 2), (5, 1), (7, 2))
_DEEP = (16, 24, 40, 72, 96, 120, 184, 240, 300, 480, 672)
_DEEP_SIZES = (7, 10, 14, 19, 24, 28, 38, 48, 56, 75, 96)
_DEEP_WINDOWS = ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1))
_FORMATS = ("channels_last", "contiguous")
# Operations of a convolution, and multiply-adds of a product, at most.
_MOST_FLOPS, _MOST_PRODUCTS = 3e9, 1.5e9
# Elements that are reduced at most, and how.
_MOST_ELEMENTS = 1 << 23
_REDUCTIONS = (
    *(("sum", ops.sum), ("greatest", ops.amax)),
    *(("variance", ops.var), ("log of exps", ops.logsumexp)),
)
_SHOWN = 12

Drawn = tuple[str, Callable[[], Any]]


@dataclass(frozen=True)
class Row:
    """What was found of one problem."""

    group: str
    title: str
    tuned: Tuned


def _convolution(rng: random.Random) -> Drawn:
    images, channels, outputs = map(rng.choice, (_IMAGES, _CHANNELS, _OUTPUTS))
    (kernel, stride), size, memory = map(rng.choice, (_WINDOWS, _SIZES, _FORMATS))  # type: ignore[misc]
    while 2 * images * channels * outputs * (kernel * (size // stride)) ** 2 > _MOST_FLOPS:
        size = max(3, size // 2)
    title = f"{images}×{channels}×{size}² → {outputs}, {kernel}×{kernel} stride {stride}, {memory}"
    return title, lambda: ops.conv2d(
        _array((images, channels, size, size), memory),
        ops.pack_weight(_array((outputs, channels, kernel, kernel))),
        stride=stride,
        padding=kernel // 2,
    )


def _product(rng: random.Random) -> Drawn:
    m, n, k = (int(2 ** rng.uniform(4 if d else 0, 11)) for d in range(3))
    while m * n * k > _MOST_PRODUCTS:
        m = max(1, m // 2)
    a, b = rng.random() < 0.3, rng.random() < 0.5
    title = f"{m}×{n}×{k} {'NT'[a]}{'NT'[b]}"
    return title, lambda: ops.matmul(
        _array((k, m) if a else (m, k)),
        _array((n, k) if b else (k, n)),
        transpose_a=a,
        transpose_b=b,
    )


def _depthwise(rng: random.Random) -> Drawn:
    images, channels, size, memory = map(rng.choice, ((1, 2, 4, 8), _DEEP, _DEEP_SIZES, _FORMATS))  # type: ignore[misc]
    kernel, stride = rng.choice(_DEEP_WINDOWS)
    title = f"{images}×{channels}×{size}², {kernel}×{kernel} stride {stride}, {memory}"
    return title, lambda: ops.conv2d(
        _array((images, channels, size, size), memory),
        _array((channels, 1, kernel, kernel)),
        stride=stride,
        padding=kernel // 2,
        groups=channels,
    )


def _reduction(rng: random.Random) -> Drawn:
    shape = [int(2 ** rng.uniform(1, 9)) for _ in range(rng.randint(2, 4))]
    while math.prod(shape) > _MOST_ELEMENTS:
        shape[shape.index(max(shape))] //= 2
    axes = tuple(sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape)))))
    name, reduce = rng.choice(_REDUCTIONS)
    order = tuple(rng.sample(range(len(shape)), len(shape)))
    back = tuple(order.index(d) for d in range(len(shape)))
    title = f"{name} of {'×'.join(map(str, shape))} along {axes}, in memory by {order}"
    own = tuple(shape[d] for d in order)
    return title, lambda: reduce(_array(own).transpose(back), axes)


#: What is drawn, by name.
GROUPS: dict[str, Callable[[random.Random], Drawn]] = {
    "convolutions": _convolution,
    "products": _product,
    "depthwise": _depthwise,
    "reductions": _reduction,
}


def _array(shape: tuple[int, ...], memory: str = "contiguous") -> Any:
    values = np.random.default_rng(0).standard_normal(shape, np.float32)
    return cp.asarray(values, memory_format=memory)


def measure(
    groups: Sequence[str],
    seed: int,
    seconds: float,
    effort: Effort = THOROUGH,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Draws problems for the current device, a group after the other, until the time is up."""
    rngs = {group: random.Random(f"{seed} {group}") for group in groups}
    end = time.perf_counter() + seconds
    found: list[Row] = []
    for group in itertools.cycle(groups):
        if time.perf_counter() >= end:
            break
        title, run = GROUPS[group](rngs[group])
        say(f"{group}: {title}")
        cases = record(run)
        tuned = tune(cases[0], effort) if cases else None
        if tuned is not None:
            found.append(Row(group, title, confirmed(tuned)))
    return found


def confirmed(found: Tuned) -> Tuned:
    """Returns what is left of a gain when both are timed once more: the luckiest looks best."""
    if found.best == found.rule:
        return found
    gained = _gain(found, found.best, found.rule)
    return replace(found, gain=gained) if gained > 1 else replace(found, best=found.rule, gain=1.0)


def _gain(found: Tuned, one: Choice, other: Choice) -> float:
    calls = Memory(found.case).calls([other, one])
    seconds = race(found.case.device, calls, _ROUNDS)
    return gain(seconds[one], seconds[other])[0]


def tables_of(rows: Sequence[Row]) -> list[Table]:
    """Return the regret by group, and the worst rows."""
    summary = []
    for group in (g for g in GROUPS if any(row.group == g for row in rows)):
        some = [row for row in rows if row.group == group]
        summary.append(_line(group, [row.tuned.gain for row in some]))
    listed = [
        [row.group, row.title, str(row.tuned.rule), f"{1e3 * row.tuned.seconds[0]:.3f}",
         str(row.tuned.best), f"{1e3 * row.tuned.seconds[1]:.3f}", f"{row.tuned.gain:.2f}×"]
        for row in sorted(rows, key=lambda row: -row.tuned.gain)[:_SHOWN]
    ]  # fmt: skip
    head = ["what", "problems", "mean", "median", "9 of 10 below", "worst"]
    worst = ["what", "problem", "rule's tile", "ms", "best", "ms", "regret"]
    title = "How many times as fast as the chosen tile the best one is"
    return [(title, head, summary), ("The worst", worst, listed)]


def _line(name: str, gains: Sequence[float]) -> list[str]:
    ordered = sorted(gains)
    mean = math.exp(sum(map(math.log, ordered)) / len(ordered))
    most = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
    numbers = (mean, statistics.median(ordered), most, ordered[-1])
    return [name, f"{len(ordered)}", *(f"{number:.3f}" for number in numbers)]


def command(args: Options, say: Callable[[str], None]) -> int:
    seed = secrets.randbelow(2**32) if args.seed is None else args.seed
    groups = tuple(GROUPS) if args.group == "all" else (args.group,)
    if groups[0] not in GROUPS:
        raise WrongError(f"--group {args.group}: expected one of {', '.join(GROUPS)}, all")
    rows = measure(groups, seed, 60 * args.minutes, QUICK if args.quick else THOROUGH, say=say)
    notes = [
        f"problems are drawn by seed {seed}; means are geometric; a tile that is less than 2 % "
        "faster, or not in three of four rounds, counts as the same, and what was best is timed "
        "once more beside the rule's; tables are left out"
    ]
    wrong = [(row.title, name) for row in rows for name in row.tuned.wrong]
    failures = [f"{title}: wrong result of {name}" for title, name in wrong]
    told = {"tables": tables_of(rows), "notes": notes, "failures": failures}
    return finish(args, folder_of(args), "Regret of the rules", "ms", **told)
