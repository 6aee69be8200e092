"""Shape arithmetic by NumPy: operators whose inputs are all on the host, and small."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper

from clprim.errors import ShapeError
from clprim.onnx.table import on_host

Host = np.ndarray[Any, Any]
_INT64 = np.dtype(np.int64)
# Elements of a result: what is larger is the device's.
MOST = 1 << 24


def require_size(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns a shape as a tuple.

    Raises:
        ShapeError: A negative size, or more elements than any array has.
    """
    found = tuple(int(n) for n in shape)
    if any(n < 0 for n in found) or math.prod(found) > 1 << 33:
        raise ShapeError(f"an array of shape {found}")
    return found


def _plain(name: str, function: Callable[..., Any]) -> None:
    @on_host(name)
    def run(version: int, attributes: dict[str, Any], *inputs: Host) -> Host:
        with np.errstate(all="ignore"):
            return np.asarray(function(*inputs))


_PLAIN: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Equal": np.equal, "Less": np.less,
    "Greater": np.greater, "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal,
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Not": np.logical_not,
    "Neg": np.negative, "Abs": np.abs, "Floor": np.floor, "Ceil": np.ceil, "Sqrt": np.sqrt,
    "Sign": np.sign, "Where": np.where, "Identity": lambda x: x,
    "Size": lambda x: np.array(x.size, _INT64),
}  # fmt: skip
for _name, _function in _PLAIN.items():
    _plain(_name, _function)


@on_host("Div")
def _div(version: int, attributes: Any, a: Host, b: Host) -> Host:
    if a.dtype.kind in "iu":
        if not np.all(b):
            raise ShapeError("a division by zero")
        return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)
    with np.errstate(all="ignore"):
        return np.asarray(a / b).astype(a.dtype)


@on_host("Mod")
def _mod(version: int, attributes: Any, a: Host, b: Host) -> Host:
    if a.dtype.kind in "iu" and not np.all(b):
        raise ShapeError("a division by zero")
    return np.asarray((np.fmod if attributes.get("fmod") else np.mod)(a, b))


@on_host("Pow")
def _pow(version: int, attributes: Any, a: Host, b: Host) -> Host:
    return np.asarray(np.power(a.astype(float), b)).astype(a.dtype)


def _variadic(name: str, function: Any) -> None:
    @on_host(name)
    def run(version: int, attributes: Any, first: Host, *others: Host) -> Host:
        for other in others:
            first = np.asarray(function(first, other))
        return first


_variadic("Max", np.maximum)
_variadic("Min", np.minimum)
_variadic("Sum", np.add)


@on_host("Cast")
def _cast(version: int, attributes: Any, x: Host) -> Any:
    dtype = helper.tensor_dtype_to_np_dtype(attributes["to"])
    if dtype.kind == "O" and x.dtype.kind != "O":
        texts = [str(v) if x.dtype.kind in "iub" else f"{v:.9g}" for v in x.flat]
        return np.array([_text(t) for t in texts], object).reshape(x.shape)
    with np.errstate(all="ignore"):
        return np.asarray(x.astype(dtype))


def _text(text: str) -> str:
    return {"nan": "NaN", "inf": "INF", "-inf": "-INF"}.get(text, text)


@on_host("CastLike")
def _cast_like(version: int, attributes: Any, x: Host, like: Host) -> Any:
    return _cast(version, {"to": helper.np_dtype_to_tensor_dtype(like.dtype)}, x)


@on_host("Shape")
def _shape(version: int, attributes: Any, x: Host) -> Any:
    return shape_of(x.shape, attributes)


def shape_of(shape: tuple[int, ...], attributes: Any) -> Host:
    """Returns a part of a shape, as the operator Shape does."""
    n = len(shape)
    start, end = (
        min(max(at + n if at < 0 else at, 0), n)
        for at in (attributes.get("start", 0), attributes.get("end", n))
    )
    return np.array(shape[start:end], _INT64)


@on_host("Concat")
def _concat(version: int, attributes: Any, *parts: Host) -> Host:
    return np.concatenate(parts, attributes.get("axis", 1))


@on_host("Gather")
def _gather(version: int, attributes: Any, x: Host, index: Host) -> Host:
    return np.asarray(np.take(x, index, attributes.get("axis", 0)))


@on_host("Squeeze")
def _squeeze(version: int, attributes: Any, x: Host, axes: Host | None = None) -> Host:
    given = attributes.get("axes") if axes is None else axes.tolist()
    return np.squeeze(x, None if given is None else tuple(given))


@on_host("Unsqueeze")
def _unsqueeze(version: int, attributes: Any, x: Host, axes: Host | None = None) -> Host:
    given = attributes["axes"] if axes is None else axes.reshape(-1).tolist()
    return np.expand_dims(x, tuple(given))


@on_host("Reshape")
def _reshape(version: int, attributes: Any, x: Host, shape: Host | None = None) -> Any:
    given = attributes["shape"] if shape is None else shape.tolist()
    return x.reshape(reshaped(x.shape, given, bool(attributes.get("allowzero"))))


def reshaped(shape: Sequence[int], wanted: Sequence[int], zero: bool) -> tuple[int, ...]:
    """Returns sizes with those that are 0 filled in."""
    if zero:
        return tuple(wanted)
    return tuple(shape[d] if n == 0 else n for d, n in enumerate(wanted))


