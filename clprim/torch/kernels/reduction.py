"""Reductions: sums, means, extremes, variances."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import lru_cache, partial, wraps
from typing import Any

import numpy as np
import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.dtypes import AnyDType, value_dtype
from clprim.primitives.reduction import Reduction
from clprim.torch.agreeing import axes_of, family
from clprim.torch.copying import cast
from clprim.torch.kernels.elementwise import apply, floating
from clprim.torch.layout import contiguous
from clprim.torch.table import kernel as in_table
from clprim.torch.tensors import kind_of, numpy_dtype

# Whatever the order of what is reduced.
kernel = partial(in_table, lies=contiguous)


_LONG = np.dtype(np.int64)


def sum_dtype(x: Array, dtype: torch.dtype | None) -> Any:
    """What elements are converted to and added up as: whole numbers in int64 if nothing is said."""
    if dtype is None:
        return _LONG if x.dtype.kind in "biu" and x.dtype != _LONG else None
    return numpy_dtype(dtype)


def _first(operator: Callable[..., Any]) -> str:
    """The name of an operator's array."""
    return next(iter(inspect.signature(operator).parameters))


@family("int64")
def _int64(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Whole numbers are added up, or multiplied, in int64."""
    name = _first(operator)

    @wraps(operator)
    def run(**values: Any) -> Any:
        values.setdefault("dtype", sum_dtype(values[name], None))
        return operator(**values)

    return run


@family("real")
def _real(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Whole numbers are taken for ones of the default dtype."""
    name = _first(operator)

    @wraps(operator)
    def run(**values: Any) -> Any:
        x = values.pop(name)
        return operator(cast(x, floating(kind_of(x.dtype))), **values)

    return run


@family("mean")
def _mean(operator: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(operator)
    def run(x: Array, **values: Any) -> Any:
        dtype = values.get("dtype", x.dtype)
        if dtype.kind in "biu":
            raise RuntimeError(
                "mean(): could not infer output dtype. Input dtype must be either a floating "
                f"point or complex dtype. Got: {kind_of(dtype)}"
            )
        return operator(x, **values)

    return run


@family("truth")
def _truth(operator: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(operator)
    def run(x: Array, **values: Any) -> Any:
        found = operator(x, **values)
        return cast(found, torch.uint8) if x.dtype == np.uint8 else found

    return run


@kernel("equal")
def _equal(a: Array, b: Array) -> bool:
    if a.shape != b.shape:
        return False
    return bool(ops.all(apply("{a} == {b}", a, b, kind=torch.bool)).get())


def _with_position(value: Callable[..., Any], place: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Array, dim: int, keepdim: bool = False) -> Any:
        axes = axes_of(x, dim)
        keep = keepdim and x.ndim > 0
        return value(x, axes, keepdims=keep), place(x, axes, keepdims=keep)

    return run


kernel("max.dim")(_with_position(ops.amax, ops.argmax))
kernel("min.dim")(_with_position(ops.amin, ops.argmin))


@kernel("linalg_vector_norm")
def _vector_norm(
    x: Array,
    ord: float = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    x = x if dtype is None else cast(x, dtype)
    if x.dtype.kind == "c":
        x = apply("abs({a})", x, kind=kind_of(x.dtype).to_real())
    kind, axes = kind_of(x.dtype), axes_of(x, dim)
    keep = keepdim and x.ndim > 0
    if math.isinf(ord):
        size = apply("fabs({a})", x, kind=kind)
        return (ops.amax if ord > 0 else ops.amin)(size, axes, keepdims=keep)
    if ord == 0:
        return cast(ops.count_nonzero(x, axes, keepdims=keep), kind)
    return _norm(x.dtype, float(ord))(x, axis=axes, keepdims=keep)


@lru_cache(maxsize=64)
def _norm(dtype: AnyDType, order: float) -> Reduction:
    """The norm of a line, whose powers are added up in float32 at least."""
    power = f"pow(fabs(v), (typeof_reduce_y0){order!r})"
    root = f"pow(reduce_y0, (typeof_reduce_y0){1 / order!r})"
    term, end = {1.0: ("fabs(v)", "reduce_y0"), 2.0: ("v * v", "sqrt(reduce_y0)")}.get(
        order, (power, root)
    )
    return Reduction(
        "",
        init="reduce_y0 = 0;",
        step=f"typeof_reduce_y0 v = x0; reduce_y0 += {term};",
        combine="reduce_y0 += other_y0;",
        finalize=f"y0 = {end};",
        result_type=dtype,
        partial_type=value_dtype(dtype, [dtype]),
        name="vector_norm",
    )


def wide(kind: torch.dtype) -> torch.dtype:
    """What sums of a dtype's squares fit in."""
    return torch.float32 if kind.itemsize < 4 else kind
