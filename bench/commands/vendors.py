"""The command that measures nothing: what compilers for GPUs say."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.commands.options import OutputOption, QuickOption, ShipOption, chosen, folder_of
from bench.commands.output import moving, publish
from bench.vendors.gpus import GPUS
from bench.vendors.listings import run_vendors, vendors_report
from bench.vendors.offline import tool_versions


def vendors(
    *,
    targets: Annotated[
        str | None, typer.Option("--targets", help="Such as gfx1030,sm_90; default: all.")
    ] = None,
    quick: QuickOption = False,
    output: OutputOption = None,
    ship: ShipOption = False,
) -> None:
    """GPUs that are not here: what their compilers say of every family of kernels."""
    words = targets.split(",") if targets else [gpu.target for gpu in GPUS]
    known = {gpu.target: gpu for gpu in GPUS}
    gpus = [known[chosen("--targets", word, known, {})[0]] for word in words]
    with moving() as progress:
        report = vendors_report(run_vendors(gpus, quick=quick, progress=progress))
    options = f" --targets {targets}" if targets else ""
    where = {"compilers": tool_versions(), "run": f"`python -m bench vendors{options}`"}
    name = f"vendors{'-quick' if quick or targets else ''}"
    publish(report, where, folder_of(output, ship=ship) / name, chart=False)
