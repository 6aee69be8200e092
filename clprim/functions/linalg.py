"""Products of matrices and vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from clprim import ops
from clprim.arrays.array import Array
from clprim.dtypes import is_integer, promote
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.sums import products
from clprim.plan.strides import elements_of, normalize_axis


def matmul(a: Any, b: Any, /, *, out: Any = None) -> Array:
    """Returns the product of matrices, batched over leading dimensions, as ``a @ b``.

    Integers are those of NumPy, which wrap; `clprim.ops.matmul` gives int32.

    Raises:
        DTypeError: No device arrays.
        ShapeError: Shapes that do not fit, or a number, which ``*`` multiplies.
    """
    for label, array in (("a", a), ("b", b)):
        dtype_of("matmul", label, array)
        if not array.ndim:
            raise ShapeError(f"matmul: {label} has no dimensions: * multiplies with a number")
    found = ops.matmul(a, b, out=out)
    return found if out is not None else _wrapped(found, a, b)


def _wrapped(found: Any, *given: Array) -> Array:
    """Returns products in NumPy's dtype: integers below 32 bits are added up in int32."""
    dtype = promote([x.dtype for x in given])
    wrapped: Array = found if found.dtype == dtype else found.astype(dtype)
    return wrapped


def matvec(a: Array, b: Array, /) -> Array:
    """Returns the products of matrices and vectors, batched over leading dimensions."""
    return matmul(a, b[..., None])[..., 0]


def dot(a: Any, b: Any, /) -> Array:
    """Returns the sum of products over the last axis of ``a`` and the last but one of ``b``."""
    if not dtype_of("dot", "a", a) or not dtype_of("dot", "b", b) or not (a.ndim and b.ndim):
        found: Array = a * b
        return found
    return matmul(a, b) if b.ndim <= 2 else tensordot(a, b, ([-1], [-2]))


def vecdot(a: Array, b: Array, /, *, axis: int = -1) -> Array:
    """Returns the sum of products along an axis, of ``a`` conjugated, of arrays that broadcast."""
    if not isinstance(axis, int) or axis >= 0:
        axis = normalize_axis("vecdot", axis, a.ndim) - a.ndim
    if not min(a.ndim, b.ndim) >= -axis or a.shape[axis] != b.shape[axis]:
        raise ShapeError(f"vecdot: axis {axis} of {a.shape} and {b.shape} is not of one length")
    found: Array = products(promote([a.dtype, b.dtype]))(_conj(a), b, axis=axis)
    return found


def vdot(a: Array, b: Array, /) -> Array:
    """Returns the sum of products of all elements, those of ``a`` conjugated."""
    return inner(_conj(a).reshape(-1), b.reshape(-1))


def _conj(a: Array) -> Array:
    return a.conj() if a.dtype.kind == "c" else a


def inner(a: Array, b: Array, /) -> Array:
    """Returns the sums of products over the last axes."""
    return tensordot(a, b, ([-1], [-1]))


def outer(a: Array, b: Array, /) -> Array:
    """Returns the products of each element of ``a`` with each of ``b``, as a matrix."""
    found: Array = a.reshape(-1, 1) * b.reshape(1, -1)
    return found


def tensordot(a: Array, b: Array, /, axes: Any = 2) -> Array:
    """Returns the sums of products over some axes of ``a`` and as many of ``b``.

    Args:
        a: A device array.
        b: Likewise.
        axes: How many: the last ones of ``a`` and the first ones of ``b``; or the axes of each.

    Raises:
        ShapeError: Axes that are not of one length.
    """
    if is_integer(axes):
        pairs: Sequence[Any] = (range(a.ndim - axes, a.ndim), range(axes))
    else:
        pairs = [(n,) if is_integer(n) else elements_of(n) for n in elements_of(axes) or ()]
        if len(pairs) != 2 or None in pairs:
            raise ShapeError(
                f"tensordot: axes={quoted(axes)}: expected how many, or the axes of each"
            )
    of_a, of_b = (
        [normalize_axis("tensordot", d, x.ndim) for d in given]
        for given, x in zip(pairs, (a, b), strict=True)
    )
    if [a.shape[d] for d in of_a] != [b.shape[d] for d in of_b]:
        raise ShapeError(f"tensordot: axes {axes} of {a.shape} and {b.shape} do not fit")
    rest_a = [d for d in range(a.ndim) if d not in of_a]
    rest_b = [d for d in range(b.ndim) if d not in of_b]
    depth = math.prod(a.shape[d] for d in of_a)
    shape = (*(a.shape[d] for d in rest_a), *(b.shape[d] for d in rest_b))
    rows = math.prod(a.shape[d] for d in rest_a)
    columns = math.prod(b.shape[d] for d in rest_b)
    left = a.transpose(*rest_a, *of_a).reshape(rows, depth)
    right = b.transpose(*of_b, *rest_b).reshape(depth, columns)
    return matmul(left, right).reshape(shape)


def einsum(subscripts: str, /, *operands: Array) -> Array:
    """Returns a sum of products, by Einstein's convention."""
    if not isinstance(subscripts, str):
        raise DTypeError("einsum: expected a string such as 'ij,jk->ik' first")
    return _wrapped(ops.einsum(subscripts, *operands), *operands)


def trace(x: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Returns the sums of diagonals."""
    return ops.sum(ops.diagonal(x, offset, axis1, axis2), -1)
