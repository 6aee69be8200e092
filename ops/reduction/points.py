"""Sums over all pairs of points, and the nearest points, in the memory of the points."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray, empty
from clprim.dtypes import AnyDType, is_integer, promote, value_dtype
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.ops.gradients.vjp import vjp
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating
from clprim.ops.shared.sums import added
from clprim.primitives.pairs import Pairs
from clprim.primitives.reduction import Reduction

# Whole numbers that a float32 tells apart.
_EXACT = 1 << 24
# Neighbours that a list in registers is sorted for.
_MOST_NEIGHBOURS = 16
_SQUARE = re.compile(r"(?<![\w.])d2(?!\w)")


@lru_cache(maxsize=4)
def _squares() -> Reduction:
    """Squares of distances."""
    return Reduction(
        "y0 = x0 - x1;", init="reduce_y0 = 0;", step="reduce_y0 += y0 * y0;", name="squares"
    )


@lru_cache(maxsize=64)
def _kernel_sum(kernel: str, dtype: AnyDType, columns: bool) -> Pairs:
    """The sum of a kernel's values, times a number of each point or a row of numbers."""
    if not isinstance(kernel, str) or not _SQUARE.search(kernel) or ";" in kernel:
        raise DefinitionError(
            f"kernel_sum: kernel={quoted(kernel)}: expected an expression of d2, the square of the "
            'distance, such as "1 / (1 + d2 * w0)"'
        )
    text = _SQUARE.sub("d", kernel)
    outer = Reduction("y0 = x0 * x1;" if columns else "y0 = x0;", **added(1), result_type=dtype)
    expr = f"y0 = {text};" if columns else f"y0 = ({text}) * x2;"
    return Pairs(inner=_squares(), expr=expr, outer=outer, name="kernel_sum")


@operator(sample='x, x, empty((0, 3, 4)), "1 / (1 + d2)"')
def kernel_sum(x: Any, y: Any, b: Any, kernel: str, *numbers: Any, out: Any = None) -> Array:
    r"""Returns the sums over j of a kernel of \\|x_i - y_j\\|² times b_j.

    Nothing of the size of all pairs is stored.

    Args:
        x: (…, M, D), of floating-point numbers.
        y: (…, N, D).
        b: (…, N), a number of each point of y, or (…, N, E), a row of numbers; of the latter kind
            where it has as many dimensions as y.
        kernel: An expression of ``d2``, the square of a distance, and of numbers ``w0``, …:
            ``"exp(-d2 * w0)"``, ``"1 / (1 + d2)"``, ``"exp(-sqrt(d2))"``.
        numbers: w0, w1, ….

    Returns:
        (…, M), or (…, M, E).

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[0, 0], [3, 4]]))
        >>> ops.kernel_sum(x, x, cp.asarray(np.float32([1, 2])), "exp(-d2 * w0)", 0.04).get()
        array([1.7357589, 2.3678794], dtype=float32)
    """
    x, y, b, columns = _points("kernel_sum", x, y, b)
    dtype = promote([a.dtype for a in (x, y, b)])
    return _kernel_sum(kernel, dtype, columns)(
        x[..., :, None, :], y[..., None, :, :], *_weights(b, columns), *numbers, out=out
    )


def _weights(b: Array, columns: bool) -> tuple[Array]:
    """What is summed, along rows of pairs."""
    return (b[..., None, :, :] if columns else b[..., None, :],)


kernel_sum_backward = vjp(kernel_sum, "x y b")


def _points(what: str, x: Any, y: Any, b: Any) -> tuple[Array, Array, Array, bool]:
    """Points and what is summed as arrays, and whether the latter has columns."""
    for name, a in (("x", x), ("y", y), ("b", b)):
        check_floating(what, name, a)
    x, y, b = asarray(x), asarray(y), asarray(b)
    columns = b.ndim == y.ndim
    ends = b.shape[-2:-1] if columns else b.shape[-1:]
    fit = x.ndim >= 2 and y.ndim >= 2 and b.ndim and x.shape[-1] == y.shape[-1]
    if not fit or ends != y.shape[-2:-1]:
        raise ShapeError(
            f"{what}: x has shape {x.shape}, y {y.shape}, b {b.shape}; expected (…, M, D), "
            "(…, N, D) and (…, N) or (…, N, E)"
        )
    return x, y, b, columns


