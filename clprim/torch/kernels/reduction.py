"""Reductions: sums, means, extremes, variances."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.torch.copying import cast
from clprim.torch.kernels.elementwise import apply, floating
from clprim.torch.layout import contiguous
from clprim.torch.memory import kind_of
from clprim.torch.table import kernel as in_table

# Whatever the order of what is reduced.
kernel = partial(in_table, lies=contiguous)


def axes_of(x: Array, dim: Any) -> tuple[int, ...] | None:
    """Returns axes as `clprim.ops` takes them: none or an empty list are all."""
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return None
    found = (dim,) if isinstance(dim, int) else tuple(dim)
    if not x.ndim:  # a number's one axis is 0 or -1
        return None
    return found


def _whole(x: Array, dtype: torch.dtype | None) -> Array:
    """Whole numbers are summed in int64 if nothing is said."""
    if dtype is None:
        dtype = torch.int64 if x.dtype.kind in "biu" else kind_of(x.dtype)
    return cast(x, dtype)


@kernel("sum")
def _sum_all(x: Array, *, dtype: torch.dtype | None = None) -> Any:
    return ops.sum(_whole(x, dtype))


@kernel("sum.dim_IntList")
def _sum(x: Array, dim: Any, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    return ops.sum(_whole(x, dtype), axes_of(x, dim), keepdims=keepdim and x.ndim > 0)


@kernel("mean")
def _mean_all(x: Array, *, dtype: torch.dtype | None = None) -> Any:
    return _mean(x, None, dtype=dtype)


@kernel("mean.dim")
def _mean(x: Array, dim: Any, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    kind = dtype or kind_of(x.dtype)
    if not kind.is_floating_point:
        raise RuntimeError(
            f"mean(): could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {kind}"
        )
    return ops.mean(cast(x, kind), axes_of(x, dim), keepdims=keepdim and x.ndim > 0)


@kernel("prod")
def _prod_all(x: Array, *, dtype: torch.dtype | None = None) -> Any:
    return ops.prod(_whole(x, dtype))


@kernel("prod.dim_int")
def _prod(x: Array, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    return ops.prod(_whole(x, dtype), axes_of(x, dim), keepdims=keepdim and x.ndim > 0)


def _truth(name: str) -> None:
    operator: Callable[..., Any] = getattr(ops, name)

    def result(x: Array, found: Any) -> Any:
        return cast(found, torch.uint8) if x.dtype == np.uint8 else found

    @kernel(name)
    def whole(x: Array) -> Any:
        return result(x, operator(x))

    @kernel(f"{name}.dim", f"{name}.dims")
    def along(x: Array, dim: Any = None, keepdim: bool = False) -> Any:
        axes = axes_of(x, dim)
        return result(x, operator(x, axes, keepdims=keepdim and x.ndim > 0))


_truth("any")
_truth("all")


@kernel("equal")
def _equal(a: Array, b: Array) -> bool:
    if a.shape != b.shape:
        return False
    return bool(ops.all(apply("{a} == {b}", a, b, kind=torch.bool)).get())


@kernel("amax")
def _amax(x: Array, dim: Any = (), keepdim: bool = False) -> Any:
    return ops.amax(x, axes_of(x, dim), keepdims=keepdim and x.ndim > 0)


@kernel("amin")
def _amin(x: Array, dim: Any = (), keepdim: bool = False) -> Any:
    return ops.amin(x, axes_of(x, dim), keepdims=keepdim and x.ndim > 0)


@kernel("max")
def _max_all(x: Array) -> Any:
    return ops.amax(x)


@kernel("min")
def _min_all(x: Array) -> Any:
    return ops.amin(x)


@kernel("argmax")
def _argmax(x: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    return ops.argmax(x, axes_of(x, dim), keepdims=keepdim and x.ndim > 0)


@kernel("argmin")
def _argmin(x: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    return ops.argmin(x, axes_of(x, dim), keepdims=keepdim and x.ndim > 0)


def _with_position(value: Callable[..., Any], place: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Array, dim: int, keepdim: bool = False) -> Any:
        axes = axes_of(x, dim)
        keep = keepdim and x.ndim > 0
        return value(x, axes, keepdims=keep), place(x, axes, keepdims=keep)

    return run


kernel("max.dim")(_with_position(ops.amax, ops.argmax))
kernel("min.dim")(_with_position(ops.amin, ops.argmin))


@kernel("logsumexp")
def _logsumexp(x: Array, dim: Any, keepdim: bool = False) -> Any:
    x = cast(x, floating(kind_of(x.dtype)))
    return ops.logsumexp(x, axes_of(x, dim), keepdims=keepdim and x.ndim > 0)


def _variance(x: Array, dim: Any, correction: Any, keepdim: bool) -> tuple[Any, Any]:
    correction = 1 if correction is None else correction
    found: tuple[Any, Any] = ops.var_mean(
        x, axes_of(x, dim), correction=correction, keepdims=keepdim and x.ndim > 0
    )
    return found


@kernel("var.correction")
def _var(x: Array, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return _variance(x, dim, correction, keepdim)[0]


@kernel("std.correction")
def _std(x: Array, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return ops.sqrt(_variance(x, dim, correction, keepdim)[0])


@kernel("var_mean.correction")
def _var_mean(x: Array, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return _variance(x, dim, correction, keepdim)


@kernel("std_mean.correction")
def _std_mean(x: Array, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    variance, mean = _variance(x, dim, correction, keepdim)
    return ops.sqrt(variance), mean


@kernel("count_nonzero.dim_IntList")
def _count_nonzero(x: Array, dim: Any) -> Any:
    return ops.count_nonzero(x, axes_of(x, dim))


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
    kind, axes = kind_of(x.dtype), axes_of(x, dim)
    keep = keepdim and x.ndim > 0
    if ord == 2:
        return ops.sqrt(
            ops.sum(apply("{a} * {a}", x, kind=_wide(kind)), axes, keepdims=keep)
        ).astype(x.dtype)
    if math.isinf(ord):
        size = apply("fabs({a})", x, kind=kind)
        return (ops.amax if ord > 0 else ops.amin)(size, axes, keepdims=keep)
    if ord == 0:
        return cast(ops.count_nonzero(x, axes, keepdims=keep), kind)
    if ord == 1:
        return ops.sum(apply("fabs({a})", x, kind=kind), axes, keepdims=keep)
    powers = apply("pow(fabs({a}), (typeof_y0){b})", x, float(ord), kind=_wide(kind))
    total = ops.sum(powers, axes, keepdims=keep)
    return apply("pow({a}, (typeof_y0){b})", total, 1 / ord, kind=kind)


def _wide(kind: torch.dtype) -> torch.dtype:
    """What sums of a dtype's squares fit in."""
    return torch.float32 if kind.itemsize < 4 else kind
