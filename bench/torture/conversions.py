"""Real numbers that become integers: what docs/language.md promises, in order, in views, alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import clprim as cp
from bench.torture.draw import Draw, Host

INTEGERS = "int8 uint8 int16 uint16 int32 uint32 int64 uint64".split()
_SPECIAL = (np.nan, np.inf, -np.inf, -0.0, -5, 300, 2.0**31, 2.0**63, 1.5 * 2.0**63, 2.0**64)
_DOORS: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("astype", lambda x, t: x.astype(t)),
    ("y0 = x0;", lambda x, t: cp.Pointwise("y0 = x0;", result_type=t)(x)),
    ("y0 = (typeof_y0)x0;", lambda x, t: cp.Pointwise("y0 = (typeof_y0)x0;", result_type=t)(x)),
    ("y0 += x0;", lambda x, t: cp.Pointwise("y0 += x0;", result_type=t)(x)),
)


def wrapped(values: Host, dtype: Any) -> Host:
    """Returns what real numbers become as integers of a dtype."""
    dtype = np.dtype(dtype)
    bits = 64 if dtype.name in ("uint32", "int64", "uint64") else 32
    found = []
    for v in values.astype(np.float64).ravel():
        if dtype == np.uint64 and v >= 2.0**63:
            found.append(int(v) if v < 2.0**64 else 0)
        else:
            found.append(int(v) if abs(v) < 2.0 ** (bits - 1) else -(2 ** (bits - 1)))
    low = np.array(found, object) & (2 ** (8 * dtype.itemsize) - 1)
    return low.astype(np.uint64).astype(dtype).reshape(values.shape)


def conversion(draw: Draw) -> tuple[str, Callable[[], tuple[Host, ...]], tuple[Host, ...]]:
    """Returns a case's text, what runs it, and what comes of each number."""
    text, convert = draw.one(_DOORS)
    doubles = ("float64",) if cp.current_device().traits.fp64 else ()
    source, dtype = draw.one(("float32", "float32", "float16", *doubles)), draw.one(INTEGERS)
    count, step = int(draw.random.integers(1, 80)), int(draw.one((1, 1, 2, -1, -3)))
    numbers = draw.random.normal(size=count) * 10.0 ** draw.random.integers(0, 22, count)
    special = draw.random.random(count) < 0.3
    numbers[special] = draw.random.choice(_SPECIAL, int(special.sum()))
    if draw.chance(0.3):
        numbers[:] = numbers[0]
    with np.errstate(over="ignore"):
        host = np.repeat(numbers.astype(source), abs(step))
    view = cp.asarray(host)[::step]
    expected = wrapped(host[::step], dtype)
    return f"{text} of {source} as {dtype}", lambda: (convert(view, dtype).get(),), (expected,)
