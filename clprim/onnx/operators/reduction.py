"""Reductions: dtypes are kept, and an axis without elements gives what is neutral."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clprim import ops
from clprim.onnx.context import filled
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import BOOL, BYTE, INT64, is_float
from clprim.reduction import Reduction

_SUM: Any = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
_STRINGS = {
    "ReduceSum": Reduction("y0 = x0;", **_SUM, name="reduce_sum"),
    "ReduceSumSquare": Reduction("y0 = x0 * x0;", **_SUM, name="reduce_sum_square"),
    "ReduceL1": Reduction("y0 = x0 < 0 ? -x0 : x0;", **_SUM, name="reduce_l1"),
    "ReduceProd": Reduction(
        "y0 = x0;", init="reduce_y0 = 1;", step="reduce_y0 *= y0;", name="reduce_prod"
    ),
}
_ROOT = Reduction(
    "y0 = x0 * x0;", **_SUM, finalize="y0 = sqrt((float)reduce_y0);", name="reduce_l2"
)
_ROOT64 = Reduction(
    "y0 = x0 * x0;", **_SUM, finalize="y0 = sqrt((double)reduce_y0);", name="reduce_l2"
)
_NEUTRAL = {"ReduceProd": 1, "ReduceLogSum": -math.inf, "ReduceLogSumExp": -math.inf}


@handler("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
         "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", host=(1,))  # fmt: skip
def _reduce(context: Any, attributes: Any, x: Any, axes: Any = None) -> Any:
    name = context.step.name
    given = attributes.get("axes") if axes is None else [int(a) for a in axes.reshape(-1)]
    keep = bool(attributes.get("keepdims", 1))
    if not given and attributes.get("noop_with_empty_axes"):
        found = _reduced(name, x.reshape((*x.shape, 1)), (x.ndim,))
        return found.reshape(x.shape)
    along = tuple(sorted(a % x.ndim for a in given)) if given else tuple(range(x.ndim))
    shape = tuple(1 if d in along else n for d, n in enumerate(x.shape) if keep or d not in along)
    if not along:
        return _reduced(name, x.reshape(1), (0,)).reshape(shape)
    if math.prod(x.shape[d] for d in along) == 0:
        return filled(shape, _neutral(name, x.dtype), x.dtype)
    return _reduced(name, x, along).reshape(shape)


def _neutral(name: str, dtype: Any) -> Any:
    if name not in ("ReduceMax", "ReduceMin"):
        return _NEUTRAL.get(name, math.nan if name == "ReduceMean" and is_float(dtype) else 0)
    least = name == "ReduceMax"
    if dtype == BOOL:
        return not least
    if is_float(dtype):
        return -math.inf if least else math.inf
    return np.iinfo(dtype).min if least else np.iinfo(dtype).max


def _reduced(name: str, x: Any, along: tuple[int, ...]) -> Any:
    dtype = x.dtype
    if name in ("ReduceMax", "ReduceMin"):
        of = ops.amax if name == "ReduceMax" else ops.amin
        return of(x.astype(BYTE), along).astype(BOOL) if dtype == BOOL else of(x, along)
    if name == "ReduceMean":
        if is_float(dtype):
            return ops.mean(x, along)
        count = math.prod(x.shape[d] for d in along)
        return string("y0 = x0 / w0;", dtype, ops.sum(x, along, dtype=dtype), count)
    if name == "ReduceLogSumExp":
        found = ops.logsumexp(x if is_float(dtype) else x.astype(np.float64), along)
        return found.astype(dtype)
    if name == "ReduceLogSum":
        return ops.log(ops.sum(x, along, dtype=dtype)).astype(dtype)
    if name == "ReduceL2":
        if dtype.kind in "iu":
            return _ROOT64(x.astype(np.float64), axis=along).astype(dtype)
        return (_ROOT64 if dtype == np.float64 else _ROOT)(x, axis=along)
    if name == "ReduceSum":
        return ops.sum(x, along, dtype=dtype)
    found = _STRINGS[name](x, axis=along)
    return found if found.dtype == dtype else found.astype(dtype)


@handler("ArgMax", "ArgMin")
def _arg(context: Any, attributes: Any, x: Any) -> Any:
    of = ops.argmax if context.step.name == "ArgMax" else ops.argmin
    axis, keep = attributes["axis"] % x.ndim, bool(attributes["keepdims"])
    return of(x, axis, keepdims=keep, select_last=bool(attributes.get("select_last_index")))


@handler("CumSum", "CumProd", host=(1,))
def _cumulative(context: Any, attributes: Any, x: Any, axis: Any) -> Any:
    of = ops.cumsum if context.step.name == "CumSum" else ops.cumprod
    exclusive, reverse = bool(attributes["exclusive"]), bool(attributes["reverse"])
    at = int(axis.reshape(-1)[0])
    return of(x, at, exclusive=exclusive, reverse=reverse, dtype=x.dtype)


@handler("TopK", host=(1,))
def _topk(context: Any, attributes: Any, x: Any, k: Any = None) -> Any:
    count = attributes["k"] if k is None else int(k.reshape(-1)[0])
    axis, largest = attributes.get("axis", -1), bool(attributes.get("largest", 1))
    values, places = ops.topk(x, count, axis, largest, True)
    return values, places.astype(INT64)


@handler("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global(context: Any, attributes: Any, x: Any) -> Any:
    name, along = context.step.name, tuple(range(2, x.ndim))
    if name == "GlobalAveragePool":
        return ops.mean(x, along, keepdims=True)
    if name == "GlobalMaxPool":
        return ops.amax(x, along, keepdims=True)
    p = attributes["p"]
    powers = string("y0 = pow(fabs(x0), (typeof_x0)w0);", x.dtype, x, float(p))
    total = ops.sum(powers, along, keepdims=True)
    return string("y0 = pow(x0, (typeof_x0)w0);", x.dtype, total, 1 / p)
