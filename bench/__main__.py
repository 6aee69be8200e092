"""``python -m bench pointwise|reduce|layout|gemm|…``: measures, prints, and writes files."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

try:
    import matplotlib  # noqa: F401
    import typer
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
except ImportError as error:
    package = (error.name or "more").partition(".")[0]
    sys.exit(f'The benchmarks need {package}: pip install "clprim[bench]"')

import pyopencl as cl

import clprim as cp
from bench.bandwidth import bandwidth_report, run_bandwidth
from bench.blocks import Separate, block_jobs
from bench.chart import draw
from bench.compute import Job, run_compute
from bench.compute_report import compute_report
from bench.conv import DIRECTIONS, FORMATS, conv_jobs
from bench.depthwise import DEPTHWISE, Grouped, bandwidth_table, depthwise_jobs
from bench.gemm import gemm_jobs
from bench.gpus import GPUS
from bench.launch import launch_report, run_conv_launch, run_launch, run_starts
from bench.layout import layout_workloads, run_layout
from bench.networks import NETWORKS
from bench.norm import NORM_NETWORKS, norm_jobs, run_norm
from bench.norm_report import norm_report
from bench.offline import tool_versions
from bench.peers import Peer
from bench.report import Report, Table, markdown, setting, show, slug
from bench.subpixel import run_subpixel
from bench.subpixel_report import subpixel_report
from bench.tune import catalogue, entries_of, record, to_ship, tune_all, tune_report
from bench.vendors import run_vendors, vendors_report
from bench.workloads import Workload, pointwise_workloads, reduce_workloads
from clprim.runtime import tuning

__all__ = ["app"]

_RESULTS = Path(__file__).resolve().parent / "results"
_TUNED = Path(cp.__file__).resolve().parent / "tuned"
_REPEATS, _QUICK_REPEATS = 15, 2
# Where nobody watches (a file, a pipe), lines need not fit a window.
_WIDE = 180

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Measure clprim beside the device's own bandwidth and beside its peers.",
)

DeviceOption = Annotated[
    str | None, typer.Option("--device", help="Index or part of a name; default: the current one.")
]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="Tiny workloads, few runs; targets are not judged.")
]
RepeatsOption = Annotated[
    int | None,
    typer.Option("--repeats", min=1, help=f"Runs of each contender; default: {_REPEATS}."),
]
OutputOption = Annotated[Path, typer.Option("--output", help="Folder for the Markdown and PNG.")]
NoChartOption = Annotated[bool, typer.Option("--no-chart", help="Leave the PNG out.")]
PeersOption = Annotated[
    str | None, typer.Option("--peers", help="Parts of names, with commas; default: all.")
]

# Values of options: one of a table's keys, or a word for several of them.
_BOTH, _GRADIENTS, _ALL = "both", "gradients", "all"


@dataclass(frozen=True)
class Run:
    """The options of a run, made definite.

    Attributes:
        device: Where; the current one.
        quick: Whether everything is to be tiny.
        repeats: Runs of each contender.
        output: Folder for the files.
        chart: Whether one of them is a chart.
    """

    device: cp.Device
    quick: bool
    repeats: int
    output: Path
    chart: bool


@app.command()
def pointwise(
    *,
    device: DeviceOption = None,
    quick: QuickOption = False,
    repeats: RepeatsOption = None,
    output: OutputOption = _RESULTS,
    no_chart: NoChartOption = False,
) -> None:
    """Element by element: GB/s, share of the best copy kernel, peers."""
    run = _start(device, quick=quick, repeats=repeats, output=output, no_chart=no_chart)
    title = "Pointwise: bandwidth beside a copy"
    _bandwidth("pointwise", title, pointwise_workloads(quick=quick), run)


@app.command()
def reduce(
    *,
    device: DeviceOption = None,
    quick: QuickOption = False,
    repeats: RepeatsOption = None,
    output: OutputOption = _RESULTS,
    no_chart: NoChartOption = False,
) -> None:
    """Sums along axes: GB/s, share of the best read-only kernel, peers."""
    run = _start(device, quick=quick, repeats=repeats, output=output, no_chart=no_chart)
    title = "Reductions: bandwidth beside a read-only kernel"
    _bandwidth("reduce", title, reduce_workloads(quick=quick), run)


@app.command()
def gemm(
    *,
    peers: PeersOption = None,
    device: DeviceOption = None,
    quick: QuickOption = False,
    repeats: RepeatsOption = None,
    output: OutputOption = _RESULTS,
    no_chart: NoChartOption = False,
) -> None:
    """Matrix products: GFLOP/s, share of the best kernel of multiply-adds, peers."""
    run = _start(device, quick=quick, repeats=repeats, output=output, no_chart=no_chart)
    title = "Matrix products: arithmetic beside MKL, CLBlast and others"
    _compute("gemm", title, gemm_jobs(run.device, quick=quick), run, {"peers": peers})


@app.command()
def conv(
    *,
    network: Annotated[
        str, typer.Option("--network", help=f"{', '.join(NETWORKS)} or {_ALL}.")
    ] = "resnet50",
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, help="Images; default: 8, or as published.")
    ] = None,
    memory_format: Annotated[
        str, typer.Option("--memory-format", help=f"{', '.join(FORMATS)} or {_BOTH}.")
    ] = _BOTH,
    direction: Annotated[
        str, typer.Option("--direction", help=f"{', '.join(DIRECTIONS)} or {_GRADIENTS}.")
    ] = "forward",
    peers: PeersOption = None,
    device: DeviceOption = None,
    quick: QuickOption = False,
    repeats: RepeatsOption = None,
    output: OutputOption = _RESULTS,
    no_chart: NoChartOption = False,
) -> None:
    """Convolutions of published networks: GFLOP/s, share of the peak, oneDNN and other peers."""
    networks = _chosen("--network", network, NETWORKS, {_ALL: tuple(NETWORKS)})
    formats = _chosen("--memory-format", memory_format, FORMATS, {_BOTH: tuple(FORMATS)})
    directions = _chosen("--direction", direction, DIRECTIONS, {_GRADIENTS: DIRECTIONS[1:]})
    run = _start(device, quick=quick, repeats=repeats, output=output, no_chart=no_chart)
    jobs = conv_jobs(
        run.device,
        networks=networks,
        batch=batch,
        formats=formats,
        directions=directions,
        quick=quick,
    )
    options = {
        "network": network if network != "resnet50" else None,
        "batch": batch,
        "memory-format": memory_format if memory_format != _BOTH else None,
        "direction": direction if direction != "forward" else None,
        "peers": peers,
    }
    title = "Convolutions: arithmetic beside oneDNN and others"
    _compute("conv", title, jobs, run, options)


@app.command()
def depthwise(
    *,
    network: Annotated[
        str, typer.Option("--network", help=f"{', '.join(DEPTHWISE)} or {_ALL}.")
    ] = "mobilenet-v2",
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, help="Images; default: 8, or as published.")
    ] = None,
    memory_format: Annotated[
        str, typer.Option("--memory-format", help=f"{', '.join(FORMATS)} or {_BOTH}.")
    ] = _BOTH,
    direction: Annotated[
        str, typer.Option("--direction", help=f"{', '.join(DIRECTIONS)} or {_GRADIENTS}.")
    ] = "forward",
    peers: PeersOption = None,
    device: DeviceOption = None,
    quick: QuickOption = False,
    repeats: RepeatsOption = None,
    output: OutputOption = _RESULTS,
    no_chart: NoChartOption = False,
) -> None:
    """Depthwise convolutions of published networks, and MobileNetV2's blocks: oneDNN, a copy."""
    networks = _chosen("--network", network, DEPTHWISE, {_ALL: tuple(DEPTHWISE)})
    formats = _chosen("--memory-format", memory_format, FORMATS, {_BOTH: tuple(FORMATS)})
    directions = _chosen("--direction", direction, DIRECTIONS, {_GRADIENTS: DIRECTIONS[1:]})
    run = _start(device, quick=quick, repeats=repeats, output=output, no_chart=no_chart)
    jobs = depthwise_jobs(
        run.device,
        networks=networks,
        batch=batch,
        formats=formats,
        directions=directions,
        quick=quick,
    )
    blocks = block_jobs(run.device, batch=batch, formats=formats, quick=quick)
    if "mobilenet-v2" not in networks or "forward" not in directions:
        blocks = []
    options = {
        "network": network if network != "mobilenet-v2" else None,
        "batch": batch,
        "memory-format": memory_format if memory_format != _BOTH else None,
        "direction": direction if direction != "forward" else None,
        "peers": peers,
    }
    _compute(
        "depthwise",
        "Depthwise convolutions: beside oneDNN, products of matrices, and a copy",
        [*jobs, *blocks],
        run,
        options,
        more=(Grouped(run.device), Separate(run.device)),
        extra=lambda progress: bandwidth_table(
            jobs, run.device, repeats=run.repeats, progress=progress
        ),
    )


