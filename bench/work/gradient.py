"""Derived gradients beside kernels that a person wrote, and beside PyTorch's eager backward."""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import clprim as cp
from bench.clock.timing import Contender, Spread, host_call, measured_call, race, ratio
from bench.page.report import Report, Table
from bench.page.targets import Target, Verdict, judge
from clprim.runtime.device import Device

_BY_HAND = Target("by hand", 0.95, "of the kernel by hand")
_TORCH = Target("PyTorch", 1.5, "as fast as PyTorch's eager backward", unit="×")
_DERIVING = Target("deriving", 0.005, "to derive it", at_most=True, unit=" s")
#: Rounds of both kernels: they are short, and a few of them are disturbed.
_ROUNDS = 40
_TRIES = 5


@dataclass(frozen=True)
class Job:
    """One operator.

    Attributes:
        title: Its name.
        expr: The operator.
        by_hand: Its gradient, as one writes it: of the arrays it needs, then ``gy``.
        torch: The same in PyTorch; eager users have no other way to its gradient.
        needs: Which arrays of the operator these are.
        rows: How many of the arrays, behind the first, are one value a row.
    """

    title: str
    expr: str
    by_hand: str
    torch: Callable[..., Any]
    needs: tuple[int, ...] = (0,)
    rows: int = 0


def _torch(name: str, **options: Any) -> Callable[..., Any]:
    """A function of ``torch.nn.functional``, imported when it runs."""

    def call(x: Any) -> Any:
        from torch.nn import functional

        return getattr(functional, name)(x, **options)

    return call


def _focal(x: Any, t: Any) -> Any:
    import torch
    from torch.nn import functional

    z = x * t
    return (1 - torch.sigmoid(z)) ** 2 * -functional.logsigmoid(z)


GRADIENTS = (
    Job(
        "gelu",
        "y0 = 0.5f * x0 * (1 + erf(x0 * 0.70710678f));",
        """
        typeof_y0 p = 0.5f * (1 + erf(x0 * 0.70710678f));
        y0 = x1 * (p + x0 * 0.39894228f * exp(-0.5f * x0 * x0));
        """,
        _torch("gelu"),
    ),
    Job(
        "silu",
        "y0 = x0 / (1 + exp(-x0));",
        "typeof_y0 s = 1 / (1 + exp(-x0)); y0 = x1 * s * (1 + x0 * (1 - s));",
        _torch("silu"),
    ),
    Job(
        "mish",
        """
        typeof_y0 e = exp(x0 < 20 ? x0 : 20);
        typeof_y0 n = e * (e + 2);
        y0 = x0 * (n / (n + 2));
        """,
        """
        typeof_y0 e = exp(x0 < 20 ? x0 : 20);
        typeof_y0 n = e * (e + 2), d = n + 2;
        y0 = x1 * (n / d + (x0 < 20 ? x0 * 4 * e * (e + 1) / (d * d) : 0));
        """,
        _torch("mish"),
    ),
    Job(
        "normalise a row",
        "y0 = (x0 - x1) * x2;",
        "y0 = x1 * x0;",
        lambda x, m, r: (x - m) * r,
        needs=(2,),
        rows=2,
    ),
    Job(
        "focal loss",
        """
        typeof_y0 z = x0 * x1;
        typeof_y0 p = 1 / (1 + exp(-z));
        y0 = (1 - p) * (1 - p) * log1p(exp(-z));
        """,
        """
        typeof_y0 z = x0 * x1;
        typeof_y0 e = exp(-z), p = 1 / (1 + e);
        typeof_y0 q = 1 - p;
        y0 = -x2 * x1 * q * q * (2 * p * log1p(e) + q);
        """,
        _focal,
        needs=(0, 1),
    ),
)


@dataclass(frozen=True)
class Row:
    """What was measured of a job: gigabytes a second, times as fast, seconds to derive it."""

    job: Job
    nbytes: int
    rate: float
    by_hand: Spread
    torch: Spread | None
    deriving: float
    verdicts: tuple[Verdict, ...]
    correct: bool


def run_gradient(
    device: Device, *, repeats: int, quick: bool, progress: Callable[[str, float], None]
) -> list[Row]:
    """Measures all jobs."""
    shape = (64, 257) if quick else (4096, 4096)
    rows = []
    for job in GRADIENTS:
        rows.append(_measured(job, shape, device, repeats, quick=quick))
        progress(job.title, 1 / len(GRADIENTS))
    return rows


