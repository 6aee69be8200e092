"""What earlier runs wrote: pages read back, their charts, and the index of all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from bench.page.chart import draw
from bench.page.panels import panels_of
from bench.page.report import Table

_TARGETS = "Targets"


@dataclass(frozen=True)
class Page:
    """One page of results.

    Attributes:
        path: Of its Markdown file.
        title: Its heading.
        where: Device, machine, versions, and when it was run.
        tables: All but that of the targets.
        outcome: Of the targets, in a few words.
    """

    path: Path
    title: str
    where: dict[str, str]
    tables: tuple[Table, ...]
    outcome: str

    @property
    def date(self) -> str:
        """When it was run, as ``2026-11-21 17:17``; empty where the page does not say."""
        found = re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d", self.where.get("run", ""))
        return found[0] if found else ""

    @property
    def picture(self) -> Path:
        """Its chart, which need not exist."""
        return self.path.with_suffix(".png")


def read_page(path: Path) -> Page:
    """Return what `bench.page.report.markdown` wrote.

    Args:
        path: Of the Markdown file.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    title = lines[0].removeprefix("# ")
    where: dict[str, str] = {}
    for line in lines[2:]:
        found = re.match(r"- (\w+): (.*)", line)
        if not found:
            break
        where[found[1]] = found[2]
    tables: list[Table] = []
    heading, rows = "", list[tuple[str, ...]]()
    for line in [*lines, "## "]:
        if line.startswith("## "):
            if len(rows) > 2:
                tables.append(Table(heading, rows[0], tuple(rows[2:])))
            heading, rows = line.removeprefix("## "), []
        elif line.startswith("| "):
            rows.append(_cells(line))
    targets = [row for table in tables if table.title == _TARGETS for row in table.rows]
    missed = sum("MISSED" in row[-1] for row in targets)
    judged = sum(row[-1].startswith(("hit", "MISSED")) for row in targets)
    outcome = f"{judged - missed} of {judged} targets" if judged else ""
    others = tuple(table for table in tables if table.title != _TARGETS)
    return Page(path, title, where, others, outcome)


def redraw(page: Page) -> bool:
    """Draw the chart of a page again; says whether it has one."""
    panels = panels_of(page.tables)
    if not panels:
        return False
    draw(page.picture, page.title, page.where.get("device", ""), panels)
    return True


def index_of(folder: Path) -> str:
    """Return the index of a folder of pages: newest first, with thumbnails.

    Args:
        folder: Of the pages.
    """
    pages = [read_page(path) for path in sorted(folder.glob("*.md")) if path.name != "README.md"]
    pages.sort(key=lambda page: page.date, reverse=True)
    blocks = [
        "# Results",
        "What `python -m bench` measured, newest first; `python -m bench pages` writes this index "
        "and draws the charts from the tables. Bars and marks are what a user waits for, by the "
        "host's clock, for clprim and its peers alike; lighter bars: clprim's time on the device.",
    ]
    rows = ["| | what | where | when | |", "| --- | --- | --- | --- | --- |"]
    for page in pages:
        name = page.path.name
        picture = ""
        if page.picture.exists():
            picture = f'[<img src="{page.picture.name}" width="260" alt="chart">]({name})'
        command = re.search(r"`([^`]*)`", page.where.get("run", ""))
        what = f"[{page.title}]({name})<br>`{command[1]}`" if command else f"[{page.title}]({name})"
        device = page.where.get("device", "compilers").split(", Op")[0]
        rows.append(f"| {picture} | {what} | {device} | {page.date} | {page.outcome} |")
    return "\n\n".join([*blocks, "\n".join(rows)]) + "\n"


def _cells(line: str) -> tuple[str, ...]:
    cells = re.split(r"(?<!\\)\|", line)[1:-1]
    return tuple(c.strip().replace("\\|", "|").replace("<br>", "\n") for c in cells)
