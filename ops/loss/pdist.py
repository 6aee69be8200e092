"""Distances of every two rows of a matrix."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.arrays.creation import zeros_like
from clprim.dtypes import AnyDType, value_dtype
from clprim.errors import ShapeError
from clprim.ops.loss.distance import norm_order, power_of
from clprim.ops.registry import operator
from clprim.ops.shared.arguments import check_floating, check_shape
from clprim.ops.shared.strings import lower_bound
from clprim.primitives.pointwise import Pointwise


@operator(
    autocast="float32",
    torch="_pdist_forward; _pdist_backward -pdist @none",
    sample="x[:, :, 0, 0]",
    wrt="x",
)
def pdist(x: Any, p: float = 2.0) -> Array:
    """Returns the p-norms of the differences of every two rows, as `torch.nn.functional.pdist`.

    Args:
        x: (N, D), of floating-point numbers.
        p: The norm: ∞, more than 0, or 0, which counts the elements that differ.

    Returns:
        (N (N - 1) / 2,): of rows 0 and 1, 0 and 2, …, 1 and 2, ….

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.pdist(cp.asarray(np.float32([[0, 0], [3, 4], [0, 1]]))).get().round(4)
        array([5.    , 1.    , 4.2426], dtype=float32)
    """
    p = _rows("pdist", x, p)
    rows = x.shape[0]
    return _row_distances(x.dtype, p)(x, shape=(max(0, rows * (rows - 1) // 2),))


def pdist_backward(grad: Any, x: Any, p: float = 2.0) -> Array:
    """Returns the gradient of `pdist`; of equal rows it is 0."""
    what = "pdist_backward"
    p, rows = _rows(what, x, p), x.shape[0]
    shape = (max(0, rows * (rows - 1) // 2),)
    check_shape(what, "grad", grad, shape)
    if p == 0:
        return zeros_like(x)
    distances = _row_distances(value_dtype(x.dtype, [x.dtype]), p)(x, shape=shape)
    return _row_slopes(x.dtype, p)(x, distances, grad, 0.0)


def _rows(what: str, x: Any, p: Any) -> float:
    check_floating(what, "x", x)
    if x.ndim != 2:
        raise ShapeError(f"{what}: x has shape {x.shape}, expected (N, D)")
    return norm_order(what, p, zero=True)


@lru_cache(maxsize=64)
def _row_distances(dtype: AnyDType, p: float) -> Pointwise:
    if p == 0 or math.isinf(p):
        term, norm = "fabs(d)" if p else "d != d ? d : d != 0 ? 1 : 0", "reduce_y0"
    else:
        term, norm = power_of(p)
    step = "sum += term;" if not math.isinf(p) else "sum = sum >= term || sum != sum ? sum : term;"
    norm = norm.replace("typeof_reduce_y0", "typeof_y0").replace("reduce_y0", "sum")
    start = "middle * (2 * size_x0(0) - middle - 1) / 2"  # of the pairs of a row with later ones
    text = f"""
        {lower_bound("size_x0(0)", f"({start})", "coord(0)", after=True)}
        long i = low - 1, j = coord(0) - i * (2 * size_x0(0) - i - 1) / 2 + i + 1;
        typeof_y0 sum = 0;
        for (long n = 0; n < size_x0(1); ++n) {{
            typeof_y0 d = at_x0(i, n) - at_x0(j, n);
            typeof_y0 term = {term};
            {step}
        }}
        y0 = {norm};
    """
    return Pointwise(text, result_type=dtype, name="pdist")


def _slope(a: str, b: str, r: str, g: str, p: float) -> str:
    """Declares s, g times the slope of distance r by a: sign(d) (|d| / distance)^(p - 1)."""
    sign = "(d0 > 0 ? 1 : d0 < 0 ? -1 : d0)"
    if p == 2:
        value = f"d0 / {r}"
    elif p == 1:
        value = sign
    elif math.isinf(p):
        value = f"(fabs(d0) == {r} ? {sign} : 0)"
    else:
        value = f"{sign} * pow(fabs(d0) / {r}, (typeof_y0){p - 1!r})"
    return f"typeof_y0 d0 = {a} - {b} + w0; typeof_y0 s0 = {r} == 0 ? 0 : {g} * ({value}); "


@lru_cache(maxsize=64)
def _row_slopes(dtype: AnyDType, p: float) -> Pointwise:
    text = f"""
        long i = coord(0);
        typeof_y0 sum = 0;
        for (long j = 0; j < size_x0(0); ++j) {{
            if (j == i) continue;
            long a = min(i, j), b = max(i, j);
            long pair = a * (2 * size_x0(0) - a - 1) / 2 + b - a - 1;
            {_slope("x0", "at_x0(j, coord(1))", "at_x1(pair)", "at_x2(pair)", p)}
            sum += d0 == 0 ? 0 : s0;
        }}
        y0 = sum;
    """
    return Pointwise(text, result_type=dtype, name="pdist_backward")
