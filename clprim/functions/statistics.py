"""Sums, means, extrema: NumPy's names and arguments."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from clprim import ops
from clprim.arrays.array import Array
from clprim.dtypes import AnyDType, is_integer, promote, value_dtype
from clprim.errors import DTypeError
from clprim.functions.elementwise import isclose
from clprim.ops.shared.checks import dtype_of, is_array
from clprim.ops.shared.dims import one_axis
from clprim.plan.strides import normalize_axes
from clprim.primitives import arithmetic
from clprim.primitives.reduction import Reduction


def average(x: Array, /, axis: Any = None, weights: Any = None) -> Array:
    """Returns the mean along ``axis``, weighted by an array that broadcasts.

    That of integers is float64, as in NumPy.
    """
    if weights is None:
        return ops.mean(x, axis)
    if not is_array(weights):
        weights = Array.namespace.asarray(weights)
    dtype = promote([dtype_of("average", "x", x), weights.dtype])
    found: Array = _average(_FLOAT64 if dtype.kind in "biu" else dtype)(x, weights, axis=axis)
    return found


_FLOAT64 = np.dtype(np.float64)


@lru_cache(maxsize=16)
def _average(dtype: AnyDType) -> Reduction:
    return Reduction(
        "",
        init="reduce_y0 = 0; reduce_y1 = 0;",
        step="""
            reduce_y0 += (typeof_reduce_y0)x0 * (typeof_reduce_y0)x1;
            reduce_y1 += (typeof_reduce_y1)x1;
        """,
        finalize="y0 = reduce_y0 / reduce_y1;",
        result_type=dtype,
        partial_type=value_dtype(dtype, [dtype]),
        name="average",
    )


def var(
    x: Array,
    /,
    axis: Any = None,
    *,
    ddof: float = 0,
    correction: float | None = None,
    keepdims: bool = False,
    out: Any = None,
) -> Array:
    """Returns the variance along ``axis``: squares by the number of elements less ``ddof``.

    ``correction`` is the Python Array API's name of ``ddof``.
    """
    less = ddof if correction is None else correction
    return ops.var(x, axis, correction=less, keepdims=keepdims, out=out)


def std(
    x: Array,
    /,
    axis: Any = None,
    *,
    ddof: float = 0,
    correction: float | None = None,
    keepdims: bool = False,
    out: Any = None,
) -> Array:
    """Returns the standard deviation along ``axis``; see `var`."""
    less = ddof if correction is None else correction
    return ops.std(x, axis, correction=less, keepdims=keepdims, out=out)


def ptp(x: Array, /, axis: Any = None, *, keepdims: bool = False, out: Any = None) -> Array:
    """Returns the greatest less the least element along ``axis``."""
    return arithmetic.binary(
        "subtract",
        ops.amax(x, axis, keepdims=keepdims),
        ops.amin(x, axis, keepdims=keepdims),
        out=out,
    )


def median(x: Array, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Returns the median along ``axis``: of an even number of elements the mean of the middle two.

    That of integers is float64, as in NumPy.
    """
    if dtype_of("median", "x", x).kind in "biu":
        x = x.astype(_FLOAT64)
    if not is_integer(axis):
        axes = normalize_axes("median", axis, x.ndim)
        rest = [d for d in range(x.ndim) if d not in axes]
        flat = x.transpose(*rest, *axes).reshape(*(x.shape[d] for d in rest), -1)
        found: Array = ops.quantile(flat, 0.5, -1)
        kept = [1 if d in axes else n for d, n in enumerate(x.shape)]
        return found.reshape(kept) if keepdims else found
    return ops.quantile(x, 0.5, axis, keepdims)


def cumsum(x: Array, /, axis: Any = None, *, dtype: Any = None) -> Array:
    """Returns the sums of all elements up to each along ``axis``; None takes x as flat."""
    return ops.cumsum(*_line(x, axis), dtype=dtype)


def cumprod(x: Array, /, axis: Any = None, *, dtype: Any = None) -> Array:
    """Returns the products of all elements up to each along ``axis``; None takes x as flat."""
    return ops.cumprod(*_line(x, axis), dtype=dtype)


def cumulative_sum(
    x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Returns the sums of all elements up to each along ``axis``, after a 0 if asked for."""
    return _after(0, cumsum(_one_axis(x, axis), axis, dtype=dtype), x, axis, include_initial)


def cumulative_prod(
    x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Returns the products of all elements up to each along ``axis``, after a 1 if asked for."""
    return _after(1, cumprod(_one_axis(x, axis), axis, dtype=dtype), x, axis, include_initial)


def _one_axis(x: Any, axis: int | None) -> Any:
    if axis is None and x.ndim != 1:
        raise DTypeError(f"axis= is needed for an array of {x.ndim} dimensions")
    return x


def _after(start: int, found: Array, x: Any, axis: int | None, wanted: bool) -> Array:
    if not wanted:
        return found
    at = 0 if axis is None else axis % x.ndim
    shape = [1 if d == at else n for d, n in enumerate(x.shape)]
    return ops.cat([Array.namespace.full(shape, start, found.dtype), found], at)


def _line(x: Any, axis: Any) -> tuple[Any, int]:
    return (x.reshape(-1), 0) if axis is None else (x, one_axis("cumsum", x, axis, None))


def array_equal(a: Any, b: Any, /) -> bool:
    """Returns whether two arrays, one of which may be the host's, are of one shape and equal."""
    a, b = (v if is_array(v) else Array.namespace.asarray(v) for v in (a, b))
    return a.shape == b.shape and bool(ops.all(a == b))


def allclose(
    a: Any, b: Any, /, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False
) -> bool:
    """Returns whether all elements are within ``atol + rtol · |b|`` of each other."""
    return bool(ops.all(isclose(a, b, rtol, atol, equal_nan=equal_nan)))