@app.command()
def norm(
    *,
    network: Annotated[
        str | None, typer.Option("--network", help=f"One of {', '.join(NORM_NETWORKS)}.")
    ] = None,
    device: DeviceOption = None,
    quick: QuickOption = False,
    repeats: RepeatsOption = None,
    output: OutputOption = _RESULTS,
    no_chart: NoChartOption = False,
) -> None:
    """Normalisations: milliseconds, share of the best read-only kernel, PyTorch."""
    if network is not None and network not in NORM_NETWORKS:
        known = ", ".join(NORM_NETWORKS)
        raise typer.BadParameter(f"{network!r}; expected one of {known}", param_hint="--network")
    run = _start(device, quick=quick, repeats=repeats, output=output, no_chart=no_chart)
    jobs = norm_jobs(quick=quick, network=network)
    with _progress(of=1) as progress:
        rows, refused = run_norm(jobs, run.device, repeats=run.repeats, progress=progress)
    options, label = (f"--network {network}", network) if network else ("", "")
    report = norm_report(rows, refused, run.device, quick=quick, options=options, label=label)
    _finish(report, run)


@app.command()
def layout(
    *,
    device: DeviceOption = None,
    quick: QuickOption = False,
    repeats: RepeatsOption = None,
    output: OutputOption = _RESULTS,
    no_chart: NoChartOption = False,
) -> None:
    """Sub-pixel shuffles and memory formats: GB/s, share of the best copy kernel, PyTorch."""
    run = _start(device, quick=quick, repeats=repeats, output=output, no_chart=no_chart)
    with _progress(of=1) as progress:
        found = run_layout(
            layout_workloads(quick=run.quick),
            run.device,
            repeats=run.repeats,
            quick=run.quick,
            progress=progress,
        )
    title = "Moving memory: bandwidth beside a copy"
    _finish(bandwidth_report("layout", title, *found), run)


