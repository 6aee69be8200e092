"""Charts from tables: what a page prints is what its picture shows.

A bar is what a user of clprim waits for, from the call until the result is there, as the marks of
its peers are. Where a table also has the device's own time of the same kernels, a lighter bar shows
it, and its ceiling is a tick: bar and tick of one clock, whose ratio is the printed share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import geometric_mean

from bench.page.report import Table

# Rows of a table that sum the others up.
_TOTALS = ("geometric mean", "worst row", "all together")
# Columns that are no contender.
_OTHERS = {
    *("", "GFLOP", "data", "x", "clprim", "ceiling", "share", "share of peak", "with launch"),
    *(
        "times as fast",
        "times as fast, fused",
        "times as fast, compiled",
        "algorithm",
        "error: rms / largest",
        "target",
    ),
}
# By unit of rates: what the most is that can be had, and what the share of it is called.
_CEILINGS = {
    "GFLOP/s": ("measured peak", "of peak"),
    "GB/s": ("best copy or read kernel, on the device", "on device"),
}
_WALL, _DEVICE = "clprim", "clprim, on the device"


@dataclass(frozen=True)
class Line:
    """One line of a chart.

    Attributes:
        label: Its name.
        bar: Length of its bar.
        inner: Length of a lighter bar behind, if it has one.
        tick: Where its reference stands, if it has one.
        marks: Others, by name.
        note: A word at its right end.
    """

    label: str
    bar: float
    inner: float | None = None
    tick: float | None = None
    marks: dict[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Panel:
    """One part of a chart, with an axis of its own.

    Attributes:
        title: What it shows.
        unit: Of its axis.
        bars: What the bars are, for the legend; empty where each line is a contender.
        ticks: What the ticks are.
        notes: Heading of the lines' notes.
        lines: From top to bottom.
        inner: What the lighter bars are.
    """

    title: str
    unit: str
    bars: str
    ticks: str
    notes: str
    lines: tuple[Line, ...]
    inner: str = ""


def panels_of(tables: Sequence[Table]) -> tuple[Panel, ...]:
    """Return the charts of those tables that have rates or times of contenders."""
    found = []
    for table in tables:
        for draw in (_rates, _milliseconds, _calls, _pictures, _starts, _by_hand, _copies):
            panel = draw(table)
            if panel is not None:
                if panel.lines:
                    found.append(panel)
                break
    return tuple(found)


def summary_of(panels: Sequence[Panel]) -> Panel | None:
    """Return the geometric means of the panels that show the same, if they are three or more."""
    alike = [panel for panel in panels if _kind(panel) == _kind(panels[0])]
    if len(alike) < 3 or not alike[0].bars:
        return None
    lines = tuple(_mean(panel) for panel in alike)
    return replace(alike[0], title="Geometric means", lines=lines)


def _kind(panel: Panel) -> tuple[str, ...]:
    return panel.unit, panel.bars, panel.ticks, panel.notes


def _mean(panel: Panel) -> Line:
    def of_all(value: Callable[[Line], float | None]) -> float | None:
        found = [value(line) for line in panel.lines]
        return geometric_mean(x for x in found if x) if all(found) else None

    names = dict.fromkeys(name for line in panel.lines for name in line.marks)
    marks = {name: of_all(lambda line, name=name: line.marks.get(name)) for name in names}
    known = {name: value for name, value in marks.items() if value}
    bar = of_all(lambda line: line.bar) or 0.0
    inner, tick = of_all(lambda line: line.inner), of_all(lambda line: line.tick)
    note = ""
    if tick:
        note = f"{(inner or bar) / tick:.0%}"
    elif len(known) == 1:
        note = f"{bar / next(iter(known.values())):.1f}×"
    return Line(panel.title, bar, inner, tick, known, note)


# --- one kind of table each ----------------------------------------------------------------------


def _rates(table: Table) -> Panel | None:
    """Rates of clprim and its peers, beside a ceiling."""
    title, unit = _split(table.title)
    if unit not in (*_CEILINGS, "images/s", "G terms/s") or "clprim" not in table.columns:
        return None
    wall = "with launch" if "with launch" in table.columns else "clprim"
    lines = []
    for row in _rows(table):
        bar = _number(row[wall])
        if bar is None:
            continue
        inner = _number(row["clprim"]) if wall != "clprim" else None
        share = row.get("share of peak") or row.get("share") or ""
        ceiling = _number(row.get("ceiling", ""))
        percent = _number(share)
        # The peak is printed as the share of it alone.
        tick = 100 * (inner or bar) / percent if percent else ceiling
        marks = {name: _number(cell) for name, cell in row.items() if name not in _OTHERS}
        known = {name: value for name, value in marks.items() if value is not None}
        lines.append(Line(_label(row[""]), bar, inner, tick, known, share.partition(" ")[0]))
    at_most, notes = _CEILINGS.get(unit, ("", ""))
    inner_name = _DEVICE if wall != "clprim" else ""
    return Panel(title, unit, _WALL, at_most, notes, tuple(lines), inner_name)


def _milliseconds(table: Table) -> Panel | None:
    """Times of clprim and PyTorch over the bytes of their input: long bars are fast."""
    title, unit = _split(table.title)
    if unit != "ms" or not {"x", "clprim", "PyTorch"} <= set(table.columns):
        return None
    lines = []
    for row in _rows(table):
        megabytes, mine, theirs = (_number(row[name]) for name in ("x", "clprim", "PyTorch"))
        if megabytes and mine:
            marks = {"PyTorch": megabytes / theirs} if theirs else {}
            times = row["times as fast"].partition("×")[0]
            note = f"{float(times):.1f}×" if theirs else ""
            lines.append(Line(_label(row[""]), megabytes / mine, marks=marks, note=note))
    return Panel(title, "GB/s of x", _WALL, "", "faster", tuple(lines))


def _calls(table: Table) -> Panel | None:
    """Host time of one call, a bar a contender."""
    title, _ = _split(table.title)
    if "median µs" not in table.columns:
        return None
    return _contenders(table, title, "µs a call", "median µs", "times bare", "× bare")


def _pictures(table: Table) -> Panel | None:
    """Rates of whole networks, a bar a contender."""
    if not {"GFLOP/s", "fused is as fast"} <= set(table.columns):
        return None
    return _contenders(table, table.title, "GFLOP/s", "GFLOP/s", "fused is as fast", "fused")


def _starts(table: Table) -> Panel | None:
    """Seconds of a new process."""
    title, unit = _split(table.title)
    if unit != "seconds" or "median" not in table.columns:
        return None
    return _contenders(table, title, unit, "median", "median", "seconds")


def _contenders(table: Table, title: str, unit: str, value: str, note: str, notes: str) -> Panel:
    lines = []
    for row in _rows(table):
        bar = _number(row[value])
        if bar is not None:
            lines.append(Line(row[""], bar, note=row[note].partition(" ")[0].replace("–", "")))
    return Panel(title, unit, "", "", notes, tuple(lines))


def _by_hand(table: Table) -> Panel | None:
    """Speed beside kernels by hand, whose own speed is 1."""
    if "beside by hand" not in table.columns:
        return None
    lines = []
    for row in _rows(table):
        times = _number(row["beside by hand"])
        if times is not None:
            lines.append(Line(row[""], times, tick=1.0, note=f"{times:.0%}"))
    return Panel(table.title, "× by hand", "clprim, derived", "by hand", "", tuple(lines))


def _copies(table: Table) -> Panel | None:
    """Bytes a second beside a copy of as many, both by the host's clock."""
    if "clprim GB/s" not in table.columns:
        return None
    lines = []
    for row in _rows(table):
        bar, tick = _number(row["clprim GB/s"]), _number(row["copy GB/s"])
        if bar is not None:
            lines.append(
                Line(row[""], bar, tick=tick, note=row["share of the copy"].partition(" ")[0])
            )
    return Panel(table.title, "GB/s", _WALL, "copy of as many bytes", "of copy", tuple(lines))


# --- cells ---------------------------------------------------------------------------------------


def _rows(table: Table) -> list[dict[str, str]]:
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return [row for row in rows if row[""] not in _TOTALS]


def _split(title: str) -> tuple[str, str]:
    """Returns a table's title without its unit, and the unit."""
    found = re.fullmatch(r"(.*) \(([^()]*)\)", title)
    return (found[1], found[2]) if found else (title, "")


def _number(cell: str) -> float | None:
    """The first number of a cell, if it has one."""
    found = re.search(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", cell)
    return float(found[0]) if found else None


def _label(cell: str) -> str:
    """A row's name without how often it occurs."""
    return re.sub(r" \(×\d+\)$", "", cell)
