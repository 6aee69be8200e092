"""Reductions: dtypes are kept, and an axis without elements gives what is neutral."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clprim import ops
from clprim.onnx.table import Run, family, listed
from clprim.onnx.values import BOOL, BYTE, filled, is_float
from clprim.ops.registry import OnnxOperator, add_onnx
from clprim.primitives.reduction import Reduction

_SUM: Any = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
_squares = Reduction("y0 = x0 * x0;", **_SUM, name="sum_of_squares")
_absolutes = Reduction("y0 = x0 < 0 ? -x0 : x0;", **_SUM, name="sum_of_absolutes")
add_onnx("ReduceSumSquare(x, axes: Numbers) @reduction", _squares)
add_onnx("ReduceL1(x, axes: Numbers) @reduction", _absolutes)
add_onnx(
    "ReduceL2(x, axes: Numbers) @reduction @wide", lambda x, axis: ops.sqrt(_squares(x, axis=axis))
)
add_onnx(
    "ReduceLogSum(x, axes: Numbers) @reduction @dtype",
    lambda *x, **how: ops.log(ops.sum(*x, **how)),
)


def _neutral(name: str, dtype: Any) -> Any:
    if name in ("Max", "Min"):
        if dtype == BOOL:
            return name == "Min"
        if is_float(dtype):
            return math.inf if name == "Min" else -math.inf
        return np.iinfo(dtype).max if name == "Min" else np.iinfo(dtype).min
    mean = math.nan if is_float(dtype) else 0
    return {"Prod": 1, "LogSum": -math.inf, "LogSumExp": -math.inf, "Mean": mean}.get(name, 0)


@family("wide")
def _wide(known: OnnxOperator, inner: Run) -> Run:
    """Of integers as float64, of which roots and logarithms are taken."""

    def run(context: Any, arrays: Any, told: Any, **more: Any) -> Any:
        (x,) = arrays
        return inner(context, [x if is_float(x.dtype) else x.astype(np.float64)], told, **more)

    return run


@family("reduction", takes="keepdims noop_with_empty_axes")
def _reduction(known: OnnxOperator, inner: Run) -> Run:
    """Along axes that are an input or an attribute, in the array's dtype."""
    name = known.name.removeprefix("Reduce")

    def run(context: Any, arrays: Any, told: Any) -> Any:
        x, axes = arrays["x"], arrays.get("axes")
        numbers, dtype = x.astype(BYTE) if x.dtype == BOOL else x, x.dtype
        if not axes and (told.get("noop_with_empty_axes") or not x.ndim):
            numbers = numbers.reshape((*x.shape, 1))
            return inner(context, [numbers], {}, axis=(x.ndim,)).astype(dtype)
        along = tuple(sorted(a % x.ndim for a in axes)) if axes else tuple(range(x.ndim))
        sizes = [1 if d in along else n for d, n in enumerate(x.shape)]
        shape = tuple(n for d, n in enumerate(sizes) if told.get("keepdims", 1) or d not in along)
        if math.prod(x.shape[d] for d in along) == 0:
            return filled(shape, _neutral(name, dtype), dtype)
        return inner(context, [numbers], {}, axis=along).astype(dtype).reshape(shape)

    return run


@family("pixels")
def _pixels(known: OnnxOperator, inner: Run) -> Run:
    """Of all pixels of a channel."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        (x,) = listed(arrays)
        return inner(context, [x], {}, axis=tuple(range(2, x.ndim)), keepdims=True)

    return run
