"""What a run found: tables as text and Markdown, ratios, an index of recorded pages."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

import clprim as cp
from bench.case import Page, Row
from bench.peers import remark

RESULTS = Path(__file__).resolve().parent / "results"
_ROOT = RESULTS.parents[1]
# Of a unit: the factor of rates (work a second), or of seconds where it is negative.
UNITS = {"GFLOP/s": 1e-9, "GB/s": 1e-9, "G terms/s": 1.0, "images/s": 1.0, "ms": -1e3, "µs": -1e6}
_NOTES = (
    "Times are medians of samples by the host's clock, from the first of several calls in a row "
    "until the results are there; contenders take turns, and their results are compared before. "
    "In brackets: how many times as fast clprim is, compared round by round. One that takes eight "
    "times as long runs three times only where rounds are held against a gauge.",
    "Before each sample on more than the cache is said to hold, 512 MiB of other memory are read, "
    "where bandwidth is measured. Elsewhere a gauge on all cores takes part, and rounds in which "
    "it was a fifth slower than at its best do not count.",
)

# What tells compilers and libraries to use fewer of a processor's instructions.
_LIMITS = ("CL_CONFIG_CPU_TARGET_ARCH", "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")
Table = tuple[str, list[str], list[list[str]]]
#: The column of the fastest other library.
BEST = "best peer"


class Record(NamedTuple):
    """A page that was measured.

    Attributes:
        name: Of its file, without the suffix.
        title: For readers.
        unit: A key of `UNITS`.
        where: Device, machine, versions, command.
        rows: What was measured.
        tables: Others.
        notes: How to read it.
        failures: What was wrong, not merely slow.
    """

    name: str
    title: str
    unit: str
    where: dict[str, str]
    rows: list[Row]
    tables: list[Table]
    notes: list[str]
    failures: list[str]

    def markdown(self) -> str:
        """Return it as a Markdown page, which reads well as text, too."""
        blocks = [f"# {self.title}", "\n".join(f"- {k}: {v}" for k, v in self.where.items())]
        blocks += [f"**{failure}**" for failure in self.failures]
        for title, head, rows in (*tables_of(self.rows, self.unit), *self.tables):
            blocks += [f"## {title}", pipes(head, rows)]
        blocks += ["## Notes", "\n".join(f"- {note}" for note in self.notes)]
        return "\n\n".join(blocks) + "\n"

    def finish(self, folder: Path) -> int:
        """Print it and write it; return the status."""
        print(self.markdown())
        print(f"written: {self.write(folder)}")
        if folder == RESULTS:
            refresh(folder)
        return int(bool(self.failures))

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        page = folder / f"{self.name}.md"
        page.write_text(self.markdown(), encoding="utf-8")
        return page


def notes_of(page: Page, rows: Sequence[Row], missing: dict[str, str]) -> list[str]:
    """Return how to read a page, what peers call, and which rows lack what."""
    names = dict.fromkeys(name for row in rows for name in row.seconds)
    found = [
        *_NOTES,
        *([page.note] if page.note else []),
        *(f"{n}: {remark(n)}." for n in names if remark(n)),
    ]
    found += [f"{name}: {why}." for name, why in missing.items()]
    for row in rows:
        label = f"{row.group}: {row.title}"
        found += [f"{label}: {peer} is left out: {why}" for peer, why in row.absent.items()]
        found += [] if row.calm else [f"{label}: most rounds were disturbed"]
    return found


# --- tables --------------------------------------------------------------------------------------


def pipes(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [[cell.replace("|", "\\|").replace("\n", "<br>") for cell in r] for r in (head, *rows)]
    widths = [max(3, *(len(line[n]) for line in lines)) for n in range(len(head))]
    rule = [f":{'-' * (w - 1)}" if not n else f"{'-' * (w - 1)}:" for n, w in enumerate(widths)]

    def line(cells: Sequence[str]) -> str:
        padded = (c.rjust(w) if n else c.ljust(w) for n, (c, w) in enumerate(zip(cells, widths)))  # noqa: B905
        return f"| {' | '.join(padded)} |"

    return "\n".join([line(lines[0]), line(rule), *map(line, lines[1:])])


def grouped(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.group, []).append(row)
    return found


def number(row: Row, name: str, unit: str) -> str:
    factor, seconds = UNITS[unit], row.seconds[name][0]
    return f"{-factor * seconds:.3g}" if factor < 0 else f"{factor * row.work / seconds:.3g}"


def tables_of(rows: Sequence[Row], unit: str) -> list[Table]:
    """Return a table of each group: rows, means, the worst of each, and all together."""
    return [_table(group, members, unit) for group, members in grouped(rows).items()]


def _table(group: str, rows: Sequence[Row], unit: str) -> Table:
    first = next(iter(rows[0].seconds))
    peers = list(dict.fromkeys(name for row in rows for name in row.times))
    extra = list(dict.fromkeys(name for row in rows for name in row.extra))
    if sum(not name.startswith("clprim") for name in peers) > 1:
        peers.append(BEST)
    rows = [_with_best(row) for row in rows]
    shares = any(row.share for row in rows)
    sizes = any(row.nbytes for row in rows)
    errors = any(row.error for row in rows)
    head = ["", *["MB"] * sizes, first, *["share"] * shares, *peers, *["error"] * errors, *extra]
    lines = []
    for row in rows:
        counted = f" (×{row.count})" if row.count > 1 else ""
        share = row.share
        lines.append([
            row.title + counted,
            *[f"{row.nbytes / 1e6:.3g}"] * sizes,
            number(row, first, unit),
            *[f"{share[0]:.0%} ({100 * share[1]:.0f}–{100 * share[2]:.0f})" if share else "–"]
            * shares,
            *(f"{row.times[n][0]:.2f}×" if n == BEST and n in row.times
              else f"{number(row, n, unit)} ({row.times[n][0]:.2f}×)" if n in row.times
              else "wrong" if n in row.wrong else "–" for n in peers),
            *[f"{row.error:.0e}" if row.error else "exact"] * errors,
            *(row.extra.get(name, "") for name in extra),
        ])  # fmt: skip
    blank = [""] * sizes
    tail = [""] * (errors + len(extra))

    def total(title: str, own: str, share: str, cell: Callable[[str], str]) -> list[str]:
        return [title, *blank, own, *[share] * shares, *map(cell, peers), *tail]

    if len(rows) > 1:
        shared = [row.share[0] for row in rows if row.share]
        mean = f"{geometric_mean(shared):.0%}" if shared else ""
        lines.append(total("geometric mean", "", mean, lambda n: f"{_mean(rows, n):.2f}×"))
        lines.append(total("worst row", "", "", lambda n: _worst(rows, n)))
    if any(row.count > 1 for row in rows):
        mine = sum(row.count * row.seconds[first][0] for row in rows)

        def together(name: str) -> str:
            if any(name not in row.seconds for row in rows):
                return "–"
            theirs = sum(row.count * row.seconds[name][0] for row in rows)
            return f"{1e3 * theirs:.1f} ms ({theirs / mine:.2f}×)"

        lines.append(total("all together", f"{1e3 * mine:.1f} ms", "", together))
    return f"{group} ({unit})", head, lines


def _with_best(row: Row) -> Row:
    """Return a row with the fastest of other libraries as a contender of its own."""
    others = [times for name, times in row.times.items() if not name.startswith("clprim")]
    times = row.times | ({BEST: min(others, key=lambda t: t[0])} if others else {})
    return replace(row, times=times)


def _mean(rows: Iterable[Row], name: str) -> float:
    return geometric_mean(row.times[name][0] for row in rows if name in row.times)


def _worst(rows: Iterable[Row], name: str) -> str:
    row = min((row for row in rows if name in row.times), key=lambda row: row.times[name][0])
    return f"{row.times[name][0]:.2f}×: {row.title}"


def ratio_table(title: str, ratios: Sequence[tuple[str, float]]) -> Table:
    """Return ratios as a table, with their geometric mean and the worst row."""
    worst, least = min(ratios, key=lambda pair: pair[1])
    mean = geometric_mean(ratio for _, ratio in ratios)
    lines = [[name, f"{ratio:.3f}"] for name, ratio in ratios]
    lines += [["geometric mean", f"{mean:.3f}"], [f"worst row: {worst}", f"{least:.3f}"]]
    return title, ["", "times as fast"], lines


# --- where it ran --------------------------------------------------------------------------------


def setting(device: cp.Device, options: str) -> dict[str, str]:
    """Return where and with what a run was made, by options as typed."""
    now = datetime.datetime.now().astimezone()
    versions = [f"clprim {cp.__version__}", f"Python {platform.python_version()}"]
    versions += map(_version, ("pyopencl", "numpy", "torch"))
    limits = ", ".join(f"{name}={os.environ[name]}" for name in _LIMITS if name in os.environ)
    return {
        "device": f"{device.name}, {device.platform} {device.driver}, {device.version}",
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()} "
        f"{platform.release()}{_priority()}",
        **({"limits": limits} if limits else {}),
        "versions": ", ".join(versions),
        "run": f"{now:%Y-%m-%d %H:%M %Z}, `python -m bench {options}`",
    }


def slug(device: Any, others: Sequence[Any] | None = None) -> str:
    """Return a name for files about a device: its platform and its own, in plain letters.

    Where several devices share it (two versions of one driver), the driver's version follows.
    """
    name = _plain(f"{device.platform} {device.name}")
    others = cp.devices() if others is None else others
    if sum(_plain(f"{other.platform} {other.name}") == name for other in others) > 1:
        name = f"{name}-{_plain(device.driver)}"
    return name


def _plain(text: str) -> str:
    words = re.findall(r"[a-z0-9.]+", re.sub(r"\((r|tm|c)\)", " ", text.lower()))
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


# --- recorded pages ------------------------------------------------------------------------------

_ADDRESS = "https://github.com/clprim/clprim/blob/main/bench/results/"  # PyPI shows the README too
_START, _END = "<!-- speed: python -m bench pages -->", "<!-- end of speed -->"
# The README's rows: name, page, the start of its table's title, the peer.
_WORK = (
    ("Σx, Σx² per channel", "reduce", "Σx, Σx²", "PyTorch"),
    ("batch norm, training, NHWC", "norm", "ResNet-50: training forward, chan", "PyTorch"),
    ("ResNet-50's convolutions, NHWC", "conv-batch-8-peers-oneDNN",
     "ResNet-50, batch 8, NHWC, forw", "oneDNN prepacked"),
    ("ResNet-50, gradient by weight, NHWC", "conv-batch-8-gradients-peers-oneDNN",
     "ResNet-50, batch 8, NHWC, gradient by weight", "oneDNN"),
    ("MobileNetV2, depthwise, NHWC", "depthwise", "MobileNetV2, batch 8, NHWC, forw",
     "oneDNN prepacked"),
    ("matrix products", "gemm", "Single-precision products", "MKL"),
    ("Gaussian sums over pairs, and gradients", "pairs", "Kernel sums", "KeOps"),
)  # fmt: skip
# Where they were recorded, the first that is there.
_DEVICES = ("intel-opencl-amd-epyc", "intel-opencl-xeon-processor")
_TOTALS = ("geometric mean", "worst row", "all together")


def read_tables(path: Path) -> list[Table]:
    """Return the tables of a recorded page."""
    found: list[Table] = []
    for part in path.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, *lines = part.splitlines()
        rows = [_cells(line) for line in lines if line.startswith("| ")]
        if len(rows) > 2:
            found.append((title, rows[0], rows[2:]))
    return found


def _cells(line: str) -> list[str]:
    return [c.strip().replace("\\|", "|") for c in re.split(r"(?<!\\)\|", line)[1:-1]]


def _number(cell: str) -> float | None:
    found = re.search(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", cell)
    return float(found[0]) if found else None


def times_of(tables: Iterable[Table], title: str, peer: str) -> list[float]:
    """Return how many times as fast as a peer rows of recorded tables are, for who waits."""
    found = []
    for name, head, rows in tables:
        if not name.startswith(title) or peer not in head:
            continue
        own = "with launch" if "with launch" in head else "clprim"
        for row in (dict(zip(head, cells, strict=True)) for cells in rows):
            mine, theirs = _number(row[own]), _number(row[peer])
            if mine and theirs and not row[""].startswith(_TOTALS):
                found.append(theirs / mine if name.endswith("(ms)") else mine / theirs)
    return found


def speed_table(folder: Path = RESULTS) -> str:
    """Return the README's table of what recorded pages say."""
    lines = [
        "| | compared with | times as fast | worst to best row |",
        "| --- | --- | ---: | ---: |",
    ]
    for what, page, title, peer in _WORK:
        paths = (folder / f"{page}-{device}.md" for device in _DEVICES)
        path = next((path for path in paths if path.exists()), None)
        times = times_of(read_tables(path), title, peer) if path else []
        if path and times:
            bounds = f"{min(times):.2f} to {max(times):.2f}"
            link = f"[{what}]({_ADDRESS}{path.name})"
            lines.append(f"| {link} | {peer} | {geometric_mean(times):.2f} | {bounds} |")
    return "\n".join(lines)


