"""Elements in another order, or a part of them: views where strides can say it, else one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import zeros
from clprim.errors import ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.dims import empty_like, named_once, several_dims, whole
from clprim.ops.shared.strings import kernel
from clprim.plan.index.pieces import Diagonal
from clprim.primitives import arithmetic
from clprim.primitives.pieces import put_together


@operator(sample="x, axis=1")
def flip(
    x: Any, dims: int | Sequence[int] | None = None, *, dim: Any = None, axis: Any = None
) -> Array:
    """Returns an array back to front along some dimensions, as a view; it is its own gradient.

    Args:
        x: A device array.
        dims: The dimensions; of none the array stays as it is.
        dim: The same, as other operators call it.
        axis: The same, by NumPy's name.

    Raises:
        ShapeError: A dimension out of bounds, or named twice.
        DTypeError: No device array.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.flip(cp.asarray(np.arange(4)), 0).get()
        array([3, 2, 1, 0])
    """
    dtype_of("flip", "x", x)
    strides, offset = list(x.strides), x.offset
    for d in several_dims("flip", x.ndim, named_once("flip", dim, axis, (), dims=dims)):
        offset += max(0, x.shape[d] - 1) * strides[d]
        strides[d] = -strides[d]
    return view_of(x, x.shape, tuple(strides), offset)


@operator(numpy="rot90(x, k=1, axes=(0, 1))")
def rot90(x: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Array:
    """Returns an array turned by k · 90° in the plane of two dimensions, as a view.

    Args:
        x: A device array.
        k: How many times, from the first dimension towards the second.
        dims: The two dimensions.

    Raises:
        ShapeError: Not two dimensions.
        DTypeError: No device array.
    """
    dtype_of("rot90", "x", x)
    plane = several_dims("rot90", x.ndim, dims)
    if len(plane) != 2:
        raise ShapeError(f"rot90: dims={quoted(dims)}: expected two dimensions")
    turns = whole("rot90", "k", k) % 4
    if turns in (0, 2):
        return flip(x, plane if turns else ())
    order = list(range(x.ndim))
    order[plane[0]], order[plane[1]] = plane[1], plane[0]
    shape, strides = (tuple(v[d] for d in order) for v in (x.shape, x.strides))
    return flip(view_of(x, shape, strides, x.offset), plane[0] if turns == 1 else plane[1])


@operator(sample="x, 1, 1")
@repeatable
def roll(
    x: Any,
    shifts: int | Sequence[int],
    dims: int | Sequence[int] | None = None,
    *,
    dim: Any = None,
    axis: Any = None,
) -> Array:
    """Returns an array whose elements are moved on; those that leave it come in on the other side.

    The gradient is ``roll(grad, -shifts, dims)``.

    Args:
        x: A device array.
        shifts: How far: a number, or one for each dimension.
        dims: The dimensions; None moves elements on in C order.
        dim: The same, as other operators call it.
        axis: The same, by NumPy's name.

    Raises:
        ShapeError: Not as many shifts as dimensions, a dimension out of bounds.
        DTypeError: No device array, shifts that are no integers.
    """
    what = "roll"
    dtype = dtype_of(what, "x", x)
    given = shifts if isinstance(shifts, Sequence) else (shifts,)
    steps = [whole(what, "shifts", s) for s in given]
    dims = named_once(what, dim, axis, dims=dims)
    if dims is None:
        if len(steps) != 1:
            raise ShapeError(f"{what}: shifts={quoted(shifts)} without dims: expected one number")
        return roll(x.reshape(-1), steps[0], 0).reshape(x.shape)
    axes = several_dims(what, x.ndim, dims)
    if len(steps) != len(axes):
        raise ShapeError(f"{what}: {len(steps)} shifts for {len(axes)} dimensions")
    out = empty_like(x, x.shape, dtype)
    # Every half of each dimension moves as a whole.
    pieces: list[dict[int, tuple[int, int, int]]] = [{}]
    for d, step in zip(axes, steps, strict=True):
        n = x.shape[d]
        cut = -step % n if n else 0
        halves = [(cut, n, 0), (0, cut, n - cut)] if cut else [(0, n, 0)]
        pieces = [{**piece, d: half} for piece in pieces for half in halves]
    sources, places = [], []
    for piece in pieces if x.size else []:
        shape, source, place = list(x.shape), x.offset, [0] * x.ndim
        for d, (start, stop, to) in piece.items():
            shape[d] = stop - start
            source += start * x.strides[d]
            place[d] = to
        sources.append(view_of(x, tuple(shape), x.strides, source))
        places.append(place)
    if not put_together(what, out, list(zip(sources, places, strict=True))):
        for part, place in zip(sources, places, strict=True):
            target = out.offset + sum(p * s for p, s in zip(place, out.strides, strict=True))
            arithmetic.copy(part, out=view_of(out, part.shape, out.strides, target))
    return out


@operator(numpy="tril(x, /, k=0)", torch="tril", gradient="itself")
def tril(x: Any, diagonal: int = 0, *, out: Any = None) -> Array:
    """Returns matrices with zeros above a diagonal; the same of the gradient is its gradient.

    Args:
        x: (…, M, N).
        diagonal: The last diagonal that is kept; 0 is the main one, 1 the one above.
        out: Where the result goes; may be x.

    Raises:
        ShapeError: Fewer than two dimensions.
        DTypeError: No device array.
    """
    return _kept("tril", "<=", x, diagonal, out)


@operator(numpy="triu(x, /, k=0)", torch="triu", gradient="itself")
def triu(x: Any, diagonal: int = 0, *, out: Any = None) -> Array:
    """Returns matrices with zeros below a diagonal; see `tril`."""
    return _kept("triu", ">=", x, diagonal, out)


def _kept(what: str, comparison: str, x: Any, diagonal: int, out: Any) -> Array:
    dtype = dtype_of(what, "x", x)
    if x.ndim < 2:
        raise ShapeError(f"{what}: expected x of at least 2 dimensions, got shape {x.shape}")
    k = max(-(2**31), min(2**31 - 1, whole(what, "diagonal", diagonal)))
    if out is None and x.size:
        found = empty_like(x, x.shape, dtype)
        cut = Diagonal(k, lower=comparison == "<=")
        if put_together(what, found, [(x, [0] * x.ndim)], 0, cut):
            return found
        out = found
    expr = f"y0 = coord(-1) - coord(-2) {comparison} (long)w0 ? x0 : 0;"
    return kernel(expr, what, x.dtype)(x, np.int32(k), out=out)


@operator(numpy="diagonal(x, offset=0, axis1=0, axis2=1)")
def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """Returns a diagonal of the planes of two dimensions, as a view; it is the last dimension.

    Args:
        x: A device array.
        offset: Which one; 0 is the main diagonal, 1 the one above.
        dim1: The dimension of the planes' rows.
        dim2: That of their columns.

    Raises:
        ShapeError: Dimensions out of bounds, or the same twice.
        DTypeError: No device array.
    """
    what = "diagonal"
    dtype_of(what, "x", x)
    a, b = several_dims(what, x.ndim, (dim1, dim2))
    k = whole(what, "offset", offset)
    down, right = max(0, -k), max(0, k)
    n = max(0, min(x.shape[a] - down, x.shape[b] - right))
    rest = [d for d in range(x.ndim) if d not in (a, b)]
    start = x.offset + (down * x.strides[a] + right * x.strides[b] if n else 0)
    shape = (*(x.shape[d] for d in rest), n)
    strides = (*(x.strides[d] for d in rest), x.strides[a] + x.strides[b])
    return view_of(x, shape, strides, start)


@operator(numpy="diag(x, /, k=0)", sample="x[:, 0, 0]")
def diag(x: Any, diagonal: int = 0) -> Array:
    """Returns a matrix with a vector on a diagonal, or that diagonal of a matrix (a view).

    Args:
        x: Of one or two dimensions.
        diagonal: Which one; 0 is the main diagonal, 1 the one above.

    Raises:
        ShapeError: Another number of dimensions.
        DTypeError: No device array.
    """
    what = "diag"
    dtype = dtype_of(what, "x", x)
    k = whole(what, "diagonal", diagonal)
    if x.ndim == 2:
        return _diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(f"{what}: expected x of 1 or 2 dimensions, got shape {x.shape}")
    n = x.shape[0] + abs(k)
    out = zeros((n, n), dtype)
    if x.size:
        arithmetic.copy(x, out=_diagonal(out, k))
    return out


_diagonal = diagonal
