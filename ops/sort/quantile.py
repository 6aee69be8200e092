"""What sorting says of a line: its median, quantiles, and what occurs most often."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray
from clprim.errors import ShapeError, quoted
from clprim.ops.index.gather import take_along_dim
from clprim.ops.reduction.extrema import argmax
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating, dtype_of, is_array
from clprim.ops.shared.dims import one_axis
from clprim.ops.shared.flags import middle
from clprim.ops.shared.strings import kernel
from clprim.ops.sort.sort import in_order, ordered, without
from clprim.primitives.scan import Scan


@operator(torch="median.dim", sample="x, 1")
@middle
def median(
    x: Any, dim: int | None = None, keepdim: bool = False, *, axis: int | None = None
) -> Array | tuple[Array, Array]:
    """Returns the median: of all elements, or (values, indices) along an axis.

    As `torch.median`: of an even number the lower one, and NaN where there is one.

    Args:
        dim: Along which axis; None for all elements.
    """
    dtype_of("median", "x", x)
    everything = dim is None and axis is None
    if everything:
        x = x.reshape(-1)
    at = one_axis("median", x, dim, axis, -1)
    length = x.shape[at] if x.ndim else 1
    if not length:
        raise ShapeError(f"median: no elements along axis {at} of shape {x.shape}")
    values, indices = in_order("median", x, at, False, (length - 1) // 2, 1)
    if x.dtype.kind not in "biu" and x.size:
        # The greatest is a NaN if there is one; of several NaN, the first.
        last, place = in_order("median", x, at, True, 0, 1)
        text = "y0 = x1 != x1 ? x1 : x0; y1 = x1 != x1 ? x3 : x2;"
        chosen = kernel(text, "median", x.dtype, np.dtype(np.int64))
        values, indices = chosen(values, last, indices, place)
    if everything:
        return values.reshape(())
    return (values, indices) if keepdim or not x.ndim else without(at, values, indices)


@operator(torch="nanmedian.dim", sample="x, 1")
@middle
def nanmedian(
    x: Any, dim: int | None = None, keepdim: bool = False, *, axis: int | None = None
) -> Array | tuple[Array, Array]:
    """Returns the median of what is no NaN; see `median`. It is NaN where there is nothing else."""
    what = "nanmedian"
    if dtype_of(what, "x", x).kind in "biu":
        return median(x, dim, keepdim, axis=axis)
    everything = dim is None and axis is None
    if everything:
        x = x.reshape(-1)
    at = one_axis(what, x, dim, axis, -1)
    single = not x.ndim
    x = x.reshape(1) if single else x
    if not x.shape[at]:
        raise ShapeError(f"{what}: no elements along axis {at} of shape {x.shape}")
    values, order = ordered(what, x, at)
    text = f"""
        {_numbers("x0", x.ndim, at)}
        long place = known ? (known - 1) / 2 : 0;
        y0 = {_element("x0", x.ndim, at, "place")};
        y1 = {_element("x1", x.ndim, at, "place")};
    """
    shape = (*x.shape[:at], 1, *x.shape[at + 1 :])
    chosen = kernel(text, what, x.dtype, np.dtype(np.int64))
    values, indices = chosen(values, order, shape=shape)
    found = values, indices
    if everything or single:
        found = (found[0].reshape(()), found[1].reshape(()))
        return found[0] if everything else found
    return found if keepdim else without(at, found[0], found[1])


def _element(array: str, ndim: int, at: int, place: str, *, behind: bool = False) -> str:
    """C for a place of the line of a result, which may have one more axis before its own."""
    own = [f"coord({d + (behind and d < at)})" for d in range(ndim)]
    own[at] = place
    return f"at_{array}({', '.join(own)})"


def _numbers(array: str, ndim: int, at: int, *, behind: bool = False) -> str:
    """C that declares ``known``: the elements of a sorted line that are no NaN."""
    element = _element(array, ndim, at, "middle", behind=behind)
    return f"""
        long known = 0, end = size_{array}({at});
        while (known < end) {{
            long middle = known + (end - known) / 2;
            if ({element} == {element}) known = middle + 1;
            else end = middle;
        }}
    """


_RUNS = Scan(
    "y0 = x0 == x0;",
    init="scan_y0 = 0;",
    step="scan_y0 += y0;",
    result_type=np.int64,
    name="run_lengths",
)


@operator(torch="mode")
def mode(
    x: Any, dim: int = -1, keepdim: bool = False, *, axis: int | None = None
) -> tuple[Array, Array]:
    """Returns (values, indices) of what occurs most often along an axis, as `torch.mode` does.

    Of values that occur as often the least counts, and of its places the last. A NaN equals none.

    Args:
        x: An array.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> values, indices = ops.mode(cp.asarray(np.array([2, 9, 2, 9, 5])))
        >>> values.item(), indices.item()
        (2, 2)
    """
    what = "mode"
    at = one_axis(what, x, None if axis is not None and dim == -1 else dim, axis, -1)
    single = not x.ndim
    x = x.reshape(1) if single else x
    if not x.shape[at]:
        raise ShapeError(f"{what}: no elements along axis {at} of shape {x.shape}")
    values, order = ordered(what, x, at)
    longest = argmax(_RUNS(values, axis=at, segments=values), axis=at, keepdims=True)
    found = [take_along_dim(a, longest, at) for a in (values, order)]
    if single:
        return found[0].reshape(()), found[1].reshape(())
    return (found[0], found[1]) if keepdim else without(at, found[0], found[1])


# Where there is nothing between, infinities are not asked how far apart they are.
_LINEAR = """
    typeof_y0 apart = high - low;
    y0 = !(part > 0) ? low : isfinite(apart) ? low + apart * part : low * (1 - part) + high * part;
