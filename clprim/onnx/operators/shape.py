"""Operators that move elements, and views."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import helper

from clprim import ops
from clprim.errors import ShapeError
from clprim.onnx.context import filled
from clprim.onnx.host import require_size, reshaped, shape_of, slices
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import INT64, uploaded


@handler("Shape", raw=True)
def _shape(context: Any, attributes: Any, x: Any) -> Any:
    return shape_of(x.shape, attributes)


@handler("Size", raw=True)
def _size(context: Any, attributes: Any, x: Any) -> Any:
    return np.array(math.prod(x.shape), INT64)


@handler("Reshape", host=(1,))
def _reshape(context: Any, attributes: Any, x: Any, shape: Any = None) -> Any:
    given = attributes["shape"] if shape is None else [int(n) for n in shape]
    return x.reshape(reshaped(x.shape, given, bool(attributes.get("allowzero"))))


@handler("Flatten")
def _flatten(context: Any, attributes: Any, x: Any) -> Any:
    axis = attributes["axis"] + (x.ndim if attributes["axis"] < 0 else 0)
    return x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@handler("Squeeze", host=(1,))
def _squeeze(context: Any, attributes: Any, x: Any, axes: Any = None) -> Any:
    given = attributes.get("axes") if axes is None else [int(a) for a in axes.reshape(-1)]
    chosen = range(x.ndim) if given is None else [a % x.ndim for a in given]
    if given is not None and any(x.shape[a] != 1 for a in chosen):
        raise ShapeError(f"axes {given} of shape {x.shape} are not of size 1")
    kept = [n for d, n in enumerate(x.shape) if not (d in chosen and n == 1)]
    return x.reshape(tuple(kept))


@handler("Unsqueeze", host=(1,))
def _unsqueeze(context: Any, attributes: Any, x: Any, axes: Any = None) -> Any:
    given = attributes["axes"] if axes is None else [int(a) for a in axes.reshape(-1)]
    ndim = x.ndim + len(given)
    places = {a % ndim for a in given}
    sizes = iter(x.shape)
    return x.reshape(tuple(1 if d in places else next(sizes) for d in range(ndim)))


@handler("Transpose")
def _transpose(context: Any, attributes: Any, x: Any) -> Any:
    return x.transpose(attributes.get("perm") or tuple(range(x.ndim))[::-1])


@handler("Expand", host=(1,))
def _expand(context: Any, attributes: Any, x: Any, shape: Any) -> Any:
    sizes = np.broadcast_shapes(x.shape, require_size(shape))
    return x if sizes == x.shape else string("y0 = x0;", x.dtype, x, shape=sizes)


@handler("Tile", host=(1, 2))
def _tile(context: Any, attributes: Any, x: Any, repeats: Any, axis: Any = None) -> Any:
    if axis is not None:  # before opset 6
        counts = [1] * x.ndim
        counts[int(axis)] = int(repeats)
        return ops.tile(x, tuple(counts))
    return ops.tile(x, tuple(int(n) for n in repeats)) if x.ndim else x


@handler("Concat")
def _concat(context: Any, attributes: Any, *parts: Any) -> Any:
    axis = attributes.get("axis", 1)
    some = [p for p in parts if p.size] or [parts[0]]
    if len(some) > 1:
        return ops.cat(some, axis)
    if len(some) < len(parts) and not some[0].size:
        shape = list(parts[0].shape)
        shape[axis] = sum(p.shape[axis] for p in parts)
        return filled(shape, 0, parts[0].dtype)
    return some[0]


@handler("Split", host=(1,))
def _split(context: Any, attributes: Any, x: Any, sizes: Any = None) -> Any:
    axis = attributes.get("axis", 0) % x.ndim
    given = attributes.get("split") if sizes is None else [int(n) for n in sizes]
    if given is None:
        count = attributes.get("num_outputs") or context.outputs
        each = -(-x.shape[axis] // count)
        given = [each] * (count - 1) + [x.shape[axis] - each * (count - 1)]
    if min(given, default=0) < 0 or sum(given) != x.shape[axis]:
        raise ShapeError(f"parts of sizes {given} of an axis of {x.shape[axis]}")
    before, found, start = (slice(None),) * axis, [], 0
    for size in given:
        part = slice(start, start + size)
        place = (*before, part)
        found.append(x[place])
        start += size
    return tuple(found)


@handler("Slice", host=(1, 2, 3, 4))
def _slice(context: Any, attributes: Any, x: Any, *given: Any) -> Any:
    if not given:
        where = attributes["starts"], attributes["ends"], attributes.get("axes")
        return x[slices(x.shape, *where)]
    return x[slices(x.shape, *(None if g is None else [int(n) for n in g] for g in given))]


@handler("DepthToSpace")
def _depth_to_space(context: Any, attributes: Any, x: Any) -> Any:
    return ops.depth_to_space(x, attributes["blocksize"], attributes.get("mode", "DCR"))


@handler("SpaceToDepth")
def _space_to_depth(context: Any, attributes: Any, x: Any) -> Any:
    if attributes.get("mode", "DCR") == "DCR":
        return ops.space_to_depth(x, attributes["blocksize"])
    return ops.space_to_depth(x, attributes["blocksize"], "CRD")


@handler("Trilu", host=(1,))
def _trilu(context: Any, attributes: Any, x: Any, k: Any = None) -> Any:
    diagonal = 0 if k is None else int(k.reshape(-1)[0])
    side = "<=" if not attributes["upper"] else ">="
    row, column = x.ndim - 2, x.ndim - 1
    text = f"y0 = (long)coord({column}) - (long)coord({row}) {side} w0 ? x0 : 0;"
    return string(text, x.dtype, x, np.int64(diagonal))


@handler("EyeLike", raw=True)
def _eye_like(context: Any, attributes: Any, x: Any) -> Any:
    kind = attributes.get("dtype")
    dtype = x.dtype if kind is None else helper.tensor_dtype_to_np_dtype(kind)
    text = "y0 = (long)coord(1) - (long)coord(0) == w0 ? 1 : 0;"
    return string(text, dtype, np.int64(attributes["k"]), shape=x.shape)


@handler("Range", host=(0, 1, 2))
def _range(context: Any, attributes: Any, start: Any, limit: Any, delta: Any) -> Any:
    first, end, step = (v.reshape(-1)[0] for v in (start, limit, delta))
    count = max(0, math.ceil((float(end) - float(first)) / float(step)))
    require_size([count])
    return string("y0 = w0 + coord(0) * w1;", start.dtype, first, step, shape=(count,))


@handler("ConstantOfShape", host=(0,))
def _constant_of_shape(context: Any, attributes: Any, shape: Any) -> Any:
    value = attributes.get("value")
    value = np.zeros(1, np.float32) if value is None else value
    return filled(require_size(shape), value.reshape(-1)[0], value.dtype)


@handler("ConstantFill")
def _constant_fill(context: Any, attributes: Any, x: Any) -> Any:
    return filled(x.shape, attributes.get("value", 0.0), np.float32)


@handler("Constant", raw=True)
def _constant(context: Any, attributes: Any) -> Any:
    from clprim.onnx.model import _constant as constant

    return uploaded(constant(attributes, context.step.label))


@handler("ReverseSequence", host=(1,))
def _reverse_sequence(context: Any, attributes: Any, x: Any, lengths: Any) -> Any:
    batch, time = attributes["batch_axis"], attributes["time_axis"]
    place = ", ".join(
        "t < n ? n - 1 - t : t" if d == time else f"coord({d})" for d in range(x.ndim)
    )
    text = f"long t = coord({time}), n = at_x1(coord({batch})); y0 = at_x0({place});"
    return string(text, x.dtype, x, uploaded(lengths), shape=x.shape)


@handler("CenterCropPad", host=(1,))
def _center_crop_pad(context: Any, attributes: Any, x: Any, shape: Any) -> Any:
    axes = [a % x.ndim for a in attributes.get("axes") or range(x.ndim)]
    index, borders = [slice(None)] * x.ndim, [(0, 0)] * x.ndim
    for axis, size in zip(axes, map(int, shape), strict=True):
        n = x.shape[axis]
        if n > size:
            start = (n - size) // 2
            index[axis] = slice(start, start + size)
        else:
            borders[axis] = (size - n) // 2, size - n - (size - n) // 2
    flat = [n for pair in borders[::-1] for n in pair]
    return ops.pad(x[tuple(index)], flat)
