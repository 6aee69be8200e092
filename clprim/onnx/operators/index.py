"""Operators that read or write at indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import BOOL, BYTE, INT64


@handler("Gather", raw=True)
def _gather(context: Any, attributes: Any, x: Any, index: Any) -> Any:
    stored = getattr(x, "codes", None)
    array = context.device(x) if stored is None else stored
    axis = attributes["axis"] % array.ndim
    if isinstance(index, np.ndarray) and index.size == 1:
        at = int(index.reshape(-1)[0])
        before = (slice(None),) * axis
        place = (*before, at)
        found = array[place]
        found = found.reshape((*array.shape[:axis], *index.shape, *array.shape[axis + 1 :]))
    else:
        places = context.device(index)
        found = ops.index_select(array, axis, places.reshape(-1))
        found = found.reshape((*array.shape[:axis], *places.shape, *array.shape[axis + 1 :]))
    return found if stored is None else type(x)(found, x.dtype)


@handler("GatherElements")
def _gather_elements(context: Any, attributes: Any, x: Any, index: Any) -> Any:
    return ops.gather(x, attributes["axis"], index)


_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@handler("ScatterElements", "Scatter")
def _scatter_elements(context: Any, attributes: Any, x: Any, index: Any, updates: Any) -> Any:
    return _scattered(x, attributes["axis"], index, updates, attributes.get("reduction", "none"))


def _scattered(x: Any, axis: int, index: Any, updates: Any, how: str) -> Any:
    if how == "none":
        return ops.scatter(x, axis, index, updates)
    if x.dtype == BOOL:
        found = _scattered(x.astype(BYTE), axis, index, updates.astype(BYTE), how)
        return found.astype(BOOL)
    return ops.scatter_reduce(x, axis, index, updates, _REDUCE[how])


@handler("ScatterND")
def _scatter_nd(context: Any, attributes: Any, x: Any, index: Any, updates: Any) -> Any:
    return ops.scatter_nd(x, index, updates, _REDUCE.get(attributes.get("reduction", "none")))


@handler("TensorScatter")
def _tensor_scatter(
    context: Any, attributes: Any, past: Any, update: Any, start: Any = None
) -> Any:
    axis, length = attributes.get("axis", -2) % past.ndim, update.shape[attributes.get("axis", -2)]
    begin = "at_x2(coord(0))" if start is not None else "0"
    inside = ", ".join("at" if d == axis else f"coord({d})" for d in range(past.ndim))
    at = f"long at = (long)coord({axis}) - {begin};"
    if attributes.get("mode", "linear") == "circular":
        at += f" at = ((at % (long)size({axis})) + (long)size({axis})) % (long)size({axis});"
    text = f"{at} y0 = at >= 0 && at < w0 ? at_x1({inside}) : x0;"
    rest = [] if start is None else [start]
    return string(text, past.dtype, past, update, *rest, np.int64(length))


@handler("OneHot", host=(1,))
def _one_hot(context: Any, attributes: Any, index: Any, depth: Any, values: Any) -> Any:
    axis = attributes["axis"] + (index.ndim + 1 if attributes["axis"] < 0 else 0)
    count = int(depth.reshape(-1)[0])
    shape = (*index.shape[:axis], count, *index.shape[axis:])
    places = index.reshape((*index.shape[:axis], 1, *index.shape[axis:]))
    text = f"""
        long at = (long)x0; at = at < 0 ? at + (long)size({axis}) : at;
        y0 = at == (long)coord({axis}) ? at_x1(1) : at_x1(0);"""
    return string(text, values.dtype, places, values, shape=shape)


@handler("NonZero")
def _nonzero(context: Any, attributes: Any, x: Any) -> Any:
    if x.ndim == 0:
        x = x.reshape(1)
    found = ops.nonzero(x)
    return found.transpose().astype(INT64)


@handler("Compress", host=(1,))
def _compress(context: Any, attributes: Any, x: Any, condition: Any) -> Any:
    axis = attributes.get("axis")
    x = x.reshape(-1) if axis is None else x
    places = np.flatnonzero(condition).astype(np.int64)
    return ops.index_select(x, axis or 0, context.device(places))


@handler("Unique")
def _unique(context: Any, attributes: Any, x: Any) -> Any:
    axis = attributes.get("axis")
    values, inverse, counts = ops.unique(x, True, True, True, dim=axis)
    inverse = inverse.reshape(-1)
    n, total = counts.shape[0], inverse.shape[0]
    line = string("y0 = coord(0);", INT64, shape=(total,))
    start = string("y0 = w0;", INT64, np.int64(total), shape=(n,))
    first = ops.scatter_reduce(start, 0, inverse, line, "amin")
    if not attributes["sorted"]:
        order = ops.argsort(first)
        values = ops.index_select(values, axis or 0, order)
        first, counts = (ops.index_select(v, 0, order) for v in (first, counts))
        inverse = ops.index_select(ops.argsort(order), 0, inverse)
    return values, *(v.astype(INT64) for v in (first, inverse, counts))


@handler("ArrayFeatureExtractor", domain="ai.onnx.ml")
def _array_feature_extractor(context: Any, attributes: Any, x: Any, index: Any) -> Any:
    found = ops.index_select(x, x.ndim - 1, index.reshape(-1))
    return found.reshape((1, -1)) if x.ndim == 1 else found