def insert(page: str, table: str) -> str:
    before, _, rest = page.partition(_START)
    return f"{before}{_START}\n{table}\n{_END}{rest.partition(_END)[2]}"


def index_of(folder: Path) -> str:
    """Return the index of a folder of pages, newest first."""
    found = []
    for path in folder.glob("*.md"):
        if path.name == "README.md":
            continue
        text = path.read_text(encoding="utf-8")
        title = text.partition("\n")[0].removeprefix("# ")
        where = dict(re.findall(r"^- (device|run): (.*)$", text, re.M))
        date = where.get("run", "").partition(", ")[0].rpartition(" ")[0]
        command = re.search(r"`([^`]*)`", where.get("run", ""))
        outcomes = re.findall(r"^\|.*\| *(hit|MISSED)[^|]*\|$", text.partition("\n## ")[2]
                              .partition("\n## ")[0], re.M)  # fmt: skip
        kept = f"{outcomes.count('hit')} of {len(outcomes)} targets" if outcomes else ""
        what = f"[{title}]({path.name})" + (f"<br>`{command[1]}`" if command else "")
        device = where.get("device", "").split(", Op")[0]
        found.append((date, f"| {what} | {device} | {date} | {kept} |"))
    lines = [line for _, line in sorted(found, reverse=True)]
    rows = ["| what | where | when | |", "| --- | --- | --- | --- |", *lines]
    about = (
        "What `python -m bench` measured, newest first; `python -m bench pages` writes this index."
    )
    return "\n\n".join(["# Results", about, "\n".join(rows)]) + "\n"


def refresh(folder: Path) -> None:
    """Write the index of recorded pages anew, and what the README says of them."""
    (folder / "README.md").write_text(index_of(folder), encoding="utf-8")
    if folder == RESULTS:
        readme = _ROOT / "README.md"
        text = insert(readme.read_text(encoding="utf-8"), speed_table())
        readme.write_text(text, encoding="utf-8")


def command(args: Any, say: Callable[[str], None]) -> int:
    del say
    refresh(args.folder or RESULTS)
    return 0