@lru_cache(maxsize=32)
def _nearest(k: int, dtype: AnyDType) -> Pairs:
    """The k least squares of distances and whose they are: a list that stays sorted."""
    count = range(k)
    places = [f"reduce_y{k + n}" for n in count]

    def nearer(value: str, n: int) -> str:
        # NaN comes behind all numbers, and before what is not there, whose place is below 0.
        a, place = f"reduce_y{n}", places[n]
        return f"if (!({value} >= {a}) && ({value} == {value} || {place} < 0)) {{"

    insert = [nearer("@v", k - 1), f"reduce_y{k - 1} = @v;", f"{places[-1]} = @p;"]
    for n in reversed(range(1, k)):
        insert += [
            nearer(f"reduce_y{n}", n - 1),
            f"typeof_reduce_y0 value = reduce_y{n}; typeof_reduce_y{k} place = {places[n]};",
            f"reduce_y{n} = reduce_y{n - 1}; {places[n]} = {places[n - 1]};",
            f"reduce_y{n - 1} = value; {places[n - 1]} = place;",
            "}",
        ]
    text = "\n".join([*insert, "}"])
    merged = "\n".join(
        text.replace("@v", f"other_y{n}").replace("@p", f"other_y{k + n}") for n in count
    )
    real, int64 = value_dtype(dtype, [dtype]), np.dtype(np.int64)
    outer = Reduction(
        "y0 = x0;",
        init=" ".join(f"reduce_y{n} = NAN; {p} = -1;" for n, p in enumerate(places)),
        step=text.replace("@v", "y0").replace("@p", "reduce_item"),
        combine=merged,
        finalize="\n".join(
            f"y{n} = sqrt(reduce_y{n}); y{k + n} = {p};" for n, p in enumerate(places)
        ),
        result_type=(dtype,) * k + (int64,) * k,
        partial_type=(real,) * k + (int64,) * k,
    )
    return Pairs(inner=_squares(), expr="y0 = d;", outer=outer, name="nearest")


@lru_cache(maxsize=8)
def _first(dtype: AnyDType) -> Pairs:
    """The least square of a distance; its place is a number of that type, so that vectors do it."""
    outer = Reduction(
        "y0 = x0; y1 = x1;",
        init="reduce_y0 = NAN; reduce_y1 = 0;",
        step="reduce_y1 = y0 >= reduce_y0 || y0 != y0 ? reduce_y1 : y1; "
        "reduce_y0 = y0 >= reduce_y0 || y0 != y0 ? reduce_y0 : y0;",
        combine="reduce_y1 = other_y0 > reduce_y0 || other_y0 != other_y0 ? reduce_y1 : "
        "other_y0 == reduce_y0 ? min(reduce_y1, other_y1) : other_y1; "
        "reduce_y0 = other_y0 >= reduce_y0 || other_y0 != other_y0 ? reduce_y0 : other_y0;",
        finalize="y0 = sqrt(reduce_y0); y1 = reduce_y1;",
        result_type=(dtype, np.dtype(np.int64)),
    )
    return Pairs(inner=_squares(), expr="y0 = d; y1 = x2;", outer=outer, name="nearest")


@operator(sample="x, x")
def nearest(x: Any, y: Any, k: int = 1) -> tuple[Array, Array]:
    """Returns the k nearest points of y to every point of x, the nearest first.

    Nothing of the size of all pairs is stored. Of points as near the first one is taken; those
    whose distance is NaN come last, behind infinite ones.

    Args:
        x: (…, M, D), of floating-point numbers.
        y: (…, N, D); the leading dimensions broadcast.
        k: How many, from 1 to 16 and at most N.

    Returns:
        Distances (…, M, k), and indices of int64.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[0, 1], [9, 9]]))
        >>> y = cp.asarray(np.float32([[0, 0], [6, 5], [0, 3]]))
        >>> distances, indices = ops.nearest(x, y, k=2)
        >>> distances.get()
        array([[ 1.      ,  2.      ],
               [ 5.      , 10.816654]], dtype=float32)
        >>> indices.get()
        array([[0, 2],
               [1, 2]])
    """
    what = "nearest"
    for name, a in (("x", x), ("y", y)):
        check_floating(what, name, a)
    x, y = asarray(x), asarray(y)
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            f"{what}: x has shape {x.shape}, y {y.shape}; expected (…, M, D) and (…, N, D)"
        )
    if not is_integer(k) or not 1 <= k <= min(_MOST_NEIGHBOURS, y.shape[-2]):
        raise ShapeError(
            f"{what}: k={quoted(k)}: expected 1 to {_MOST_NEIGHBOURS}, and at most the "
            f"{y.shape[-2]} points of y"
        )
    k = int(k)
    dtype = promote([x.dtype, y.dtype])
    shape = (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2])
    found = empty((*shape, k), dtype), empty((*shape, k), np.int64)
    outs = tuple(a[..., n] for a in found for n in range(k))
    lines, others = x[..., :, None, :], y[..., None, :, :]
    if k == 1 and y.shape[-2] <= _EXACT:
        real = value_dtype(dtype, [dtype])
        places = asarray(np.arange(y.shape[-2], dtype=real))
        _first(dtype)(lines, others, places, out=outs)
    else:
        _nearest(k, dtype)(lines, others, out=outs)
    return found
