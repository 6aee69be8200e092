"""Builds and runs kernels in child processes side by side, and says which ended theirs."""

from __future__ import annotations

import json
import pickle
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bench.builds.child import TASK
from bench.builds.examples import Build
from clprim.runtime import child, query
from clprim.runtime.device import Device

RAN, BUILT, REFUSED, DIED, HUNG = OUTCOMES = ("ran", "built", "refused", "died", "hung")
_A_CHILD = 12  # kernels; a child takes a second to begin
_One = TypeVar("_One")


def part_of(kernels: Sequence[_One], part: str, every: int) -> list[_One]:
    """Returns some of the kernels, alike for every run.

    Args:
        kernels: All of them.
        part: ``2/5`` for the second of five parts.
        every: Of those, one out of so many.

    Raises:
        ValueError: It is no such part.
    """
    number, _, of = part.partition("/")
    which, parts = int(number), int(of)
    if not 1 <= which <= parts:
        raise ValueError(f"{part}: expected 1/{parts} to {parts}/{parts}")
    # Neighbours differ in dtype or shape alone: a part has some of everything.
    return list(kernels)[which - 1 :: parts][::every]


def run_all(
    device: Device,
    builds: Sequence[Build],
    children: int,
    say: Callable[[str, float], None] = lambda name, part: None,
    bound: float = 120,
) -> dict[str, list[tuple[Build, str]]]:
    """Builds and runs kernels on a device, and returns those of each outcome, with what to say.

    Args:
        device: Where.
        builds: The kernels.
        children: How many processes at once.
        say: Takes the name of a kernel that was tried and its part of all.
        bound: Seconds that a kernel may take, building included.
    """
    found: dict[str, list[tuple[Build, str]]] = {outcome: [] for outcome in OUTCOMES}
    some = [builds[n : n + _A_CHILD] for n in range(0, len(builds), _A_CHILD)]

    def run(batch: Sequence[Build]) -> list[tuple[str, str]]:
        outcomes = _outcomes(device, batch, bound)
        say(batch[-1].name, len(batch) / len(builds))
        return outcomes

    with ThreadPoolExecutor(children) as threads:
        for batch, outcomes in zip(some, threads.map(run, some), strict=True):
            for build, (outcome, about) in zip(batch, outcomes, strict=True):
                found[outcome].append((build, about))
    return found


def _outcomes(device: Device, builds: Sequence[Build], bound: float) -> list[tuple[str, str]]:
    """Builds and runs one after another; behind a death, the next child goes on."""
    found: list[tuple[str, str]] = []
    while len(found) < len(builds):
        left = [(b.plan, b.own) for b in builds[len(found) :]]
        plans = [b64encode(pickle.dumps(one)).decode() for one in left]
        task = json.dumps([query.whereabouts(device.cl), plans, bound])
        said, _ = child.run(TASK.format(path=child.search_path()), task, bound * (len(plans) + 1))
        if not said:
            raise OSError("the child process did not begin")
        words = [json.loads(line) for line in said[1:]]
        found += [(what, about) for what, about in words if what in OUTCOMES]
        if len(found) < len(builds):
            begun = [about for what, about in words if what == "building"]
            hung = begun and time.time() - begun[-1] >= bound
            found.append((HUNG if hung else DIED, words[-1][0] if words else "beginning"))
    return found
