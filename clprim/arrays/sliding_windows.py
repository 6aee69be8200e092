"""Windows of an array as a view: nothing is copied, neighbours share elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.arrays.array import Array, view_of
from clprim.dtypes import is_integer
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.plan.strides import elements_of, normalize_axes


def windows(
    x: Any,
    size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    *,
    axis: int | Sequence[int] | None = None,
) -> Array:
    """Returns all windows of an array: a view with a dimension more for every axis.

    Args:
        x: A device array.
        size: Elements of a window along each axis: a number, or one for each.
        stride: From one window to the next, likewise.
        axis: Along which axes; by default as many of the last ones as there are sizes.

    Returns:
        A view of x's memory: x's shape with the number of windows along each axis, and then the
        windows' own dimensions, in the order of the axes.

    Raises:
        ShapeError: Sizes or strides that are none, a window that is larger than the array.
        DTypeError: No device array.

    Example:
        >>> import numpy as np, clprim as cp
        >>> x = cp.asarray(np.arange(5, dtype=np.float32))
        >>> cp.windows(x, 3, 2).get()
        array([[0., 1., 2.],
               [2., 3., 4.]], dtype=float32)
        >>> cp.windows(x, 3).sum(axis=-1).get()
        array([3., 6., 9.], dtype=float32)
    """
    if not hasattr(x, "base_data"):
        raise DTypeError(f"windows: expected a device array for x, got {type(x).__name__}")
    sizes = _numbers("size", size)
    if axis is None:
        axes = tuple(range(x.ndim - len(sizes), x.ndim))
        if axes and axes[0] < 0:
            raise ShapeError(
                f"windows: size={quoted(size)} has more axes than x of shape {x.shape}"
            )
    else:
        axes = normalize_axes("windows", axis, x.ndim)
    sizes = sizes * len(axes) if len(sizes) == 1 else sizes
    steps = _numbers("stride", stride)
    steps = steps * len(axes) if len(steps) == 1 else steps
    if not len(sizes) == len(steps) == len(axes):
        raise ShapeError(
            f"windows: size={quoted(size)} and stride={quoted(stride)}: expected a number, or "
            "one for each of "
            f"the axes {axes}"
        )
    shape, strides = [*x.shape], [*x.strides]
    for a, n, s in zip(axes, sizes, steps, strict=True):
        if n > x.shape[a]:
            raise ShapeError(
                f"windows: a window of {n} is larger than axis {a} of x, of shape {x.shape}"
            )
        shape[a] = (x.shape[a] - n) // s + 1
        strides[a] *= s
    shape += sizes
    strides += [x.strides[a] for a in axes]
    return view_of(x, tuple(shape), tuple(strides), x.offset)


def _numbers(label: str, value: Any) -> tuple[int, ...]:
    given = (value,) if is_integer(value) else elements_of(value)
    if not given or not all(is_integer(n) and n > 0 for n in given):
        raise ShapeError(f"windows: {label}={quoted(value)}: expected numbers of at least 1")
    return tuple(int(n) for n in given)
