"""What zero points change of sums of products, so that integers are multiplied as they are.

Σ (a - u) (b - v) = Σ a·b - v Σ a - u Σ b + K·u·v: the last two are a constant for every output,
the second one is a sum for every row or window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import asarray
from clprim.dtypes import AnyDType
from clprim.errors import DTypeError, ShapeError
from clprim.ops.reduction.reduce import sum as add_up
from clprim.ops.shared.checks import is_array
from clprim.ops.shared.dims import whole
from clprim.ops.shared.strings import kernel
from clprim.plan.strides import elements_of

_INT32 = np.dtype(np.int32)
_TERMS = "y0 = x0 + w0 * (w1 * x2 - x1);"


def zero_of(what: str, label: str, value: Any, dtype: AnyDType) -> int:
    """Returns a zero point of integers of a dtype."""
    zero = whole(what, label, value)
    info = np.iinfo(dtype.name)
    if not info.min <= zero <= info.max:
        raise ShapeError(f"{what}: {label}={zero} is no {dtype}")
    return zero


def weight_zeros(what: str, label: str, value: Any, dtype: AnyDType, count: int) -> Array | None:
    """The zero points of a weight, (1,) or one an output, in int32; None where all are 0."""
    if is_array(value):
        if value.dtype.kind not in "iu":
            raise DTypeError(f"{what}: {label} is {value.dtype}, expected integers")
        if value.shape not in ((1,), (count,)):
            raise ShapeError(
                f"{what}: {label} has shape {value.shape}, expected a number or ({count},)"
            )
        found: Array = kernel("y0 = x0;", "zero_points", _INT32)(value)
        return found
    several = elements_of(value)
    given = (value,) if several is None else several
    zeros = [zero_of(what, label, v, dtype) for v in given]
    if len(zeros) not in (1, count):
        raise ShapeError(f"{what}: {label} holds {len(zeros)} zero points, expected {count}")
    return asarray(np.array(zeros, np.int32)) if any(zeros) else None


def column_terms(
    b: Any, axes: Sequence[int], zero: int, zeros: Array | None, bias: Any, depth: int
) -> Any:
    """Returns the bias with what the zero point of the inputs adds to every output."""
    if not zero:
        return bias
    sums = add_up(b, tuple(axes), dtype=_INT32)
    none = asarray(np.zeros(1, np.int32))
    arrays = none if bias is None else bias, sums, none if zeros is None else zeros
    return kernel(_TERMS, "zero_points", _INT32)(*arrays, zero, depth)


def spread(zeros: Array, ndim: int) -> Array:
    """Returns zero points, one an output, as they broadcast to (…, O, 1, …)."""
    shape = (*zeros.shape, *(1,) * (ndim - 1))
    return view_of(zeros, shape, (*zeros.strides, *(0,) * (ndim - 1)), zeros.offset)
