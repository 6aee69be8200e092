"""Operators that move elements, and views: of arrays of the device and of the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim import ops
from clprim.errors import ShapeError
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import Known, Number, Numbers, Value, handler
from clprim.onnx.values import BOOL, BYTE, INT64, dtype_of
from clprim.ops.shared.strings import places

# Elements of an array that the host makes; what is larger is the device's.
MOST = 1 << 24
ZERO = np.zeros(1, np.float32)


def require_size(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns a shape as a tuple."""
    found = tuple(int(n) for n in shape)
    if any(n < 0 for n in found) or math.prod(found) > 1 << 33:
        raise ShapeError(f"an array of shape {found}")
    return found


def behind(axis: int, place: Any) -> tuple[Any, ...]:
    """Returns an index of one axis."""
    return *[slice(None)] * axis, place


@handler("Shape", both=True)
def _shape(x: Value, *, start: int = 0, end: int | None = None) -> Any:
    return np.array(x.shape[start:end], INT64)


@handler("Size", both=True)
def _size(x: Value) -> Any:
    return np.array(math.prod(x.shape), INT64)


@handler("Reshape", both=True)
def _reshape(x: Any, shape: Numbers, *, allowzero: bool = False) -> Any:
    if not allowzero:
        shape = [x.shape[d] if n == 0 else n for d, n in enumerate(shape)]
    return x.reshape(tuple(shape))


@handler("Flatten", both=True)
def _flatten(x: Any, *, axis: int = 1) -> Any:
    axis += x.ndim if axis < 0 else 0
    return x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@handler("Squeeze", both=True)
def _squeeze(x: Any, axes: Numbers = None) -> Any:
    chosen = range(x.ndim) if axes is None else [a % x.ndim for a in axes]
    if axes is not None and any(x.shape[a] != 1 for a in chosen):
        raise ShapeError(f"axes {axes} of shape {x.shape} are not of size 1")
    return x.reshape(tuple(n for d, n in enumerate(x.shape) if n != 1 or d not in chosen))


@handler("Unsqueeze", both=True)
def _unsqueeze(x: Any, axes: Numbers) -> Any:
    ndim = x.ndim + len(axes)
    places, sizes = {a % ndim for a in axes}, iter(x.shape)
    return x.reshape(tuple(1 if d in places else next(sizes) for d in range(ndim)))


@handler("Transpose", both=True)
def _transpose(x: Any, *, perm: Any = None) -> Any:
    return x.transpose(perm or tuple(range(x.ndim))[::-1])


@handler("Expand", both=True)
def _expand(x: Any, shape: Numbers) -> Any:
    sizes = np.broadcast_shapes(x.shape, require_size(shape))
    if isinstance(x, np.ndarray) and math.prod(sizes) <= MOST:
        return np.array(np.broadcast_to(x, sizes))
    return x if sizes == x.shape else string("y0 = x0;", x.dtype, x, shape=sizes)


@handler("Tile", both=True)
def _tile(x: Any, repeats: Numbers, tiles: Number = None) -> Any:
    if tiles is not None:  # before opset 6: how often, along which axis
        repeats = [repeats[0] if d == tiles else 1 for d in range(x.ndim)]
    require_size([n * r for n, r in zip(x.shape, repeats, strict=True)])
    return (np if isinstance(x, np.ndarray) else ops).tile(x, tuple(repeats)) if x.ndim else x


@handler("Split", both=True, makes=None)
def _split(
    context: Any, x: Any, split: Numbers = None, *, axis: int = 0, num_outputs: int = 0
) -> Any:
    axis %= x.ndim
    size, count = x.shape[axis], num_outputs or len(context.step.outputs)
    if split is None:
        each = -(-size // count)
        split = [each] * (count - 1) + [size - each * (count - 1)]
    if min(split, default=0) < 0 or sum(split) != size:
        raise ShapeError(f"parts of sizes {split} of an axis of {size}")
    ends = np.cumsum([0, *split]).tolist()
    return tuple(x[behind(axis, slice(*ends[n : n + 2]))] for n in range(len(split)))


@handler("Slice", both=True)
def _slice(
    x: Any, starts: Numbers, ends: Numbers, axes: Numbers = None, steps: Numbers = None
) -> Any:
    found = [slice(None)] * x.ndim
    axes, steps = axes or range(len(starts)), steps or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        n = x.shape[axis]
        if step < 0:  # the end may be before the first element, which no index of Python's is
            first, last = (min(max(at + n if at < 0 else at, -1), n - 1) for at in (start, end))
            found[axis] = slice(max(first, 0), None if last < 0 <= first else last, step)
        else:
            found[axis] = slice(start, end, step)
    return x[tuple(found)]


@handler("ConstantOfShape", both=True)
def _constant_of_shape(shape: Numbers, *, value: Any = ZERO) -> Any:
    sizes, one = require_size(shape), value.reshape(-1)[0]
    if math.prod(sizes) > MOST:
        raise ShapeError(f"a constant of shape {sizes}")
    return np.full(sizes, one, value.dtype)


@handler("Range", both=True)
def _range(start: Known, limit: Known, delta: Known) -> Any:
    first, end, step = (v.reshape(-1)[0] for v in (start, limit, delta))
    if not step or abs((float(end) - float(first)) / float(step)) > MOST:
        raise ShapeError(f"a range from {first} to {end} by {step}")
    count = max(0, math.ceil((float(end) - float(first)) / float(step)))
    wide = start.dtype if start.dtype.kind in "iu" else np.dtype(np.float64)
    return (wide.type(first) + np.arange(count, dtype=wide) * wide.type(step)).astype(start.dtype)


@handler("EyeLike")
def _eye_like(x: Value, *, dtype: int | None = None, k: int = 0) -> Any:
    text = "y0 = (long)coord(1) - (long)coord(0) == w0 ? 1 : 0;"
    return string(text, dtype_of(dtype, x.dtype), np.int64(k), shape=x.shape)


@handler("Trilu")
def _trilu(x: Any, k: Number = 0, *, upper: bool = True) -> Any:
    return (ops.triu if upper else ops.tril)(x, k)


@handler("ReverseSequence")
def _reverse_sequence(x: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    time, n = f"coord({time_axis})", f"at_x1(coord({batch_axis}))"
    place = places(x.ndim, {time_axis: "t < n ? n - 1 - t : t"})
    text = f"long t = {time}, n = {n}; y0 = at_x0({place});"
    return string(text, x.dtype, x, lengths, shape=x.shape)


@handler("Pad")
def _pad(
    x: Any, pads: Numbers = None, value: Number = None, axes: Numbers = None, *,
    mode: str = "constant", paddings: Any = None,
) -> Any:  # fmt: skip
    pads = paddings if pads is None else pads
    chosen = range(x.ndim) if axes is None else [a % x.ndim for a in axes]
    half, borders = len(pads) // 2, [(0, 0)] * x.ndim
    for axis, before, after in zip(chosen, pads[:half], pads[half:], strict=True):
        borders[axis] = before, after
    mode = {"edge": "replicate", "wrap": "circular"}.get(mode, mode)
    return padded(x, borders, mode, 0 if value is None else value)


def padded(x: Any, borders: Sequence[Any], mode: str = "constant", fill: Any = 0) -> Any:
    """Returns an array with borders before and after each dimension, as `clprim.ops.pad` does."""
    flat = [n for pair in borders[::-1] for n in pair]
    if not any(flat):
        return x
    if x.dtype == BOOL:
        return padded(x.astype(BYTE), borders, mode, int(fill > 0)).astype(BOOL)
    return ops.pad(x, flat, mode, fill if mode == "constant" else None)
