"""The README's picture and table: how fast clprim is next to what its users use, as recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.page.looks import look_of
from bench.page.panels import panels_of
from bench.page.recorded import read_page

_START, _END = "<!-- speed: python -m bench pages -->", "<!-- end of speed -->"

_STRINGS = """\
sums = cp.Reduction(
  "y0 = x0; y1 = x0 * x0;",
  init="reduce_y0 = 0; reduce_y1 = 0;",
  step="reduce_y0 += y0; reduce_y1 += y1;")
s, s2 = sums(x, axis=(0, 2, 3))

leaky = cp.Pointwise(
  "y0 = x0 > 0 ? x0 : w0 * x0;")
y = leaky(x, 0.1)

y = ops.conv2d(x, w, padding=1,
  epilogue="y0 = max(y0 + x0, 0);",
  epilogue_args=(residual,))"""

# What is compared: its name, the page, the start of the chart's title, the peer.
_WORK = (
    ("Σx, Σx² per channel (left)", "reduce", "Σx, Σx²", "PyTorch"),
    ("batch norm, training, NHWC", "norm", "ResNet-50: training forward, chan", "PyTorch"),
    (
        "ResNet-50's convolutions, NHWC",
        "conv-batch-8-peers-oneDNN",
        "ResNet-50, batch 8, NHWC, forw",
        "oneDNN prepacked",
    ),
    (
        "ResNet-50, gradient by weight, NHWC",
        "conv-batch-8-gradients-peers-oneDNN",
        "ResNet-50, batch 8, NHWC, gradient by weight",
        "oneDNN",
    ),
    (
        "MobileNetV2, depthwise, NHWC",
        "depthwise",
        "MobileNetV2, batch 8, NHWC, forw",
        "oneDNN prepacked",
    ),
    ("matrix products", "gemm", "Single-precision products", "MKL"),
    ("Gaussian sums over pairs, and gradients", "pairs", "Kernel sums", "KeOps"),
)

# Where what was not recorded on the table's device was.
_OTHER_DEVICE = "intel-opencl-xeon-processor"


@dataclass(frozen=True)
class Comparison:
    """How fast something is next to a peer.

    Attributes:
        what: That is computed.
        peer: Who else computes it.
        mean: How many times as fast clprim is: the geometric mean of all rows.
        least: Of the row where it compares worst.
        most: Of the row where it compares best.
        rows: How many there are.
        page: Name of the recorded page.
    """

    what: str
    peer: str
    mean: float
    least: float
    most: float
    rows: int
    page: str


def comparisons(folder: Path, device: str = "intel-opencl-amd-epyc") -> list[Comparison]:
    """Return what the pages of a device say, by what a user waits for.

    Args:
        folder: Of the pages.
        device: End of their names.
    """
    found = []
    for what, page, title, peer in _WORK:
        path = folder / f"{page}-{device}.md"
        if not path.exists():
            path = folder / f"{page}-{_OTHER_DEVICE}.md"
        if not path.exists():
            continue
        ratios = [
            line.bar / line.marks[peer]
            for panel in panels_of(read_page(path).tables)
            if panel.title.startswith(title)
            for line in panel.lines
            if peer in line.marks
        ]
        if ratios:
            bounds = min(ratios), max(ratios)
            found.append(
                Comparison(what, peer, geometric_mean(ratios), *bounds, len(ratios), path.name)
            )
    return found


def speed_table(found: Sequence[Comparison], folder: str) -> str:
    """Return the README's table.

    Args:
        found: What `comparisons` returned.
        folder: Address of the pages, with a slash at its end.
    """
    lines = [
        "| | compared with | times as fast | worst to best row |",
        "| --- | --- | ---: | ---: |",
    ]
    lines += [
        f"| [{c.what.replace(' (left)', '')}]({folder}{c.page}) | {c.peer} | {c.mean:.2f} | "
        + (f"{c.least:.2f} to {c.most:.2f} |" if c.rows > 1 else "|")
        for c in found
    ]
    return "\n".join(lines)


def insert(page: str, table: str) -> str:
    """Return a page with this table in the place that it keeps for it."""
    before, _, rest = page.partition(_START)
    _, _, after = rest.partition(_END)
    return f"{before}{_START}\n{table}\n{_END}{after}"


def draw_speed(path: Path, found: Sequence[Comparison], where: str) -> None:
    """Write the README's picture: strings on the left, speed on the right.

    Args:
        path: Of the PNG file.
        found: What `comparisons` returned.
        where: The device that it was measured on.
    """
    figure = Figure(figsize=(12, 4.9), dpi=110)
    FigureCanvasAgg(figure)
    figure.text(0.02, 0.955, "You write strings", fontsize=13, fontweight="bold", va="top")
    figure.text(
        0.02, 0.86, _STRINGS, fontsize=8.6, va="top", family="monospace", linespacing=1.45,
        bbox={"facecolor": "#f4f6f9", "edgecolor": "#c9d3e0", "boxstyle": "round,pad=0.7"},
    )  # fmt: skip
    figure.text(
        0.02, 0.2,
        "clprim plans, prints, compiles and launches OpenCL C:\nany device, any strides, float16 to"
        " float64,\nNCHW and NHWC, the same bits on every run.",
        fontsize=9, va="center", color="#333333",
    )  # fmt: skip
    axes = figure.add_axes((0.6, 0.12, 0.33, 0.74))
    figure.text(0.385, 0.955, "and get this speed", fontsize=13, fontweight="bold", va="top")
    figure.text(0.6, 0.945, where, fontsize=8, va="top", color="#555555")
    places = range(len(found))
    axes.barh(
        places,
        [c.mean - 1 for c in found],
        left=1,
        height=0.66,
        color=[look_of(c.peer)[0] for c in found],
        zorder=2,
    )
    for place, comparison in enumerate(found):
        axes.annotate(
            f"{comparison.mean:.2f}× {comparison.peer}",
            (max(comparison.mean, 1), place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_xscale("log", base=2)
    ticks = (0.5, 1, 2, 4, 8, 16)
    axes.set_xticks(ticks, [f"{tick:g}×" for tick in ticks], fontsize=8)
    axes.set_xlim(0.5, 2 * max(16, *(c.mean for c in found)))
    axes.set_yticks(places, [c.what for c in found], fontsize=8.5)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.axvline(1, color="#222222", linewidth=1.2, zorder=3)
    axes.set_xlabel("times as fast, on the same processor; what a user waits for", fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#dddddd", linewidth=0.7, zorder=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path)
