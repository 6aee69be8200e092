"""Writing at indices, element by element or in whole slices; `clprim.ops.index.taking` does it."""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array, new_dense, view_of
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.ops.index.gather import check_index
from clprim.ops.index.taking import take_in
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of, is_array, number
from clprim.ops.shared.dims import one_axis


def _along(what: str, x: Any, dim: Any, axis: Any, index: Any, src: Any) -> int:
    """Checks the arguments of the scattering operators and returns the axis."""
    dtype_of(what, "x", x)
    check_index(what, "index", index)
    at = one_axis(what, x, dim, axis)
    if is_array(src) and src.dtype != x.dtype:
        raise DTypeError(f"{what}: src is {src.dtype}, x {x.dtype}: expected the same dtype")
    if not index.size:
        return at  # of any shape: it names nothing
    short = [m > n for d, (m, n) in enumerate(zip(index.shape, x.shape, strict=False)) if d != at]
    shapes = [index.shape, x.shape] + ([src.shape] if is_array(src) else [])
    longer = is_array(src) and any(m > n for m, n in zip(index.shape, src.shape, strict=False))
    if len({len(s) for s in shapes}) != 1 or any(short) or longer or not x.ndim:
        raise ShapeError(
            f"{what}: index of shape {index.shape} does not fit x of shape {x.shape}"
            + (f" and src of shape {src.shape}" if is_array(src) else "")
        )
    return at


@operator(
    torch="scatter.src scatter.value scatter.reduce scatter.value_reduce",
    onnx="""Scatter(x, index, src) axis:dim=0;
        ScatterElements(x, index, src) axis:dim=0 @combined""",
    sample="x, 1, empty((0, 3, 4, 4), int64), x",
)
def scatter(
    x: Any,
    dim: int | None = None,
    index: Any = None,
    src: Any = None,
    *,
    value: Any = None,
    axis: int | None = None,
    reduce: str | None = None,
    out: Any = None,
) -> Array:
    """Returns ``x`` with elements replaced: ``y[index[i, j], j] = src[i, j]`` for the axis 0.

    As `torch.scatter`. Of several that go to one place the last one counts. Negative indices count
    from the end; those that are out of bounds write nothing.

    Args:
        index: Of integers, with as many dimensions as ``x``.
        src: What is written, at least as long as the index, or a number.
        value: A number instead of ``src``.
        reduce: "add" or "multiply", to combine with what is there.
        out: Where the result goes; it may be ``x``.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> index = cp.asarray(np.array([2, 0]))
        >>> ops.scatter(cp.zeros((3,)), 0, index, cp.asarray(np.array([5, 7], np.float32))).get()
        array([7., 0., 5.], dtype=float32)
    """
    how = {None: "last", "add": "sum", "multiply": "prod"}.get(reduce)
    if how is None:
        raise ShapeError(f"scatter: reduce={quoted(reduce)}: expected 'add' or 'multiply'")
    given = value if src is None else src
    at = _along("scatter", x, dim, axis, index, given)
    if not is_array(given):
        given = _filled(index, number("scatter", "value", given), x.dtype)
    return take_in("scatter", x, at, index, given, how, out=out)


def _filled(index: Any, value: Any, dtype: Any) -> Array:
    """A number in the shape of an array, without memory of that size."""
    one = new_dense((1,), dtype)
    one.fill(value)
    return view_of(one, index.shape, (0,) * index.ndim, 0)


@operator(torch="scatter_add", sample="x, 1, empty((0, 3, 4, 4), int64), x")
def scatter_add(
    x: Any,
    dim: int | None = None,
    index: Any = None,
    src: Any = None,
    *,
    axis: int | None = None,
    out: Any = None,
) -> Array:
    """Returns ``x`` with elements added: ``y[index[i, j], j] += src[i, j]`` for the axis 0.

    Those that go to one place are added in order, so results repeat bit for bit; see `scatter`.
    """
    at = _along("scatter_add", x, dim, axis, index, src)
    dtype_of("scatter_add", "src", src)
    return take_in("scatter_add", x, at, index, src, "sum", out=out)


@operator(torch="scatter_reduce.two", sample='x, 1, empty((0, 3, 4, 4), int64), x, "sum"')
def scatter_reduce(
    x: Any,
    dim: int | None = None,
    index: Any = None,
    src: Any = None,
    reduce: str = "sum",
    *,
    include_self: bool = True,
    axis: int | None = None,
    out: Any = None,
) -> Array:
    """Returns ``x`` with elements taken in by sum, prod, mean, amax or amin; see `scatter`.

    Args:
        index: Of integers, with as many dimensions as ``x``.
        src: What is taken in, at least as long as the index.
        reduce: How.
        include_self: Whether what is there takes part; where nothing goes, it stays in any case.
        out: Where the result goes; it may be ``x``.
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise ShapeError(f"scatter_reduce: reduce={quoted(reduce)}: sum, prod, mean, amax or amin")
    at = _along("scatter_reduce", x, dim, axis, index, src)
    dtype_of("scatter_reduce", "src", src)
    return take_in(
        "scatter_reduce", x, at, index, src, reduce, include_self=bool(include_self), out=out
    )


# --- whole slices --------------------------------------------------------------------------------


def _slices(what: str, x: Any, dim: Any, axis: Any, index: Any, source: Any) -> int:
    dtype_of(what, "x", x)
    check_index(what, "index", index)
    at = one_axis(what, x, dim, axis)
    dtype = dtype_of(what, "source", source)
    if dtype != x.dtype:
        raise DTypeError(f"{what}: source is {dtype}, x {x.dtype}: expected the same dtype")
    expected = (*x.shape[:at], index.size, *x.shape[at + 1 :])
    if index.ndim != 1 or source.shape != expected:
        raise ShapeError(
            f"{what}: index of shape {index.shape} and source of shape {source.shape} do not fit x "
            f"of shape {x.shape}: expected a line of indices and {expected}"
        )
    return at


@operator(torch="index_add", sample="x, 1, empty(3, int64), x")
def index_add(
    x: Any,
    dim: int | None = None,
    index: Any = None,
    source: Any = None,
    *,
    alpha: float = 1,
    axis: int | None = None,
    out: Any = None,
) -> Array:
    """Returns ``x`` with slices added: ``y[index[i]] += alpha * source[i]`` for the axis 0.

    As `torch.index_add`; those that go to one place are added in order.

    Args:
        index: A line of integers; negative ones count from the end, others out of bounds add
            nothing.
        source: A slice for each index.
        alpha: Times each slice.
        out: Where the result goes; it may be ``x``.
    """
    at = _slices("index_add", x, dim, axis, index, source)
    alpha = number("index_add", "alpha", alpha)
    return take_in("index_add", x, at, index, source, "sum", alpha=alpha, out=out)


@operator(torch="index_copy", sample="x, 1, empty(3, int64), x")
def index_copy(
    x: Any,
    dim: int | None = None,
    index: Any = None,
    source: Any = None,
    *,
    axis: int | None = None,
    out: Any = None,
) -> Array:
    """Returns ``x`` with slices replaced, of several for one place by the last; see `index_add`."""
    at = _slices("index_copy", x, dim, axis, index, source)
    return take_in("index_copy", x, at, index, source, "last", out=out)
