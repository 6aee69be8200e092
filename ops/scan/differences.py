"""Differences of neighbours, and areas below lines through points."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import zeros
from clprim.dtypes import value_dtype
from clprim.errors import ShapeError
from clprim.ops.gradients.vjp import vjp
from clprim.ops.registry import operator
from clprim.ops.scan import cumulative
from clprim.ops.shape.join import cat
from clprim.ops.shared.checks import (
    by_kind,
    dtype_of,
    is_array,
    real,
)
from clprim.ops.shared.dims import named_once, one_dim, whole
from clprim.ops.shared.strings import kernel
from clprim.ops.shared.sums import added
from clprim.primitives import arithmetic
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction
from clprim.primitives.scan import Scan


@operator(numpy="diff(x, /, n=1, axis=-1, *, prepend=None, append=None)")
def diff(
    x: Any,
    n: int = 1,
    dim: int | None = None,
    prepend: Any = None,
    append: Any = None,
    *,
    axis: int | None = None,
) -> Array:
    """Returns the differences of neighbours along a dimension, n times over.

    Args:
        x: A device array; of bools neighbours differ or not.
        n: How many times.
        dim: Along which dimension, the last one by default.
        prepend: An array that comes before x, along that dimension.
        append: One that comes behind.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.diff(cp.asarray(np.array([1, 4, 9, 16]))).get()
        array([3, 5, 7])
    """
    what = "diff"
    dtype_of(what, "x", x)
    times = whole(what, "n", n, 0)
    at = one_dim(what, x.ndim, dim, axis, -1)
    if not times:
        return x.copy()
    joined = [a for a in (prepend, x, append) if a is not None]
    found: Array = x if len(joined) == 1 else cat(joined, at)
    if found.dtype.kind != "b":
        return _differences(found, times, at)
    for _ in range(min(times, found.shape[at])):
        found = arithmetic.binary("not_equal", _later(found, at), _earlier(found, at))
    return found


def _differences(found: Array, times: int, at: int, edge: bool = False) -> Array:
    """Differences of neighbours, of which only the last ones are rounded to the array's dtype.

    With ``edge`` zeros come before and behind each time, and the earlier one is subtracted from.
    """
    dtype = found.dtype
    wide = value_dtype(dtype, [dtype])
    for n in range(times if edge else min(times, found.shape[at])):
        if edge:
            ends = zeros(tuple(1 if d == at else m for d, m in enumerate(found.shape)), found.dtype)
            found = cat([ends, found, ends], at)
        pair = _later(found, at), _earlier(found, at)
        step = kernel("y0 = x0 - x1;", "difference", dtype if n == times - 1 else wide)
        found = step(*(pair[::-1] if edge else pair))
    return found if found.dtype == dtype else found.astype(dtype)


def diff_backward(
    grad: Any, n: int = 1, dim: int | None = None, *, axis: int | None = None
) -> Array:
    """Returns the gradient of `diff` in x, with what was put before and behind it.

    ``grad`` is that of the result, along whose dimension the gradient is longer by
    n; the other arguments are as there.
    """
    what = "diff_backward"
    dtype_of(what, "grad", grad)
    at = one_dim(what, grad.ndim, dim, axis, -1)
    return _differences(grad, whole(what, "n", n, 0), at, edge=True)


def _later(x: Any, at: int) -> Array:
    return _cut(x, at, slice(1, None))


def _earlier(x: Any, at: int) -> Array:
    return _cut(x, at, slice(None, -1))


def _cut(x: Any, at: int, part: slice) -> Array:
    where = (*(slice(None),) * at, part)
    return x[where]


_EVEN = "y0 = ((typeof_y0)x0 + (typeof_y0)x1) * w0;"
_APART = "y0 = ((typeof_y0)x0 + (typeof_y0)x1) * ((typeof_y0)x2 - (typeof_y0)x3) / 2;"
_IN_FLOAT: dict[str, Any] = {"result_type": np.float32}
_NO_OPTIONS: dict[str, Any] = {}
_SCANNED: dict[str, Any] = {"init": "scan_y0 = 0;", "step": "scan_y0 += y0;"}
_AREA = {
    text: by_kind(*(
        Reduction(text, **added(1), name="trapezoid", **kind)
        for kind in (_NO_OPTIONS, {**_IN_FLOAT, "partial_type": np.float32})
    ))
    for text in (_EVEN, _APART)
}  # fmt: skip
_AREAS = {
    text: by_kind(*(
        Scan(text, **_SCANNED, name="cumulative_trapezoid", **kind)
        for kind in (_NO_OPTIONS, _IN_FLOAT)
    ))
    for text in (_EVEN, _APART)
}  # fmt: skip


@operator()
def trapezoid(
    y: Any, x: Any = None, *, dx: float = 1, dim: int | None = None, axis: int | None = None
) -> Array:
    """Returns the area below the lines through points, as `torch.trapezoid` and NumPy's.

    Args:
        y: Heights along a dimension.
        x: Where they are: of y's shape, or one line for all; ``dx`` apart where left out.
        dx: Their distance.
        dim: The dimension, the last one by default.

    Returns:
        An array without that dimension; of integers in float32.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.trapezoid(cp.asarray(np.float32([1, 2, 3])), dx=2).item()
        8.0
    """
    text, given, at = _points("trapezoid", y, x, dx, dim, axis)
    return _AREA[text](*given, axis=at)


@operator(wrt="y x")
def cumulative_trapezoid(
    y: Any, x: Any = None, *, dx: float = 1, dim: int | None = None, axis: int | None = None
) -> Array:
    """Returns the areas up to every point but the first; see `trapezoid`."""
    text, given, at = _points("cumulative_trapezoid", y, x, dx, dim, axis)
    return _AREAS[text](*given, axis=at)


def _widened(x: Any) -> Any:
    """What each area gives a point is not rounded before both are added."""
    wide = value_dtype(x.dtype, [x.dtype]) if is_array(x) else None
    return x if wide is None or x.dtype == wide else kernel("y0 = x0;", "widened", wide)(x)


def _whole_area(y: Any, x: Any = None, *, dx: Any = 1, dim: Any = None, axis: Any = None) -> Array:
    text, given, at = _points("trapezoid", _widened(y), _widened(x), dx, dim, axis)
    return _AREA[text](*given, axis=at)


def _areas_so_far(
    y: Any, x: Any = None, *, dx: Any = 1, dim: Any = None, axis: Any = None
) -> Array:
    text, given, at = _points("cumulative_trapezoid", _widened(y), _widened(x), dx, dim, axis)
    return cumulative.cumsum(_PARTS[text](*given), at)


_PARTS = {text: Pointwise(text, name="trapezoid") for text in (_EVEN, _APART)}
trapezoid_backward = vjp(trapezoid, "y x", program=_whole_area)
cumulative_trapezoid_backward = vjp(cumulative_trapezoid, "y x", program=_areas_so_far)


def _points(
    what: str, y: Any, x: Any, dx: Any, dim: Any, axis: Any
) -> tuple[str, tuple[Any, ...], int]:
    """The string, and its arguments: neighbours, and where they are or half of how far apart."""
    dtype_of(what, "y", y)
    at = one_dim(what, y.ndim, named_once(what, dim, axis), None, -1)
    heights = _later(y, at), _earlier(y, at)
    if x is None:
        return _EVEN, (*heights, real(what, "dx", dx) / 2), at
    dtype_of(what, "x", x)
    if not is_array(x) or dx != 1:
        raise ShapeError(f"{what}: x and dx={dx!r} exclude each other")
    places = x
    if x.ndim == 1:
        shape = tuple(x.shape[0] if d == at else 1 for d in range(y.ndim))
        strides = tuple(x.strides[0] if d == at else 0 for d in range(y.ndim))
        places = view_of(x, shape, strides, x.offset)
    if places.ndim != y.ndim or places.shape[at] != y.shape[at]:
        raise ShapeError(
            f"{what}: x has shape {x.shape}, y {y.shape}; expected {y.shape[at]} places"
        )
    return _APART, (*heights, _later(places, at), _earlier(places, at)), at
