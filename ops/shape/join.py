"""Arrays put together, on a CPU by one walk along the result, and taken apart, as views."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import asarray
from clprim.dtypes import promote
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.index.gather import index_select
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_shape, dtype_of, is_array
from clprim.ops.shared.dims import empty_like, one_dim, whole
from clprim.primitives import arithmetic
from clprim.primitives.pieces import put_together


@operator(
    autocast="widest",
    onnx="Concat([]) axis:dim=1 @moves",
    gradient="`cat_backward`",
    sample="[x, x]",
)
@repeatable
def cat(
    arrays: Sequence[Any], dim: int | None = None, *, axis: int | None = None, out: Any = None
) -> Array:
    """Returns arrays put one behind the other along a dimension.

    Args:
        arrays: Of one shape, but for that dimension; dtypes promote as in NumPy. An array of shape
            (0,) is left out, as in PyTorch.
        dim: The dimension, 0 by default.
        axis: The same, by NumPy's name.
        out: Where the result goes; must not overlap an input.

    Returns:
        An array in the memory format of the first one.

    Raises:
        ShapeError: No arrays, shapes that do not fit, a dimension out of bounds.
        DTypeError: Not arrays, out= that cannot hold the result.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.cat([cp.full((2, 1), 1.0), cp.full((2, 2), 3.0)], dim=1).get()
        array([[1., 3., 3.],
               [1., 3., 3.]], dtype=float32)
    """
    return _join("cat", arrays_of("cat", "arrays", arrays), dim, axis, out)


def cat_backward(
    grad: Any, sizes: Sequence[int], dim: int | None = None, *, axis: int | None = None
) -> tuple[Array, ...]:
    """Returns the gradients of `cat` in its arrays: views of the result's gradient.

    Args:
        grad: Of the result.
        sizes: Of the arrays along the dimension.
        dim: As in the call.
        axis: Likewise.
    """
    return split(grad, list(sizes), dim, axis=axis)


@operator(autocast="widest", numpy="stack(arrays, /, axis=0, *, out=None)", sample="[x, x]")
@repeatable
def stack(
    arrays: Sequence[Any], dim: int | None = None, *, axis: int | None = None, out: Any = None
) -> Array:
    """Returns arrays of one shape put one behind the other along a new dimension; see `cat`."""
    given = arrays_of("stack", "arrays", arrays)
    for n, a in enumerate(given):
        if a.shape != given[0].shape:
            raise ShapeError(
                f"stack: array {n} has shape {a.shape}, array 0 has {given[0].shape}; expected one"
            )
    at = one_dim("stack", given[0].ndim + 1, dim, axis, 0)
    views = [_inserted(a, at, 1) for a in given]
    return _join("stack", views, at, None, out)


def arrays_of(what: str, label: str, arrays: Any) -> list[Any]:
    """Returns a sequence of device arrays, of one at least, as a list.

    Raises:
        ShapeError: No sequence, or an empty one.
        DTypeError: Something else among them.
    """
    if not isinstance(arrays, Sequence) or not arrays:
        raise ShapeError(f"{what}: {label}={quoted(arrays)}: expected a list of arrays")
    for n, a in enumerate(arrays):
        dtype_of(what, f"{label}[{n}]", a)
    return [*arrays]


def _inserted(a: Any, at: int, size: int) -> Array:
    """A view with a dimension more, along which the array is repeated."""
    shape = (*a.shape[:at], size, *a.shape[at:])
    return view_of(a, shape, (*a.strides[:at], 0, *a.strides[at:]), a.offset)


def _join(what: str, arrays: list[Any], dim: Any, axis: Any, out: Any) -> Array:
    dtype = promote([a.dtype for a in arrays])
    # PyTorch leaves these out for code that starts with nothing.
    parts = [a for a in arrays if a.shape != (0,)] or arrays[:1]
    first = parts[0]
    at = one_dim(what, first.ndim, dim, axis, 0)
    for n, a in enumerate(parts):
        if a.ndim != first.ndim or any(
            p != q for d, (p, q) in enumerate(zip(a.shape, first.shape, strict=True)) if d != at
        ):
            raise ShapeError(
                f"{what}: array {n} has shape {a.shape}, array 0 has {first.shape}; they may "
                f"differ in dimension {at} only"
            )
    total = sum(a.shape[at] for a in parts)
    shape = (*first.shape[:at], total, *first.shape[at + 1 :])
    if out is None:
        out = empty_like(first, shape, dtype)
    else:
        check_shape(what, "out=", out, shape)
        if out.dtype != dtype:
            raise DTypeError(f"{what}: out= is {out.dtype}, expected {dtype}")
    stops = list(itertools.accumulate(a.shape[at] for a in parts))
    starts = [0, *stops[:-1]]
    places = [[start if d == at else 0 for d in range(out.ndim)] for start in starts]
    if not put_together(what, out, list(zip(parts, places, strict=True))):
        for a, start, stop in zip(parts, starts, stops, strict=True):
            if a.size:
                arithmetic.copy(a, out=_part(out, at, start, stop))
    return out


def _part(x: Any, at: int, start: int, stop: int) -> Array:
    shape = (*x.shape[:at], stop - start, *x.shape[at + 1 :])
    return view_of(x, shape, x.strides, x.offset + start * x.strides[at])


# --- views ----------------------------------------------------------------------------------------


@operator(sample="x, 2, 1")
def split(
    x: Any,
    split_size_or_sections: int | Sequence[int],
    dim: int | None = None,
    *,
    axis: int | None = None,
) -> tuple[Array, ...]:
    """Returns an array in pieces along a dimension, as views.

    Args:
        x: A device array.
        split_size_or_sections: Size of each piece, of which the last one may be smaller; or the
            sizes of all.
        dim: The dimension, 0 by default.
        axis: The same, by NumPy's name.

    Raises:
        ShapeError: Sizes that are none or do not add up, a dimension out of bounds.
        DTypeError: No device array.
    """
    what = "split"
    dtype_of(what, "x", x)
    at = one_dim(what, x.ndim, dim, axis, 0)
    n = x.shape[at]
    if isinstance(split_size_or_sections, Sequence):
        sizes = [whole(what, "a section", s, 0) for s in split_size_or_sections]
        if sum(sizes) != n:
            raise ShapeError(f"{what}: sections {sizes} add up to {sum(sizes)}, expected {n}")
    else:
        each = whole(what, "split_size", split_size_or_sections, 1)
        sizes = [min(each, n - start) for start in range(0, n, each)] or [0]
    pieces: list[Array] = []
    start = 0
    for size in sizes:
        pieces.append(_part(x, at, start, start + size))
        start += size
    return tuple(pieces)


@operator(sample="x, 2")
def chunk(
    x: Any, chunks: int, dim: int | None = None, *, axis: int | None = None
) -> tuple[Array, ...]:
    """Returns an array in at most so many pieces of one size along a dimension, as views."""
    dtype_of("chunk", "x", x)
    at = one_dim("chunk", x.ndim, dim, axis, 0)
    count = whole("chunk", "chunks", chunks, 1)
    return split(x, max(1, -(-x.shape[at] // count)), at)


@operator(numpy="unstack(x, /, *, axis=0)", sample="x, axis=1")
def unbind(x: Any, dim: int | None = None, *, axis: int | None = None) -> tuple[Array, ...]:
    """Returns the slices of an array along a dimension, which they lack, as views."""
    dtype_of("unbind", "x", x)
    at = one_dim("unbind", x.ndim, dim, axis, 0)
    shape = (*x.shape[:at], *x.shape[at + 1 :])
    strides = (*x.strides[:at], *x.strides[at + 1 :])
    step = x.strides[at]
    return tuple(view_of(x, shape, strides, x.offset + n * step) for n in range(x.shape[at]))


@operator(sample="x[:, 0, 0, 0]")
def meshgrid(*arrays: Any, indexing: str = "ij") -> tuple[Array, ...]:
    """Returns coordinates of a grid: each array along a dimension of its own, as views.

    Args:
        arrays: One-dimensional arrays, or numbers as arrays of no dimensions.
        indexing: ``"ij"``: the first array walks along the first dimension; ``"xy"``: the first
            two change places.

    Returns:
        Views: elements that are repeated lie in one place, so they are not to be written to.

    Raises:
        ShapeError: Another ``indexing``, arrays of other dimensions.
        DTypeError: Not arrays.
    """
    what = "meshgrid"
    given = [*arrays[0]] if len(arrays) == 1 and isinstance(arrays[0], Sequence) else [*arrays]
    for n, a in enumerate(given):
        dtype_of(what, f"array {n}", a)
        if a.ndim > 1:
            raise ShapeError(f"{what}: array {n} has shape {a.shape}, expected one dimension")
        given[n] = a.reshape(a.size)  # a number is a line of one
    if indexing not in ("ij", "xy"):
        raise ShapeError(f"{what}: indexing={quoted(indexing)} is unknown; expected 'ij' or 'xy'")
    places = [*range(len(given))]
    if indexing == "xy" and len(given) > 1:
        places[:2] = [1, 0]
    shape = [0] * len(given)
    for a, place in zip(given, places, strict=True):
        shape[place] = a.shape[0]
    grids = []
    for a, place in zip(given, places, strict=True):
        strides = [0] * len(given)
        strides[place] = a.strides[0]
        grids.append(view_of(a, tuple(shape), tuple(strides), a.offset))
    return tuple(grids)


# --- repetition -----------------------------------------------------------------------------------


@operator(numpy="tile(x, repetitions, /)", sample="x, 2")
@repeatable
def tile(x: Any, dims: int | Sequence[int]) -> Array:
    """Returns an array repeated so many times along each of its last dimensions.

    Args:
        x: A device array.
        dims: How many times: a number, or one for each dimension.

    Raises:
        ShapeError: A number below 0.
        DTypeError: No device array, numbers that are no integers.
    """
    return _tiled("tile", x, dims)


@operator(sample="x, 1, 1, 2, 2")
@repeatable
def repeat(x: Any, *sizes: Any) -> Array:
    """Returns an array repeated so many times along each dimension: `torch.Tensor.repeat`.

    Args:
        x: A device array.
        sizes: How many times, one number for each dimension, of which there may be more than x has;
            as several arguments or one sequence.

    Raises:
        ShapeError: Fewer numbers than dimensions, or one below 0.
        DTypeError: No device array, numbers that are no integers.
    """
    given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
    dtype_of("repeat", "x", x)
    if len(given) < x.ndim:
        raise ShapeError(f"repeat: {len(given)} numbers for x of shape {x.shape}")
    return _tiled("repeat", x, tuple(given))


def _tiled(what: str, x: Any, dims: int | Sequence[int]) -> Array:
    dtype = dtype_of(what, "x", x)
    times = [whole(what, "dims", n, 0) for n in (dims if isinstance(dims, Sequence) else (dims,))]
    ndim = max(len(times), x.ndim)
    times = [1] * (ndim - len(times)) + times
    sizes = [1] * (ndim - x.ndim) + [*x.shape]
    steps = [0] * (ndim - x.ndim) + [*x.strides]
    shape = tuple(t * n for t, n in zip(times, sizes, strict=True))
    out = empty_like(x, shape, dtype)
    if out.size:
        # Both with a dimension for the number of the repetition before each of x's.
        split_shape = tuple(n for pair in zip(times, sizes, strict=True) for n in pair)
        target = [s for n, s in zip(sizes, out.strides, strict=True) for s in (n * s, s)]
        source = [s for step in steps for s in (0, step)]
        arithmetic.copy(
            view_of(x, split_shape, tuple(source), x.offset),
            out=view_of(out, split_shape, tuple(target), out.offset),
        )
    return out


@operator(sample="x, 2, 1")
@repeatable
def repeat_interleave(
    x: Any, repeats: Any, dim: int | None = None, *, axis: int | None = None
) -> Array:
    """Returns an array with each element repeated so many times along a dimension, side by side.

    Args:
        x: A device array.
        repeats: How many times: a number, or an array of one for each element along the dimension,
            for whose sum the host waits.
        dim: The dimension; None flattens x first.
        axis: The same, by NumPy's name.

    Raises:
        ShapeError: A dimension out of bounds, a number below 0, not as many numbers as elements.
        DTypeError: No device array, another kind of number.
    """
    what = "repeat_interleave"
    dtype = dtype_of(what, "x", x)
    times = 0 if is_array(repeats) else whole(what, "repeats", repeats, 0)
    if dim is None and axis is None:
        x, dim = x.reshape(-1), 0
    at = one_dim(what, x.ndim, dim, axis)
    if is_array(repeats):
        return index_select(x, at, _repeated(what, repeats, x.shape[at]))
    shape = (*x.shape[:at], x.shape[at] * times, *x.shape[at + 1 :])
    out = empty_like(x, shape, dtype)
    if out.size:
        spread = list(out.strides)
        spread[at] *= times
        wide = (*x.shape[: at + 1], times, *x.shape[at + 1 :])
        target = (*spread[: at + 1], out.strides[at], *spread[at + 1 :])
        arithmetic.copy(
            _inserted(x, at + 1, times), out=view_of(out, wide, tuple(target), out.offset)
        )
    return out


def _repeated(what: str, repeats: Any, length: int) -> Array:
    """The number of each element, as often as it is repeated."""
    if repeats.dtype.kind not in "iu":
        raise DTypeError(f"{what}: repeats is {repeats.dtype}, expected integers")
    if repeats.shape not in ((length,), (1,)):
        raise ShapeError(f"{what}: repeats has shape {repeats.shape}, expected ({length},)")
    each = np.broadcast_to(repeats.get(), (length,))
    if (each < 0).any():
        raise ShapeError(f"{what}: repeats={each.min()}: expected at least 0")
    if each.sum(dtype=np.float64) >= 2**31:
        raise ShapeError(f"{what}: repeats adds up to more than 2^31 elements")
    return asarray(np.repeat(np.arange(length), each))
