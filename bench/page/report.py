"""What a run found, for readers: a terminal, a Markdown file."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

import clprim as cp
from bench.page.targets import HIT, MISSED, Verdict, summarize
from clprim.runtime.device import Device, devices

_PACKAGES = ("pyopencl", "numpy", "torch")
_TARGETS = ("target", "hits", "worst", "where", "outcome")
_COLOURS = {HIT: "green", MISSED: "bold red", "WRONG": "bold red"}


@dataclass(frozen=True)
class Table:
    """Cells, the first column left, the others right.

    Attributes:
        title: What the rows have in common.
        columns: Headings.
        rows: Cells; a line break in one stays one.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Report:
    """Everything a command has to say.

    Attributes:
        command: Its name.
        title: Its heading.
        tables: Numbers as text; `bench.page.panels` draws them.
        verdicts: On all targets of all rows.
        notes: How to read the numbers.
        failures: What was wrong, not merely slow.
        options: Those of the command that chose what was measured, as typed.
        label: What they add to the names of files.
    """

    command: str
    title: str
    tables: tuple[Table, ...]
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    options: str = ""
    label: str = ""


def show(report: Report, where: dict[str, str], console: Console) -> None:
    """Print a report on a terminal."""
    console.print(Text(report.title, style="bold"))
    for key, value in where.items():
        console.print(Text(f"{key}: {value}", style="dim"))
    for table in (*report.tables, *_summary(report.verdicts)):
        rich = RichTable(
            title=table.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD
        )
        for number, column in enumerate(table.columns):
            justify = "right" if number else "left"
            rich.add_column(column, justify=justify, overflow="fold", no_wrap=not number)
        for row in table.rows:
            rich.add_row(*map(_coloured, row))
        console.print(rich)
    for note in report.notes:
        console.print(Text(note, style="dim"))
    for failure in report.failures:
        console.print(Text(failure, style=_COLOURS["WRONG"]))


def markdown(report: Report, where: dict[str, str], chart: str | None = None) -> str:
    """Return a report as a Markdown page.

    Args:
        report: What to print.
        where: What `setting` found.
        chart: Name of the picture beside the page, if there is one.
    """
    blocks = [f"# {report.title}", "\n".join(f"- {key}: {value}" for key, value in where.items())]
    blocks += [f"**{failure}**" for failure in report.failures]
    for table in (*_summary(report.verdicts), *report.tables):
        blocks += [f"## {table.title}", _pipes(table)]
    if chart:
        blocks.append(f"![{report.title}]({chart})")
    if report.notes:
        blocks += ["## Notes", "\n".join(f"- {note}" for note in report.notes)]
    return "\n\n".join(blocks) + "\n"


def setting(device: Device, options: str) -> dict[str, str]:
    """Return where and with what a run was made.

    Args:
        device: What ran the kernels.
        options: Those of the command, as typed.
    """
    now = datetime.datetime.now().astimezone()
    versions = [f"clprim {cp.__version__}", f"Python {platform.python_version()}"]
    versions += map(_version, _PACKAGES)
    return {
        "device": f"{device.name}, {device.platform} {device.driver}, {device.version}",
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()} "
        f"{platform.release()}{_priority()}",
        "versions": ", ".join(versions),
        "run": f"{now:%Y-%m-%d %H:%M %Z}, `python -m bench {options}`",
    }


def slug(device: Device, others: Sequence[Device] | None = None) -> str:
    """Return a name for files about a device: its platform and its own, in plain letters.

    Where several devices share it (two versions of one driver), the driver's version follows.
    """
    others = devices() if others is None else others
    name = _plain(f"{device.platform} {device.name}")
    if sum(_plain(f"{other.platform} {other.name}") == name for other in others) > 1:
        name = f"{name}-{_plain(device.driver)}"
    return name


def _plain(text: str) -> str:
    text = re.sub(r"\((r|tm|c)\)", " ", text.lower())
    words = re.findall(r"[a-z0-9.]+", text)
    return "-".join(dict.fromkeys(words))  # a vendor's name once is enough


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"no {package}"


def _priority() -> str:
    """Return what `chrt` gave this process, which wakes its threads on cores of their own."""
    if not hasattr(os, "sched_getscheduler"):
        return ""
    real_time = os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)
    return f", real-time priority {os.sched_getparam(0).sched_priority}" if real_time else ""


def _processor() -> str:
    """Return the host processor's name; `platform.processor` is mostly empty on Linux."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        found = None
    return found.group(1) if found else platform.processor() or platform.machine()


def _summary(verdicts: Sequence[Verdict]) -> list[Table]:
    """Return the table of all targets, or nothing where there are none."""
    rows = []
    for summary in summarize(verdicts):
        worst = summary.worst
        rest = "others: " if summary.judged else ""
        rows.append(
            (
                str(summary.target),
                f"{summary.hits} of {summary.judged}" if summary.judged else "–",
                summary.target.show(worst.measured or 0) if worst else "–",
                worst.subject if worst else "–",
                summary.outcome + (f" ({rest}{summary.excuse})" if summary.excuse else ""),
            )
        )
    return [Table("Targets", _TARGETS, tuple(rows))] if rows else []


def _coloured(cell: str) -> Text:
    text = Text(cell)
    for word, style in _COLOURS.items():
        text.highlight_words([word], style)
    return text


def _pipes(table: Table) -> str:
    head, *rows = (
        "| " + " | ".join(c.replace("|", "\\|").replace("\n", "<br>") for c in row) + " |"
        for row in (table.columns, *table.rows)
    )
    return "\n".join([head, "| --- |" + " ---: |" * (len(table.columns) - 1), *rows])