def _measured(
    job: Job, shape: tuple[int, int], device: Device, repeats: int, *, quick: bool
) -> Row:
    rng = np.random.default_rng(0)
    count = cp.Pointwise(job.expr).definition.inputs
    hosts = []
    for n in range(count):
        own = (shape[0], 1) if n and n <= job.rows else shape
        hosts.append(rng.uniform(0.5, 2, own).astype(np.float32) * (-1) ** n)
    grad = rng.uniform(0.5, 2, shape).astype(np.float32)
    arrays, handed = [cp.asarray(h) for h in hosts], cp.asarray(grad)
    derived = cp.Pointwise(job.expr).gradient("x0")
    by_hand = cp.Pointwise(job.by_hand)
    needed = [arrays[n] for n in job.needs]
    mine, right = derived(*arrays, grad=handed).get(), by_hand(*needed, handed).get()
    correct = np.allclose(mine, right, rtol=1e-3, atol=1e-5)
    nbytes = mine.nbytes + sum(hosts[n].nbytes for n in job.needs) + grad.nbytes
    derived_call = functools.partial(derived, *arrays, grad=handed)
    contenders = [
        measured_call("derived", nbytes, derived_call, device),
        measured_call("by hand", nbytes, functools.partial(by_hand, *needed, handed), device),
    ]
    results = race(contenders, repeats if quick else max(repeats, _ROUNDS))
    measured = {"by hand": ratio(results["derived"], results["by hand"], "device")}
    rate = results["derived"].rate("device")
    others = _of_torch(job, hosts, grad, nbytes)
    if others:
        called = host_call("derived", nbytes, derived_call, device.synchronize)
        results = race([called, *others], repeats)
        measured["PyTorch"] = ratio(results["derived"], results["PyTorch"], "host")
    values = {name: spread.median for name, spread in measured.items()}
    values["deriving"] = deriving = min(_deriving(job) for _ in range(_TRIES))
    targets = [_BY_HAND, *([_TORCH] if "PyTorch" in values else []), _DERIVING]
    verdicts = judge(targets, job.title, values, "--quick" * quick)
    return Row(
        job,
        nbytes,
        rate,
        measured["by hand"],
        measured.get("PyTorch"),
        deriving,
        tuple(verdicts),
        bool(correct),
    )


def _deriving(job: Job) -> float:
    """Seconds that the strings take, once an operator."""
    operator = cp.Pointwise(job.expr)
    start = time.perf_counter()
    operator.gradient("x0")
    return time.perf_counter() - start


def _of_torch(job: Job, hosts: Sequence[Any], grad: Any, nbytes: int) -> list[Contender]:
    """PyTorch's backward of a graph that is there."""
    if importlib.util.find_spec("torch") is None:
        return []
    import torch

    tensors = [torch.from_numpy(h.copy()) for h in hosts]
    tensors[0].requires_grad_()
    result, handed = job.torch(*tensors), torch.from_numpy(grad.copy())

    def backward() -> None:
        torch.autograd.grad(result, tensors[0], handed, retain_graph=True)

    return [host_call("PyTorch", nbytes, backward, lambda: None)]


def gradient_report(rows: Sequence[Row]) -> Report:
    """Lays rows out for readers."""
    table = Table(
        "gradient in the first array",
        ("", "GB/s", "beside by hand", "beside PyTorch", "deriving", "target"),
        tuple(
            (
                row.job.title,
                f"{row.rate / 1e9:.1f}",
                f"{row.by_hand.median:.2f}×",
                "" if row.torch is None else f"{row.torch.median:.2f}×",
                f"{1e3 * row.deriving:.1f} ms",
                "\n".join([*map(str, row.verdicts), *([] if row.correct else ["WRONG RESULT"])]),
            )
            for row in rows
        ),
    )
    return Report(
        "gradient",
        "Derived gradients next to kernels by hand",
        tables=(table,),
        verdicts=tuple(verdict for row in rows for verdict in row.verdicts),
        notes=(
            "Beside the kernel by hand: times of the device, in rounds of both. Beside PyTorch: "
            "times of the host, from the call until the result is there.",
        ),
        failures=tuple(
            f"{row.job.title}: the derived gradient is not that by hand"
            for row in rows
            if not row.correct
        ),
    )
