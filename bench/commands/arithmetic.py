"""Commands that measure products of matrices and convolutions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from bench.clock.compute import Job, run_compute
from bench.commands.options import (
    Layers,
    PeersOption,
    ResidualOption,
    Run,
    charted_run_of,
    chosen,
    layers_of,
    takes,
)
from bench.commands.output import as_written, finish, label_of, moving
from bench.page.compute import compute_report
from bench.page.report import Table
from bench.page.subpixel import subpixel_report
from bench.peers.peer import Peer
from bench.work.blocks import Separate, block_jobs
from bench.work.conv import conv_jobs
from bench.work.depthwise import DEPTHWISE, Grouped, bandwidth_table, depthwise_jobs
from bench.work.gemm import gemm_jobs
from bench.work.pairs import pairs_report, run_pairs
from bench.work.subpixel import run_subpixel
from clprim.tune.networks import NETWORKS


@takes(run=charted_run_of)
def gemm(*, peers: PeersOption = None, run: Run) -> None:
    """Matrix products: GFLOP/s, share of the best kernel of multiply-adds, peers."""
    title = "Matrix products: arithmetic next to MKL, CLBlast and others"
    _compute("gemm", title, gemm_jobs(run.device, quick=run.quick), run, peers)


@takes(layers=layers_of(NETWORKS, "resnet50"), run=charted_run_of)
def conv(
    *, layers: Layers, residual: ResidualOption = False, peers: PeersOption = None, run: Run
) -> None:
    """Convolutions of published networks: GFLOP/s, share of the peak, oneDNN and other peers."""
    title = "Convolutions: arithmetic next to oneDNN and others"
    if residual:
        known = [name for name, network in NETWORKS.items() if network.followed]
        networks = tuple(name for name in layers.networks if name in known)
        chosen("--residual --network", (networks or layers.networks)[0], known, {})
        chosen("--residual --direction", layers.directions[0], ["forward"], {})
        layers = replace(layers, networks=networks)
    jobs = conv_jobs(run.device, followed=residual, quick=run.quick, **layers.selection)
    given = {**layers.given, **({"residual": True} if residual else {})}
    _compute("conv", title, jobs, run, peers, options=given)


@takes(layers=layers_of(DEPTHWISE, "mobilenet-v2"), run=charted_run_of)
def depthwise(*, layers: Layers, peers: PeersOption = None, run: Run) -> None:
    """Depthwise convolutions of published networks, and MobileNetV2's blocks: oneDNN, a copy."""
    jobs = depthwise_jobs(run.device, quick=run.quick, **layers.selection)
    blocks: Sequence[Job] = ()
    if "mobilenet-v2" in layers.networks and "forward" in layers.directions:
        blocks = block_jobs(run.device, batch=layers.batch, formats=layers.formats, quick=run.quick)
    _compute(
        "depthwise",
        "Depthwise convolutions: next to oneDNN, products of matrices, and a copy",
        [*jobs, *blocks],
        run,
        peers,
        options=layers.given,
        more=(Grouped(run.device), Separate(run.device)),
        extra=lambda progress: bandwidth_table(
            jobs, run.device, repeats=run.repeats, progress=progress
        ),
    )


@takes(run=charted_run_of)
def pairs(run: Run) -> None:
    """Reductions over pairs: terms a second, beside our products, PyTorch, KeOps and SciPy."""
    with moving() as progress:
        rows = run_pairs(run.device, repeats=run.repeats, quick=run.quick, progress=progress)
    finish(pairs_report(rows, quick=run.quick), run)


@takes(run=charted_run_of)
def subpixel(run: Run) -> None:
    """A super-resolution network: fused and separate depth_to_space, launches, peers."""
    with moving() as progress:
        found = run_subpixel(run.device, repeats=run.repeats, quick=run.quick, progress=progress)
    finish(subpixel_report(*found, quick=run.quick), run)


def _compute(
    command: str,
    title: str,
    jobs: Sequence[Job],
    run: Run,
    peers: str | None,
    *,
    options: Mapping[str, object] | None = None,
    more: Sequence[Peer] = (),
    extra: Callable[[Callable[[str, float], None]], Table | None] = lambda _: None,
) -> None:
    """Measure products or convolutions.

    Args:
        command: Of the report.
        title: Likewise.
        jobs: What to measure.
        run: Where, and how often.
        peers: Beside whom: parts of names, with commas; None for all.
        options: Those that differ from their defaults.
        more: Peers of this command alone.
        extra: Measures one more table.
    """
    given = {**(options or {}), **({"peers": peers} if peers is not None else {})}
    wanted = None if peers is None else peers.split(",")
    with moving() as progress:
        found = run_compute(
            jobs, run.device, repeats=run.repeats, wanted=wanted, more=more, progress=progress
        )
        table = extra(progress)
    report = compute_report(
        command,
        title,
        *found,
        excuse="--quick" if run.quick else "",
        options=as_written(given),
        label=label_of(given),
    )
    if table is not None:
        report = replace(report, tables=(*report.tables, table))
    finish(report, run)
