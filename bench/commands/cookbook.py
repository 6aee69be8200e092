"""The command that measures the cookbook's operators and writes its page."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.commands.options import RESULTS, Run, run_of, takes
from bench.commands.output import moving
from bench.page.report import setting
from bench.work.cookbook import measure_recipes, page_of

COOKBOOK = RESULTS.parents[1] / "docs" / "cookbook.md"
_SIDE, _QUICK_SIDE = 4096, 64


@takes(run=run_of)
def cookbook(
    *,
    ship: Annotated[bool, typer.Option("--ship", help="Write docs/cookbook.md.")] = False,
    run: Run,
) -> None:
    """Operators of the cookbook: speed next to a copy of as many bytes."""
    side = _QUICK_SIDE if run.quick else _SIDE
    with moving() as progress:
        found = measure_recipes(run.device, repeats=run.repeats, side=side, progress=progress)
    where = setting(run.device, f"cookbook --repeats {run.repeats}")
    speeds = {title: f"{100 * share:.0f} %" for title, share in found.items()}
    for title, speed in speeds.items():
        typer.echo(f"{speed:>6}  {title}")
    path = COOKBOOK if ship else run.output / "cookbook.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = page_of(speeds, f"{where['device']}; {where['run']}")
    path.write_text(text, encoding="utf-8")
    typer.echo(f"written: {path}")
