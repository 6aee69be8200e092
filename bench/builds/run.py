"""Compiles programs in child processes side by side, and says which killed the compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bench.builds.examples import Build
from clprim.runtime import trial
from clprim.runtime.device import Device

_A_CHILD = 12  # programs; a child takes a second to begin
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


def compile_all(
    device: Device,
    builds: Sequence[Build],
    children: int,
    say: Callable[[str, float], None] = lambda name, part: None,
) -> dict[str, list[Build]]:
    """Compiles programs for a device, and returns those of each outcome.

    Args:
        device: Whom for.
        builds: The programs.
        children: How many processes at once.
        say: Takes the name of a program that was compiled and its part of all.
    """
    found: dict[str, list[Build]] = {o: [] for o in (trial.BUILT, trial.REFUSED, trial.DIED)}
    some = [builds[n : n + _A_CHILD] for n in range(0, len(builds), _A_CHILD)]

    def run(batch: Sequence[Build]) -> list[str]:
        outcomes = trial.outcomes(device.cl, [(b.source, b.options, "") for b in batch])
        say(batch[-1].name, len(batch) / len(builds))
        return outcomes

    with ThreadPoolExecutor(children) as threads:
        for batch, outcomes in zip(some, threads.map(run, some), strict=True):
            for build, outcome in zip(batch, outcomes, strict=True):
                found[outcome].append(build)
    return found
