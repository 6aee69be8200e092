"""NumPy's functions of elements whose arguments choose what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.arrays.array import Array
from clprim.dtypes import bounds
from clprim.ops.elementwise.calls import unary
from clprim.ops.shared.checks import dtype_of, is_array
from clprim.ops.shared.dims import whole
from clprim.ops.shared.strings import kernel


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
