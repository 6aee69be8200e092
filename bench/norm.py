"""Batch normalisations of two networks, and layer normalisations, beside PyTorch."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Any

import numpy as np

import clprim as cp
from bench.bandwidth import Ceilings
from bench.compute_peers import keep_memory
from bench.report import Line, Panel, Report, Table
from bench.targets import Target, Verdict, judge
from bench.timing import Spread, host_call, measured_call, race, ratio
from clprim import ops
from clprim.runtime.device import Device

__all__ = ["NORM_NETWORKS", "NormJob", "norm_jobs", "norm_report", "run_norm"]

_BATCH = 32
_CALM = 0.1  # NumPy's and PyTorch's threads spin for a while after their work
_TORCH = "PyTorch"

# (channels, height and width) of every distinct batch normalisation, with how often it occurs.
# He, Zhang, Ren, Sun: Deep residual learning for image recognition, 2015, table 1; strides at the
# 3×3 layers ("v1.5").
_RESNET50 = (
    (64, 112, 1),
    (64, 56, 6),
    (256, 56, 4),
    (128, 56, 1),
    (128, 28, 7),
    (512, 28, 5),
    (256, 28, 1),
    (256, 14, 11),
    (1024, 14, 7),
    (512, 14, 1),
    (512, 7, 5),
    (2048, 7, 4),
)
# Sandler, Howard, Zhu, Zhmoginov, Chen: MobileNetV2, 2018, table 2.
_MOBILENETV2 = (
    (32, 112, 2),
    (16, 112, 1),
    (96, 112, 1),
    (96, 56, 1),
    (24, 56, 2),
    (144, 56, 3),
    (144, 28, 1),
    (32, 28, 3),
    (192, 28, 5),
    (192, 14, 1),
    (64, 14, 4),
    (384, 14, 8),
    (96, 14, 3),
    (576, 14, 5),
    (576, 7, 1),
    (160, 7, 3),
    (960, 7, 6),
    (320, 7, 1),
    (1280, 7, 1),
)
# (rows, width): a batch of 32 images in the vision transformer ViT-B/16 (Dosovitskiy and others
# 2020), in the first and last stage of ConvNeXt-T (Liu and others 2022), and a wide one.
_LAYERS = ((32 * 197, 768), (32 * 56 * 56, 96), (32 * 7 * 7, 768), (8192, 4096))

#: What ``--network`` names: title and shapes.
NORM_NETWORKS = {"resnet50": ("ResNet-50", _RESNET50), "mobilenetv2": ("MobileNetV2", _MOBILENETV2)}

_SHARE = Target("share", 0.90, "of the best read-only kernel, statistics")
_LEAST = {"training forward": 2.0, "backward": 1.5, "layer norm": 1.0}


@dataclass(frozen=True)
class NormJob:
    """One row.

    Attributes:
        kind: What is computed; see `_KINDS`.
        network: Title of the network.
        shape: Of x.
        memory_format: ``contiguous`` or ``channels_last``.
        count: How often the network has it.
    """

    kind: str
    network: str
    shape: tuple[int, ...]
    memory_format: str = "contiguous"
    count: int = 1

    @property
    def title(self) -> str:
        """For readers: ``256×56² (×4)`` of images."""
        counted = f" (×{self.count})" if self.count > 1 else ""
        if len(self.shape) == 4:
            return f"{self.shape[1]}×{self.shape[2]}²{counted}"
        return "×".join(map(str, self.shape))

    @property
    def group(self) -> str:
        """The table that it stands in."""
        where = f", {self.memory_format}" if len(self.shape) == 4 else ""
        return f"{self.network}: {self.kind}{where}"

    @property
    def nbytes(self) -> int:
        """Of x."""
        return 4 * int(np.prod(self.shape))


@dataclass(frozen=True)
class NormRow:
    """What was measured of one job.

    Attributes:
        job: Which.
        seconds: Of clprim on the host's clock, from the call until the results are there.
        share: Of the best read-only kernel, on the device; of statistics alone.
        theirs: Seconds of PyTorch; None where it is missing.
        times: How many times as fast as PyTorch clprim is, compared round by round.
        correct: Whether both agree.
    """

    job: NormJob
    seconds: float
    share: Spread | None
    theirs: float | None
    times: Spread | None
    correct: bool


def norm_jobs(*, quick: bool = False, networks: Sequence[str] | None = None) -> list[NormJob]:
    """Return the rows of ``python -m bench norm``; ``quick`` ones are few and small."""
    found = []
    for name, (title, shapes) in NORM_NETWORKS.items():
        if networks and name not in networks:
            continue
        for kind in ("statistics", "training forward", "backward", "inference"):
            for memory_format in ("contiguous", "channels_last"):
                for channels, size, count in shapes[-1:] if quick else shapes:
                    shape = (2 if quick else _BATCH, channels, size, size)
                    found.append(NormJob(kind, title, shape, memory_format, count))
    layers = () if networks else ((64, 96),) if quick else _LAYERS
    found += [NormJob("layer norm", "Transformers", shape) for shape in layers]
    return found


class _Data:
    """The arrays of a job, on the device and for PyTorch."""

    def __init__(self, job: NormJob) -> None:
        random = np.random.default_rng(0)
        small = random.integers(-8, 9, job.shape, np.int8)
        host = small.astype(np.float32)
        channels = job.shape[1]
        vectors = random.standard_normal((4, channels)).astype(np.float32)
        vectors[3] = vectors[3] ** 2 + 1
        self.x = cp.asarray(host, memory_format=job.memory_format if host.ndim == 4 else None)
        self.grad = cp.asarray(
            host[::-1], memory_format=job.memory_format if host.ndim == 4 else None
        )
        self.vectors = [cp.asarray(vector) for vector in vectors]
        self.host, self.host_vectors = host, vectors

    def torch(self, job: NormJob) -> tuple[Any, Any, list[Any]]:
        """The same as tensors: x, grad, vectors."""
        import torch

        x = torch.from_numpy(self.host)
        grad = torch.from_numpy(np.ascontiguousarray(self.host[::-1]))
        if job.memory_format == "channels_last":
            x, grad = (t.contiguous(memory_format=torch.channels_last) for t in (x, grad))
        return x, grad, [torch.from_numpy(v) for v in self.host_vectors.copy()]


Call = Callable[[], Sequence[Any]]


def _own(job: NormJob, data: _Data) -> Call:
    """Return the call of clprim, which returns all of its results."""
    x, grad = data.x, data.grad
    weight, bias, mean, var = data.vectors
    if job.kind == "statistics":
        return lambda: ops.batch_norm_stats(x)
    if job.kind == "training forward":
        running = mean.copy(), var.copy()
        return lambda: ops.batch_norm_train(x, weight, bias, *running)
    if job.kind == "backward":
        return lambda: ops.batch_norm_backward(grad, x, weight, mean, var)
    if job.kind == "inference":
        return lambda: (ops.batch_norm(x, mean, var, weight, bias),)
    width = job.shape[1]
    return lambda: (ops.layer_norm(x, width, weight, bias),)


_REMARKS = {
    "statistics": "`torch.var_mean` with `correction=0`",
    "training forward": "`torch.nn.functional.batch_norm(training=True)`",
    "backward": "`native_batch_norm_backward`, what autograd calls",
    "inference": "`torch.nn.functional.batch_norm`",
    "layer norm": "`torch.nn.functional.layer_norm`",
}


def _theirs(job: NormJob, data: _Data) -> Call:
    """Return PyTorch's call."""
    import torch

    functional = torch.nn.functional
    x, grad, (weight, bias, mean, var) = data.torch(job)
    if job.kind == "statistics":
        return lambda: torch.var_mean(x, dim=(0, 2, 3), correction=0)[::-1]
    if job.kind == "training forward":
        return lambda: (functional.batch_norm(x, mean, var, weight, bias, training=True),)
    if job.kind == "backward":
        backward = torch.ops.aten.native_batch_norm_backward
        everything = [True, True, True]
        return lambda: backward(grad, x, weight, None, None, mean, var, True, 1e-5, everything)
    if job.kind == "inference":
        return lambda: (functional.batch_norm(x, mean, var, weight, bias),)
    return lambda: (functional.layer_norm(x, job.shape[1:], weight, bias),)


