"""Reductions to the greatest and the least element and their positions; see `reduce`."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.dtypes import AnyDType, value_dtype
from clprim.errors import ComplexError, ShapeError
from clprim.ops.registry import operator
from clprim.ops.shared.checks import Axis, Operator, dtype_of
from clprim.ops.shared.dims import along
from clprim.plan.strides import reduced_axes
from clprim.primitives.reduction import Reduction


def _extreme(name: str, start: str, beats: str) -> Operator:
    """Takes what beats all others; x != x holds for NaN alone, which nothing beats then."""
    text = f"reduce_y0 = {{0}} {beats} reduce_y0 || {{0}} != {{0}} ? {{0}} : reduce_y0;"
    return Reduction(
        "",
        init=f"reduce_y0 = {start}_reduce_y0;",
        step=text.format("x0"),
        combine=text.format("other_y0"),
        name=name,
    )


_amax, _amin = _extreme("amax", "lowest", ">"), _extreme("amin", "highest", "<")

# A NaN beats numbers. Operators without branches, as runtimes make vector code of those.
_BEATS = """
#define GREATER(a, b) (((b) == (b)) & !((a) <= (b)))
#define LESS(a, b) (((b) == (b)) & !((a) >= (b)))
"""


@lru_cache(maxsize=256)
def _position(
    name: str, start: str, beats: str, in_order: bool, dtype: AnyDType, last: bool = False
) -> Operator:
    """The position of the element that beats all others, and among equals the first, or the last.

    Where a partial meets its elements in their order, the first of equals is there first. The
    start value can only tie with elements that are all like it, so its position 0 is right.
    """
    nearer = ">" if last else "<"
    tie = f" | (!{beats}(reduce_y0, x0) & (reduce_item {nearer} reduce_y1))"
    tie = "" if in_order and not last else tie
    return Reduction(
        "",
        init=f"reduce_y0 = {start}_reduce_y0; reduce_y1 = 0;",
        step=f"""
            const int take = {beats}(x0, reduce_y0){tie};
            reduce_y0 = take ? x0 : reduce_y0;
            reduce_y1 = take ? reduce_item : reduce_y1;
        """,
        combine=f"""
            if ({beats}(other_y0, reduce_y0)
                | (!{beats}(reduce_y0, other_y0) & (other_y1 {nearer} reduce_y1))) {{
                reduce_y0 = other_y0;
                reduce_y1 = other_y1;
            }}
        """,
        finalize="y0 = reduce_y1;",
        preamble=_BEATS,
        partial_type=(value_dtype(dtype, [dtype]), np.int64),
        result_type=np.int64,
        name=name,
    )


def _find(
    name: str, start: str, beats: str, x: Any, axis: Axis, last: bool, **options: Any
) -> Array:
    dtype = dtype_of(name, "x", x)
    _require_elements(name, x, axis)
    axes = reduced_axes(name, axis, len(x.shape))
    steps = [x.strides[d] for d in axes if x.shape[d] > 1]
    in_order = steps == sorted(steps, reverse=True) and (not steps or steps[-1] > 0)
    return _position(name, start, beats, in_order, dtype, last)(x, axis=axis, **options)


@operator(
    numpy="amax max",
    torch="amax max",
    onnx="ReduceMax(x, axes: Numbers) @reduction; GlobalMaxPool @pixels",
    sample="x, axis=1",
)
@along
def amax(x: Any, axis: Axis, keepdims: bool, *, out: Any = None) -> Array:
    """Returns the greatest element along ``axis``, in the dtype of ``x``.

    Raises:
        ShapeError: There are no elements along ``axis``.
    """
    _require_elements("amax", x, axis)
    return _amax(x, axis=axis, keepdims=keepdims, out=out)


@operator(
    numpy="amin min",
    torch="amin min",
    onnx="ReduceMin(x, axes: Numbers) @reduction",
    sample="x, axis=1",
)
@along
def amin(x: Any, axis: Axis, keepdims: bool, *, out: Any = None) -> Array:
    """Returns the least element along ``axis``, in the dtype of ``x``.

    Raises:
        ShapeError: There are no elements along ``axis``.
    """
    _require_elements("amin", x, axis)
    return _amin(x, axis=axis, keepdims=keepdims, out=out)


@operator(
    numpy="argmax",
    torch="argmax",
    onnx="ArgMax axis:dim=0 keepdims=1 select_last_index:select_last=0",
    sample="x, axis=1",
)
@along
def argmax(
    x: Any, axis: Axis, keepdims: bool, *, select_last: bool = False, out: Any = None
) -> Array:
    """Returns the position of the greatest element along ``axis``, in int64.

    Of equal elements the first counts, with ``select_last`` the last; a NaN is greater than any
    number. Over several axes (None: all) the position is that in C order, whatever the memory
    format.

    Raises:
        ShapeError: There are no elements along ``axis``.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.array([[3, 1], [7, 7]], np.float32))
        >>> ops.argmax(x, axis=1).get(), ops.argmax(x).item()
        (array([0, 0]), 2)
    """
    options: dict[str, Any] = {"keepdims": keepdims, "out": out}
    return _find("argmax", "lowest", "GREATER", x, axis, select_last, **options)


@operator(
    numpy="argmin",
    torch="argmin",
    onnx="ArgMin axis:dim=0 keepdims=1 select_last_index:select_last=0",
    sample="x, axis=1",
)
@along
def argmin(
    x: Any, axis: Axis, keepdims: bool, *, select_last: bool = False, out: Any = None
) -> Array:
    """Returns the position of the least element along ``axis``, in int64; see `argmax`.

    Raises:
        ShapeError: There are no elements along ``axis``.
    """
    options: dict[str, Any] = {"keepdims": keepdims, "out": out}
    return _find("argmin", "highest", "LESS", x, axis, select_last, **options)


def _require_elements(what: str, x: Any, axis: Axis) -> None:
    """Refuses extrema of nothing, which have no value to start from, and of what has no order."""
    if dtype_of(what, "x", x).kind == "c":
        raise ComplexError(f"{what}: complex numbers have no order: {x.dtype}")
    if getattr(x, "size", 1):
        return
    axes = reduced_axes(what, axis, len(x.shape))
    if math.prod(size for d, size in enumerate(x.shape) if d not in axes):
        raise ShapeError(f"{what}: shape {x.shape} has no elements along axis={axis}")
