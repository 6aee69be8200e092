"""The command that draws problems by lot and times the rules against all candidates."""

from __future__ import annotations

import secrets
from typing import Annotated

import typer

from bench.commands.options import Run, chosen, run_of, takes
from bench.commands.output import finish, moving
from bench.work.regret import GROUPS, QUICK, THOROUGH, measure, regret_report


@takes(run=run_of)
def regret(
    *,
    minutes: Annotated[float, typer.Option("--minutes", min=0.001, help="How long.")] = 5.0,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Draws the same problems again.")
    ] = None,
    group: Annotated[str, typer.Option("--group", help=f"{', '.join(GROUPS)} or all.")] = "all",
    after: Annotated[
        bool, typer.Option("--after-tuning", help="Compare with a brief tuning's choices too.")
    ] = False,
    run: Run,
) -> None:
    """How far the rules' tiles are from the best, on random convolutions and products."""
    seed = secrets.randbelow(2**32) if seed is None else seed
    groups = chosen("--group", group, GROUPS, {"all": tuple(GROUPS)})
    effort = QUICK if run.quick else THOROUGH
    with moving() as progress:
        rows = measure(groups, seed, 60 * minutes, effort, after=after, progress=progress)
    finish(regret_report(rows, seed), run)
