"""Dimensions as users name them (``dim=`` or ``axis=``), and results laid out as an input is."""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array, is_integer, new_array
from clprim.dtypes import AnyDType
from clprim.errors import DTypeError, ShapeError
from clprim.plan.strides import dense_strides, memory_order
from clprim.runtime.device import current_device

__all__ = ["empty_like", "one_dim", "several_dims", "whole"]


def one_dim(what: str, ndim: int, dim: Any, axis: Any = None) -> int:
    """Returns a dimension as a number from 0; ``axis``, where given, is another name of ``dim``.

    Raises:
        ShapeError: Not an integer, or out of bounds.
    """
    given = dim if axis is None else axis
    if not is_integer(given) or isinstance(given, bool):
        raise ShapeError(f"{what}: dim={given!r}: expected an integer")
    if not -ndim <= given < ndim:
        raise ShapeError(f"{what}: dim={given} is out of bounds for {ndim} dimensions")
    return int(given) % ndim


def several_dims(what: str, ndim: int, dims: Any, axis: Any = None) -> tuple[int, ...]:
    """Returns dimensions as numbers from 0, in the order given.

    Raises:
        ShapeError: Not integers, out of bounds, or named twice.
    """
    given = dims if axis is None else axis
    found = tuple(one_dim(what, ndim, d) for d in ((given,) if is_integer(given) else tuple(given)))
    if len({*found}) != len(found):
        raise ShapeError(f"{what}: dim={given!r} names a dimension twice")
    return found


def whole(what: str, label: str, value: Any, least: int | None = None) -> int:
    """Returns a whole number.

    Raises:
        DTypeError: Not an integer.
        ShapeError: Below ``least``.
    """
    if not is_integer(value) or isinstance(value, bool):
        raise DTypeError(f"{what}: expected an integer for {label}, got {value!r}")
    if least is not None and value < least:
        raise ShapeError(f"{what}: {label}={value}: expected at least {least}")
    return int(value)


def empty_like(x: Any, shape: tuple[int, ...], dtype: AnyDType) -> Array:
    """Allocates a result whose dimensions lie in memory in the order of x's, if it has as many."""
    order = memory_order(shape, [x.strides] if x.ndim == len(shape) else [])
    strides = dense_strides(shape, dtype.itemsize, order)
    size = 1
    for n in shape:
        size *= n
    return new_array(current_device(), shape, dtype, strides, size)
