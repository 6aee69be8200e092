"""What a command shows while it measures, prints when it is done, and writes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyopencl as cl
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.commands.options import RESULTS, Run
from bench.commands.pages import refresh
from bench.page.chart import draw
from bench.page.panels import panels_of
from bench.page.report import Report, markdown, setting, show, slug

# Where nobody watches (a file, a pipe), lines need not fit a window.
_WIDE = 180


@contextmanager
def moving(of: float = 1) -> Iterator[Callable[[str, float], None]]:
    """Show a bar that the yielded function moves, until the parts it is given sum up to ``of``."""
    columns = (BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeElapsedColumn())
    text = TextColumn("{task.description}", markup=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)  # remarks on the peers' kernels
        with Progress(*columns, text, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=of)
            yield lambda about, part: bar.update(task, description=about, advance=part)


def as_written(given: Mapping[str, object]) -> str:
    """Return options as they are typed."""
    return " ".join(f"--{k}" if value is True else f"--{k} {value}" for k, value in given.items())


def label_of(given: Mapping[str, object]) -> str:
    """Return options as a part of a file's name."""
    return "-".join(_label(name, value) for name, value in given.items())


def finish(report: Report, run: Run) -> None:
    """Publish what was measured on a device, in files that are named after both."""
    quick = " --quick" if run.quick else ""
    options = f" {report.options}" if report.options else ""
    where = setting(run.device, f"{report.command}{options}{quick} --repeats {run.repeats}")
    # A quick run must not replace the numbers of a real one.
    what = f"{report.command}-{report.label}" if report.label else report.command
    name = f"{what}-{slug(run.device)}{'-quick' if run.quick else ''}"
    publish(report, where, run.output / name, chart=run.chart)


def publish(report: Report, where: dict[str, str], path: Path, *, chart: bool) -> None:
    """Print a report and write its files; a wrong result, unlike a slow one, is an error.

    Args:
        report: What was found.
        where: Under which circumstances; see `bench.page.report.setting`.
        path: Of the files, without their suffixes; folders are made.
        chart: Whether one of the files is a chart.
    """
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, _WIDE)
    show(report, where, console)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = f"{path.name}.png" if chart else None
    if picture:
        draw(path.with_name(picture), report.title, where["device"], panels_of(report.tables))
    page = path.with_name(f"{path.name}.md")
    page.write_text(markdown(report, where, picture), encoding="utf-8")
    console.print(f"written: {page}{f' and {picture}' if picture else ''}", soft_wrap=True)
    if path.parent.resolve() == RESULTS:
        refresh(RESULTS)
    if report.failures:
        raise typer.Exit(1)


def _label(option: str, value: object) -> str:
    if value is True:
        return option
    plain = str(value).replace("_", "-").replace(",", "-").replace(" ", "-")
    return f"{option}-{plain}" if option in {"batch", "peers"} else plain
