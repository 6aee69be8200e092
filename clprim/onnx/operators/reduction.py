"""Reductions: dtypes are kept, and an axis without elements gives what is neutral."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clprim import ops
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import Handler, Number, Numbers, family, handler
from clprim.onnx.values import BOOL, BYTE, filled, is_float
from clprim.ops.registry import OnnxOperator
from clprim.primitives.reduction import Reduction


def _wide(x: Any) -> Any:
    """Integers as float64, of which roots and logarithms are taken."""
    return x if is_float(x.dtype) else x.astype(np.float64)


def _mean(x: Any, along: tuple[int, ...]) -> Any:
    if is_float(x.dtype):
        return ops.mean(x, along)
    count = math.prod(x.shape[d] for d in along)
    return string("y0 = x0 / w0;", x.dtype, ops.sum(x, along, dtype=x.dtype), count)


_SUM: Any = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
_squares = Reduction("y0 = x0 * x0;", **_SUM, name="sum_of_squares")
_absolutes = Reduction("y0 = x0 < 0 ? -x0 : x0;", **_SUM, name="sum_of_absolutes")
_REDUCTIONS: dict[str, Any] = {
    "SumSquare": lambda x, d: _squares(x, axis=d),
    "L1": lambda x, d: _absolutes(x, axis=d),
    "L2": lambda x, d: ops.sqrt(_squares(_wide(x), axis=d)),
    "LogSum": lambda x, d: ops.log(ops.sum(x, d, dtype=x.dtype)),
    "Mean": _mean,
}  # fmt: skip


def _neutral(name: str, dtype: Any) -> Any:
    if name in ("Max", "Min"):
        if dtype == BOOL:
            return name == "Min"
        if is_float(dtype):
            return math.inf if name == "Min" else -math.inf
        return np.iinfo(dtype).max if name == "Min" else np.iinfo(dtype).min
    mean = math.nan if is_float(dtype) else 0
    return {"Prod": 1, "LogSum": -math.inf, "LogSumExp": -math.inf, "Mean": mean}.get(name, 0)


def _reduction(name: str, function: Any) -> Handler:
    def run(
        x: Any, axes: Numbers = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
    ) -> Any:
        if not axes and (noop_with_empty_axes or not x.ndim):
            return function(x.reshape((*x.shape, 1)), (x.ndim,)).astype(x.dtype)
        along = tuple(sorted(a % x.ndim for a in axes)) if axes else tuple(range(x.ndim))
        sizes = [1 if d in along else n for d, n in enumerate(x.shape)]
        shape = tuple(n for d, n in enumerate(sizes) if keepdims or d not in along)
        if math.prod(x.shape[d] for d in along) == 0:
            return filled(shape, _neutral(name, x.dtype), x.dtype)
        return function(x, along).astype(x.dtype).reshape(shape)

    return run


for _name, _function in _REDUCTIONS.items():
    handler(f"Reduce{_name}")(_reduction(_name, _function))


@family("reduction")
def _of_record(known: OnnxOperator) -> Handler:
    """Of records whose operator keeps a dtype, or is told to."""

    def along(x: Any, axes: tuple[int, ...]) -> Any:
        return known.function(x.astype(BYTE) if x.dtype == BOOL else x, axes)

    def summed(x: Any, axes: tuple[int, ...]) -> Any:
        return known.function(x, axes, dtype=x.dtype)

    def of_floats(x: Any, axes: tuple[int, ...]) -> Any:
        return known.function(_wide(x), axes)

    how = {"wide": of_floats, "dtype": summed}
    found = next((how[flag] for flag in known.flags if flag in how), along)
    return _reduction(known.name.removeprefix("Reduce"), found)


@family("scan")
def _scan(known: OnnxOperator) -> Handler:
    def run(x: Any, axis: Number, *, exclusive: bool = False, reverse: bool = False) -> Any:
        return known.function(x, axis, exclusive=exclusive, reverse=reverse, dtype=x.dtype)

    return run
