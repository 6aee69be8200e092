"""Cases of 16 and 8 bits: what is made of several calls, and sums of integers that would wrap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import clprim as cp
from bench.torture.case import Case
from bench.torture.draw import Draw, Host
from clprim import ops

_HALVES = {np.dtype(np.float16): 2.0**-10, np.dtype(ml_dtypes.bfloat16): 2.0**-7}
_WHOLE = [np.dtype(t) for t in ("int8", "uint8", "int16", "uint16", "int32", "uint32")]

# By name: what runs, and the same of NumPy's in float64, of rows a and b and their greatest number.
# Results fit in 16 bits, squares and sums on the way to them need not.
_Reference = Callable[[Host, Host, float], Any]
_COMPOSITES: dict[str, tuple[Callable[[Any, Any, float], Any], _Reference]] = {
    "std": (lambda a, b, m: ops.std(a, 1), lambda a, b, m: a.std(1, ddof=1)),
    "std_mean": (lambda a, b, m: ops.std_mean(a, 1)[0], lambda a, b, m: a.std(1, ddof=1)),
    "corrcoef": (lambda a, b, m: ops.corrcoef(a), lambda a, b, m: np.corrcoef(a)),
    "average": (
        lambda a, b, m: cp.average(a, axis=1, weights=ops.abs(b)),
        lambda a, b, m: (a * abs(b)).sum(1) / abs(b).sum(1),
    ),
    "cosine_similarity": (
        lambda a, b, m: ops.cosine_similarity(a, b),
        lambda a, b, m: (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1)),
    ),
    "pairwise_distance": (
        lambda a, b, m: ops.pairwise_distance(a, b),
        lambda a, b, m: np.sqrt(((a - b + 1e-6) ** 2).sum(1)),
    ),
    "normalize": (
        lambda a, b, m: ops.normalize(a),
        lambda a, b, m: a / np.sqrt((a * a).sum(1, keepdims=True)),
    ),
    "einsum": (
        lambda a, b, m: ops.einsum("ij,ij,i->j", a, b, (a[:, 0] * 0 + 1) / 64),
        lambda a, b, m: (a * b).sum(0) / 64,
    ),
    "diff": (lambda a, b, m: ops.diff(a, 3, 1), lambda a, b, m: np.diff(a, 3, 1)),
    "lp_pool2d": (
        lambda a, b, m: ops.lp_pool2d(ops.abs(a)[None], 3, (1, 2)),
        lambda a, b, m: (abs(a[:, :-1:2]) ** 3 + abs(a[:, 1::2]) ** 3)[None] ** (1 / 3),
    ),
}


def composite(draw: Draw) -> Case:
    """An operator made of several calls, of float16 or bfloat16: one rounding at its end."""
    dtype = draw.one(list(_HALVES))
    name = draw.one(list(_COMPOSITES))
    shape = int(draw.one((2, 3, 5))), int(draw.one((4, 7, 16, 33)))
    # A distance of 33 elements is 12 times as large as one of them, the third difference 8 times.
    most = float(draw.one((1, 30, 300))) if name == "einsum" else float(draw.one((1, 300, 5000)))
    a, b = (
        (draw.random.uniform(-most, most, shape) + most / 9).astype(np.float32).astype(dtype)
        for _ in range(2)
    )
    run, reference = _COMPOSITES[name]
    x, y = cp.asarray(a), cp.asarray(b)
    expected = np.asarray(reference(a.astype(np.float64), b.astype(np.float64), most))
    largest = float(abs(expected).max())

    def found() -> tuple[Host, ...]:
        return (run(x, y, most).get().astype(np.float64) / largest,)

    text = f"{name} of {dtype} {shape} up to {most}"
    return Case(text, found, (expected / largest,), 2 * _HALVES[dtype])


def narrow(draw: Draw) -> Case:
    """A sum or mean of integers, which wraps only where a short dtype is asked for."""
    dtype, wanted = draw.one(_WHOLE), draw.one(_WHOLE)
    ends = np.iinfo(dtype)
    size = int(draw.one((3, 40, 300)))
    a = draw.random.integers(ends.min, ends.max, (4, size), dtype, endpoint=True)
    index = draw.random.integers(0, 3, size)
    x, places = cp.asarray(a), cp.asarray(index)
    zeros = cp.zeros((4, 3), dtype)
    spread = cp.asarray(np.ascontiguousarray(np.broadcast_to(index, a.shape)))
    wide = a.astype(np.int64)
    name = draw.one(("sum", "prod", "cumsum", "mean", "scatter_reduce", "index_add", "einsum"))
    expected: Host
    run: Callable[[], Any]
    if name in ("sum", "prod", "cumsum"):
        expected = getattr(np, name)(a.astype(wanted), 1, dtype=wanted)
        run = lambda: getattr(ops, name)(x, axis=1, dtype=wanted)  # noqa: E731
    elif name == "mean":
        expected, run = wide.mean(1), lambda: ops.mean(x, 1, dtype=np.float32)
    elif name == "scatter_reduce":
        parts = [wide[:, index == n] for n in range(3)]
        means = [p.sum(1) // p.shape[1] if p.size else np.zeros(4, np.int64) for p in parts]
        expected = np.stack(means, 1)
        run = lambda: ops.scatter_reduce(  # noqa: E731
            zeros, 1, spread, x, "mean", include_self=False
        )
    elif name == "index_add":
        expected = np.stack([wide[:, index == n].sum(1) for n in range(3)], 1).astype(dtype)
        run = lambda: ops.index_add(zeros, 1, places, x)  # noqa: E731
    else:
        expected = wide.sum(1).astype(np.int32 if dtype.itemsize < 4 else dtype)
        run = lambda: ops.einsum("ij->i", x)  # noqa: E731
    text = f"{name} of {dtype} {a.shape}, dtype={wanted}"
    # A float32 mean of 300 numbers is off by a few units in its last place.
    return Case(text, lambda: (run().get(),), (expected,), 1e-6 if name == "mean" else 0.0)
