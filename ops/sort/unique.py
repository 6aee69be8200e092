"""Distinct values, or distinct slices along an axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense
from clprim.arrays.creation import asarray
from clprim.errors import ShapeError
from clprim.ops.index.gather import index_select
from clprim.ops.reduction.reduce import any as differ
from clprim.ops.registry import operator
from clprim.ops.scan.cumulative import cumsum
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.dims import named_once, one_axis
from clprim.ops.shared.flags import distinct
from clprim.ops.shared.strings import kernel, places
from clprim.ops.sort.keys import with_axis
from clprim.ops.sort.search import FIRST, numbered
from clprim.ops.sort.sort import ordered

_INT64 = np.dtype(np.int64)


@operator()
@distinct
def unique(
    x: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
    *,
    return_index: bool = False,
    axis: int | None = None,
    equal_nan: bool = False,
) -> Array | tuple[Array, ...]:
    """Returns the distinct elements of an array in order, or the distinct slices along an axis.

    Slices are in lexicographic order, and so are complex numbers by their parts. The host waits for
    their number.

    Args:
        sorted: Taken as PyTorch has it; they are always sorted.
        return_inverse: Whether to return as well which of them each element, or slice, is.
        return_counts: Whether to return as well how often each occurs.
        dim: The axis of the slices; None for elements.
        return_index: Whether to return as well, behind the elements as NumPy does, where each
            occurs first.
        equal_nan: Whether elements that are NaN are one, as NumPy has it; else each is by itself.

    Returns:
        The elements or slices, or a tuple.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.array([[3, 1], [2, 9], [3, 1]]))
        >>> rows, inverse = ops.unique(x, return_inverse=True, dim=0)
        >>> rows.get().tolist(), inverse.get().tolist()
        ([[2, 9], [3, 1]], [1, 0, 1])
    """
    dtype = dtype_of("unique", "x", x)
    dim = named_once("unique", dim, axis)
    if dim is None:
        along, shape, flat = 0, x.shape, asarray(x).reshape(-1)
    else:
        along = one_axis("unique", x, dim, None)
        shape = x.shape[along : along + 1]
        flat = _slices(x, along)
    if not flat.size:
        empty = new_dense((0,), _INT64)
        found = [flat if dim is None else x]
        found += [empty] if return_index else []
        found += [empty.reshape(shape)] if return_inverse else []
        found += [empty] if return_counts else []
        return found[0] if len(found) == 1 else tuple(found)
    values, order = (_by_parts if dtype.kind == "c" and dim is None else ordered)("unique", flat, 0)
    text = "typeof_x0 a = at_x0(coord(0)), b = at_x0(coord(0) ? coord(0) - 1 : 0);"
    text += f"y0 = coord(0) == 0 || (a != b{' && (a == a || b == b)' if equal_nan else ''});"
    flags = kernel(text, "unique", np.dtype(np.bool_))(values, shape=values.shape)
    numbers, count = numbered(flags)
    line = (count,)
    text = FIRST + "y0 = at_x1(low);"
    first = None
    if dim is not None or return_index:  # the order is stable: what occurs first comes first
        first = kernel(text, "unique", _INT64)(numbers, order, shape=line)
    if dim is None:
        found = [kernel(text, "unique", dtype)(numbers, values, shape=line)]
    else:
        found = [index_select(x, along, first)]
    found += [first] if return_index else []
    if return_inverse:
        _, back = ordered("unique", order, 0)
        which = kernel("y0 = at_x1(x0) - 1;", "unique", _INT64)(back, numbers)
        found.append(which.reshape(shape))
    if return_counts:
        found.append(_lengths(numbers, count))
    return found[0] if len(found) == 1 else tuple(found)


@operator()
@distinct
def unique_consecutive(
    x: Any,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
    *,
    axis: int | None = None,
) -> Array | tuple[Array, ...]:
    """Returns the first of each run of equal elements, or of equal slices along an axis.

    Each NaN is by itself. The host waits for the number of runs.

    Args:
        return_inverse: Whether to return as well which run each element, or slice, is in.
        return_counts: Whether to return as well how long each is.
        dim: The axis of the slices; None for the elements in C order.

    Returns:
        The elements or slices, or a tuple.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.array([1, 1, 2, 2, 1]))
        >>> ops.unique_consecutive(x, return_counts=True)[1].get()
        array([2, 2, 1])
    """
    what = "unique_consecutive"
    dtype_of(what, "x", x)
    dim = named_once(what, dim, axis)
    shape, along = x.shape, 0
    if dim is None:
        x = asarray(x).reshape(-1)
    else:
        along = one_axis(what, x, dim, None)
        x = x.reshape(1) if not x.ndim else x
        shape = x.shape[along : along + 1]
    before = places(x.ndim, {along: f"coord({along}) - 1"})
    text = f"y0 = coord({along}) == 0 || x0 != at_x0({before});"
    flags = new_dense(x.shape, np.dtype(np.bool_))
    kernel(text, what, flags.dtype)(x, out=flags)
    if x.ndim > 1:
        flags = differ(flags, axis=tuple(d for d in range(x.ndim) if d != along))
    numbers, count = numbered(flags)
    first = kernel(FIRST + "y0 = low;", what, _INT64)(numbers, shape=(count,)) if count else None
    found = [x if first is None else index_select(x, along, first)]
    if return_inverse:
        which = new_dense(shape, _INT64)
        if count:
            which = kernel("y0 = x0 - 1;", what, _INT64)(numbers).reshape(shape)
        found.append(which)
    if return_counts:
        found.append(_lengths(numbers, count))
    return found[0] if len(found) == 1 else tuple(found)


def _by_parts(what: str, x: Array, axis: int) -> tuple[Array, Array]:
    """Complex numbers of a line in order of real parts, and of imaginary ones where these agree."""
    order = ordered(what, x.imag, axis)[1]
    order = order[ordered(what, x.real[order], axis)[1]]
    return x[order], order


def _lengths(numbers: Array, count: int) -> Array:
    """How often each number from 1 occurs in an array that counts up to ``count``."""
    if not count:
        return new_dense((0,), _INT64)
    text = f"""
        long first;
        {{ {FIRST} first = low; }}
        {FIRST.replace("(coord(0) + 1)", "(coord(0) + 2)")}
        y0 = low - first;
    """
    return kernel(text, "unique", _INT64)(numbers, shape=(count,))


def _slices(x: Any, axis: int) -> Array:
    """A number for each slice: equal ones have the same, and they order as the slices do.

    Numbers of the elements at each place are put together by pairs of neighbours, and these are
    numbered again, so that a slice of n elements takes about log2(n) sorts of all.
    """
    length = x.shape[axis] if x.ndim else 0
    places = math.prod(x.shape) // length if length else math.prod(x.shape[:axis])
    if not x.ndim or (length and not places):
        raise ShapeError(f"unique: slices of shape {x.shape} along axis {axis} have no elements")
    if not length:
        return new_dense((0,), _INT64)
    moved = with_axis(x, axis, -1)
    lines = new_dense(moved.shape, x.dtype)
    kernel("y0 = x0;", "copy", x.dtype)(moved, out=lines)
    ranks = _ranks(lines.reshape(places, length))
    while ranks.shape[0] > 1:
        # A last place without a neighbour is put together with zeros.
        text = """
            long i = 2 * coord(0), j = coord(1);
            y0 = at_x0(i, j) * size_x0(1) + (inside_x0(i + 1, j) ? at_x0(i + 1, j) : 0);
        """
        pairs = ((ranks.shape[0] + 1) // 2, length)
        ranks = _ranks(kernel(text, "unique_pairs", _INT64)(ranks, shape=pairs))
    return ranks.reshape(length)


def _ranks(lines: Any) -> Array:
    """How many distinct elements of its line are less than each element."""
    values, order = ordered("unique", lines, 1)
    text = """
        long i = coord(0), j = coord(1);
        y0 = j && at_x0(i, j) != at_x0(i, j - 1);
    """
    steps = cumsum(kernel(text, "unique_steps", _INT64)(values, shape=values.shape), 1)
    _, back = ordered("unique", order, 1)
    return kernel("y0 = at_x1(coord(0), x0);", "unique_ranks", _INT64)(back, steps)
