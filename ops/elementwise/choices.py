"""Elementwise choices and combinations of several arrays, each a string or two.

Names and arguments are PyTorch's; shapes broadcast, and dtypes promote as in NumPy. Wherever an
array is expected beside another one, a Python number will do.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.dtypes import promote, scalar_dtype
from clprim.errors import DefinitionError
from clprim.ops.elementwise.table import ROWS
from clprim.ops.registry import operator
from clprim.ops.shared.checks import Operator, dtype_of, is_array, number, operand
from clprim.ops.shared.strings import kernel
from clprim.primitives.pointwise import Pointwise


@operator(
    onnx="Where @moves; com.microsoft::QLinearWhere(c, a, sa, za, b, sb, zb, sy, zy) @steps",
    sample="x, x, x",
)
def where(condition: Any, a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns elements of ``a`` where ``condition`` is not zero, and of ``b`` elsewhere.

    Args:
        condition: An array, of bool or any other dtype; it takes no part in the promotion.
        a: An array or a number.
        b: Likewise. Two numbers give float32 where one is a float, int64 where one is an int, and
            else bool.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.array([1, -2, 3], np.float32))
        >>> ops.where(x > 0, x, 0).get()
        array([1., 0., 3.], dtype=float32)
    """
    dtype_of("where", "condition", condition)
    arrays = [v for v in (a, b) if is_array(v)]
    a, b = (operand("where", v) if arrays else number("where", "a or b", v) for v in (a, b))
    if arrays:
        common = promote([v.dtype for v in arrays])
        given = [common, *(scalar_dtype(v, common) for v in (a, b) if not is_array(v))]
    else:
        # PyTorch's: an int beside a float takes the float's dtype, not float64.
        kinds = {type(v) for v in (a, b)}
        given = [np.dtype(next(d for kind, d in _OF_NUMBERS.items() if kind in kinds))]
    dtype = promote(given)
    names = iter(("x1", "x2") if arrays else ()), iter(("w0", "w1"))
    labels = [next(names[0] if is_array(v) else names[1]) for v in (a, b)]
    for v in (a, b):
        if isinstance(v, int) and dtype.kind in "iu":
            scalar_dtype(v, dtype)  # says which is out of bounds
    # A number is given the result's dtype, so that it need not fit the condition's.
    scalars = [
        dtype.type(v) if dtype.kind in "iu" or dtype == np.float64 else v
        for v in (a, b)
        if not is_array(v)
    ]
    text = f"y0 = x0 != 0 ? (typeof_y0){labels[0]} : (typeof_y0){labels[1]};"
    return kernel(text, "where", dtype)(condition, *arrays, *scalars, out=out)


_OF_NUMBERS = {float: np.float32, int: np.int64, bool: np.bool_}


@lru_cache(maxsize=16)
def _clamp(low: str, high: str) -> Operator:
    """A NaN fails both comparisons and comes through; so does one among the bounds.

    Its gradient is PyTorch's: that of ``x`` from bound to bound, and none of NaN.
    """
    steps = ["typeof_y0 x = x0;"]
    if low:
        steps.append(f"typeof_y0 low = {low}; x = x >= low || x != x ? x : low;")
    if high:
        steps.append(f"typeof_y0 high = {high}; x = x <= high || x != x ? x : high;")
    text = " ".join([*steps, "y0 = x;"])
    both = low and high
    inside = [f"x0 {sign} {bound}" for sign, bound in ((">=", low), ("<=", high)) if bound]
    slopes = [f"gx0 = {' && '.join(inside)} ? gy0 : 0;"]
    if low:
        slopes.append(f"g{low} = x0 < {low}{f' && {low} < {high}' * bool(both)} ? gy0 : 0;")
    if high:
        slopes.append(f"g{high} = x0 > {high}{f' || {high} < {low}' * bool(both)} ? gy0 : 0;")
    return Pointwise(text, name="clamp_of", gradient=" ".join(slopes))


@operator(sample="x, 0, 1")
def clamp(x: Any, min: Any = None, max: Any = None, *, out: Any = None) -> Array:
    """Returns elements of ``x`` brought between ``min`` and ``max``; NaN stays NaN.

    Args:
        min: The least result: an array, a number, or None for no bound.
        max: The greatest result, likewise; it decides where it is below ``min``.
    """
    if min is None and max is None:
        raise DefinitionError("clamp: expected min, max or both")
    arrays: list[Any] = [x]
    scalars: list[Any] = []
    labels: list[str] = []
    for label, bound in (("min", min), ("max", max)):
        if bound is None:
            labels.append("")
        elif is_array(bound):
            labels.append(f"x{len(arrays)}")
            arrays.append(bound)
        else:
            labels.append(f"w{len(scalars)}")
            scalars.append(number("clamp", label, bound))
    return _clamp(*labels)(*arrays, *scalars, out=out)


@operator(sample="x, x, 0.5")
def lerp(start: Any, end: Any, weight: Any, *, out: Any = None) -> Array:
    """Returns start + weight · (end - start).

    Args:
        start: An array, which is the result at the weight 0.
        end: An array, which is the result at the weight 1.
        weight: An array or a number.
    """
    if is_array(weight):
        return ROWS["lerp.by_array"].operator(start, end, weight, out=out)
    return ROWS["lerp"].operator(start, end, number("lerp", "weight", weight), out=out)
