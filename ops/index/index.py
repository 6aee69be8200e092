"""Elements at any mix of positions and masks, read and written: names after PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense, view_of
from clprim.call.arguments import check_out
from clprim.dtypes import is_integer
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.index.gather import WRAPPED, check_index
from clprim.ops.index.scatter import index_add, index_copy
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of, is_array
from clprim.ops.shared.strings import kernel
from clprim.ops.sort.search import nonzero
from clprim.plan.strides import broadcast_shapes

_INT64 = np.dtype(np.int64)


@operator(sample="x, (None, empty(2, int64))", wrt="x")
def index(x: Any, indices: Sequence[Any], *, out: Any = None) -> Array:
    """Returns ``x[indices]`` with arrays of integers and masks, as NumPy's indexing with arrays.

    Args:
        indices: For each of the first dimensions an array of integers, which broadcast together, an
            integer, or None for all of a dimension (NumPy's ``:``). An array of bool is a mask of
            as many dimensions as it has, for whose number of ones the host waits.

    Returns:
        The arrays' dimensions stand where they were, if they are neighbours, and else in front, as
        in NumPy.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
        >>> ops.index(x, (cp.asarray(np.array([1, 0])), cp.asarray(np.array([2, 1])))).get()
        array([5., 1.], dtype=float32)
    """
    dtype_of("index", "x", x)
    return _read(x, _without_masks("index", x.shape, indices), out)


@repeatable
def _read(x: Any, given: Sequence[Any], out: Any) -> Array:
    what, dtype = "index", x.dtype
    common, rest, front = _layout(what, x, given, x.ndim)
    numbers = {d: int(i) for d, i in enumerate(given) if is_integer(i)}
    arrays = {d: i for d, i in enumerate(given) if is_array(i)}
    shape = (*(x.shape[d] for d in rest[:front]), *common, *(x.shape[d] for d in rest[front:]))
    behind = len(rest) - front
    lines: list[str] = []
    coordinates: dict[int, str] = {}
    spread: list[Array] = []
    for k, (d, i) in enumerate(arrays.items(), 1):
        tail = (1,) * behind
        spread.append(view_of(i, (*i.shape, *tail), (*i.strides, *(0,) * behind), i.offset))
        lines.append(WRAPPED.format(c=f"c{d}", i=f"x{k}", n=f"size_x0({d})"))
        lines.append(f"inside = inside && c{d} >= 0 && c{d} < size_x0({d});\n")
        lines.append(f"c{d} = inside ? c{d} : 0;\n")
        coordinates[d] = f"c{d}"
    for d, n in numbers.items():
        coordinates[d] = str(n % x.shape[d])
    for place, d in enumerate(rest):
        at = place if place < front else place + len(common)
        coordinates[d] = f"coord({at})"
    element = ", ".join(coordinates[d] for d in range(x.ndim))
    expr = "bool inside = true;\n" + "".join(lines)
    expr += f"y0 = at_x0({element});\nif (!inside) y0 = 0;"
    if not all(x.shape[d] for d in arrays) and math.prod(shape):
        raise ShapeError(f"{what}: x of shape {x.shape} has no elements along an index")
    operator = kernel(expr, what, dtype)
    return operator(x, *spread, shape=shape, out=out)


@operator(autocast="widest", sample="x, (index[:, 0],), x")
def index_put(
    x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False, *, out: Any = None
) -> Array:
    """Returns ``x`` with ``y[indices] = values``, or ``+=`` where ``accumulate`` is set.

    Args:
        indices: As in `index`.
        values: What is written, of the shape of what `index` reads, or what broadcasts to it.
        accumulate: Whether values are added, those that go to one place in order.
        out: Where the result goes; it may be ``x``.
    """
    what = "index_put"
    dtype = dtype_of(what, "x", x)
    given = _without_masks(what, x.shape, indices)
    if dtype_of(what, "values", values) != dtype:
        raise DTypeError(f"{what}: values are {values.dtype}, x {dtype}: expected the same dtype")
    while given and given[-1] is None:
        given.pop()
    places = _grids(what, x, given)
    if out is not None:
        check_out(what, 0, out, x.shape, dtype)
    try:
        shape = np.broadcast_shapes(*(i.shape for i in places))
        whole_shape = (*shape, *x.shape[len(places) :])
        if np.broadcast_shapes(values.shape, whole_shape) != whole_shape:
            raise ValueError
    except ValueError:
        several = ", ".join(str(i.shape) for i in places)
        raise ShapeError(
            f"{what}: indices of {several} and values of {values.shape} do not fit x of {x.shape}"
        ) from None
    lines = ["long place = 0, inside = 1;"]
    for n in range(len(places)):
        lines.append(WRAPPED.format(c=f"i{n}", i=f"x{n}", n=f"w{n}"))
        lines.append(f"inside = inside && i{n} >= 0 && i{n} < w{n}; place = place * w{n} + i{n};")
    count = len(places)
    sizes = [np.int64(n) for n in x.shape[:count]]
    total = int(np.prod(x.shape[:count], dtype=np.int64))
    text = "\n".join([*lines, f"y0 = inside ? place : w{count};"])
    flat = new_dense(shape, np.dtype(np.int64))
    kernel(text, what, flat.dtype)(*places, *sizes, np.int64(total), out=flat)
    spread = new_dense(whole_shape, dtype)
    kernel("y0 = x0;", "copy", dtype)(values, out=spread)
    rest = x.shape[count:]
    dense = new_dense(x.shape, dtype)
    kernel("y0 = x0;", "copy", dtype)(x, out=dense)
    write = index_add if accumulate else index_copy
    arrays = flat.reshape(-1), spread.reshape((flat.size, *rest))
    found = write(dense.reshape((total, *rest)), 0, *arrays).reshape(x.shape)
    if out is None:
        return found
    kernel("y0 = x0;", "copy", dtype)(found, out=out)
    return out


def _without_masks(what: str, shape: tuple[int, ...], indices: Any) -> list[Any]:
    """Returns indices, a mask of n dimensions as n arrays of positions."""
    several = list(indices) if isinstance(indices, list | tuple) else [indices]
    found: list[Any] = []
    for n, given in enumerate(several):
        if is_array(given) and given.dtype.kind == "b":
            at = len(found)
            covered = shape[at : at + given.ndim]
            if not given.ndim or given.shape != covered:
                raise ShapeError(f"{what}: a mask of shape {given.shape} where x has {covered}")
            rows = nonzero(given)
            found += [rows[:, d] for d in range(given.ndim)]
            continue
        if given is not None and not is_integer(given):
            check_index(what, f"index {n}", given)
        found.append(given)
    if len(found) > len(shape):
        raise ShapeError(f"{what}: {len(found)} indices for x of shape {shape}")
    if all(i is None for i in found):
        raise ShapeError(f"{what}: no array among the indices")
    return found


def _layout(
    what: str, x: Any, given: Sequence[Any], ndim: int
) -> tuple[tuple[int, ...], list[int], int]:
    """Returns the shape of what arrays name, the other dimensions, and how many stand before it."""
    axes = [d for d, i in enumerate(given) if i is not None]
    for d in axes:
        if is_integer(given[d]) and not -x.shape[d] <= given[d] < x.shape[d]:
            index = f"index {quoted(given[d])}"
            raise ShapeError(f"{what}: {index} is out of bounds for x of shape {x.shape}")
    common = broadcast_shapes(what, [given[d].shape for d in axes if is_array(given[d])])
    rest = [d for d in range(ndim) if d not in axes]
    together = axes[-1] - axes[0] + 1 == len(axes)
    return common, rest, sum(d < axes[0] for d in rest) if together else 0


def _grids(what: str, x: Any, given: Sequence[Any]) -> list[Array]:
    """Returns an array of positions for every index, all of which broadcast to what they name."""
    common, rest, front = _layout(what, x, given, len(given))
    ndim = len(common) + len(rest)
    found: list[Array] = []
    for d, i in enumerate(given):
        if is_array(i):
            behind = len(rest) - front
            shape, strides = (*i.shape, *(1,) * behind), (*i.strides, *(0,) * behind)
            found.append(view_of(i, shape, strides, i.offset))
        elif i is not None:
            one: Array = new_dense((), _INT64).fill(int(i))
            found.append(one)
        else:
            place = rest.index(d)
            at = place if place < front else place + len(common)
            line = tuple(x.shape[d] if k == at else 1 for k in range(ndim))
            found.append(kernel("y0 = index;", what, _INT64)(shape=line))
    return found
