"""Charts as PNG files: bars for clprim, a tick for the reference, marks for the peers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.page.report import Panel

__all__ = ["draw"]

_WIDTH = 9.0
_LINE = 0.27  # inches a bar takes
_PANEL = 0.95  # inches of a panel's title and axis
_HEADER, _LEGEND = 0.75, 0.55
_BAR, _TICK = "#4c78a8", "#222222"
# Colour-blind safe (Okabe and Ito), and told apart by shape too.
_MARKS = (
    *(("#e69f00", "o"), ("#d55e00", "D"), ("#009e73", "s"), ("#cc79a7", "^"), ("#56b4e9", "v")),
    *(("#f0e442", "P"), ("#000000", "X")),
)


def draw(path: Path, title: str, subtitle: str, panels: Sequence[Panel]) -> None:
    """Write a chart.

    Args:
        path: Of the PNG file.
        title: Its heading.
        subtitle: A smaller line below, such as the device.
        panels: From top to bottom; marks of one name look the same in all of them.
    """
    names = list(dict.fromkeys(n for panel in panels for line in panel.lines for n in line.marks))
    names = [name for name in names if _has(panels, name)]
    looks = {name: _MARKS[number % len(_MARKS)] for number, name in enumerate(names)}
    heights = [_PANEL + _LINE * len(panel.lines) for panel in panels]
    height = _HEADER + sum(heights) + _LEGEND
    figure = Figure(figsize=(_WIDTH, height), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(
        rect=(0.01, _LEGEND / height, 0.98, 1 - (_HEADER + _LEGEND) / height), hspace=0.02
    )
    figure.suptitle(title, x=0.02, y=1 - 0.12 / height, ha="left", va="top", fontsize=13)
    top = 1 - 0.42 / height
    figure.text(0.02, top, fill(subtitle, 120), ha="left", va="top", fontsize=8, color="#555555")
    all_axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, panel in zip(all_axes, panels, strict=True):
        _draw_panel(axes, panel, looks)
    figure.legend(
        handles=_legend(panels, looks),
        loc="lower left",
        bbox_to_anchor=(0.01, 0.004),
        ncols=4,
        fontsize=8,
        frameon=False,
    )
    figure.savefig(path)


def _has(panels: Sequence[Panel], name: str) -> bool:
    return any(line.marks.get(name) is not None for panel in panels for line in panel.lines)


def _draw_panel(axes: object, panel: Panel, looks: dict[str, tuple[str, str]]) -> None:
    places = range(len(panel.lines))
    axes.barh(places, [line.bar for line in panel.lines], height=0.66, color=_BAR, zorder=2)
    ticks = [(place, line.tick) for place, line in enumerate(panel.lines) if line.tick is not None]
    axes.vlines(
        [at for _, at in ticks],
        [place - 0.42 for place, _ in ticks],
        [place + 0.42 for place, _ in ticks],
        color=_TICK,
        linewidth=2.2,
        zorder=3,
    )
    for name, (colour, shape) in looks.items():
        marks = [(line.marks.get(name), place) for place, line in enumerate(panel.lines)]
        marks = [mark for mark in marks if mark[0] is not None]
        axes.plot(
            [value for value, _ in marks],
            [place for _, place in marks],
            linestyle="none",
            marker=shape,
            markersize=5.5,
            color=colour,
            markeredgecolor="white",
            markeredgewidth=0.6,
            zorder=4,
        )
    for place, line in enumerate(panel.lines):
        axes.annotate(
            line.note,
            (1, place),
            xycoords=axes.get_yaxis_transform(),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            annotation_clip=False,
        )
    axes.annotate(
        panel.notes,
        (1, 1),
        xycoords="axes fraction",
        xytext=(6, 4),
        textcoords="offset points",
        fontsize=8,
        color="#555555",
    )
    axes.set_yticks(places, [line.label for line in panel.lines], fontsize=8)
    axes.set_ylim(len(panel.lines) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.margins(x=0.04)
    axes.set_xlabel(panel.unit, fontsize=8)
    axes.set_title(panel.title, fontsize=9.5, loc="left", fontweight="bold")
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#dddddd", linewidth=0.7, zorder=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _legend(panels: Sequence[Panel], looks: dict[str, tuple[str, str]]) -> list[Line2D]:
    handles = {}
    for panel in panels:
        handles[panel.bars] = Line2D([], [], color=_BAR, linewidth=7, label=panel.bars)
        if any(line.tick is not None for line in panel.lines):
            tick = {"marker": "|", "markersize": 11, "markeredgewidth": 2.2}
            handles[panel.ticks] = Line2D(
                [], [], linestyle="none", color=_TICK, label=panel.ticks, **tick
            )
    for name, (colour, shape) in looks.items():
        handles[name] = Line2D([], [], linestyle="none", marker=shape, color=colour, label=name)
    return list(handles.values())
