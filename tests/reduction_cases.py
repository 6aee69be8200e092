"""Reductions as strings, and the same in PyTorch: what their gradients are held to."""

import numpy as np
import pytest
from support import numbers

torch = pytest.importorskip("torch")

SUM = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
SUMS = {
    "init": "reduce_y0 = 0; reduce_y1 = 0;",
    "step": "reduce_y0 += y0; reduce_y1 += y1;",
}
LOGSUMEXP = {
    "init": "reduce_y0 = lowest_reduce_y0; reduce_y1 = 0;",
    "step": """
        typeof_reduce_y0 m = reduce_y0 > y0 ? reduce_y0 : y0;
        reduce_y1 = reduce_y1 * exp(reduce_y0 - m) + exp(y0 - m);
        reduce_y0 = m;
    """,
    "combine": """
        typeof_reduce_y0 m = max(reduce_y0, other_y0);
        reduce_y1 = reduce_y1 * exp(reduce_y0 - m) + other_y1 * exp(other_y0 - m);
        reduce_y0 = m;
    """,
}
WELFORD = {
    "init": "reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;",
    "step": """
        reduce_y2 += 1;
        typeof_reduce_y0 d = y0 - reduce_y0;
        reduce_y0 += d / reduce_y2;
        reduce_y1 += d * (y0 - reduce_y0);
    """,
    "combine": """
        typeof_reduce_y0 n = reduce_y2 + other_y2, d = other_y0 - reduce_y0;
        if (n > 0) {
            reduce_y1 += other_y1 + d * d * reduce_y2 * other_y2 / n;
            reduce_y0 += d * other_y2 / n;
        }
        reduce_y2 = n;
    """,
}


def norm(finalize, **more):
    return {**SUM, "finalize": finalize, **more}


# name: (expression, further strings, the same in PyTorch along dimension 1 with it kept)
CASES = {
    "sum": ("y0 = x0;", SUM, lambda a, b: a.sum(1, keepdim=True)),
    "sum of squares": ("y0 = x0 * x0;", SUM, lambda a, b: (a * a).sum(1, keepdim=True)),
    "dot": ("y0 = x0 * x1;", SUM, lambda a, b: (a * b).sum(1, keepdim=True)),
    "mean": ("y0 = x0;", norm("y0 = reduce_y0 / count;"), lambda a, b: a.mean(1, keepdim=True)),
    "l2": (
        "y0 = x0 * x0;",
        norm("y0 = sqrt(reduce_y0);"),
        lambda a, b: a.norm(dim=1, keepdim=True),
    ),
    "l3": (
        "y0 = pow(fabs(x0), 3);",
        norm("y0 = cbrt(reduce_y0);"),
        lambda a, b: a.norm(p=3, dim=1, keepdim=True),
    ),
    "l1": ("y0 = fabs(x0);", SUM, lambda a, b: a.abs().sum(1, keepdim=True)),
    "mse": (
        "typeof_y0 d = x0 - x1; y0 = d * d;",
        norm("y0 = reduce_y0 / count;"),
        lambda a, b: ((a - b) ** 2).mean(1, keepdim=True),
    ),
    "logsumexp of moderate": (
        "y0 = exp(x0);",
        norm("y0 = log(reduce_y0);"),
        lambda a, b: a.logsumexp(1, keepdim=True),
    ),
    "variance": (
        "y0 = x0; y1 = x0 * x0;",
        {
            **SUMS,
            "finalize": "typeof_y0 m = reduce_y0 / count; y0 = reduce_y1 / count - m * m; y1 = m;",
        },
        lambda a, b: (a.var(1, keepdim=True, unbiased=False), a.mean(1, keepdim=True)),
    ),
    "cosine": (
        "y0 = x0 * x1; y1 = x0 * x0; y2 = x1 * x1;",
        {
            "init": "reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;",
            "step": "reduce_y0 += y0; reduce_y1 += y1; reduce_y2 += y2;",
            "finalize": "y0 = reduce_y0 * rsqrt(reduce_y1 * reduce_y2);",
        },
        lambda a, b: torch.cosine_similarity(a, b, dim=1)[:, None],
    ),
    "some": (
        "y0 = x0;",
        {
            "init": "reduce_y0 = 0;",
            "step": "if (x1 > 0) reduce_y0 += y0 * x1;",
            "combine": "reduce_y0 += other_y0;",
        },
        lambda a, b: torch.where(b > 0, a * b, 0.0).sum(1, keepdim=True),
    ),
    "product": (
        "y0 = x0;",
        {"init": "reduce_y0 = 1;", "step": "reduce_y0 *= y0;"},
        lambda a, b: a.prod(1, keepdim=True),
    ),
    "product of sums": (
        "y0 = x0 + x1;",
        {"init": "reduce_y0 = 1;", "step": "reduce_y0 *= y0;"},
        lambda a, b: (a + b).prod(1, keepdim=True),
    ),
    "max": (
        "y0 = x0;",
        {"init": "reduce_y0 = lowest_reduce_y0;", "step": "reduce_y0 = max(reduce_y0, y0);"},
        lambda a, b: a.amax(1, keepdim=True),
    ),
    "min": (
        "y0 = x0 * x1;",
        {
            "init": "reduce_y0 = highest_reduce_y0;",
            "step": "reduce_y0 = reduce_y0 < y0 ? reduce_y0 : y0;",
        },
        lambda a, b: (a * b).amin(1, keepdim=True),
    ),
    "range": (
        "y0 = x0;",
        {
            "init": "reduce_y0 = lowest_reduce_y0; reduce_y1 = highest_reduce_y1;",
            "step": "reduce_y0 = fmax(reduce_y0, y0); reduce_y1 = fmin(y0, reduce_y1);",
            "finalize": "y0 = reduce_y0 - reduce_y1;",
        },
        lambda a, b: a.amax(1, keepdim=True) - a.amin(1, keepdim=True),
    ),
    "running logsumexp": (
        "y0 = x0;",
        {**LOGSUMEXP, "finalize": "y0 = reduce_y0 + log(reduce_y1);"},
        lambda a, b: a.logsumexp(1, keepdim=True),
    ),
    "running sum of exponentials": (
        "y0 = x0 * x1;",
        {**LOGSUMEXP, "finalize": "y0 = reduce_y1;"},
        lambda a, b: torch.exp(a * b - (a * b).amax(1, keepdim=True)).sum(1, keepdim=True),
    ),
    "welford": (
        "y0 = x0;",
        {**WELFORD, "finalize": "y0 = sqrt(reduce_y1 / (count - 1)); y1 = reduce_y0;"},
        lambda a, b: (a.std(1, keepdim=True), a.mean(1, keepdim=True)),
    ),
}


def arrays(name, shape=(4, 9, 3)):
    a = numbers(shape, np.float64, seed=3) + (0.25 if "welford" in name else 0)
    b = numbers(shape, np.float64, seed=4, low=1)
    if name.startswith("product"):
        a = np.where(numbers(shape, seed=5) > 3, 0, np.abs(a) + 1)  # none, one or more zeros
        a[:, :, 0] = np.abs(a[:, :, 0]) + 1
        b = b * 0
    return a, b
