"""Reductions over pairs beside our own products, PyTorch, KeOps and SciPy."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import clprim as cp
from bench.clock.timing import Contender, Result, host_call, race, ratio
from bench.page.report import Report, Table
from bench.page.targets import Target, Verdict, judge
from clprim import ops
from clprim.runtime.device import Device

GAUSS = "exp(-d2 * w0)"
#: The width of a Gaussian, over the dimensions, so that sums are of ordinary numbers.
WIDTH = 0.25
_SUMS = "Kernel sums"

STRINGS = {
    "L1": ("y0 = fabs(x0 - x1);", "reduce_y0 = 0;", "reduce_y0 += y0;"),
    "max-plus, by a comparison": (
        "y0 = x0 + x1;",
        "reduce_y0 = -INFINITY;",
        "reduce_y0 = y0 > reduce_y0 ? y0 : reduce_y0;",
    ),
    "max-plus, by fmax": (
        "y0 = x0 + x1;",
        "reduce_y0 = -INFINITY;",
        "reduce_y0 = fmax(reduce_y0, y0);",
    ),
}
#: A mean of x1 by exponentials of x0, whose largest is kept aside.
SOFTMAX = {
    "expr": "y0 = x0; y1 = x1;",
    "init": "reduce_y0 = -INFINITY; reduce_y1 = 0; reduce_y2 = 0;",
    "step": "typeof_y0 m = max(reduce_y0, y0), f = exp(reduce_y0 - m), e = exp(y0 - m);"
    " reduce_y1 = reduce_y1 * f + e; reduce_y2 = reduce_y2 * f + e * y1; reduce_y0 = m;",
    "combine": "typeof_reduce_y0 m = max(reduce_y0, other_y0);"
    " typeof_reduce_y0 f = exp(reduce_y0 - m), e = exp(other_y0 - m);"
    " reduce_y1 = reduce_y1 * f + other_y1 * e; reduce_y2 = reduce_y2 * f + other_y2 * e;"
    " reduce_y0 = m;",
    "finalize": "y0 = reduce_y2 / reduce_y1;",
}
_OF_PRODUCTS = {"L1": 0.40, "max-plus, by a comparison": 0.55, "max-plus, by fmax": 0.25}


@dataclass(frozen=True)
class Job:
    """One problem.

    Attributes:
        group: Title of its table.
        title: Of its row.
        terms: Elements of all pairs.
        call: What clprim runs.
        rivals: Calls of others, by name.
        targets: How many times as fast as some of them it is to be.
    """

    group: str
    title: str
    terms: int
    call: Callable[[], Any]
    rivals: dict[str, Callable[[], Any]]
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True)
class Row:
    """What was measured of a job: seconds by name, and how many times as fast as each."""

    job: Job
    seconds: dict[str, float]
    times: dict[str, float]
    verdicts: tuple[Verdict, ...]


def run_pairs(
    device: Device, *, repeats: int, quick: bool, progress: Callable[[str, float], None]
) -> list[Row]:
    """Measures all jobs."""
    kinds = product_jobs, kernel_jobs, nearest_jobs, attention_jobs
    jobs = [job for kind in kinds for job in kind(quick=quick)]
    rows = []
    for job in jobs:
        rows.append(_measured(job, device, repeats, quick=quick))
        progress(job.title, 1 / len(jobs))
    return rows


def _measured(job: Job, device: Device, repeats: int, *, quick: bool) -> Row:
    contenders: list[Contender] = [host_call("clprim", job.terms, job.call, device.synchronize)]
    for name, call in job.rivals.items():
        contenders.append(host_call(name, job.terms, call, device.synchronize))
    results: dict[str, Result] = race(contenders, repeats)
    seconds = {name: job.terms / found.rate("host") for name, found in results.items()}
    times = {name: ratio(results["clprim"], results[name], "host").median for name in job.rivals}
    verdicts = judge(job.targets, job.title, times, "--quick" * quick)
    return Row(job, seconds, times, tuple(verdicts))


def _there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _points(*shapes: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """Points on the host and on the device."""
    rng = np.random.default_rng(0)
    hosts = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    return hosts, [cp.asarray(h) for h in hosts]


def product_jobs(*, quick: bool) -> list[Job]:
    """Products of strings beside our own of numbers, and PyTorch's distances."""
    jobs = []
    shapes = [(64, 64, 48)] if quick else [(512, 512, 512), (1024, 1024, 128), (2048, 2048, 128)]
    for m, n, k in shapes:
        hosts, (x, y) = _points((m, k), (n, k))
        product = functools.partial(ops.matmul, x, y, transpose_b=True)
        for name, (expr, init, step) in STRINGS.items():
            operator = cp.Reduction(expr, init=init, step=step)
            call = functools.partial(operator, x[:, None], y[None], axis=2)
            rivals: dict[str, Callable[[], Any]] = {"our matmul": product}
            if name == "L1" and _there("torch"):
                rivals["PyTorch"] = _torch_distances(hosts, 1.0)
            target = Target("our matmul", _OF_PRODUCTS[name], f"of our matmul, {name}")
            title = f"{name}, {m} × {n} × {k}"
            group = "Products of strings"
            jobs.append(Job(group, title, m * n * k, call, rivals, (target,)))
    return jobs


def _torch_distances(hosts: Sequence[Any], p: float) -> Callable[[], Any]:
    import torch

    return functools.partial(torch.cdist, *map(torch.from_numpy, hosts), p)


