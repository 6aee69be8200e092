"""Elements and slices that rows of several indices name: ONNX's GatherND and ScatterND.

Negative indices count from the end; a row that is out of bounds reads 0, and writes nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.index.gather import WRAPPED, check_index
from clprim.ops.index.scatter import scatter, scatter_reduce
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.dims import whole
from clprim.ops.shared.strings import kernel

_REDUCE = ("sum", "prod", "amax", "amin")


@operator(onnx="GatherND batch_dims=0", sample="x, empty((0, 1), int64)")
@repeatable
def gather_nd(x: Any, index: Any, batch_dims: int = 0, *, out: Any = None) -> Array:
    """Returns what rows of an index name: of k numbers each, ``x[i0, …, ik-1]``.

    Args:
        index: Of integers, (…, k): a row names an element of x's first k dimensions behind those
            of the batch, or a slice where x has more.
        batch_dims: How many first dimensions x and the index share; a row reads its own part.

    Returns:
        The index's shape without its last dimension, then what is left of x's.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[1, 2], [3, 4]]))
        >>> ops.gather_nd(x, cp.asarray(np.array([[0, 1], [-1, 0]]))).get()
        array([2., 3.], dtype=float32)
    """
    what = "gather_nd"
    dtype_of(what, "x", x)
    check_index(what, "index", index)
    batch = whole(what, "batch_dims", batch_dims, 0)
    k = index.shape[-1] if index.ndim else 0
    if index.ndim <= batch or batch + k > x.ndim or index.shape[:batch] != x.shape[:batch]:
        raise ShapeError(
            f"{what}: an index of shape {index.shape} for x of shape {x.shape} and {batch_dims=}"
        )
    q = index.ndim - 1
    own = "".join(f"coord({d}), " for d in range(q))
    lines = ["bool inside = true;"]
    for n in range(k):
        size = f"size_x0({batch + n})"
        lines.append(WRAPPED.format(c=f"c{n}", i=f"at_x1({own}{n})", n=size))
        lines.append(f"inside = inside && c{n} >= 0 && c{n} < {size}; c{n} = inside ? c{n} : 0;")
    rest = range(q, q + x.ndim - batch - k)
    element = ", ".join([*(f"coord({d})" for d in range(batch)), *(f"c{n}" for n in range(k)),
                         *(f"coord({d})" for d in rest)])  # fmt: skip
    shape = (*index.shape[:-1], *x.shape[batch + k :])
    if not x.size and math.prod(shape):
        raise ShapeError(f"{what}: x of shape {x.shape} has no elements")
    lines.append(f"y0 = at_x0({element}); if (!inside) y0 = 0;")
    return kernel("\n".join(lines), what, x.dtype)(x, index, shape=shape, out=out)


@operator(
    onnx="ScatterND(x, index, updates) reduction:reduce='none'",
    sample="x, empty((2, 1), int64), empty((2, 3, 4, 4))",
)
@repeatable
def scatter_nd(x: Any, index: Any, updates: Any, reduce: str | None = None) -> Array:
    """Returns x with what rows of an index name replaced: ``y[i0, …, ik-1] = updates[…]``.

    Args:
        index: Of integers, (…, k), as in `gather_nd`. Of rows that are alike the last one counts.
        updates: Of x's dtype and the shape that `gather_nd` returns.
        reduce: "sum", "prod", "amax" or "amin", to combine with what is there.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x, index = cp.zeros((2, 2)), cp.asarray(np.array([[1]]))
        >>> ops.scatter_nd(x, index, cp.asarray(np.float32([[5, 6]]))).get()
        array([[0., 0.],
               [5., 6.]], dtype=float32)
    """
    what = "scatter_nd"
    dtype = dtype_of(what, "x", x)
    check_index(what, "index", index)
    if dtype_of(what, "updates", updates) != dtype:
        raise DTypeError(f"{what}: updates are {updates.dtype}, x {dtype}: expected the same dtype")
    if reduce is not None and reduce not in _REDUCE:
        raise DefinitionError(f"{what}: reduce={quoted(reduce)}: expected one of {_REDUCE}")
    k = index.shape[-1] if index.ndim else 0
    if not index.ndim or k > x.ndim or updates.shape != (*index.shape[:-1], *x.shape[k:]):
        raise ShapeError(
            f"{what}: an index of shape {index.shape} and updates of shape {updates.shape} for x "
            f"of shape {x.shape}"
        )
    rows, inner, count = (math.prod(n) for n in (x.shape[:k], x.shape[k:], index.shape[:-1]))
    if not count or not x.size:
        return kernel("y0 = x0;", what, dtype)(x)
    lines = ["long at = 0; bool inside = true;"]
    for n in range(k):
        wrapped = WRAPPED.format(c="c", i=f"at_x0(coord(0), {n})", n=f"w{n}")
        lines.append(f"{{ {wrapped} inside = inside && c >= 0 && c < w{n}; at = at * w{n} + c; }}")
    lines.append(f"y0 = inside ? at : w{k};")
    sizes = [np.int64(n) for n in (*x.shape[:k], rows)]
    flat = index.reshape((count, k))
    find = kernel("\n".join(lines), what, np.dtype(np.int64))
    places = find(flat, *sizes, shape=(count, inner))
    flat, given = x.reshape((rows, inner)), updates.reshape((count, inner))
    if reduce is None:
        return scatter(flat, 0, places, given).reshape(x.shape)
    if dtype.kind == "b":
        flat, given = (a.astype(np.uint8) for a in (flat, given))
    found = scatter_reduce(flat, 0, places, given, reduce)
    return found.astype(dtype).reshape(x.shape)