def _agree(mine: Sequence[Any], theirs: Sequence[Any]) -> bool:
    """Whether results are the same but for rounding."""
    return all(
        np.allclose(a.get(), b.numpy(), rtol=1e-3, atol=1e-3 * max(1, float(b.abs().max())))
        for a, b in zip(mine, theirs, strict=False)
    )


def _measure(
    job: NormJob, device: Device, ceilings: Ceilings, repeats: int, tick: Callable[[], None]
) -> NormRow:
    data = _Data(job)
    call = _own(job, data)
    contenders = [host_call("clprim", job.nbytes, call, device.synchronize)]
    correct = True
    peer = importlib.util.find_spec("torch") is not None
    if peer:
        other = _theirs(job, data)
        correct = _agree(call(), other())
        contenders.append(host_call(_TORCH, job.nbytes, other, lambda: None))
        time.sleep(_CALM)
    finalists = []
    if job.kind == "statistics":
        finalists = ceilings.finalists("read", job.nbytes)
        contenders += [measured_call("on the device", job.nbytes, call, device), *finalists]
    results = race(contenders, repeats, before=ceilings.before(job.nbytes), tick=tick)
    share = None
    if finalists:
        best = max((results[f.name] for f in finalists), key=lambda r: r.rate("device"))
        share = ratio(results["on the device"], best, "device")
    return NormRow(
        job,
        seconds=median(results["clprim"].seconds("host")),
        share=share,
        theirs=median(results[_TORCH].seconds("host")) if peer else None,
        times=ratio(results["clprim"], results[_TORCH], "host") if peer else None,
        correct=correct,
    )


