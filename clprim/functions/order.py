"""Order, search, and elements by their positions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clprim import ops
from clprim.arrays.array import Array
from clprim.errors import DTypeError, OutOfBoundsError, ShapeError, quoted
from clprim.ops.shared.checks import dtype_of, is_array
from clprim.ops.sort.search import contained
from clprim.plan.strides import normalize_axis


def sort(
    x: Array, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True
) -> Array:
    """Returns elements in order along ``axis``; None takes x as flat."""
    line, at = (x.reshape(-1), 0) if axis is None else (x, axis)
    return ops.sort(line, at, descending)[0]


def argsort(
    x: Array, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True
) -> Array:
    """Returns the positions of elements in order along ``axis``; equal ones keep theirs."""
    line, at = (x.reshape(-1), 0) if axis is None else (x, axis)
    return ops.argsort(line, at, descending)


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """Returns the positions of elements that are not 0: an array for each dimension."""
    if not x.ndim:
        raise ShapeError("nonzero: an array without dimensions has no positions")
    found = ops.nonzero(x)
    return tuple(found[:, d] for d in range(x.ndim))


def flatnonzero(x: Array, /) -> Array:
    """Returns the positions, in C order, of elements that are not 0."""
    return ops.nonzero(x.reshape(-1))[:, 0]


def searchsorted(x1: Array, x2: Any, /, side: str = "left", *, sorter: Any = None) -> Array:
    """Returns where elements would go in a sorted line: before or (``"right"``) behind equals."""
    if side not in ("left", "right"):
        raise ShapeError(f"searchsorted: side={quoted(side)}: expected 'left' or 'right'")
    line = x1 if sorter is None else ops.take(x1, sorter)
    wanted = x2 if is_array(x2) else _by_value(x1, x2)
    return ops.searchsorted(line, wanted, right=side == "right")


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Returns whether each element of ``x1`` is one of ``x2``; ``invert``: whether it is none."""
    like = x1 if is_array(x1) else x2
    dtype_of("isin", "x1 or x2", like)
    x1, x2 = (v if is_array(v) else _by_value(like, v) for v in (x1, x2))
    found = contained(x1, sort(x2.reshape(-1)))
    return ~found if invert else found


def _by_value(like: Array, values: Any) -> Array:
    """What the host compares with an array: in float32, which every device has, if that is it."""
    host = np.asarray(values)
    if host.dtype == np.float64:
        with np.errstate(over="ignore"):
            narrow = host.astype(np.float32)
        host = narrow if np.array_equal(narrow, host, equal_nan=True) else host
    found: Array = like.namespace.asarray(host)
    return found


def take(x: Array, /, indices: Any, axis: int | None = None) -> Array:
    """Returns elements, or slices along ``axis``, by their positions; None takes x as flat."""
    dtype_of("take", "x", x)
    at = 0 if axis is None else normalize_axis("take", axis, x.ndim)
    if not is_array(indices):
        try:
            host = np.asarray(indices)
        except ValueError as error:  # lists of several lengths
            raise ShapeError(f"take: indices are no array: {error}") from None
        host = host if host.size or host.dtype.kind != "f" else host.astype(np.int64)
        if host.dtype.kind not in "iu":
            raise DTypeError(f"take: expected integers for indices, got {host.dtype}")
        size = x.size if axis is None else x.shape[at]
        for bound in (host.min(), host.max()) if host.size else ():
            if not -size <= bound < size:
                raise OutOfBoundsError(
                    f"take: index {bound} is out of bounds for axis {axis} of size {size}"
                )
        indices = x.namespace.asarray(host)
    if axis is None:
        return ops.take(x, indices)
    return ops.index(x, [*[None] * at, indices])


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Array
    inverse_indices: Array


def unique(
    x: Array,
    /,
    *,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    equal_nan: bool = True,
) -> Any:
    """Returns the distinct elements in order; where each went and how often, if asked for.

    With ``axis`` what lies along the other axes is one element, in lexicographic order. All NaN
    are one, or each is by itself if not ``equal_nan``.
    """
    return ops.unique(x, True, return_inverse, return_counts, axis, equal_nan=equal_nan)


def unique_values(x: Array, /) -> Array:
    """Returns the distinct elements in order."""
    found: Array = ops.unique(x)
    return found


def unique_counts(x: Array, /) -> UniqueCounts:
    """Returns the distinct elements in order, and how often each occurs."""
    return UniqueCounts(*ops.unique(x, return_counts=True))


def unique_inverse(x: Array, /) -> UniqueInverse:
    """Returns the distinct elements in order, and which of them each element is."""
    values, inverse = ops.unique(x, return_inverse=True)
    return UniqueInverse(values, inverse.reshape(x.shape))


def unique_all(x: Array, /) -> UniqueAll:
    """Returns the distinct elements, the first place of each, which each element is, how often."""
    values, inverse, counts = ops.unique(x, return_inverse=True, return_counts=True)
    flat = inverse.reshape(-1)
    # Sorted by value, equal ones in their order: each value's first comes after all lesser ones.
    behind = ops.cumsum(counts, 0)
    first = ops.take(ops.argsort(flat, 0), behind - counts)
    return UniqueAll(values, first, inverse.reshape(x.shape), counts)
