"""Derived gradients beside kernels that a person wrote, and beside PyTorch's eager backward."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import clprim as cp
from bench.case import Call, Case, Data, Options, Page, Shape

_TRIES = 5


class Job(NamedTuple):
    """An operator: its string, its gradient by hand (of the arrays it needs, then gy), PyTorch's.

    ``rows`` counts the arrays, behind the first, that are one value a row.
    """

    title: str
    expr: str
    by_hand: str
    torch: Callable[..., Any]
    needs: tuple[int, ...] = (0,)
    rows: int = 0


def _torch(name: str) -> Callable[..., Any]:
    def call(x: Any) -> Any:
        from torch.nn import functional

        return getattr(functional, name)(x)

    return call


def _focal(x: Any, t: Any) -> Any:
    from torch.nn import functional

    z = x * t
    return (1 - z.sigmoid()) ** 2 * -functional.logsigmoid(z)


GRADIENTS = (
    Job(
        "gelu",
        "y0 = 0.5f * x0 * (1 + erf(x0 * 0.70710678f));",
        "typeof_y0 p = 0.5f * (1 + erf(x0 * 0.70710678f));"
        " y0 = x1 * (p + x0 * 0.39894228f * exp(-0.5f * x0 * x0));",
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
        "typeof_y0 e = exp(x0 < 20 ? x0 : 20); typeof_y0 n = e * (e + 2); y0 = x0 * (n / (n + 2));",
        "typeof_y0 e = exp(x0 < 20 ? x0 : 20); typeof_y0 n = e * (e + 2), d = n + 2;"
        " y0 = x1 * (n / d + (x0 < 20 ? x0 * 4 * e * (e + 1) / (d * d) : 0));",
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
        "typeof_y0 z = x0 * x1; typeof_y0 p = 1 / (1 + exp(-z));"
        " y0 = (1 - p) * (1 - p) * log1p(exp(-z));",
        "typeof_y0 z = x0 * x1; typeof_y0 e = exp(-z), p = 1 / (1 + e); typeof_y0 q = 1 - p;"
        " y0 = -x2 * x1 * q * q * (2 * p * log1p(e) + q);",
        _focal,
        needs=(0, 1),
    ),
)


def _data(job: Job, shape: Shape) -> Data:
    """The operator's arrays, then the gradient in its result."""
    random = np.random.default_rng(0)
    count = cp.Pointwise(job.expr).definition.inputs
    shapes = [(shape[0], 1) if n and n <= job.rows else shape for n in range(count)] + [shape]
    drawn = [random.uniform(0.5, 2, s).astype(np.float32) for s in shapes]
    return Data(*(a * (-1) ** n for n, a in enumerate(drawn[:-1])), drawn[-1])


def _derived(job: Job, data: Data) -> Call:
    *arrays, grad = data.device
    return partial(cp.Pointwise(job.expr).gradient("x0"), *arrays, grad=grad)


def _by_hand(job: Job, data: Data) -> Call:
    *arrays, grad = data.device
    return partial(cp.Pointwise(job.by_hand), *(arrays[n] for n in job.needs), grad)


def _by_torch(job: Job, data: Data) -> Call:
    """PyTorch's backward of a graph that is there."""
    import torch

    *tensors, grad = data.torch
    tensors[0].requires_grad_()
    result = job.torch(*tensors)
    return partial(torch.autograd.grad, result, tensors[0], grad, retain_graph=True)


def _deriving(job: Job, data: Data, call: Call) -> dict[str, str]:
    """What the strings take, once an operator."""
    taken = []
    for _ in range(_TRIES):
        operator = cp.Pointwise(job.expr)
        start = time.perf_counter()
        operator.gradient("x0")
        taken.append(time.perf_counter() - start)
    return {"deriving": f"{1e3 * min(taken):.1f} ms"}


def gradient_cases(args: Options) -> list[Case]:
    shape = (64, 257) if args.quick else (4096, 4096)
    found = []
    for job in GRADIENTS:
        arrays = 2 + sum(n == 0 or n > job.rows for n in job.needs)
        found.append(
            Case(
                "gradient in the first array",
                job.title,
                4 * arrays * shape[0] * shape[1],
                partial(_data, job, shape),
                {
                    "clprim": partial(_derived, job),
                    "clprim, by hand": partial(_by_hand, job),
                    "PyTorch": partial(_by_torch, job),
                },
                tolerance=1e-4,
                extra=partial(_deriving, job),
            )
        )
    return found


PAGES = {"gradient": Page("Derived gradients next to kernels by hand", "GB/s", gradient_cases)}