@app.command()
def subpixel(
    *,
    device: DeviceOption = None,
    quick: QuickOption = False,
    repeats: RepeatsOption = None,
    output: OutputOption = _RESULTS,
    no_chart: NoChartOption = False,
) -> None:
    """A super-resolution network: fused and separate depth_to_space, launches, peers."""
    run = _start(device, quick=quick, repeats=repeats, output=output, no_chart=no_chart)
    with _progress(of=1) as progress:
        found = run_subpixel(run.device, repeats=run.repeats, quick=run.quick, progress=progress)
    _finish(subpixel_report(*found, quick=run.quick), run)


@app.command()
def launch(
    *,
    device: DeviceOption = None,
    quick: QuickOption = False,
    repeats: RepeatsOption = None,
    output: OutputOption = _RESULTS,
    no_chart: NoChartOption = False,
) -> None:
    """Host microseconds a call, time to import, time of the first call."""
    run = _start(device, quick=quick, repeats=repeats, output=output, no_chart=no_chart)
    with _progress(of=3) as progress:
        calls = run_launch(run.device, repeats=run.repeats, quick=quick, progress=progress)
        convs = run_conv_launch(run.device, repeats=run.repeats, quick=quick, progress=progress)
        starts = run_starts(run.device, quick=quick, progress=progress)
    _finish(launch_report(*calls, *convs, starts, quick=quick), run)