def kernel_jobs(*, quick: bool) -> list[Job]:
    """Gaussian sums and their gradients, beside KeOps."""
    jobs = []
    count = 200 if quick else 8192
    for depth, bound in ((3, 10), (64, 8)):
        hosts, (x, y, b, g) = _points((count, depth), (count, depth), (count,), (count,))
        width = WIDTH / depth
        both = (x, y, b, GAUSS, width)
        forward = functools.partial(ops.kernel_sum, *both)
        backward = functools.partial(ops.kernel_sum_backward, g, *both)
        title = f"Gaussian sum, {count} × {count}, {depth} dimensions"
        rivals, gradients = _keops(hosts, width)
        target = Target("KeOps", bound, f"as fast as KeOps, {depth} dimensions", unit="×")
        jobs.append(Job(_SUMS, title, count * count * depth, forward, rivals, (target,)))
        target = Target("KeOps", 5, "as fast as KeOps, gradients", unit="×")
        title = f"its gradients in points and weights, {depth} dimensions"
        jobs.append(Job(_SUMS, title, count * count * depth, backward, gradients, (target,)))
    return jobs


def _keops(hosts: Sequence[Any], width: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """KeOps' sum and its gradients, by name; none where it is not installed."""
    if not (_there("pykeops") and _there("torch")):
        return {}, {}
    import torch
    from pykeops.torch import LazyTensor

    x, y, b, g = (torch.from_numpy(h).requires_grad_() for h in hosts)

    def summed(x: Any, y: Any, b: Any) -> Any:
        squares = ((LazyTensor(x[:, None]) - LazyTensor(y[None])) ** 2).sum(-1)
        return (-squares * width).exp() @ b[:, None]

    result = summed(x, y, b)
    handed = g.detach()[:, None]

    def backward() -> Any:
        return torch.autograd.grad(result, (x, y, b), handed, retain_graph=True)

    forward = functools.partial(summed, x.detach(), y.detach(), b.detach())
    return {"KeOps": forward}, {"KeOps": backward}


def nearest_jobs(*, quick: bool) -> list[Job]:
    """Nearest neighbours, beside PyTorch and SciPy."""
    count, depth = (300, 16) if quick else (10_000, 128)
    hosts, (x, y) = _points((count, depth), (count, depth))
    jobs = []
    for k in (1, 16):
        rivals: dict[str, Callable[[], Any]] = {}
        if _there("torch"):
            import torch

            distances = _torch_distances(hosts, 2.0)
            rivals["PyTorch"] = functools.partial(_least, torch, distances, k)
        if k == 1 and _there("scipy") and count < 1000:
            from scipy.spatial.distance import cdist

            rivals["SciPy"] = lambda: cdist(*hosts).argmin(1)
        target = Target("PyTorch", 2, "as fast as PyTorch's cdist and min", unit="×")
        call = functools.partial(ops.nearest, x, y, k)
        title = f"{k} nearest of {count}, {depth} dimensions"
        targets = (target,) if k == 1 else ()
        jobs.append(Job("Nearest points", title, count * count * depth, call, rivals, targets))
    return jobs


def attention_jobs(*, quick: bool) -> list[Job]:
    """Attention with a string for its scores, beside our own without one."""
    jobs = []
    for count, depth in ((40, 8),) if quick else ((1024, 64), (2048, 128)):
        _, (q, k, v) = _points(*[(8, count, depth)] * 3)
        product = cp.Reduction("y0 = x0 * x1;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
        operator = cp.Pairs(inner=product, expr="y0 = d * w0;", outer=cp.Reduction(**SOFTMAX))
        scale = depth**-0.5
        call = functools.partial(operator, q[:, :, None], k[:, None], v[:, None], scale)
        rivals: dict[str, Callable[[], Any]] = {
            "our attention": functools.partial(ops.scaled_dot_product_attention, q, k, v)
        }
        target = Target("our attention", 0.9, "of our attention")
        title = f"attention, 8 heads, {count} × {count} × {depth}"
        terms = 8 * count * count * 2 * depth
        jobs.append(Job("Attention with a score string", title, terms, call, rivals, (target,)))
    return jobs


def _least(torch: Any, distances: Callable[[], Any], k: int) -> Any:
    found = distances()
    return found.min(1) if k == 1 else torch.topk(found, k, largest=False)


def _table(title: str, rows: Sequence[Row]) -> Table:
    peers = list(dict.fromkeys(name for row in rows for name in row.times))
    cells = []
    for row in rows:
        line = [row.job.title, f"{row.job.terms / row.seconds['clprim'] / 1e9:.3g}"]
        for name in peers:
            known = name in row.times
            rate = row.job.terms / row.seconds[name] / 1e9 if known else 0
            line.append(f"{rate:.3g} ({row.times[name]:.2f}×)" if known else "–")
        cells.append((*line, "; ".join(map(str, row.verdicts))))
    return Table(f"{title} (G terms/s)", ("", "clprim", *peers, "target"), tuple(cells))


def pairs_report(rows: Sequence[Row], *, quick: bool) -> Report:
    """Returns the page."""
    groups = dict.fromkeys(row.job.group for row in rows)
    tables = [_table(group, [row for row in rows if row.job.group == group]) for group in groups]
    return Report(
        "pairs",
        "Reductions over pairs: next to our products, PyTorch, KeOps and SciPy",
        tuple(tables),
        tuple(verdict for row in rows for verdict in row.verdicts),
        (
            "By the host's clock, until the result is there; medians. In brackets: how many times "
            "as fast clprim is, compared within each round. A term is one element of one pair.",
            "`ops.nearest` and `ops.kernel_sum` store nothing of the size of all pairs; PyTorch's "
            "distances are.",
            *(["A quick run: small problems, whose times mean nothing."] if quick else []),
        ),
    )