"""
_BETWEEN = {
    "linear": _LINEAR,
    "lower": "y0 = low;",
    "higher": "y0 = part > 0 ? high : low;",
    "midpoint": "part = part > 0 ? 0.5f : 0;" + _LINEAR,
    "nearest": "y0 = part > 0.5 || (part == 0.5 && below % 2 == 1) ? high : low;",
}


@operator(sample="x, 0.5, 1")
def quantile(
    x: Any,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    axis: int | None = None,
) -> Array:
    """Returns quantiles of all elements, or along an axis; NaN where there is one.

    Args:
        x: An array of floating numbers.
        q: A number in [0, 1], or a sequence of them, which become the first axis of the result.
        dim: Along which axis; None for all elements.
        interpolation: linear, lower, higher, nearest or midpoint.
    """
    return _quantile("quantile", x, q, dim, keepdim, interpolation, axis)


@operator(sample="x, 0.5, 1")
def nanquantile(
    x: Any,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    axis: int | None = None,
) -> Array:
    """Returns quantiles of what is no NaN; see `quantile`. NaN where there is nothing else."""
    return _quantile("nanquantile", x, q, dim, keepdim, interpolation, axis)


def _parts(what: str, q: Any) -> Any:
    """The numbers of a quantile on the host."""
    try:
        given = np.asarray(q.get() if is_array(q) else q, np.float64)
    except (TypeError, ValueError, OverflowError):  # words, and what float takes of no number
        given = np.full((), np.nan)
    if given.ndim > 1 or isinstance(q, str | bytes) or not ((given >= 0) & (given <= 1)).all():
        raise ShapeError(f"{what}: q={quoted(q)}: expected a number in [0, 1], or some of them")
    return given


def _quantile(
    what: str, x: Any, q: Any, dim: Any, keepdim: bool, interpolation: str, axis: Any
) -> Array:
    check_floating(what, "x", x)
    if interpolation not in _BETWEEN:
        raise ShapeError(
            f"{what}: interpolation={quoted(interpolation)}: one of {', '.join(_BETWEEN)}"
        )
    given = _parts(what, q)
    ndim = x.ndim
    flat = dim is None and axis is None
    if flat:
        x = x.reshape(-1)
    at = one_axis(what, x, dim, axis, -1)
    x = x if x.ndim else x.reshape(1)
    length = x.shape[at]
    if not length:
        raise ShapeError(f"{what}: no elements along axis {at} of shape {x.shape}")
    line, _ = ordered(what, x, at)
    kept = x.shape[:at] + x.shape[at + 1 :]
    wide = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    spread = (-1, *(1 for _ in kept))
    element = partial(_element, "x2", x.ndim, at, behind=True)
    if what == "nanquantile":  # how many there are is known where they are
        host = (given.astype(wide).reshape(spread), np.zeros((1,), wide))
        places_ = f"""
            {_numbers("x2", x.ndim, at, behind=True)}
            typeof_x0 place = x0 * (known ? known - 1 : 0) + x1;
            long below = (long)floor(place), next = below + 1 < known ? below + 1 : below;
            typeof_x0 part = place - below;
        """
    else:
        where = given.reshape(-1) * (length - 1)
        host = (
            np.floor(where).astype(np.int64).reshape(spread),
            (where - np.floor(where)).astype(wide).reshape(spread),
        )
        places_ = f"""
            long below = x0, next = below + 1 < size_x2({at}) ? below + 1 : below;
            typeof_y0 part = x1;
        """
    text = f"""
        {places_}
        typeof_y0 low = {element("below")}, high = {element("next")};
        {_BETWEEN[interpolation]}
    """
    if what == "quantile":
        text += f"""
        typeof_y0 greatest = {element(f"size_x2({at}) - 1")};
        y0 = greatest != greatest ? greatest : y0;
        """
    operator = kernel(text, what, x.dtype)
    found: Array = operator(*map(asarray, host), line, shape=(given.size, *kept))
    if keepdim:
        rest = (1,) * ndim if flat else (*kept[:at], 1, *kept[at:])
        found = found.reshape((given.size, *rest))
    return found if given.ndim else found.reshape(found.shape[1:])
