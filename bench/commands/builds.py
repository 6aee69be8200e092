"""The command that builds everything and runs it."""

from __future__ import annotations

import os
from collections import Counter
from typing import Annotated

import typer

import clprim as cp
from bench.builds.examples import kernels, printed
from bench.builds.run import BUILT, DIED, HUNG, REFUSED, part_of, run_all
from bench.commands.output import moving


def builds(
    *,
    device: Annotated[
        str | None, typer.Option("--device", help="Index or part of a name; default: all.")
    ] = None,
    part: Annotated[str, typer.Option("--part", help="Such as 2/5; default: all.")] = "1/1",
    every: Annotated[int, typer.Option("--every", min=1, help="One out of so many.")] = 1,
    children: Annotated[
        int | None, typer.Option("--children", min=1, help="Processes; default: one a core.")
    ] = None,
    only: Annotated[str, typer.Option("--only", help="A part of names.")] = "",
) -> None:
    """Every template in every dtype, built and run in child processes: what dies, hangs, fails."""
    devices = [d for d in cp.devices() if d.compiles] if device is None else [cp.set_device(device)]
    wrong = 0
    for chosen in devices:
        try:
            some = part_of(list(kernels(chosen)), part, every)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--part") from None
        with moving() as progress:
            programs = list(printed([k for k in some if only in k.name], chosen))
            found = run_all(chosen, programs, children or os.cpu_count() or 1, progress)
        print(f"{chosen}: {', '.join(f'{len(of)} {outcome}' for outcome, of in found.items())}")
        for lacking, number in Counter(about for _, about in found[BUILT]).most_common():
            print(f"  built but not run, as the device lacks {lacking}: {number}")
        for outcome in (DIED, HUNG, REFUSED):  # nothing of these is expected
            for build, about in found[outcome]:
                print(f"  {outcome}: {build.name} ({about})")
            wrong += len(found[outcome])
    if wrong:
        raise typer.Exit(1)
