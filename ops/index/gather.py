"""Elements that an array of integers names: names and arguments after PyTorch.

A negative index counts from the end; one of an unsigned dtype cannot be negative, however large it
is. What is still out of bounds reads 0: a device cannot raise an error, and must not read what
belongs to others.
"""

from __future__ import annotations

import math
from typing import Any

from clprim.arrays.array import Array, new_dense, view_of
from clprim.call.arguments import check_out
from clprim.errors import DTypeError, ShapeError
from clprim.graph.repeat import repeatable
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.dims import one_dim
from clprim.ops.shared.strings import kernel, places
from clprim.plan.strides import broadcast_shapes

# From an index to a coordinate.
WRAPPED = "long {c} = {i}; {c} = {i} < 0 ? {c} + {n} : {c};\n"


def check_index(what: str, label: str, array: Any) -> None:
    """Raises unless the value is a device array of integers."""
    if dtype_of(what, label, array).kind not in "iu":
        raise DTypeError(f"{what}: expected integers for {label}, got {array.dtype}")


@operator(torch="take", sample="x, index", wrt="x")
@repeatable
def take(x: Any, index: Any, *, out: Any = None) -> Array:
    """Returns elements of x by their position in C order, in the shape of the index.

    Args:
        index: Of integers.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[1, 2], [3, 4]]))
        >>> ops.take(x, cp.asarray(np.array([3, 0, -2]))).get()
        array([4., 1., 3.], dtype=float32)
    """
    dtype = dtype_of("take", "x", x)
    check_index("take", "index", index)
    if x.ndim == 0:
        x = view_of(x, (1,), (0,), x.offset)
    total = " * ".join(f"size_x0({d})" for d in range(x.ndim))
    lines = [WRAPPED.format(c="c", i="x1", n=total)]
    lines += [f"long total = {total}, rest = c;"]
    for d in range(x.ndim - 1, 0, -1):
        lines.append(f"long c{d} = rest % size_x0({d}); rest /= size_x0({d});")
    element = ", ".join(["rest", *(f"c{d}" for d in range(1, x.ndim))])
    lines.append(f"y0 = c >= 0 && c < total ? at_x0({element}) : 0;")
    guarded = "\n".join(lines) if x.size else "(void)x1; y0 = 0; (void)size_x0(0);"
    return kernel(guarded, "take", dtype)(x, index, out=out)


@operator(
    onnx="GatherElements(x, index) axis:dim=0 @moves",
    sample="x, 1, empty((0, 3, 4, 4), int64)",
    wrt="x",
)
@repeatable
def gather(
    x: Any, dim: int | None = None, index: Any = None, *, axis: int | None = None, out: Any = None
) -> Array:
    """Returns ``x[…, index[…, i, …], …]``: along one dimension the index says which element.

    Args:
        index: Of integers, with as many dimensions as x, and no longer in any other one; without
            elements of any shape.

    Returns:
        An array of the index's shape.
    """
    what = "gather"
    dtype_of(what, "x", x)
    check_index(what, "index", index)
    at = one_dim(what, x.ndim, dim, axis)
    if not index.size:
        return _nothing(what, x, index.shape, out)
    longer = index.ndim == x.ndim and any(
        m > n for d, (m, n) in enumerate(zip(index.shape, x.shape, strict=True)) if d != at
    )
    if index.ndim != x.ndim or longer:
        raise ShapeError(
            f"{what}: index of shape {index.shape} does not fit x of shape {x.shape}; only in "
            f"dimension {at} may it be longer"
        )
    return _along(what, x, index, at, out)


@operator(
    numpy="take_along_axis(x, indices, /, axis=-1)",
    sample="x, empty((0, 3, 4, 2), int64), 3",
    wrt="x",
)
@repeatable
def take_along_dim(
    x: Any, indices: Any, dim: int | None = None, *, axis: int | None = None, out: Any = None
) -> Array:
    """Returns elements along a dimension by their number there; other dimensions broadcast.

    Args:
        indices: Of integers, with as many dimensions as x.
        dim: The dimension; None takes both arrays as flat.
    """
    what = "take_along_dim"
    dtype_of(what, "x", x)
    check_index(what, "indices", indices)
    if dim is None and axis is None:
        return _along(what, x.reshape(-1), indices.reshape(-1), 0, out)
    at = one_dim(what, x.ndim, dim, axis)
    if indices.ndim != x.ndim:
        raise ShapeError(
            f"{what}: indices of shape {indices.shape} for x of shape {x.shape}: expected as many "
            "dimensions"
        )
    rest = [(*a.shape[:at], 1, *a.shape[at + 1 :]) for a in (x, indices)]
    shape = [*broadcast_shapes(what, rest)]
    shape[at] = indices.shape[at]
    wide = [n if d != at else x.shape[at] for d, n in enumerate(shape)]
    steps = tuple(
        0 if n == 1 and d != at else s
        for d, (n, s) in enumerate(zip(x.shape, x.strides, strict=True))
    )
    return _along(what, view_of(x, tuple(wide), steps, x.offset), indices, at, out, tuple(shape))


def _nothing(what: str, x: Any, shape: tuple[int, ...], out: Any) -> Array:
    """Returns a result without elements, of which none is read."""
    if out is None:
        return new_dense(shape, x.dtype)
    check_out(what, 0, out, shape, x.dtype)
    return out


def _along(
    what: str, x: Any, index: Any, at: int, out: Any, shape: tuple[int, ...] | None = None
) -> Array:
    wanted = index.shape if shape is None else shape
    if not x.shape[at]:
        if not math.prod(wanted):
            return _nothing(what, x, wanted, out)
        raise ShapeError(f"{what}: dimension {at} of x, of shape {x.shape}, has no elements")
    lines = WRAPPED.format(c="c", i="x1", n=f"size_x0({at})")
    lines += f"bool inside = c >= 0 && c < size_x0({at});\n"
    lines += f"c = inside ? c : 0;\ny0 = at_x0({places(x.ndim, {at: 'c'})});\n"
    lines += "if (!inside) y0 = 0;"
    return kernel(lines, what, x.dtype)(x, index, shape=shape, out=out)


@operator(torch="index_select", sample="x, 1, empty(2, int64)", wrt="x")
@repeatable
def index_select(
    x: Any, dim: int | None = None, index: Any = None, *, axis: int | None = None, out: Any = None
) -> Array:
    """Returns the slices of x along a dimension that an index names.

    Args:
        index: Of integers, of one dimension (or none, which is one index).

    Returns:
        x's shape, with the index's length in that dimension, in x's memory format.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[1, 2], [3, 4], [5, 6]]))
        >>> ops.index_select(x, 0, cp.asarray(np.array([2, 0]))).get()
        array([[5., 6.],
               [1., 2.]], dtype=float32)
    """
    what = "index_select"
    dtype_of(what, "x", x)
    check_index(what, "index", index)
    if index.ndim > 1:
        raise ShapeError(f"{what}: expected an index of one dimension, got shape {index.shape}")
    at = one_dim(what, x.ndim, dim, axis)
    count = index.shape[0] if index.ndim else 1
    step = index.strides[0] if index.ndim else 0
    spread = view_of(
        index,
        tuple(count if d == at else 1 for d in range(x.ndim)),
        tuple(step if d == at else 0 for d in range(x.ndim)),
        index.offset,
    )
    shape = (*x.shape[:at], count, *x.shape[at + 1 :])
    return _along(what, x, spread, at, out, shape)
