"""The commands that measure whole networks: in inference, and steps of their training."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

import typer

from bench.commands.options import Run, charted_run_of, chosen, takes
from bench.commands.output import as_written, finish, label_of, moving
from bench.page.nets import nets_report
from bench.page.step import step_report
from bench.peers.nets import PEERS
from bench.work.models import MODELS, missing
from bench.work.nets import INTERRUPTED, net_jobs, net_names, run_nets
from bench.work.replayed import CHAIN, HOST, run_chain, run_host
from bench.work.step import run_memory, run_steps, step_jobs

BatchOption = Annotated[
    str | None, typer.Option("--batch", help="Images of a batch; several with commas.")
]
_KeepOption = Annotated[
    bool, typer.Option("--keep-memory", help="Spare PyTorch's CPU fresh pages.")
]


@takes(run=charted_run_of)
def nets(
    *,
    net: Annotated[
        str | None,
        typer.Option(
            "--net",
            help=f"Some of {', '.join(net_names())}, with commas; {CHAIN}: elementwise operators "
            f"beside a copy; {HOST}: the host's time of a kernel.",
        ),
    ] = None,
    batch: BatchOption = None,
    peers: Annotated[
        str | None, typer.Option("--peers", help=f"Some of {', '.join(PEERS)}, with commas.")
    ] = None,
    no_starts: Annotated[
        bool, typer.Option("--no-starts", help="Leave first calls in new processes out.")
    ] = False,
    keep: _KeepOption = False,
    run: Run,
) -> None:
    """Whole networks: images a second, beside PyTorch, its compiler, ONNX Runtime, OpenVINO."""
    named = some("--net", net, (*MODELS, CHAIN, HOST))
    rivals = some("--peers", peers, PEERS) or tuple(PEERS)
    models = tuple(name for name in named if name in MODELS)
    jobs = net_jobs(quick=run.quick, names=models, batches=counts("--batch", batch))
    if named and not models:
        jobs = []
    refuse_missing([job.name for job in jobs])
    chains, hosts = (not named or name in named for name in (CHAIN, HOST))
    options: dict[str, Any] = {"repeats": run.repeats, "quick": run.quick}
    chain = host = None
    rows, others, refused = [], [], []
    with moving(of=bool(jobs) + chains + hosts) as progress:
        options["progress"] = progress
        if jobs:
            rows, others, refused = run_nets(
                jobs, run.device, rivals, starts=not no_starts, keep=keep, **options
            )
        if chains and INTERRUPTED not in refused:
            chain = run_chain(run.device, **options)
        if hosts and INTERRUPTED not in refused:
            host = run_host(run.device, **options)
    written = {"net": net, "batch": batch, "peers": peers}
    parted = peers or (models and set(models) != set(net_names()))
    report = nets_report(
        rows,
        others,
        chain,
        host,
        refused=refused,
        excuse="--quick" if run.quick else "a part of the rows" if parted else "",
        **names_of(written, **{"no-starts": no_starts, "keep-memory": keep}),
    )
    finish(report, run)


@takes(run=charted_run_of)
def step(
    *,
    net: Annotated[
        str | None,
        typer.Option("--net", help="Networks, with commas; as of bench nets."),
    ] = None,
    batch: BatchOption = None,
    keep: _KeepOption = False,
    run: Run,
) -> None:
    """Training steps of networks: compiled, call by call, and PyTorch's; memory."""
    named = some("--net", net, [name for name, model in MODELS.items() if not model.tokens])
    jobs = step_jobs(quick=run.quick, names=named, batches=counts("--batch", batch))
    refuse_missing([job.name for job in jobs])
    whole = not named and batch is None
    with moving(of=1.1) as progress:
        rows, refused = run_steps(
            jobs, run.device, repeats=run.repeats, progress=progress, keep=keep
        )
        memory = None
        if whole and INTERRUPTED not in refused:
            progress("memory of a training step", 0)
            memory = run_memory(run.device, quick=run.quick)
            progress("memory of a training step", 0.1)
    report = step_report(
        rows,
        memory,
        refused=refused,
        excuse="--quick" if run.quick else "" if whole else "a part of the rows",
        **names_of({"net": net, "batch": batch}, **{"keep-memory": keep}),
    )
    finish(report, run)


def some(option: str, given: str | None, known: Collection[str]) -> tuple[str, ...]:
    """Return the names of an option's list, none where it is not given."""
    words = given.split(",") if given else ()
    return tuple(name for word in words for name in chosen(option, word, known, {}))


def counts(option: str, given: str | None) -> tuple[int, ...]:
    """Return the numbers of an option's list, none where it is not given."""
    words = given.split(",") if given else ()
    if not all(word.isdecimal() and int(word) for word in words):
        typer.echo(f"{option} {given}: expected numbers from 1, with commas", err=True)
        raise typer.Exit(2)
    return tuple(map(int, words))


def names_of(given: Mapping[str, object], **flags: bool) -> dict[str, str]:
    """Return options as a report has them: as typed, and as a part of a file's name."""
    told = {name: value for name, value in given.items() if value is not None}
    told |= {name: True for name, flag in flags.items() if flag}
    return {"options": as_written(told), "label": label_of(told)}


def refuse_missing(names: Sequence[str]) -> None:
    """Stop where packages are missing that make networks."""
    absent = missing(names)
    if absent:
        typer.echo(absent, err=True)
        raise typer.Exit(2)
