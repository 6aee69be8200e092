"""Matrices made of diagonals and of blocks, and gradients of what only moves elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import zeros
from clprim.dtypes import is_integer, promote
from clprim.errors import ShapeError, quoted
from clprim.ops.registry import operator
from clprim.ops.shape.join import arrays_of, cat, stack, unbind
from clprim.ops.shape.turn import diagonal, flip, roll
from clprim.ops.shared.checks import check_shape, dtype_of
from clprim.ops.shared.dims import several_dims, whole
from clprim.plan.strides import elements_of
from clprim.primitives import arithmetic


@operator(wrt="x")
def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """Returns matrices of zeros with the last dimension of x on a diagonal, as `torch.diag_embed`.

    Args:
        x: (…, N).
        offset: Which diagonal; 0 is the main one, 1 the one above.
        dim1: The dimension of the result that is the matrices' rows.
        dim2: That of their columns.

    Returns:
        One dimension more than x; the two are N + |offset| long.

    Raises:
        ShapeError: No dimensions; ones of the result out of bounds, or the same twice.
        DTypeError: No device array.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.diag_embed(cp.asarray(np.array([[1, 2], [3, 4]]))).get()
        array([[[1, 0],
                [0, 2]],
        <BLANKLINE>
               [[3, 0],
                [0, 4]]])
    """
    what = "diag_embed"
    dtype = dtype_of(what, "x", x)
    if not x.ndim:
        raise ShapeError(f"{what}: expected x of at least 1 dimension, got shape ()")
    a, b = several_dims(what, x.ndim + 1, (dim1, dim2))
    k = whole(what, "offset", offset)
    size = x.shape[-1] + abs(k)
    rest = iter(x.shape[:-1])
    out = zeros(tuple(size if d in (a, b) else next(rest) for d in range(x.ndim + 1)), dtype)
    if x.size:
        arithmetic.copy(x, out=diagonal(out, k, a, b))
    return out


def diag_embed_backward(grad: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """Returns the gradient of `diag_embed`: that diagonal, as a view."""
    what = "diag_embed_backward"
    dtype_of(what, "grad", grad)
    if grad.ndim < 2:
        raise ShapeError(f"{what}: grad has shape {grad.shape}, expected at least 2 dimensions")
    return diagonal(grad, offset, dim1, dim2)


@operator(sample="x[:, :, 0, 0]")
def block_diag(*arrays: Any) -> Array:
    """Returns a matrix of zeros with matrices one behind the other along its diagonal.

    Args:
        arrays: Of two dimensions; fewer are one row. dtypes promote as in NumPy.

    Raises:
        ShapeError: No arrays, one of more than two dimensions.
        DTypeError: No device array.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.block_diag(cp.asarray(np.array([[1, 2]])), cp.asarray(np.array([[3]]))).get()
        array([[1, 2, 0],
               [0, 0, 3]])
    """
    what = "block_diag"
    shapes = _blocks(what, arrays)
    rows, columns = (sum(s[d] for s in shapes) for d in (0, 1))
    out = zeros((rows, columns), promote([a.dtype for a in arrays]))
    for array, block in zip(arrays, _places(out, shapes), strict=True):
        if array.size:
            arithmetic.copy(array.reshape(block.shape), out=block)
    return out


def block_diag_backward(grad: Any, shapes: Sequence[Sequence[int]]) -> tuple[Array, ...]:
    """Returns the gradients of `block_diag` in its arrays, of these shapes: views of the result's.

    Raises:
        ShapeError: The gradient of other shapes.
        DTypeError: No device array.
    """
    what = "block_diag_backward"
    dtype_of(what, "grad", grad)
    given = [elements_of(shape) for shape in elements_of(shapes) or ()]
    if not all(s is not None and len(s) <= 2 and all(map(is_integer, s)) for s in given):
        raise ShapeError(f"{what}: shapes={quoted(shapes)}: expected those of arrays, 2-d at most")
    blocks = [(*(1,) * (2 - len(s)), *s) for s in given if s is not None]
    expected = tuple(sum(s[d] for s in blocks) for d in (0, 1))
    check_shape(what, "grad", grad, expected)
    places = _places(grad, blocks)
    return tuple(
        view_of(b, tuple(s), b.strides[2 - len(s) :], b.offset)
        for b, s in zip(places, shapes, strict=True)
    )


def _blocks(what: str, arrays: Sequence[Any]) -> list[tuple[int, ...]]:
    if not arrays:
        raise ShapeError(f"{what}: expected at least one array")
    for n, a in enumerate(arrays):
        dtype_of(what, f"array {n}", a)
        if a.ndim > 2:
            raise ShapeError(f"{what}: array {n} has shape {a.shape}, expected 2 dimensions")
    return [(*(1,) * (2 - a.ndim), *a.shape) for a in arrays]


def _places(matrix: Any, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    found, row, column = [], 0, 0
    for rows, columns in shapes:
        found.append(matrix[row : row + rows, column : column + columns])
        row, column = row + rows, column + columns
    return found


# --- gradients -----------------------------------------------------------------------------------


def flip_backward(grad: Any, dims: int | Sequence[int] | None = None) -> Array:
    """Returns the gradient of `flip`: the gradient turned back, as a view."""
    dtype_of("flip_backward", "grad", grad)
    return flip(grad, dims)


def roll_backward(
    grad: Any, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None
) -> Array:
    """Returns the gradient of `roll`: the gradient rolled back."""
    dtype_of("roll_backward", "grad", grad)
    given = shifts if isinstance(shifts, Sequence) else (shifts,)
    steps = [-whole("roll_backward", "shifts", s) for s in given]
    return roll(grad, steps if isinstance(shifts, Sequence) else steps[0], dims)


def stack_backward(grad: Any, dim: int = 0) -> tuple[Array, ...]:
    """Returns the gradients of `stack` in its arrays: views of the result's gradient."""
    dtype_of("stack_backward", "grad", grad)
    return unbind(grad, dim)


def unbind_backward(grads: Sequence[Any], dim: int = 0) -> Array:
    """Returns the gradient of `unbind`, of the gradients of all its results."""
    return stack(arrays_of("unbind_backward", "grads", grads), dim)


def split_backward(grads: Sequence[Any], dim: int = 0) -> Array:
    """Returns the gradient of `split`, of the gradients of all its results."""
    return cat(arrays_of("split_backward", "grads", grads), dim)


def chunk_backward(grads: Sequence[Any], dim: int = 0) -> Array:
    """Returns the gradient of `chunk`, of the gradients of all its results."""
    return cat(arrays_of("chunk_backward", "grads", grads), dim)
