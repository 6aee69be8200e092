"""Cumulative sums, products, extrema and logarithms of sums: each is what one element does."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.dtypes import AnyDType, as_dtype, value_dtype
from clprim.ops.index.gather import check_index
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating, check_shape, conjugate, dtype_of
from clprim.ops.shared.dims import one_axis
from clprim.ops.shared.exponentials import exponentials
from clprim.primitives.scan import Scan

# --- sums and products ---------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _running(name: str, start: int, sign: str, dtype: AnyDType | None) -> Scan:
    return Scan(
        "",
        init=f"scan_y0 = {start};",
        step=f"scan_y0 {sign}= (typeof_scan_y0)x0;",
        name=name,
        result_type=dtype,
    )


@operator(
    autocast="float32",
    torch="cumsum @int64",
    onnx="CumSum(x, axis: Number) exclusive=0 reverse=0 @dtype",
    sample="x, axis=1",
)
def cumsum(
    x: Any,
    dim: int | None = None,
    *,
    axis: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    dtype: Any = None,
    out: Any = None,
) -> Array:
    """Returns the sums of all elements up to each one along an axis.

    Args:
        exclusive: Whether the element itself does not count.
        reverse: Whether to begin at the end.
        dtype: Of the result; by default that of ``x``, and int64 or uint64 for integers and bool.
        out: An array to write to; it may be ``x``.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.cumsum(cp.asarray(np.array([1, 2, 3], np.int32)), 0).get()
        array([1, 3, 6])
    """
    at = one_axis("cumsum", x, dim, axis)
    scan = _running("cumsum", 0, "+", None if dtype is None else as_dtype(dtype))
    return scan(x, axis=at, exclusive=exclusive, reverse=reverse, out=out)


def cumsum_backward(grad: Any, dim: int | None = None, *, axis: int | None = None) -> Array:
    """Returns the gradient of `cumsum` in its input: sums from each element to the end."""
    dtype = dtype_of("cumsum_backward", "grad", grad)
    return cumsum(grad, dim, axis=axis, reverse=True, dtype=dtype)


@operator(
    autocast="float32",
    torch="cumprod @int64",
    onnx="CumProd(x, axis: Number) exclusive=0 reverse=0 @dtype",
    sample="x, axis=1",
    wrt="x",
)
def cumprod(
    x: Any,
    dim: int | None = None,
    *,
    axis: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    dtype: Any = None,
    out: Any = None,
) -> Array:
    """Returns the products of all elements up to each one along an axis; see `cumsum`."""
    at = one_axis("cumprod", x, dim, axis)
    scan = _running("cumprod", 1, "*", None if dtype is None else as_dtype(dtype))
    return scan(x, axis=at, exclusive=exclusive, reverse=reverse, out=out)


@lru_cache(maxsize=16)
def _product_gradient(dtype: AnyDType) -> Scan:
    """From the end, T[k] = x[k] (g[k] + T[k + 1]); the gradient is P[k - 1] (g[k] + T[k + 1]).

    P are the products up to an element. Nothing is divided, so zeros are no special case. A partial
    is the map T → a T + b.
    """
    return Scan(
        "",
        init="scan_y0 = 0; scan_y1 = 1;",
        step="scan_y0 = x1 * (x0 + scan_y0); scan_y1 *= x1;",
        combine="scan_y0 = other_y0 + other_y1 * scan_y0; scan_y1 *= other_y1;",
        finalize="y0 = x2 * (x0 + scan_y0);",
        name="cumprod_backward",
        result_type=dtype,
    )


def cumprod_backward(
    grad: Any, input: Any, dim: int | None = None, output: Any = None, *, axis: int | None = None
) -> Array:
    """Returns the gradient of `cumprod` in its input.

    Args:
        input: What was multiplied; zeros are no special case.
        output: The result; not needed.
    """
    at = one_axis("cumprod_backward", input, dim, axis)
    dtype = check_floating("cumprod_backward", "input", input, complexes=True)
    check_shape("cumprod_backward", "grad", grad, input.shape)
    before = cumprod(input, at, exclusive=True, dtype=value_dtype(dtype, [dtype]))
    scan, input, before = _product_gradient(dtype), conjugate(input), conjugate(before)
    return scan(grad, input, before, axis=at, exclusive=True, reverse=True)


# --- extrema -------------------------------------------------------------------------------------


def _extreme(name: str, start: str, beats: str) -> Scan:
    """The extreme element so far, and its position; of equal ones the last. A NaN stays."""
    return Scan(
        "",
        init=f"scan_y0 = {start}_scan_y0; scan_y1 = -1;",
        step=f"""
            if (x0 {beats} scan_y0 || x0 != x0) {{
                scan_y0 = x0;
                scan_y1 = scan_item;
            }}
        """,
        combine=f"""
            if (other_y1 >= 0 && (other_y0 {beats} scan_y0 || other_y0 != other_y0)) {{
                scan_y0 = other_y0;
                scan_y1 = other_y1;
            }}
        """,
        name=name,
    )


_cummax = _extreme("cummax", "lowest", ">=")
_cummin = _extreme("cummin", "highest", "<=")


@operator(sample="x, axis=1", wrt="x", saves="indices")
def cummax(x: Any, dim: int | None = None, *, axis: int | None = None) -> tuple[Array, Array]:
    """Returns (values, indices): the greatest element up to each one, and where along the axis.

    As `torch.cummax`: of equal elements the last one counts, and a NaN is greater than any number.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> values, indices = ops.cummax(cp.asarray(np.array([1, 3, 2, 3], np.float32)), 0)
        >>> values.get(), indices.get()
        (array([1., 3., 3., 3.], dtype=float32), array([0, 1, 1, 3]))
    """
    values, indices = _cummax(x, axis=one_axis("cummax", x, dim, axis))
    return values, indices


@operator(sample="x, axis=1", wrt="x", saves="indices")
def cummin(x: Any, dim: int | None = None, *, axis: int | None = None) -> tuple[Array, Array]:
    """Returns (values, indices) of the least element up to each one; see `cummax`."""
    values, indices = _cummin(x, axis=one_axis("cummin", x, dim, axis))
    return values, indices


@lru_cache(maxsize=16)
def _runs(dtype: AnyDType) -> Scan:
    """Sums of ``x0`` where ``x1`` stays the same, at the position that ``x1`` names.

    A partial is the sum of its last run, the run's index, and whether it is the only run.
    """
    return Scan(
        "",
        init="scan_y0 = 0; scan_y1 = -1; scan_y2 = 1;",
        step="""
            scan_y2 = scan_y1 < 0 || (scan_y2 != 0 && x1 == scan_y1);
            scan_y0 = x1 == scan_y1 ? scan_y0 + x0 : x0;
            scan_y1 = x1;
        """,
        combine="""
            if (other_y1 >= 0) {
                int goes_on = other_y2 != 0 && other_y1 == scan_y1;
                scan_y2 = scan_y1 < 0 ? other_y2 : (scan_y2 != 0 && goes_on);
                scan_y0 = goes_on ? scan_y0 + other_y0 : other_y0;
                scan_y1 = other_y1;
            }
        """,
        finalize="y0 = x1 == scan_item ? scan_y0 : 0;",
        partial_type=(value_dtype(dtype, [dtype]), np.int64, np.int32),
        result_type=dtype,
        name="cummax_backward",
    )


def cummax_backward(
    grad: Any, input: Any, indices: Any, dim: int | None = None, *, axis: int | None = None
) -> Array:
    """Returns the gradient of `cummax` or `cummin` in its input.

    Args:
        grad: Gradient in the values.
        input: What the extrema are of.
        indices: As `cummax` returned them.
    """
    at = one_axis("cummax_backward", input, dim, axis)
    dtype = check_floating("cummax_backward", "grad", grad, complexes=True)
    check_shape("cummax_backward", "grad", grad, input.shape)
    check_index("cummax_backward", "indices", indices)
    check_shape("cummax_backward", "indices", indices, input.shape)
    return _runs(dtype)(grad, indices, axis=at, reverse=True)


cummin_backward = cummax_backward


# --- logarithm of sums ---------------------------------------------------------------------------


def _exponentials(element: str = "x0", part: str = "1") -> dict[str, Any]:
    """As in `logsumexp`: a partial is (greatest element m, Σ part · exp(x − m))."""
    strings = exponentials(element, parts=[part])
    return {name: text.replace("reduce_", "scan_") for name, text in strings.items()}


_LOGSUMEXP = _exponentials() | {
    "finalize": "y0 = scan_y0 + log(scan_y1);",
    "name": "logcumsumexp",
}
_logcumsumexp = Scan("", **_LOGSUMEXP)


@operator(torch="logcumsumexp @real", sample="x, axis=1", wrt="x")
def logcumsumexp(
    x: Any, dim: int | None = None, *, axis: int | None = None, out: Any = None
) -> Array:
    """Returns log Σ exp(x) of all elements up to each one along an axis, without overflow."""
    at = one_axis("logcumsumexp", x, dim, axis)
    check_floating("logcumsumexp", "x", x)
    return _logcumsumexp(x, axis=at, out=out)


@lru_cache(maxsize=4)
def _parts(kind: AnyDType) -> Scan:
    """The greatest element up to each one, and the sum below it, which no logarithm has rounded."""
    return Scan("", **(_LOGSUMEXP | {"finalize": None}), result_type=kind, partial_type=kind)


# exp(x[k]) Σ g[i] exp(−m[i]) / s[i] over i ≥ k, of greatest elements m and sums s up to each one.
# The former do not decrease, so −m[k] is the greatest of the exponents; a partial is (greatest
# exponent, Σ g / s scaled to it). Infinite elements that are alike share a gradient.
_LOGCUMSUMEXP_GRADIENT = _exponentials("-x2", "x0 / x3") | {
    "finalize": """
        typeof_scan_y0 scale = x1 == -scan_y0 ? 1 : exp(x1 + scan_y0);
        y0 = x1 == -INFINITY ? 0 : scan_y1 * scale;
    """,
    "name": "logcumsumexp_backward",
}


@lru_cache(maxsize=8)
def _logcumsumexp_gradient(dtype: AnyDType) -> Scan:
    return Scan("", **_LOGCUMSUMEXP_GRADIENT, result_type=dtype)


def logcumsumexp_backward(
    grad: Any, input: Any, result: Any, dim: int | None = None, *, axis: int | None = None
) -> Array:
    """Returns the gradient of `logcumsumexp` in its input.

    Args:
        input: The array.
        result: What `logcumsumexp` returned, whose shape alone is looked at: sums are found again.
    """
    at = one_axis("logcumsumexp_backward", input, dim, axis)
    for label, array in {"grad": grad, "input": input, "result": result}.items():
        check_floating("logcumsumexp_backward", label, array)
        check_shape("logcumsumexp_backward", label, array, input.shape)
    greatest, sums = _parts(value_dtype(input.dtype, [input.dtype]))(input, axis=at)
    gradient = _logcumsumexp_gradient(input.dtype)
    return gradient(grad, input, greatest, sums, axis=at, reverse=True)