def run_norm(
    jobs: Sequence[NormJob],
    device: Device,
    *,
    repeats: int,
    progress: Callable[[str, float], None],
) -> tuple[list[NormRow], list[str]]:
    """Measure all rows.

    Args:
        jobs: The rows.
        device: Where; the current one.
        repeats: Runs of each contender.
        progress: Told what is under way and by which part of the whole it has just moved on.

    Returns:
        The rows, and a remark on each row that the device has no room for.
    """
    keep_memory()
    ceilings = Ceilings(device)
    rows, refused = [], []
    part = 1 / (len(jobs) * repeats)
    for job in jobs:
        about = f"{job.group}: {job.title}"
        progress(about, 0)
        try:
            tick = lambda about=about: progress(about, part)  # noqa: E731
            rows.append(_measure(job, device, ceilings, repeats, tick))
        except cp.DeviceError as error:
            refused.append(f"{about}: not measured: {error}")
        device.pool.free_held()
    return rows, refused


def norm_report(
    rows: Sequence[NormRow], refused: Sequence[str], device: Device, **labels: Any
) -> Report:
    """Lay rows out for readers.

    Args:
        rows: As `run_norm` returned them.
        refused: Likewise.
        device: Where it ran.
        labels: Of the report: ``options``, ``label``; ``quick`` leaves targets unjudged.
    """
    quick = labels.pop("quick", False)
    groups: dict[str, list[NormRow]] = {}
    for row in rows:
        groups.setdefault(row.job.group, []).append(row)
    verdicts = _verdicts(rows, device, quick=quick)
    return Report(
        "norm",
        "Normalisations beside PyTorch",
        tables=tuple(_table(group, members, verdicts) for group, members in groups.items()),
        panels=tuple(_panel(group, members) for group, members in groups.items()),
        verdicts=tuple(verdict for found in verdicts.values() for verdict in found),
        notes=(*_notes(rows), *refused),
        failures=tuple(
            f"{row.job.group}: {row.job.title}: clprim and PyTorch disagree"
            for row in rows
            if not row.correct
        ),
        **labels,
    )


