"""The command that measures `torch.compile` with this project as its backend."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.commands.nets import BatchOption, counts, names_of, refuse_missing, some
from bench.commands.options import Run, charted_run_of, takes
from bench.commands.output import finish, moving
from bench.page.compiled import compiled_report
from bench.peers.nets import CompiledByTorch
from bench.work.first_compiled import run_firsts
from bench.work.models import MODELS
from bench.work.nets import INTERRUPTED, net_jobs, run_nets
from bench.work.step import run_memory, run_steps, step_jobs

_BATCHES = (1, 8, 32)


@takes(run=charted_run_of)
def torch(
    *,
    compiled: Annotated[
        bool, typer.Option("--compiled", help="Has to be given: `nets` and `step` have the rest.")
    ] = False,
    net: Annotated[
        str | None, typer.Option("--net", help="Networks, with commas; as of bench nets.")
    ] = None,
    batch: BatchOption = None,
    run: Run,
) -> None:
    """Networks and training steps that torch.compile compiles, beside PyTorch and inductor."""
    if not compiled:
        typer.echo(
            "--compiled has to be given; bench nets and bench step measure the rest", err=True
        )
        raise typer.Exit(2)
    named = some("--net", net, MODELS)
    batches = counts("--batch", batch) or (() if run.quick else _BATCHES)
    jobs = net_jobs(quick=run.quick, names=named, batches=batches)
    trained = [name for name in named if not MODELS[name].tokens]
    steps = step_jobs(quick=run.quick, names=trained, batches=batches)
    if named and not trained:
        steps = []
    refuse_missing([job.name for job in (*jobs, *steps)])
    whole = not named and batch is None
    with moving(of=1 + bool(steps) + 0.2 * whole) as progress:
        rows, peers, refused = run_nets(
            jobs,
            run.device,
            ("eager", "inductor"),
            own=CompiledByTorch,
            starts=False,
            repeats=run.repeats,
            quick=run.quick,
            progress=progress,
        )
        trainings, memory, firsts = [], None, None
        if steps and INTERRUPTED not in refused:
            trainings, failed = run_steps(
                steps, run.device, repeats=run.repeats, progress=progress, inductor=True
            )
            refused += failed
        if whole and INTERRUPTED not in refused:
            progress("memory of a training step", 0)
            memory = run_memory(run.device, quick=run.quick, compiled=True)
            progress("memory of a training step", 0.1)
            firsts = run_firsts(run.device, quick=run.quick, progress=progress)
    report = compiled_report(
        rows,
        peers,
        trainings,
        memory,
        firsts,
        refused=refused,
        excuse="--quick" if run.quick else "" if whole else "a part of the rows",
        **names_of({"compiled": True, "net": net, "batch": batch}),
    )
    finish(report, run)
