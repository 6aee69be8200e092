"""Builds and runs kernels in child processes side by side, and says which ended theirs."""

from __future__ import annotations

import json
import os
import pickle
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import clprim as cp
from bench.builds.child import TASK
from bench.builds.examples import Build, kernels, printed
from bench.options import WrongError
from clprim.runtime import child, query
from clprim.runtime.device import Device

RAN, BUILT, REFUSED, DIED, HUNG = OUTCOMES = ("ran", "built", "refused", "died", "hung")
_A_CHILD = 12  # kernels; a child takes a second to begin
_One = TypeVar("_One")


def part_of(kernels: Sequence[_One], part: str, every: int) -> list[_One]:
    """Returns some of the kernels, alike for every run."""
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
    say: Callable[[str], None] = lambda name: None,
    bound: float = 120,
) -> dict[str, list[tuple[Build, str]]]:
    """Builds and runs kernels on a device, and returns those of each outcome, with what to say."""
    found: dict[str, list[tuple[Build, str]]] = {outcome: [] for outcome in OUTCOMES}
    some = [builds[n : n + _A_CHILD] for n in range(0, len(builds), _A_CHILD)]

    def run(batch: Sequence[Build]) -> list[tuple[str, str]]:
        outcomes = _outcomes(device, batch, bound, cache)
        say(batch[-1].name)
        return outcomes

    # What a child that is killed has half written would break the kernel for every later process.
    with TemporaryDirectory() as cache, ThreadPoolExecutor(children) as threads:
        for batch, outcomes in zip(some, threads.map(run, some), strict=True):
            for build, (outcome, about) in zip(batch, outcomes, strict=True):
                found[outcome].append((build, about))
    return found


def _outcomes(
    device: Device, builds: Sequence[Build], bound: float, cache: str
) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    while len(found) < len(builds):
        left = [(b.plan, b.own) for b in builds[len(found) :]]
        plans = [b64encode(pickle.dumps(one)).decode() for one in left]
        task = json.dumps([query.whereabouts(device.cl), plans, bound, cache])
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


def command(args: Any, say: Callable[[str], None]) -> int:
    wrong = 0
    devices = [d for d in cp.devices() if d.compiles] if not args.device else [cp.current_device()]
    for device in devices:
        try:
            some = part_of(list(kernels(device)), args.part, args.every)
        except ValueError as error:
            raise WrongError(f"--part {error}") from None
        programs = list(printed([k for k in some if args.only in k.name], device))
        found = run_all(device, programs, args.children or os.cpu_count() or 1, say)
        print(f"{device}: {', '.join(f'{len(of)} {outcome}' for outcome, of in found.items())}")
        for lacking, number in Counter(about for _, about in found[BUILT]).most_common():
            print(f"  built but not run, as the device lacks {lacking}: {number}")
        for outcome in (DIED, HUNG, REFUSED):  # nothing of these is expected
            for build, about in found[outcome]:
                print(f"  {outcome}: {build.name} ({about})")
            wrong += len(found[outcome])
    return int(bool(wrong))
