"""Variances, what NaN leave of sums, and covariances; arguments as in `sum`."""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array
from clprim.arrays.creation import full
from clprim.call.arguments import as_results
from clprim.dtypes import AnyDType, real_dtype, value_dtype
from clprim.errors import DTypeError, ShapeError
from clprim.ops.product.matmul import matmul
from clprim.ops.reduction.extrema import amax, amin
from clprim.ops.reduction.reduce import mean, spread_and_mean, sum
from clprim.ops.registry import operator
from clprim.ops.shape.turn import diagonal
from clprim.ops.shared.checks import (
    Axis,
    Operator,
    check_floating,
    check_shape,
    conjugate,
    dtype_of,
    real,
)
from clprim.ops.shared.dims import along, along_named
from clprim.ops.shared.strings import kernel
from clprim.ops.shared.sums import products
from clprim.primitives.reduction import Reduction

_nansum: Operator = Reduction(
    "y0 = x0 == x0 ? x0 : 0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;", name="nansum"
)
_nanmean: Operator = Reduction(
    "y0 = x0 == x0 ? x0 : 0; y1 = x0 == x0;",
    init="reduce_y0 = 0; reduce_y1 = 0;",
    step="reduce_y0 += y0; reduce_y1 += y1;",
    finalize="y0 = reduce_y0 / reduce_y1;",
    name="nanmean",
)


@operator(torch="var.correction")
@along_named
def var(
    x: Any,
    axis: Axis,
    keepdims: bool,
    *,
    correction: float = 1,
    unbiased: bool | None = None,
    out: Any = None,
) -> Array:
    """Returns the variance along ``axis``; see `var_mean`, with its ``correction``."""
    return _spread("var", x, axis, correction, unbiased, keepdims, out)


@operator(torch="std.correction")
@along_named
def std(
    x: Any,
    axis: Axis,
    keepdims: bool,
    *,
    correction: float = 1,
    unbiased: bool | None = None,
    out: Any = None,
) -> Array:
    """Returns the standard deviation along ``axis``, the root of `var`, rounded once."""
    return _spread("std", x, axis, correction, unbiased, keepdims, out)


def _spread(
    what: str, x: Any, axis: Axis, correction: float, unbiased: Any, keepdims: bool, out: Any
) -> Array:
    given = None if out is None else (*as_results(what, out, 1), None)
    root = what == "std"
    return spread_and_mean(
        what, x, axis, correction, unbiased, keepdims=keepdims, root=root, out=given
    )[0]


@operator(torch="std_mean.correction")
@along_named
def std_mean(
    x: Any,
    axis: Axis,
    keepdims: bool,
    *,
    correction: float = 1,
    unbiased: bool | None = None,
    out: Any = None,
) -> tuple[Array, Array]:
    """Returns (standard deviation, mean) along ``axis``, in one read of ``x``; see `var_mean`."""
    given = None if out is None else as_results("std_mean", out, 2)
    return spread_and_mean(
        "std_mean",
        x,
        axis,
        correction,
        unbiased,
        keepdims=keepdims,
        root=True,
        out=given,
    )


@operator(torch="nansum @int64")
@along
def nansum(x: Any, axis: Axis, keepdims: bool, *, dtype: Any = None, out: Any = None) -> Array:
    """Returns the sum along ``axis`` of what is no NaN; of nothing 0. See `sum`."""
    if dtype is not None or dtype_of("nansum", "x", x).kind in "biu":
        if dtype_of("nansum", "x", x).kind not in "biu":
            x = kernel("y0 = x0 == x0 ? x0 : 0;", "nansum", x.dtype)(x)
        return sum(x, axis, keepdims=keepdims, dtype=dtype, out=out)
    return _nansum(x, axis=axis, keepdims=keepdims, out=out)


@operator()
@along
def nanmean(x: Any, axis: Axis, keepdims: bool, *, out: Any = None) -> Array:
    """Returns the mean along ``axis`` of what is no NaN; of nothing NaN. See `mean`."""
    if dtype_of("nanmean", "x", x).kind in "biu":
        return mean(x, axis, keepdims=keepdims, out=out)
    return _nanmean(x, axis=axis, keepdims=keepdims, out=out)


