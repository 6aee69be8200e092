"""Bilinear forms of two vectors, and back: one product of matrices, with the pairs' products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from clprim.arrays.array import Array, new_dense, view_of
from clprim.dtypes import AnyDType, promote, value_dtype
from clprim.errors import DTypeError, ShapeError
from clprim.ops.product.arguments import check_operands, product_dtypes
from clprim.ops.product.matmul import linear, linear_backward, matmul
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_mask, check_real, check_shape
from clprim.ops.shared.strings import kernel
from clprim.primitives.reduction import Reduction
from clprim.runtime.device import current_device

_PAIRS = "y0 = (typeof_y0)x0 * x1;"
_SUM = Reduction("y0 = x0 * x1;", init="reduce_y0 = 0;", step="reduce_y0 += y0;", name="bilinear")


@operator(autocast="widest", sample="x, x, empty((2, 4, 4))", wrt="x1 x2 w bias")
def bilinear(x1: Any, x2: Any, w: Any, bias: Any = None, *, out: Array | None = None) -> Array:
    """Returns Σᵢⱼ x1ᵢ · wₒᵢⱼ · x2ⱼ + biasₒ, as `torch.nn.functional.bilinear`.

    The I · J products of each row's elements take memory.

    Args:
        x1: (…, I).
        x2: (…, J).
        w: (O, I, J).
        bias: (O,).
        out: Takes the result instead of a new array; of its shape and dtype.

    Returns:
        (…, O).

    Raises:
        ShapeError: Shapes that do not fit.
        DTypeError: No device arrays of floating-point numbers.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[1, 2]]))
        >>> ops.bilinear(x, x, cp.full((1, 2, 2), 1.0), cp.full((1,), 0.5)).get()
        array([[9.5]], dtype=float32)
    """
    what = "bilinear"
    lead, outputs = _check(what, x1, x2, w)
    if bias is not None:
        check_operands(what, current_device(), bias=bias)
        check_shape(what, "bias", bias, (outputs,))
    dtype, shape = promote([x1.dtype, x2.dtype, w.dtype]), (*lead, outputs)
    if out is not None:
        check_operands(what, current_device(), out=out)
        check_shape(what, "out", out, shape)
        if out.dtype != dtype:
            raise DTypeError(f"{what}: out is {out.dtype}, expected {dtype}")
    y = linear(_pairs(what, x1, x2), _matrix(w), bias)
    y = y.reshape(shape)
    if out is None:
        return _as(dtype, y)
    copied: Array = kernel("y0 = x0;", what, dtype)(y, out=out)
    return copied


def bilinear_backward(
    grad: Any,
    x1: Any,
    x2: Any,
    w: Any,
    *,
    output_mask: Sequence[bool] = (True, True, True, True),
) -> tuple[Array | None, Array | None, Array | None, Array | None]:
    """Returns the gradients of `bilinear` in ``x1``, ``x2``, ``w`` and ``bias``.

    Args:
        grad: (…, O), the gradient in the result.
        x1: As in the call.
        x2: Likewise.
        w: Likewise.
        output_mask: Which of the four are wanted; the others are None.

    Raises:
        ShapeError, DTypeError: As `bilinear`, and of a grad of another shape.
    """
    what = "bilinear_backward"
    lead, outputs = _check(what, x1, x2, w)
    check_operands(what, current_device(), grad=grad)
    check_real(what, grad, x1, x2, w)
    check_shape(what, "grad", grad, (*lead, outputs))
    first, second, weight, bias = check_mask(what, output_mask, ("x1", "x2", "w", "bias"))
    rows = _dense(grad, (math.prod(lead), outputs))
    pairs = _pairs(what, x1, x2)
    mask = (False, weight, bias)
    _, dw, db = linear_backward(rows, pairs, _matrix(w), output_mask=mask)
    dx1 = dx2 = None
    if first or second:
        dpairs = new_dense(pairs.shape, pairs.dtype)
        planes = matmul(rows, _matrix(w), out=dpairs).reshape((*lead, *w.shape[1:]))
        dx1 = _as(x1.dtype, _SUM(planes, _wide(x2, -2), axis=-1)) if first else None
        dx2 = _as(x2.dtype, _SUM(planes, _wide(x1, -1), axis=-2)) if second else None
    return dx1, dx2, None if dw is None else _as(w.dtype, dw.reshape(w.shape)), db


def _check(what: str, x1: Any, x2: Any, w: Any) -> tuple[tuple[int, ...], int]:
    """Returns the dimensions before the vectors, and how many results each pair of these has."""
    check_operands(what, current_device(), x1=x1, x2=x2, w=w)
    for label, array in (("x1", x1), ("x2", x2), ("w", w)):
        if array.dtype.kind in "iu":
            raise DTypeError(f"{what}: {label} is {array.dtype}, expected a floating dtype")
    fits = x1.ndim and x2.ndim and x1.shape[:-1] == x2.shape[:-1]
    if not fits or w.ndim != 3 or w.shape[1:] != (x1.shape[-1], x2.shape[-1]):
        raise ShapeError(
            f"{what}: x1 {x1.shape}, x2 {x2.shape} and w {w.shape} do not fit; expected (…, I), "
            "(…, J) and (O, I, J)"
        )
    return x1.shape[:-1], w.shape[0]


def _pairs(what: str, x1: Any, x2: Any) -> Array:
    """(rows, I · J): the products of every element of one vector with every one of the other.

    They are not rounded to halves.
    """
    dtypes = [x1.dtype, x2.dtype]
    dtype, _ = product_dtypes(what, current_device(), *dtypes)
    wide = kernel(_PAIRS, what, value_dtype(dtype, dtypes))(_wide(x1, -1), _wide(x2, -2))
    found: Array = wide.reshape((math.prod(x1.shape[:-1]), x1.shape[-1] * x2.shape[-1]))
    return found


def _wide(x: Any, axis: int) -> Any:
    """(…, I) as (…, I, 1), or for the axis -2 as (…, 1, I)."""
    shape, strides = list(x.shape), list(x.strides)
    at = x.ndim + 1 + axis
    shape.insert(at, 1)
    strides.insert(at, 0)
    return view_of(x, tuple(shape), tuple(strides), x.offset)


def _matrix(w: Any) -> Array:
    return _dense(w, (w.shape[0], w.shape[1] * w.shape[2]))


def _dense(array: Any, shape: tuple[int, ...]) -> Array:
    return view_of(array, array.shape, array.strides, array.offset).reshape(shape)


def _as(dtype: AnyDType, array: Array) -> Array:
    return array if array.dtype == dtype else array.astype(dtype)