@app.command()
def tune(
    *,
    network: Annotated[
        str, typer.Option("--network", help=f"{', '.join(NETWORKS)} or {_ALL}.")
    ] = "resnet50",
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, help="Images; default: 8, or as published.")
    ] = None,
    memory_format: Annotated[
        str, typer.Option("--memory-format", help=f"{', '.join(FORMATS)} or {_BOTH}.")
    ] = _BOTH,
    direction: Annotated[
        str, typer.Option("--direction", help=f"{', '.join(DIRECTIONS)} or {_GRADIENTS}.")
    ] = "forward",
    products: Annotated[
        bool, typer.Option("--products", help="Matrix products instead of convolutions.")
    ] = False,
    catalogued: Annotated[
        bool,
        typer.Option(
            "--catalogue", help="Time nothing: write what the rule gives GPUs that are not here."
        ),
    ] = False,
    ship: Annotated[
        str | None,
        typer.Option("--ship", help="Write a table into the package, for devices of such names."),
    ] = None,
    device: DeviceOption = None,
    quick: QuickOption = False,
    repeats: RepeatsOption = None,
    output: OutputOption = _RESULTS,
) -> None:
    """Times tiles of contractions, keeps the best of them in the user's table, says the gain."""
    networks = _chosen("--network", network, NETWORKS, {_ALL: tuple(NETWORKS)})
    formats = _chosen("--memory-format", memory_format, FORMATS, {_BOTH: tuple(FORMATS)})
    directions = _chosen("--direction", direction, DIRECTIONS, {_GRADIENTS: DIRECTIONS[1:]})
    run = _start(device, quick=quick, repeats=repeats, output=output, no_chart=True)
    jobs: Sequence[Job] = conv_jobs(
        run.device,
        networks=networks,
        batch=batch,
        formats=formats,
        directions=directions,
        quick=quick,
    )
    if products:
        jobs = gemm_jobs(run.device, quick=quick)
    cases = record(jobs, run.device)
    folder = _TUNED if output == _RESULTS else output
    if catalogued:
        for gpu in GPUS:
            page = folder / f"{gpu.target}.json"
            page.write_text(catalogue(cases, gpu).text(), encoding="utf-8")
            typer.echo(f"written: {page}")
        return
    with _progress(of=1) as progress:
        found = tune_all(cases, run.device, run.repeats, progress=progress)
    if ship is not None:
        table = to_ship(found, run.device, tuple(ship.split(",")))
        (folder / f"{slug(run.device)}.json").write_text(table.text(), encoding="utf-8")
    kept = "kept nowhere: --quick"
    if not quick:
        try:
            path = tuning.save(run.device, entries_of(found))
        except OSError as error:
            typer.echo(f"the table cannot be kept: {error}", err=True)
            raise typer.Exit(1) from None
        kept = f"kept in {path}" if path else "kept nowhere: CLPRIM_CACHE_DIR switches that off"
    report = tune_report(found, len(cases), kept)
    options = {
        "network": network if network != "resnet50" and not products else None,
        "batch": batch,
        "memory-format": memory_format if memory_format != _BOTH else None,
        "direction": direction if direction != "forward" else None,
    }
    words = [f"--{name} {value}" for name, value in options.items() if value is not None]
    label = "-".join(_label(name, value) for name, value in options.items() if value is not None)
    if products:
        words, label = ["--products"], "products"
    _finish(replace(report, options=" ".join(words), label=label), run)


@app.command()
def vendors(
    *,
    targets: Annotated[
        str | None, typer.Option("--targets", help="Such as gfx1030,sm_90; default: all.")
    ] = None,
    quick: QuickOption = False,
    output: OutputOption = _RESULTS,
) -> None:
    """GPUs that are not here: what their compilers say of every family of kernels."""
    words = targets.split(",") if targets else [gpu.target for gpu in GPUS]
    known = {gpu.target: gpu for gpu in GPUS}
    chosen = [known[_chosen("--targets", word, known, {})[0]] for word in words]
    with _progress(of=1) as progress:
        report = vendors_report(run_vendors(chosen, quick=quick, progress=progress))
    options = f" --targets {targets}" if targets else ""
    where = {"compilers": tool_versions(), "run": f"`python -m bench vendors{options}`"}
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, _WIDE)
    show(report, where, console)
    output.mkdir(parents=True, exist_ok=True)
    page = output / f"vendors{'-quick' if quick or targets else ''}.md"
    page.write_text(markdown(report, where), encoding="utf-8")
    console.print(f"written: {page}", soft_wrap=True)
    if report.failures:
        raise typer.Exit(1)


