"""Shape arithmetic by NumPy: operators whose inputs are all on the host, and small."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from clprim.errors import ShapeError
from clprim.onnx.table import Number, Numbers, on_host
from clprim.onnx.values import INT64, dtype_of

_PLAIN: dict[str, Any] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Equal": np.equal, "Less": np.less,
    "Greater": np.greater, "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal,
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Not": np.logical_not,
    "Neg": np.negative, "Abs": np.abs, "Floor": np.floor, "Ceil": np.ceil, "Sqrt": np.sqrt,
    "Sign": np.sign, "Where": np.where, "NonZero": lambda x: np.array(np.nonzero(x), INT64),
    "Pow": lambda a, b: np.power(a.astype(float), b).astype(a.dtype),
    "Max": lambda *arrays: reduce(np.maximum, arrays),
    "Min": lambda *arrays: reduce(np.minimum, arrays),
    "Sum": lambda *arrays: reduce(np.add, arrays),
}  # fmt: skip


def _plain(function: Any) -> Any:
    def run(*arrays: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(function(*arrays))

    return run


for _name, _function in _PLAIN.items():
    on_host(_name)(_plain(_function))


def _divisor(a: Any, b: Any) -> Any:
    if a.dtype.kind in "iu" and not np.all(b):
        raise ShapeError("a division by zero")
    return b


@on_host("Div")
def _div(a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        if a.dtype.kind not in "iu":
            return np.asarray(a / b).astype(a.dtype)
        return np.asarray(np.sign(a) * np.sign(_divisor(a, b)) * (abs(a) // abs(b))).astype(a.dtype)


@on_host("Mod")
def _mod(a: Any, b: Any, *, fmod: bool = False) -> Any:
    return np.asarray((np.fmod if fmod else np.mod)(a, _divisor(a, b)))


@on_host("Concat")
def _concat(*parts: Any, axis: int = 1) -> Any:
    return np.concatenate(parts, axis)


# To few bits the device rounds and saturates, as attributes have it.
@on_host("Cast", only={"to": tuple(range(17))})
def _cast(x: Any, *, to: int) -> Any:
    return _to(x, dtype_of(to))


@on_host("CastLike")
def _cast_like(x: Any, like: Any) -> Any:
    return _to(x, like.dtype)


def _to(x: Any, dtype: Any) -> Any:
    if dtype.kind == "O" and x.dtype.kind != "O":
        words = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
        texts = [str(v) if x.dtype.kind in "iub" else f"{v:.9g}" for v in x.flat]
        return np.array([words.get(t, t) for t in texts], object).reshape(x.shape)
    with np.errstate(all="ignore"):
        return np.asarray(x.astype(dtype))


def _reduction(function: Any) -> Any:
    def run(
        x: Any, axes: Numbers = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
    ) -> Any:
        if not axes and noop_with_empty_axes:
            return x
        along = tuple(axes) if axes else None
        return np.asarray(function(x, axis=along, keepdims=keepdims)).astype(x.dtype)

    return run


on_host("ReduceSum")(_reduction(np.sum))
on_host("ReduceProd")(_reduction(np.prod))


@on_host("CumSum")
def _cumsum(x: Any, axis: Number, *, exclusive: bool = False, reverse: bool = False) -> Any:
    x = np.flip(x, axis) if reverse else x
    found = np.cumsum(x, axis, dtype=x.dtype) - (x if exclusive else 0)
    return (np.flip(found, axis) if reverse else found).astype(x.dtype)


@on_host("ScatterND")
def _scatter_nd(x: Any, index: Any, updates: Any, *, reduction: str = "none") -> Any:
    found, place = x.copy(), tuple(np.moveaxis(index, -1, 0))
    if reduction == "none":
        found[place] = updates
    else:
        names = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
        names[reduction].at(found, place, updates)
    return found
