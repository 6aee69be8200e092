"""The command that measures nothing either: random cases, until the time is up."""

from __future__ import annotations

import secrets
from typing import Annotated

import typer

import clprim as cp
from bench.torture.case import WrongError
from bench.torture.graphs.run import run_graph, torture_graphs
from bench.torture.run import run_case
from bench.torture.run import torture as run_torture


def torture(
    *,
    minutes: Annotated[float, typer.Option("--minutes", min=0.01, help="How long.")] = 1.0,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Repeats a run; default: a new one.")
    ] = None,
    case: Annotated[
        int | None, typer.Option("--case", min=0, help="Runs only this case of the seed.")
    ] = None,
    graphs: Annotated[
        bool, typer.Option("--graphs", help="Functions of 5 to 60 lines, compiled, instead.")
    ] = False,
    threads: Annotated[int, typer.Option("--threads", min=1, help="That run cases at once.")] = 8,
    device: Annotated[
        str | None, typer.Option("--device", help="Index or part of a name; default: all.")
    ] = None,
) -> None:
    """Random definitions, shapes, views, dtypes, threads, profiles and damage to the cache."""
    seed = secrets.randbelow(2**32) if seed is None else seed
    try:
        devices = [d for d in cp.devices() if d.compiles] if device is None else []
        if device is not None:
            devices = [cp.set_device(device)]
        if case is not None:
            for chosen in devices:
                text = run_graph(chosen, seed, case) if graphs else None
                print(f"{chosen}\n  {text or run_case(chosen, seed, case).text}: right")
            return
        print(f"seed {seed}, on:", *devices, sep="\n  ")
        if graphs:
            torture_graphs(devices, 60 * minutes, seed)
        else:
            run_torture(devices, 60 * minutes, seed, threads=threads)
        print("not one wrong result")
    except (cp.ClprimError, WrongError) as error:
        typer.echo(f"wrong: {error}", err=True)
        raise typer.Exit(1) from None