@on_host("Flatten")
def _flatten(version: int, attributes: Any, x: Host) -> Any:
    return x.reshape(math.prod(x.shape[: attributes.get("axis", 1)]), -1)


@on_host("Transpose")
def _transpose(version: int, attributes: Any, x: Host) -> Host:
    return np.transpose(x, attributes.get("perm"))


def slices(
    shape: Sequence[int], starts: Any, ends: Any, axes: Any = None, steps: Any = None
) -> tuple[slice, ...]:
    """Returns ONNX's Slice as NumPy's indices."""
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    found = [slice(None)] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        n = shape[axis]
        if step < 0:
            first = min(max(start + n if start < 0 else start, -1), n - 1)
            last = min(max(end + n if end < 0 else end, -1), n - 1)
            count = max(0, -(-(first - last) // -step))
            stop = first + count * step
            if not count:
                found[axis] = slice(0, 0)
            else:
                found[axis] = slice(first, None if stop < 0 else stop, step)
        else:
            found[axis] = slice(start, end, step)
    return tuple(found)


@on_host("Slice")
def _slice(version: int, attributes: Any, x: Host, *given: Host | None) -> Any:
    if not given:
        return x[slices(x.shape, attributes["starts"], attributes["ends"], attributes.get("axes"))]
    return x[slices(x.shape, *(None if g is None else g.tolist() for g in given))]


@on_host("Split")
def _split(version: int, attributes: Any, x: Host, sizes: Host | None = None) -> Any:
    axis = attributes.get("axis", 0)
    given = attributes.get("split") if sizes is None else sizes.tolist()
    if given is None:
        count = attributes.get("num_outputs") or 1
        each = -(-x.shape[axis] // count)
        given = [each] * (count - 1) + [x.shape[axis] - each * (count - 1)]
    return tuple(np.split(x, np.cumsum(given)[:-1], axis))


@on_host("Range")
def _range(version: int, attributes: Any, start: Host, limit: Host, delta: Host) -> Host:
    first, end, step = (v.reshape(-1)[0] for v in (start, limit, delta))
    if not step or abs((float(end) - float(first)) / float(step)) > MOST:
        raise ShapeError(f"a range from {first} to {end} by {step}")
    return np.arange(first, end, step, dtype=start.dtype)


@on_host("ConstantOfShape")
def _constant_of_shape(version: int, attributes: Any, shape: Host) -> Any:
    value = attributes.get("value")
    value = np.zeros(1, np.float32) if value is None else value
    sizes = require_size(shape.tolist())
    if math.prod(sizes) > MOST:
        raise ShapeError(f"a constant of shape {sizes}")
    return np.full(sizes, value.reshape(-1)[0], value.dtype)


@on_host("Expand")
def _expand(version: int, attributes: Any, x: Host, shape: Host) -> Host:
    sizes = np.broadcast_shapes(x.shape, require_size(shape.tolist()))
    if math.prod(sizes) > MOST:
        raise ShapeError(f"a constant of shape {sizes}")
    return np.array(np.broadcast_to(x, sizes))


@on_host("Tile")
def _tile(version: int, attributes: Any, x: Host, repeats: Host) -> Host:
    require_size([n * int(r) for n, r in zip(x.shape, repeats, strict=True)])
    return np.tile(x, repeats.tolist())


def _reduction(name: str, function: Any) -> None:
    @on_host(name)
    def run(version: int, attributes: Any, x: Host, axes: Host | None = None) -> Host:
        given = attributes.get("axes") if axes is None else axes.tolist()
        if not given and attributes.get("noop_with_empty_axes"):
            return x
        along = tuple(given) if given else None
        found = function(x, axis=along, keepdims=bool(attributes.get("keepdims", 1)))
        return np.asarray(found).astype(x.dtype)


_reduction("ReduceSum", np.sum)
_reduction("ReduceProd", np.prod)


@on_host("NonZero")
def _nonzero(version: int, attributes: Any, x: Host) -> Host:
    return np.array(np.nonzero(x), _INT64)


@on_host("CumSum")
def _cumsum(version: int, attributes: Any, x: Host, axis: Host) -> Any:
    at = int(axis.reshape(-1)[0])
    if attributes.get("exclusive") or attributes.get("reverse"):
        x = np.flip(x, at) if attributes.get("reverse") else x
        found = np.cumsum(x, at, dtype=x.dtype)
        found = found - x if attributes.get("exclusive") else found
        return np.flip(found, at) if attributes.get("reverse") else found
    return np.cumsum(x, at, dtype=x.dtype)


@on_host("ScatterND")
def _scatter_nd(version: int, attributes: Any, x: Host, index: Host, updates: Host) -> Any:
    found = x.copy()
    place = tuple(np.moveaxis(index, -1, 0))
    how = attributes.get("reduction", "none")
    if how == "none":
        found[place] = updates
    else:
        of = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[how]
        of.at(found, place, updates)
    return found


@on_host("OneHot")
def _one_hot(version: int, attributes: Any, index: Host, depth: Host, values: Host) -> Any:
    axis, count = attributes.get("axis", -1), int(depth.reshape(-1)[0])
    axis += index.ndim + 1 if axis < 0 else 0
    require_size([*index.shape, count])
    line = np.arange(count).reshape([-1] + [1] * (index.ndim - axis))
    hit = np.expand_dims(np.mod(index, count), axis) == line
    return np.where(hit, values[1], values[0])
