"""NumPy's functions of elements whose arguments choose what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.arrays.array import Array
from clprim.errors import ShapeError
from clprim.language.traced_value import Value, apply
from clprim.ops.elementwise.calls import unary
from clprim.ops.elementwise.table import ROWS
from clprim.ops.shared.arguments import dtype_of, is_array
from clprim.ops.shared.dims import whole


def round(x: Any, /, decimals: int = 0, *, out: Any = None) -> Array:
    """Returns the nearest number of so many decimals, of two the even one; integers as they are."""
    if isinstance(x, Value):
        return apply("rint", x)  # type: ignore[return-value]
    places = whole("round", "decimals", decimals)
    if not places or dtype_of("round", "x", x).kind in "biu":
        return ops.round(x, out=out)
    if not -308 <= places <= 308:
        raise ShapeError(f"round: decimals={places}: expected -308 to 308")
    return ROWS["round.up_to"].operator(x, 10.0**places, out=out)


def where(condition: Any, a: Any = None, b: Any = None, /) -> Any:
    """Returns elements of ``a`` where ``condition`` is not 0, and of ``b`` elsewhere.

    With the condition alone: the positions where it holds, as `nonzero` returns them.
    """
    if any(isinstance(v, Value) for v in (condition, a, b)):
        return apply("where", condition, a, b)
    if a is None and b is None:
        found = ops.nonzero(condition)
        return tuple(found[:, d] for d in range(condition.ndim))
    return ops.where(condition, a, b)


def clip(x: Any, /, min: Any = None, max: Any = None, *, out: Any = None) -> Array:
    """Returns elements of ``x`` brought between ``min`` and ``max``; NaN stays NaN."""
    if any(isinstance(v, Value) for v in (x, min, max)):
        return apply("clip", x, min, max)  # type: ignore[return-value]
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