@operator(torch="aminmax")
@along_named
def aminmax(x: Any, axis: Axis, keepdims: bool, *, out: Any = None) -> tuple[Array, Array]:
    """Returns the least and the greatest element along ``axis``, as `torch.aminmax` does.

    Raises:
        ShapeError: There are no elements along ``axis``.
    """
    least, greatest = (None, None) if out is None else as_results("aminmax", out, 2)
    return (
        amin(x, axis, keepdims=keepdims, out=least),
        amax(x, axis, keepdims=keepdims, out=greatest),
    )


@operator()
def cov(
    x: Any,
    *,
    correction: float = 1,
    fweights: Any = None,
    aweights: Any = None,
    out: Any = None,
) -> Array:
    """Returns the covariances of rows, as `torch.cov` and `numpy.cov` do.

    Args:
        x: (V, N): N observations of V variables; or a line, of one.
        correction: What is taken away from the number of observations.
        fweights: (N,) of integers: how often each observation counts.
        aweights: (N,): what each of them weighs.

    Returns:
        (V, V), or for one variable an array of no dimensions.
    """
    dtype = check_floating("cov", "x", x, complexes=True)
    product, count = _covariances("cov", x, correction, fweights, aweights)
    return kernel(_DIVIDED, "cov", dtype)(product, count, out=out)


_DIVIDED = "y0 = x0 / (x1 > 0 ? x1 : 0);"


def _covariances(
    what: str, x: Any, correction: Any, fweights: Any, aweights: Any
) -> tuple[Array, Array]:
    """The sums of products, and what they are to be divided by, in float32 at least."""
    dtype = x.dtype
    wide = value_dtype(dtype, [dtype])
    if x.ndim > 2:
        raise ShapeError(f"{what}: x has shape {x.shape}, expected rows of observations")
    correction = real(what, "correction", correction)
    rows = x if x.ndim == 2 else x.reshape(1, -1)
    given = {"fweights": (fweights, "iu"), "aweights": (aweights, "f")}
    weights = [
        _weights(what, label, array, kinds, rows, wide)
        for label, (array, kinds) in given.items()
        if array is not None
    ]
    if weights:
        each = weights[0] if len(weights) == 1 else weights[0] * weights[1]
        total = sum(each)
        lost = 1 if aweights is None else sum(each * weights[-1]) / total
        sums = products(wide)(rows, each, axis=1, keepdims=True)
        centred = kernel("y0 = x0 - x1 / x2;", what, wide)(rows, sums, total)
        product = matmul(centred, conjugate(centred) * each, transpose_b=True)
        count = total - lost * correction
    else:
        average = mean(rows, 1, keepdims=True, dtype=wide)
        centred = kernel("y0 = x0 - x1;", what, wide)(rows, average)
        product = matmul(centred, conjugate(centred), transpose_b=True)
        count = full((), rows.shape[1] - correction, real_dtype(wide))
    return product.reshape(() if rows.shape[0] == 1 else product.shape), count


def _weights(what: str, label: str, array: Any, kinds: str, rows: Array, dtype: AnyDType) -> Array:
    """The weights of observations, in a dtype."""
    if dtype_of(what, label, array).kind not in kinds:
        expected = "integers" if kinds == "iu" else "floating-point numbers"
        raise DTypeError(f"{what}: {label} is {array.dtype}, expected {expected}")
    check_shape(what, label, array, rows.shape[1:])
    return kernel("y0 = x0;", what, dtype)(array)


@operator()
def corrcoef(x: Any, *, out: Any = None) -> Array:
    """Returns the coefficients of correlation of rows; see `cov`."""
    dtype = check_floating("corrcoef", "x", x, complexes=True)
    found, count = _covariances("corrcoef", x, 1, None, None)
    found = kernel(_DIVIDED, "corrcoef", found.dtype)(found, count)
    if not found.ndim:
        return kernel("y0 = x0 / x0;", "corrcoef", dtype)(found, out=out)
    text = f"typeof_y0 c = x0 / (sqrt(x1) * sqrt(x2)); y0 = {_WITHIN.format('c')};"
    if dtype.kind == "c":  # parts by themselves, as NumPy does
        within = f"complex({_WITHIN.format('real(c)')}, {_WITHIN.format('imag(c)')})"
        text = f"typeof_y0 c = x0 / (sqrt(x1) * sqrt(x2)); y0 = {within};"
    squares = diagonal(found).real
    return kernel(text, "corrcoef", dtype)(found, squares[:, None], squares, out=out)


_WITHIN = "{0} > 1 ? 1 : {0} < -1 ? -1 : {0}"