def _start(
    device: str | None, *, quick: bool, repeats: int | None, output: Path, no_chart: bool
) -> Run:
    try:
        found = cp.current_device() if device is None else cp.set_device(device)
    except cp.DeviceError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    repeats = repeats or (_QUICK_REPEATS if quick else _REPEATS)
    return Run(found, quick, repeats, output, not no_chart)


def _bandwidth(command: str, title: str, workloads: Sequence[Workload], run: Run) -> None:
    with _progress(of=1) as progress:
        found = run_bandwidth(
            workloads, run.device, repeats=run.repeats, quick=run.quick, progress=progress
        )
    _finish(bandwidth_report(command, title, *found), run)


def _chosen(
    option: str, value: str, known: Collection[str], words: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the keys that an option's value stands for."""
    if value in words:
        return words[value]
    if value in known:
        return (value,)
    names = ", ".join((*known, *words))
    typer.echo(f"{option} {value}: expected one of {names}", err=True)
    raise typer.Exit(2)


def _compute(
    command: str,
    title: str,
    jobs: Sequence[Job],
    run: Run,
    options: Mapping[str, object],
    more: Sequence[Peer] = (),
    extra: Callable[[Callable[[str, float], None]], Table | None] = lambda _: None,
) -> None:
    """Measure products or convolutions; ``options`` are those that differ from their defaults.

    ``more`` are peers of this command alone, and ``extra`` measures one more table.
    """
    given = {name: value for name, value in options.items() if value is not None}
    peers = str(given["peers"]).split(",") if "peers" in given else None
    with _progress(of=1) as progress:
        found = run_compute(
            jobs, run.device, repeats=run.repeats, wanted=peers, more=more, progress=progress
        )
        table = extra(progress)
    report = compute_report(
        command,
        title,
        *found,
        excuse="--quick" if run.quick else "",
        options=" ".join(f"--{name} {value}" for name, value in given.items()),
        label="-".join(_label(name, value) for name, value in given.items()),
    )
    if table is not None:
        report = replace(report, tables=(*report.tables, table))
    _finish(report, run)


def _label(option: str, value: object) -> str:
    """Return an option as a part of a file's name."""
    plain = str(value).replace("_", "-").replace(",", "-").replace(" ", "-")
    return f"{option}-{plain}" if option in {"batch", "peers"} else plain


@contextmanager
def _progress(of: float) -> Iterator[Callable[[str, float], None]]:
    """Show a bar that the yielded function moves, until the parts it is given sum up to ``of``."""
    columns = (BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeElapsedColumn())
    text = TextColumn("{task.description}", markup=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)  # remarks on the peers' kernels
        with Progress(*columns, text, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=of)
            yield lambda about, part: bar.update(task, description=about, advance=part)


def _finish(report: Report, run: Run) -> None:
    """Print a report and write its files; a wrong result, unlike a slow one, is an error."""
    quick = " --quick" if run.quick else ""
    options = f" {report.options}" if report.options else ""
    where = setting(run.device, f"{report.command}{options}{quick} --repeats {run.repeats}")
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, _WIDE)
    show(report, where, console)
    # A quick run must not replace the numbers of a real one.
    what = f"{report.command}-{report.label}" if report.label else report.command
    name = f"{what}-{slug(run.device)}{'-quick' if run.quick else ''}"
    run.output.mkdir(parents=True, exist_ok=True)
    chart = f"{name}.png" if run.chart else None
    if chart:
        draw(run.output / chart, report.title, where["device"], report.panels)
    page = run.output / f"{name}.md"
    page.write_text(markdown(report, where, chart), encoding="utf-8")
    console.print(f"written: {page}{f' and {chart}' if chart else ''}", soft_wrap=True)
    if report.failures:
        raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="python -m bench")
