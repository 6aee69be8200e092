"""The command that times tiles, and keeps the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import clprim as cp
from bench.clock.compute import Job
from bench.commands.options import RESULTS, Layers, Run, folder_of, layers_of, run_of, takes
from bench.commands.output import as_written, finish, label_of, moving
from bench.page.report import slug
from bench.tune.tune import (
    entries_of,
    record,
    to_ship,
    tune_all,
    tune_report,
)
from bench.work.conv import conv_jobs
from bench.work.depthwise import DEPTHWISE, depthwise_jobs
from bench.work.gemm import gemm_jobs
from clprim.plan.families import FAMILIES
from clprim.plan.table import TuningFile
from clprim.runtime import tables as tuning
from clprim.tune.measure import Tuned
from clprim.tune.networks import NETWORKS

_TUNED = Path(cp.__file__).resolve().parent / "tuned"


@takes(layers=layers_of({**NETWORKS, **DEPTHWISE}, "resnet50"), run=run_of)
def tune(
    *,
    layers: Layers,
    products: Annotated[
        bool, typer.Option("--products", help="Matrix products instead of convolutions.")
    ] = False,
    ship: Annotated[
        str | None,
        typer.Option("--ship", help="Write a table into the package, for devices of such names."),
    ] = None,
    run: Run,
) -> None:
    """Times tiles of contractions, keeps the best of them in the user's table, says the gain."""
    jobs: Sequence[Job]
    if products:
        jobs = gemm_jobs(run.device, quick=run.quick)
        options, label = "--products", "products"
    else:
        jobs = _layers(layers, run)
        options, label = as_written(layers.given), label_of(layers.given)
    cases = record(jobs, run.device)
    folder = run.output
    if ship is not None and folder == folder_of(None, ship=False):
        folder, run = _TUNED, replace(run, output=RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    with moving() as progress:
        found = tune_all(cases, run.repeats, progress=progress)
    if ship is not None:
        page = folder / f"{slug(run.device)}.json"
        table = to_ship(found, run.device, tuple(ship.split(",")), _read(page))
        page.write_text(table.text(FAMILIES), encoding="utf-8")
    report = tune_report(found, len(cases), _keep(found, run))
    finish(replace(report, options=options, label=label), run)


def _layers(layers: Layers, run: Run) -> list[Job]:
    """Return the rows of all networks; depthwise layers are known by those of `DEPTHWISE`."""
    selection, jobs = layers.selection, list[Job]()
    for known, find in ((NETWORKS, conv_jobs), (DEPTHWISE, depthwise_jobs)):
        selection["networks"] = tuple(name for name in layers.networks if name in known)
        jobs += find(run.device, quick=run.quick, **selection)
    return jobs


def _read(page: Path) -> TuningFile | None:
    """Return the table that is there, if any."""
    if not page.is_file():
        return None
    return TuningFile.parse(page.read_text(encoding="utf-8"), FAMILIES)


def _keep(found: Sequence[Tuned], run: Run) -> str:
    """Write the user's table, and return where it lies now."""
    if run.quick:
        return "kept nowhere: --quick"
    try:
        path = tuning.save(run.device, entries_of(found), cp.__version__)
    except OSError as error:
        typer.echo(f"the table cannot be kept: {error}", err=True)
        raise typer.Exit(1) from None
    return f"kept in {path}" if path else "kept nowhere: CLPRIM_CACHE_DIR switches that off"
