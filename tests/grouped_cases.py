"""Maps over groups as strings, and the same in PyTorch: what derived gradients are held to.

Operands: ``x0`` (4, 6, 33), whose groups extend along the last axis; of others the shape is given.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from clprim.ops.norm.moments import about_origin
from clprim.ops.shared.exponentials import exponentials
from clprim.ops.shared.sums import added

torch = pytest.importorskip("torch")
F = torch.nn.functional

WHOLE, ROW, GROUP = (4, 6, 33), (33,), (4, 6, 1)


@dataclass(frozen=True)
class Case:
    """A `Grouped`, its PyTorch, shapes of arrays, numbers, and what may be saved."""

    strings: dict
    reference: object
    shapes: tuple = (WHOLE,)
    scalars: tuple = ()
    saves: tuple = ()
    wrt: tuple | None = None
    positive: bool = False


def _mean_and(each, finalize="", more=""):
    return {
        "expr": "y0 = x0; y1 = x0 * x0;",
        **added(2),
        "finalize": "typeof_group_y0 m = reduce_y0 / count; group_y0 = m;"
        f"group_y1 = 1 / sqrt(reduce_y1 / count - m * m + w0); {finalize}",
        "each": f"y0 = (x0 - group_y0) * group_y1{each};{more}",
    }


WELFORD = {
    "expr": "y0 = x0;",
    "init": "reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;",
    "step": """
        typeof_y0 d = y0 - reduce_y1;
        reduce_y0 += 1;
        reduce_y1 += d / reduce_y0;
        reduce_y2 += d * (y0 - reduce_y1);
    """,
    "combine": """
        typeof_reduce_y0 n = reduce_y0 + other_y0, d = other_y1 - reduce_y1;
        if (other_y0 > 0) {
            reduce_y1 += d * other_y0 / n;
            reduce_y2 += other_y2 + d * d * reduce_y0 * other_y0 / n;
            reduce_y0 = n;
        }
    """,
}
ORIGIN = about_origin(1)
ORIGIN["finalize"] += "group_y0 = mean; group_y1 = 1 / sqrt(variance + w0); group_y2 = variance;"
SOFTMAX = {
    "expr": "",
    **exponentials("x0"),
    "finalize": "group_y0 = reduce_y0; group_y1 = 1 / reduce_y1 + (reduce_y0 - reduce_y0);",
}
LOGARITHM = {**SOFTMAX, "finalize": "group_y0 = reduce_y0; group_y1 = log(reduce_y1);"}
MAXIMUM = {
    "expr": "y0 = x0;",
    "init": "reduce_y0 = lowest_reduce_y0;",
    "step": "reduce_y0 = max(reduce_y0, y0);",
}
SUM = {"expr": "y0 = x0;", **added(1)}


def _length(term, length):
    return {
        "expr": f"y0 = {term} + 0 * w0;",
        **added(1),
        "finalize": f"typeof_reduce_y0 n = {length}; group_y0 = n < w1 ? w1 : n;",
        "each": "y0 = x0 / group_y0;",
    }


def _standard(x):
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, False, keepdim=True) + 0.1)


CASES = {
    "layer norm of sums": Case(
        _mean_and(" * x1 + x2"),
        lambda x, w, b: F.layer_norm(x, (33,), w, b, 0.1),
        (WHOLE, ROW, ROW),
        (0.1,),
        (("group_y0", "group_y1"),),
    ),
    "layer norm by Welford": Case(
        {
            **WELFORD,
            "finalize": "group_y0 = reduce_y1; group_y1 = rsqrt(reduce_y2 / count + w0);",
            "each": "y0 = (x0 - group_y0) * group_y1 * x1;",
        },
        lambda x, w: F.layer_norm(x, (33,), w, None, 0.1),
        (WHOLE, ROW),
        (0.1,),
        (("group_y0", "group_y1"), "group_y1"),
    ),
    "layer norm about an origin": Case(
        {**ORIGIN, "each": "y0 = (x0 - group_y0) * group_y1 * x2 + x3;"},
        lambda x, _, w, b: F.layer_norm(x, (33,), w, b, 0.1),
        (WHOLE, GROUP, ROW, ROW),
        (0.1,),
        (("group_y0", "group_y1"), ("group_y2", "group_y0")),
        ("x0", "x2", "x3"),
    ),
    "variance of a product": Case(
        {
            "expr": "y0 = x0 * x1; y1 = y0 * y0;",
            **added(2),
            "finalize": "typeof_group_y0 m = reduce_y0 / count;"
            "group_y0 = sqrt(reduce_y1 / count - m * m);",
            "each": "y0 = x0 / group_y0;",
        },
        lambda x, w: x / (x * w).std(-1, False, keepdim=True),
        (WHOLE, ROW),
    ),
    "rms norm": Case(
        {
            "expr": "y0 = x0 * x0;",
            **added(1),
            "finalize": "group_y0 = 1 / sqrt(reduce_y0 / count + w0);",
            "each": "y0 = x0 * group_y0 * x1;",
        },
        lambda x, w: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 0.1) * w,
        (WHOLE, ROW),
        (0.1,),
        ("group_y0",),
    ),
    "softmax": Case(
        {**SOFTMAX, "each": "y0 = exp(x0 - group_y0) * group_y1;"},
        lambda x: torch.softmax(x, -1),
        saves=("y0", ("group_y0", "group_y1")),
    ),
    "softmin": Case(
        {
            **SOFTMAX,
            **exponentials("-x0"),
            "each": "y0 = exp(-x0 - group_y0) * group_y1;",
        },
        lambda x: torch.softmax(-x, -1),
        saves=("y0",),
    ),
    "log softmax": Case(
        {**LOGARITHM, "each": "y0 = (x0 - group_y0) - group_y1;"},
        lambda x: torch.log_softmax(x, -1),
        saves=("y0", "group_y0"),
    ),
    "softmax with a temperature": Case(
        {**SOFTMAX, **exponentials("x0 * w0"), "each": "y0 = exp(x0 * w0 - group_y0) * group_y1;"},
        lambda x, w: torch.softmax(x * w, -1),
        scalars=(0.75,),
        saves=("y0",),
        wrt=("x0",),
    ),
    "softmax and its logarithm": Case(
        {
            **LOGARITHM,
            "each": "y1 = x0 - group_y0 - group_y1; y0 = exp(y1);",
        },
        lambda x: (torch.softmax(x, -1), torch.log_softmax(x, -1)),
    ),
    "Euclidean length": Case(
        _length("x0 * x0", "sqrt(reduce_y0)"),
        lambda x: F.normalize(x, 2, -1, 0.5),
        scalars=(2.0, 0.5),
        saves=("group_y0",),
    ),
    "longer than anything": Case(
        _length("x0 * x0", "sqrt(reduce_y0)"),
        lambda x: F.normalize(x, 2, -1, 500.0),
        scalars=(2.0, 500.0),
    ),
    "sum of distances": Case(
        _length("fabs(x0)", "reduce_y0"), lambda x: F.normalize(x, 1, -1, 0.5), scalars=(1.0, 0.5)
    ),
    "length of cubes": Case(
        _length("pow(fabs(x0), w0)", "pow(reduce_y0, 1 / w0)"),
        lambda x: F.normalize(x, 3, -1, 0.5),
        scalars=(3.0, 0.5),
    ),
    "share": Case(
        {**SUM, "each": "y0 = x0 / group_y0;"},
        lambda x: x / x.sum(-1, keepdim=True),
        saves=("y0", "group_y0"),
        positive=True,
    ),
    "part of the greatest": Case(
        {**MAXIMUM, "each": "y0 = x0 / group_y0;"},
        lambda x: x / x.amax(-1, keepdim=True),
        saves=("group_y0",),
        positive=True,
    ),
    "centred": Case(
        {**SUM, "finalize": "group_y0 = reduce_y0 / count;", "each": "y0 = x0 - group_y0;"},
        lambda x: x - x.mean(-1, keepdim=True),
    ),
    "a sum of products alone": Case(
        {
            "expr": "y0 = x0 * x1;",
            **added(1),
            "finalize": "group_y0 = tanh(reduce_y0);",
            "each": "y0 = group_y0;",
        },
        lambda x, w: torch.tanh((x * w).sum(-1, keepdim=True)).expand(WHOLE),
        (WHOLE, ROW),
    ),
    "a gain a group, in finalize": Case(
        {
            "expr": "y0 = x0 * x0;",
            **added(1),
            "finalize": "group_y0 = x1 * w0 / sqrt(reduce_y0 + w1);",
            "each": "y0 = x0 * group_y0 + w0;",
        },
        lambda x, g, w, v: x * (g * w / torch.sqrt((x * x).sum(-1, keepdim=True) + v)) + w,
        (WHOLE, GROUP),
        (0.75, 2.0),
        wrt=("x0", "x1", "w0", "w1"),
    ),
    "a gain for all groups, there and in each": Case(
        {**SUM, "finalize": "group_y0 = x1 * reduce_y0;", "each": "y0 = tanh(x0 * group_y0) * x1;"},
        lambda x, g: torch.tanh(x * (g * x.sum(-1, keepdim=True))) * g,
        (WHOLE, (6, 1)),
    ),
    "two results of two arrays": Case(
        {
            "expr": "y0 = x0 * x1; y1 = x1;",
            **added(2),
            "finalize": "group_y0 = reduce_y0 / (1 + reduce_y1 * reduce_y1);",
            "each": "y0 = x0 * group_y0; y1 = x0 > 0 ? x1 * group_y0 : group_y0;",
        },
        lambda x, w: (
            x * (s := (x * w).sum(-1, keepdim=True) / (1 + w.sum(-1, keepdim=True) ** 2)),
            torch.where(x > 0, w * s, s.expand(WHOLE)),
        ),
        (WHOLE, WHOLE),
    ),
    "positions": Case(
        {**SUM, "each": "y0 = x0 * group_y0 * (coord(2) + 1);"},
        lambda x: x * x.sum(-1, keepdim=True) * torch.arange(1, 34),
    ),
}


def arrays(case):
    """Data of a case."""
    rng = np.random.default_rng(0)
    found = [rng.normal(0, 1, shape) for shape in case.shapes]
    found[0][1, 2, :2] = 2.5  # a tie of the greatest
    return [abs(a) + 0.25 for a in found] if case.positive else found
