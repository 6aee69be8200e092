"""Charts as PNG files: bars for clprim, a tick for the reference, marks for the peers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.page.looks import OWN, OWN_DEVICE, look_of
from bench.page.panels import Panel, summary_of

#: Pixels: two screens.
TALLEST = 2160

_DPI = 100
# Inches of a column of panels, by how many there are; and of what stands around them.
_COLUMN = {1: 10.0, 2: 7.2, 3: 6.0}
_HEADER, _LEGEND_ROW, _LABELS, _NOTES, _MARGIN = 0.95, 0.24, 2.6, 0.7, 0.12
# Inches of a line, and of a panel's title and axis.
_LINE, _PANEL = 0.25, 0.9
# Characters of a label.
_LONGEST = 40
# Lines that one and two columns hold.
_FEW, _MORE = 46, 80
_TICK, _GREY = "#222222", "#555555"


def draw(path: Path, title: str, subtitle: str, panels: Sequence[Panel]) -> None:
    """Write a chart, at most `TALLEST` pixels high.

    Args:
        path: Of the PNG file.
        title: Its heading.
        subtitle: A smaller line below, such as the device.
        panels: In the order of reading; their geometric means come first where they are many.
    """
    summary = summary_of(panels)
    shown = [*([] if summary is None else [summary]), *panels]
    lines = sum(len(panel.lines) for panel in shown)
    columns = 1 if lines <= _FEW else 2 if lines <= _MORE else 3
    placed = _places(shown, columns)
    legend = _legend(shown)
    across = 4 if columns == 1 else 7
    footer = _LEGEND_ROW * -(-len(legend) // across) + 0.15
    deepest = max(placed, key=lambda column: _inches(shown, column))
    tallest, line = _inches(shown, deepest), _LINE
    room = TALLEST / _DPI - _HEADER - footer
    if tallest > room:  # all lines shrink alike
        line = (room - _PANEL * len(deepest)) / sum(len(shown[n].lines) for n in deepest)
        tallest = room
    width, height = _COLUMN[columns] * columns, _HEADER + tallest + footer
    figure = Figure(figsize=(width, height), dpi=_DPI)
    FigureCanvasAgg(figure)
    left = _MARGIN / width
    figure.text(left, 1 - 0.12 / height, title, ha="left", va="top", fontsize=14)
    figure.text(
        left, 1 - 0.46 / height, fill(subtitle, 170), ha="left", va="top", fontsize=8, color=_GREY
    )
    for number, column in enumerate(placed):
        top = height - _HEADER
        for place in column:
            panel = shown[place]
            inches = line * len(panel.lines)
            box = (
                (number * _COLUMN[columns] + _LABELS) / width,
                (top - 0.3 - inches) / height,
                (_COLUMN[columns] - _LABELS - _NOTES) / width,
                inches / height,
            )
            _draw_panel(figure.add_axes(box), panel, small=columns > 1)
            top -= _PANEL + inches
    figure.legend(
        handles=legend,
        loc="lower left",
        bbox_to_anchor=(left, 0.06 / height),
        ncols=across,
        fontsize=8,
        frameon=False,
        borderaxespad=0,
    )
    figure.savefig(path)


def _inches(panels: Sequence[Panel], column: Sequence[int]) -> float:
    """Return how tall a column is."""
    return sum(_PANEL + _LINE * len(panels[number].lines) for number in column)


def _places(panels: Sequence[Panel], columns: int) -> list[list[int]]:
    """Give every panel to the column that is shortest so far."""
    found: list[list[int]] = [[] for _ in range(columns)]
    heights = [0.0] * columns
    for number, panel in enumerate(panels):
        least = heights.index(min(heights))
        found[least].append(number)
        heights[least] += _PANEL + _LINE * len(panel.lines)
    return found


def _draw_panel(axes: Any, panel: Panel, *, small: bool) -> None:
    places = range(len(panel.lines))
    size = 7 if small else 8
    inner = [(place, line.inner) for place, line in enumerate(panel.lines) if line.inner]
    if inner:
        axes.barh(
            [place for place, _ in inner],
            [length for _, length in inner],
            height=0.8,
            color=OWN_DEVICE,
            zorder=1,
        )
    colours = [OWN if panel.bars else look_of(line.label)[0] for line in panel.lines]
    height = 0.5 if inner else 0.66
    axes.barh(places, [line.bar for line in panel.lines], height=height, color=colours, zorder=2)
    ticks = [(place, line.tick) for place, line in enumerate(panel.lines) if line.tick is not None]
    axes.vlines(
        [at for _, at in ticks],
        [place - 0.42 for place, _ in ticks],
        [place + 0.42 for place, _ in ticks],
        color=_TICK,
        linewidth=2,
        zorder=3,
    )
    for name in _names([panel]):
        colour, shape = look_of(name)
        marks = [(line.marks[name], n) for n, line in enumerate(panel.lines) if name in line.marks]
        axes.plot(
            [value for value, _ in marks],
            [place for _, place in marks],
            linestyle="none",
            marker=shape,
            markersize=5 if small else 6,
            color=colour,
            markeredgecolor="white",
            markeredgewidth=0.6,
            zorder=4,
        )
    note = {"xytext": (5, 0), "textcoords": "offset points", "fontsize": size}
    for place, line in enumerate(panel.lines):
        axes.annotate(
            line.note,
            (1, place),
            xycoords=axes.get_yaxis_transform(),
            va="center",
            annotation_clip=False,
            **note,
        )
    axes.annotate(panel.notes, (1, 1), xycoords="axes fraction", va="bottom", color=_GREY, **note)
    labels = [_short(line.label) for line in panel.lines]
    axes.set_yticks(places, labels, fontsize=size)
    axes.set_ylim(len(panel.lines) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.margins(x=0.04)
    axes.set_xlabel(panel.unit, fontsize=size, labelpad=1)
    axes.annotate(
        panel.title,
        (0, 1),
        xycoords="axes fraction",
        xytext=(-72 * (_LABELS - _MARGIN), 6),
        textcoords="offset points",
        fontsize=size + 1,
        fontweight="bold",
    )
    axes.tick_params(axis="x", labelsize=size)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#dddddd", linewidth=0.7, zorder=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _short(label: str) -> str:
    """A label without its middle, where it is long: what tells labels apart is at the end."""
    head = _LONGEST // 3
    return label if len(label) <= _LONGEST else f"{label[:head]}…{label[head + 1 - _LONGEST :]}"


def _names(panels: Sequence[Panel]) -> list[str]:
    return list(dict.fromkeys(n for panel in panels for line in panel.lines for n in line.marks))


def _legend(panels: Sequence[Panel]) -> list[Line2D]:
    handles: dict[str, Line2D] = {}
    for panel in panels:
        if panel.bars:
            handles[panel.bars] = Line2D([], [], color=OWN, linewidth=7, label=panel.bars)
        if panel.inner:
            handles[panel.inner] = Line2D([], [], color=OWN_DEVICE, linewidth=7, label=panel.inner)
        if any(line.tick is not None for line in panel.lines):
            tick = {"marker": "|", "markersize": 11, "markeredgewidth": 2}
            handles[panel.ticks] = Line2D(
                [], [], linestyle="none", color=_TICK, label=panel.ticks, **tick
            )
    for name in _names(panels):
        colour, shape = look_of(name)
        handles[name] = Line2D([], [], linestyle="none", marker=shape, color=colour, label=name)
    return list(handles.values())