def _verdicts(
    rows: Sequence[NormRow], device: Device, *, quick: bool
) -> dict[tuple[str, str], list[Verdict]]:
    """Hold rows and tables against what is promised; keys are (table, row or ``mean``)."""
    found: dict[tuple[str, str], list[Verdict]] = {}
    for row in rows:
        if row.share is not None:
            small = row.job.nbytes <= device.traits.cache_bytes
            excuse = "--quick" if quick else "fits the cache" if small else ""
            subject = f"{row.job.title}, {row.job.group}"
            values = {"share": row.share.median}
            found[row.job.group, row.job.title] = judge([_SHARE], subject, values, excuse)
    for kind, bound in _LEAST.items():
        for memory_format in ("contiguous", "channels_last"):
            members = [
                row
                for row in rows
                if row.job.kind == kind and row.job.memory_format == memory_format and row.times
            ]
            if members:
                where = memory_format if kind != "layer norm" else "all rows"
                of = f"as fast as PyTorch: {kind}, geometric mean, {where}"
                target = Target(kind, bound, of, unit="×")
                values = {kind: _mean(members)}
                verdict = judge([target], f"{len(members)} rows", values, "--quick" * quick)
                found[members[-1].job.group, "mean"] = verdict
    return found


def _mean(rows: Iterable[NormRow]) -> float:
    return geometric_mean(row.times.median for row in rows if row.times)


def _table(
    group: str, rows: Sequence[NormRow], verdicts: dict[tuple[str, str], list[Verdict]]
) -> Table:
    lines = [
        (
            row.job.title,
            f"{row.job.nbytes / 1e6:.1f} MB",
            f"{1e3 * row.seconds:.3f}",
            _share(row),
            "–" if row.theirs is None else f"{1e3 * row.theirs:.3f}",
            "–" if row.times is None else f"{row.times.median:.2f}× ({_quartiles(row.times)})",
            "\n".join(
                [
                    *map(str, verdicts.get((group, row.job.title), ())),
                    *([] if row.correct else ["WRONG RESULT"]),
                ]
            ),
        )
        for row in rows
    ]
    if any(row.times for row in rows):
        outcome = "\n".join(map(str, verdicts.get((group, "mean"), ())))
        lines.append(("geometric mean", "", "", "", "", f"{_mean(rows):.2f}×", outcome))
    return Table(
        f"{group} (ms)",
        ("", "x", "clprim", "share", _TORCH, "times as fast", "target"),
        tuple(lines),
    )


def _share(row: NormRow) -> str:
    if row.share is None:
        return "–"
    return f"{row.share.median:.0%} ({100 * row.share.low:.0f}–{100 * row.share.high:.0f})"


def _quartiles(times: Spread) -> str:
    return f"{times.low:.2f}–{times.high:.2f}"


def _panel(group: str, rows: Sequence[NormRow]) -> Panel:
    lines = tuple(
        Line(
            row.job.title,
            row.job.nbytes / row.seconds / 1e9,
            None,
            {_TORCH: row.job.nbytes / row.theirs / 1e9 if row.theirs else None},
            "–" if row.times is None else f"{row.times.median:.1f}×",
        )
        for row in rows
    )
    return Panel(group, "GB/s of x", "clprim", "", "times", lines)


def _notes(rows: Sequence[NormRow]) -> list[str]:
    kinds = dict.fromkeys(row.job.kind for row in rows)
    calls = "; ".join(f"{kind}: {_REMARKS[kind]}" for kind in kinds)
    return [
        "Milliseconds by the host's clock, from the call until the results are there; both "
        "allocate their results, and the C library is told to keep freed memory, so that PyTorch "
        "does not pay for fresh pages. Times are medians; the contenders take turns.",
        "Before each run on more than the cache is said to hold, 512 MiB of other memory are read, "
        "so that the data come from memory.",
        "`share`: of the rate of the best kernel that only reads as much, by the device's clock, "
        "from the start of the first kernel to the end of the last, compared round by round "
        "(median, quartiles).",
        "`times as fast`: compared round by round (median, quartiles). A mean's target counts the "
        "rows of all networks in this format.",
        "Results are compared with PyTorch's before anything is timed.",
        f"{_TORCH}, on the CPU: {calls}.",
    ]
