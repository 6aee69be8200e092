"""The command that measures networks on the device that PyTorch gets."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.commands.options import Run, charted_run_of, takes
from bench.commands.output import as_written, finish, label_of, moving
from bench.page.torch_device import torch_report
from bench.peers.vision import missing
from bench.work.torch_device import networks, run_memory, run_torch, torch_jobs


@takes(run=charted_run_of)
def torch(
    *,
    network: Annotated[
        str | None, typer.Option("--network", help=f"One of {', '.join(networks())}.")
    ] = None,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="Images; 8 and 32.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep-memory", help="Spare PyTorch's CPU fresh pages.")
    ] = False,
    run: Run,
) -> None:
    """Training steps and inference of networks on the device, beside PyTorch's CPU; memory."""
    if network is not None and network not in networks():
        known = ", ".join(networks())
        raise typer.BadParameter(f"{network!r}; expected one of {known}", param_hint="--network")
    jobs = torch_jobs(quick=run.quick, only=network, batch=batch)
    absent = missing(tuple(job.network for job in jobs))
    if absent:
        typer.echo(absent, err=True)
        raise typer.Exit(2)
    given = {"network": network, "batch": batch}
    given = {name: value for name, value in given.items() if value is not None}
    with moving(of=1.1) as progress:
        rows = run_torch(jobs, run.device, repeats=run.repeats, progress=progress, keep=keep)
        memory = None
        if network is None and batch is None:
            progress("memory of a training step", 0)
            memory = run_memory(run.device, quick=run.quick)
            progress("memory of a training step", 0.1)
    excuse = "--quick" if run.quick else "" if not given else "a part of the networks"
    report = torch_report(
        rows,
        memory,
        excuse=excuse,
        options=" ".join(filter(None, (as_written(given), "--keep-memory" * keep))),
        label="-".join(filter(None, (label_of(given), "keep-memory" * keep))),
    )
    finish(report, run)
