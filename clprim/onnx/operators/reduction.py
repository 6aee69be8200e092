"""Reductions: dtypes are kept, and an axis without elements gives what is neutral."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clprim import ops
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import Number, Numbers, handler
from clprim.onnx.values import BOOL, BYTE, INT64, filled, is_float
from clprim.primitives.reduction import Reduction


def _wide(x: Any) -> Any:
    """Integers as float64, of which roots and logarithms are taken."""
    return x if is_float(x.dtype) else x.astype(np.float64)


def _mean(x: Any, along: tuple[int, ...]) -> Any:
    if is_float(x.dtype):
        return ops.mean(x, along)
    count = math.prod(x.shape[d] for d in along)
    return string("y0 = x0 / w0;", x.dtype, ops.sum(x, along, dtype=x.dtype), count)


def _extreme(function: Any) -> Any:
    def run(x: Any, along: tuple[int, ...]) -> Any:
        return function(x.astype(BYTE) if x.dtype == BOOL else x, along)

    return run


_SUM: Any = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
_squares = Reduction("y0 = x0 * x0;", **_SUM, name="sum_of_squares")
_absolutes = Reduction("y0 = x0 < 0 ? -x0 : x0;", **_SUM, name="sum_of_absolutes")
_REDUCTIONS: dict[str, Any] = {
    "Sum": lambda x, d: ops.sum(x, d, dtype=x.dtype),
    "SumSquare": lambda x, d: _squares(x, axis=d),
    "L1": lambda x, d: _absolutes(x, axis=d),
    "L2": lambda x, d: ops.sqrt(_squares(_wide(x), axis=d)),
    "Prod": lambda x, d: ops.prod(x, d, dtype=x.dtype),
    "LogSum": lambda x, d: ops.log(ops.sum(x, d, dtype=x.dtype)),
    "LogSumExp": lambda x, d: ops.logsumexp(_wide(x), d),
    "Mean": _mean, "Max": _extreme(ops.amax), "Min": _extreme(ops.amin),
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


def _reduction(name: str) -> Any:
    def run(
        x: Any, axes: Numbers = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
    ) -> Any:
        if not axes and (noop_with_empty_axes or not x.ndim):
            return _REDUCTIONS[name](x.reshape((*x.shape, 1)), (x.ndim,)).astype(x.dtype)
        along = tuple(sorted(a % x.ndim for a in axes)) if axes else tuple(range(x.ndim))
        sizes = [1 if d in along else n for d, n in enumerate(x.shape)]
        shape = tuple(n for d, n in enumerate(sizes) if keepdims or d not in along)
        if math.prod(x.shape[d] for d in along) == 0:
            return filled(shape, _neutral(name, x.dtype), x.dtype)
        return _REDUCTIONS[name](x, along).astype(x.dtype).reshape(shape)

    return run


for _name in _REDUCTIONS:
    handler(f"Reduce{_name}")(_reduction(_name))


def _arg(function: Any) -> Any:
    def run(x: Any, *, axis: int = 0, keepdims: bool = True, select_last_index: int = 0) -> Any:
        return function(x, axis % x.ndim, keepdims=keepdims, select_last=bool(select_last_index))

    return run


handler("ArgMax")(_arg(ops.argmax))
handler("ArgMin")(_arg(ops.argmin))


def _scan(function: Any) -> Any:
    def run(x: Any, axis: Number, *, exclusive: bool = False, reverse: bool = False) -> Any:
        return function(x, axis, exclusive=exclusive, reverse=reverse, dtype=x.dtype)

    return run


handler("CumSum")(_scan(ops.cumsum))
handler("CumProd")(_scan(ops.cumprod))


@handler("TopK", idle="sorted", makes=2)
def _topk(x: Any, k: Number, *, axis: int = -1, largest: bool = True) -> Any:
    values, places = ops.topk(x, int(k), axis, largest, True)
    return values, places.astype(INT64)
