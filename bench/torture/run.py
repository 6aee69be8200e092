"""Rounds of cases, threads and damage, until the time is up; each replays from seed and number."""

from __future__ import annotations

import gc
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import clprim as cp
from bench.torture.case import Case, WrongError
from bench.torture.cases import draw_case
from bench.torture.damage import damage_and_run, own_cache
from bench.torture.draw import Draw
from bench.torture.threads import storm
from clprim.runtime import program
from clprim.runtime.device import Device

# What makes a round: cases by themselves, then some of them from threads, then damage.
_CASES, _IN_THREADS, _DAMAGED = 40, 12, 4
_STORM = 10.0


def torture(
    devices: Sequence[Device],
    seconds: float,
    seed: int,
    *,
    threads: int = 8,
    say: Callable[[str], None] = print,
) -> None:
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        kept: list[tuple[Device, Case]] = []
        for _ in range(_CASES):
            device = devices[number % len(devices)]
            case = run_case(device, seed, number)
            kept.append((device, case))
            number += 1
            if time.monotonic() > end:
                break
        chosen = kept[-_IN_THREADS:]
        for_storm = min(_STORM, max(1.0, end - time.monotonic()))
        ran, refused = storm(chosen, for_storm, seed + number, threads)
        damages = []
        with own_cache() as folder:
            for n in range(number, number + _DAMAGED):
                device = cp.set_device(devices[n % len(devices)])
                with _named(device, seed, n, "damaged cache"):
                    damages.append(damage_and_run(folder, seed, n))
        say(
            f"{number} cases; {ran} runs from {threads} threads, {refused} refused; "
            f"cache: {'; '.join(damages)}"
        )
        program.forget()
        gc.collect()


def run_case(device: Device, seed: int, number: int) -> Case:
    """Draws a case and runs it on a device, with and without a profile."""
    cp.set_device(device)
    with _named(device, seed, number):
        case = draw_case(Draw(seed, number))
    with _named(device, seed, number, case.text):
        case.check()
        with cp.profile():
            case.check()
    return case


@contextmanager
def _named(device: Device, seed: int, number: int, text: str = "") -> Iterator[None]:
    """Says of an error which case it is of, and how to repeat it."""
    command = f"python -m bench torture --seed {seed} --case {number} --device {device.index}"
    try:
        yield
    except Exception as error:
        raise WrongError(f"{device}\n  {text}\n  {error!r}\n  {command}") from error


def command(args: Any, say: Callable[[str], None]) -> int:
    """Run random cases until the time is up, or one of a seed."""
    from bench.torture.graphs.run import run_graph, torture_graphs

    del say
    seed = secrets.randbelow(2**32) if args.seed is None else args.seed
    devices = [d for d in cp.devices() if d.compiles] if not args.device else [cp.current_device()]
    try:
        if args.case is not None:
            for device in devices:
                text = run_graph(device, seed, args.case) if args.graphs else None
                print(f"{device}\n  {text or run_case(device, seed, args.case).text}: right")
            return 0
        print(f"seed {seed}, on:", *devices, sep="\n  ")
        if args.graphs:
            torture_graphs(devices, 60 * args.minutes, seed)
        else:
            torture(devices, 60 * args.minutes, seed, threads=args.threads)
        print("not one wrong result")
    except (cp.ClprimError, WrongError) as error:
        print(f"wrong: {error}", file=sys.stderr)
        return 1
    return 0
