"""Operators that read or write at indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.errors import ShapeError
from clprim.onnx.operators.elementwise import string
from clprim.onnx.operators.shape import behind
from clprim.onnx.table import Known, Number, Run, Value, family, handler
from clprim.onnx.values import BOOL, BYTE, INT64
from clprim.ops.registry import OnnxOperator
from clprim.ops.shared.strings import places


@handler("Gather", both=True)
def _gather(context: Any, x: Any, index: Value, *, axis: int = 0) -> Any:
    if isinstance(x, np.ndarray):
        return np.asarray(np.take(x, index, axis))
    axis %= x.ndim
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    if isinstance(index, np.ndarray) and index.size == 1:
        return x[behind(axis, int(index.reshape(-1)[0]))].reshape(shape)
    return ops.index_select(x, axis, context.device(index).reshape(-1)).reshape(shape)


@family("combined", takes="reduction")
def _combined(known: OnnxOperator, inner: Run) -> Run:
    """Combined with what is there, if an attribute says how; truth values as bytes."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        how, dtype = told.get("reduction", "none"), arrays["x"].dtype
        if how == "none":
            return inner(context, arrays, told)
        if dtype == BOOL:
            arrays |= {name: arrays[name].astype(BYTE) for name in ("x", "src")}
        y = inner(context, arrays, told, function=ops.scatter_reduce, reduce=how)
        return y.astype(BOOL) if dtype == BOOL else y

    return run


@handler("TensorScatter")
def _tensor_scatter(
    context: Any, past: Any, update: Any, start: Value = None, *, axis: int = -2,
    mode: str = "linear",
) -> Any:  # fmt: skip
    axis %= past.ndim
    if mode == "linear":  # what only the device knows is written where there is a place
        first = start if isinstance(start, np.ndarray) else np.zeros(1, INT64)
        ends = first.min(), first.max() + update.shape[axis]
        if ends[0] < 0 or ends[1] > past.shape[axis]:
            raise ShapeError(f"places {ends[0]} to {ends[1]} of an axis of {past.shape[axis]}")
    start = context.device(start)
    at = f"long at = (long)coord({axis}) - {'0' if start is None else 'at_x2(coord(0))'};"
    if mode == "circular":
        at += f" at = ((at % (long)size({axis})) + (long)size({axis})) % (long)size({axis});"
    text = f"{at} y0 = at >= 0 && at < w0 ? at_x1({places(past.ndim, {axis: 'at'})}) : x0;"
    rest = [] if start is None else [start]
    return string(text, past.dtype, past, update, *rest, np.int64(update.shape[axis]))


@handler("OneHot")
def _one_hot(index: Any, depth: Number, values: Any, *, axis: int = -1) -> Any:
    axis += index.ndim + 1 if axis < 0 else 0
    before, after = index.shape[:axis], index.shape[axis:]
    text = f"""
        long at = (long)x0; at = at < 0 ? at + (long)size({axis}) : at;
        y0 = at == (long)coord({axis}) ? at_x1(1) : at_x1(0);"""
    index, shape = index.reshape((*before, 1, *after)), (*before, int(depth), *after)
    return string(text, values.dtype, index, values, shape=shape)


@handler("NonZero")
def _nonzero(x: Any) -> Any:
    return ops.nonzero(x if x.ndim else x.reshape(1)).transpose().astype(INT64)


@handler("Compress", moves=True)
def _compress(context: Any, x: Any, condition: Known, *, axis: int | None = None) -> Any:
    x = x.reshape(-1) if axis is None else x
    return ops.index_select(x, axis or 0, context.device(np.flatnonzero(condition).astype(INT64)))


@handler("Unique", makes=4)
def _unique(x: Any, *, axis: int | None = None, sorted: bool = True) -> Any:
    values, *rest = ops.unique(x, True, True, True, dim=axis, return_index=True)
    first, inverse, counts = (v.reshape(-1) for v in rest)
    if not sorted:  # in the order in which they occur
        order = ops.argsort(first)
        values = ops.index_select(values, axis or 0, order)
        first, counts = (ops.index_select(v, 0, order) for v in (first, counts))
        inverse = ops.index_select(ops.argsort(order), 0, inverse)
    return values, *(v.astype(INT64) for v in (first, inverse, counts))


@handler("ArrayFeatureExtractor", domain="ai.onnx.ml")
def _array_feature_extractor(x: Any, index: Any) -> Any:
    found = ops.index_select(x, x.ndim - 1, index.reshape(-1))
    return found.reshape((1, -1)) if x.ndim == 1 else found
