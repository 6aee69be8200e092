"""NumPy's functions of elements whose arguments choose what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.arrays.array import Array, view_of
from clprim.dtypes import bounds
from clprim.ops.elementwise.calls import unary
from clprim.ops.shared.checks import by_kind, dtype_of, is_array
from clprim.ops.shared.dims import whole
from clprim.ops.shared.strings import kernel
from clprim.primitives.pointwise import Pointwise


def round(x: Any, /, decimals: int = 0, *, out: Any = None) -> Array:
    """Returns the nearest number of so many decimals, of two the even one."""
    places = whole("round", "decimals", decimals)
    if places >= 0 or dtype_of("round", "x", x).kind not in "iu":
        return ops.round(x, decimals=places, out=out)
    if places < -19:  # more than twice the greatest integer
        return ops.mul(x, 0, out=out)
    return kernel(_TENS, "round_to_tens", x.dtype)(x, np.uint64(10**-places), out=out)


_TENS = """
    ulong a = x0 < 0 ? 0 - (ulong)x0 : (ulong)x0, n = a / w0, rest = a - n * w0;
    n += rest > w0 - rest || (rest == w0 - rest && (n & 1));
    y0 = x0 < 0 ? 0 - n * w0 : n * w0;
"""


def conj(x: Any, /, *, out: Any = None) -> Array:
    """Returns the conjugates; of real numbers these are the numbers themselves."""
    if dtype_of("conj", "x", x).kind != "c":
        return unary("positive")(x, out=out)
    return _CONJ(x, out=out)


def real(x: Any, /) -> Array:
    """Returns the real parts: a view of them, and of real numbers the array itself."""
    dtype_of("real", "x", x)
    return _as_array(x).real


def imag(x: Any, /) -> Array:
    """Returns the imaginary parts: a view of them, and of real numbers an array of zeros."""
    dtype_of("imag", "x", x)
    return _as_array(x).imag


def angle(z: Any, /) -> Array:
    """Returns the angles of complex numbers, -π to π in radians; of real ones 0 or π."""
    dtype_of("angle", "z", z)
    return _ANGLE(z)


def _as_array(x: Any) -> Array:
    return x if isinstance(x, Array) else view_of(x, x.shape, x.strides, x.offset)


_CONJ = Pointwise("y0 = conj(x0);", name="conj_of")
_ANGLE = by_kind(
    Pointwise("y0 = arg(x0);", name="angle"),
    Pointwise("y0 = arg((typeof_y0)x0);", name="angle", result_type=np.float64),
)


def where(condition: Any, a: Any = None, b: Any = None, /) -> Any:
    """Returns elements of ``a`` where ``condition`` is not 0, and of ``b`` elsewhere.

    With the condition alone: the positions where it holds, as `nonzero` returns them.
    """
    if a is None and b is None:
        found = ops.nonzero(condition)
        return tuple(found[:, d] for d in range(condition.ndim))
    return ops.where(condition, a, b)


def clip(x: Any, /, min: Any = None, max: Any = None, *, out: Any = None) -> Array:
    """Returns elements of ``x`` brought between ``min`` and ``max``; NaN stays NaN."""
    if dtype_of("clip", "x", x).kind in "iu":  # what no element passes bounds nothing
        least, greatest = bounds(x.dtype)
        min = None if type(min) is int and min < least else min
        max = None if type(max) is int and max > greatest else max
    if min is None and max is None:
        return unary("positive")(x, out=out)
    return ops.clamp(x, min, max, out=out)


def isclose(
    a: Array, b: Any, /, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False
) -> Array:
    """Returns whether elements are within ``atol + rtol · |b|`` of each other."""
    if not is_array(b) and not isinstance(b, int | float | np.generic):
        b = Array.namespace.asarray(b)
    return ops.isclose(a, b, rtol, atol, equal_nan)
