"""Commands that measure how fast memory is read and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from bench.clock.bandwidth import bandwidth_report, run_bandwidth
from bench.commands.options import Run, charted_run_of, takes
from bench.commands.output import finish, moving
from bench.page.norm import norm_report
from bench.work.gradient import gradient_report, run_gradient
from bench.work.layout import layout_workloads, run_layout
from bench.work.norm import NORM_NETWORKS, norm_jobs, run_norm
from bench.work.workloads import Workload, pointwise_workloads, reduce_workloads


@takes(run=charted_run_of)
def pointwise(run: Run) -> None:
    """Element by element: GB/s, share of the best copy kernel, peers."""
    title = "Pointwise: bandwidth next to a copy"
    _bandwidth("pointwise", title, pointwise_workloads(quick=run.quick), run)


@takes(run=charted_run_of)
def reduce(run: Run) -> None:
    """Sums along axes: GB/s, share of the best read-only kernel, peers."""
    title = "Reductions: bandwidth next to a read-only kernel"
    _bandwidth("reduce", title, reduce_workloads(quick=run.quick), run)


@takes(run=charted_run_of)
def layout(run: Run) -> None:
    """Sub-pixel shuffles and memory formats: GB/s, share of the best copy kernel, PyTorch."""
    with moving() as progress:
        found = run_layout(
            layout_workloads(quick=run.quick),
            run.device,
            repeats=run.repeats,
            quick=run.quick,
            progress=progress,
        )
    title = "Moving memory: bandwidth next to a copy"
    finish(bandwidth_report("layout", title, *found), run)


@takes(run=charted_run_of)
def norm(
    *,
    network: Annotated[
        str | None, typer.Option("--network", help=f"One of {', '.join(NORM_NETWORKS)}.")
    ] = None,
    run: Run,
) -> None:
    """Normalisations: milliseconds, share of the best read-only kernel, PyTorch."""
    if network is not None and network not in NORM_NETWORKS:
        known = ", ".join(NORM_NETWORKS)
        raise typer.BadParameter(f"{network!r}; expected one of {known}", param_hint="--network")
    jobs = norm_jobs(quick=run.quick, network=network)
    with moving() as progress:
        rows, refused = run_norm(jobs, run.device, repeats=run.repeats, progress=progress)
    options, label = (f"--network {network}", network) if network else ("", "")
    report = norm_report(rows, refused, run.device, quick=run.quick, options=options, label=label)
    finish(report, run)


@takes(run=charted_run_of)
def gradient(run: Run) -> None:
    """Derived gradients: speed beside kernels by hand, and beside PyTorch's eager backward."""
    with moving() as progress:
        rows = run_gradient(run.device, repeats=run.repeats, quick=run.quick, progress=progress)
    finish(gradient_report(rows), run)


def _bandwidth(command: str, title: str, workloads: Sequence[Workload], run: Run) -> None:
    with moving() as progress:
        found = run_bandwidth(
            workloads, run.device, repeats=run.repeats, quick=run.quick, progress=progress
        )
    finish(bandwidth_report(command, title, *found), run)
