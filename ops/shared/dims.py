"""Dimensions as users name them (``dim=`` or ``axis=``), and results laid out as an input is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from clprim.arrays.array import Array, is_integer, new_array
from clprim.dtypes import AnyDType
from clprim.errors import DTypeError, ShapeError
from clprim.ops.shared.arguments import dtype_of
from clprim.plan.strides import dense_strides, memory_order
from clprim.runtime.device import current_device

__all__ = ["empty_like", "named_once", "one_axis", "one_dim", "several_dims", "whole"]


def named_once(what: str, dim: Any, axis: Any, default: Any = None) -> Any:
    """Returns what was given as ``dim``, or by its other name ``axis``.

    Raises:
        ShapeError: Both were given.
    """
    if dim is not None and axis is not None:
        raise ShapeError(f"{what}: dim={dim!r} and axis={axis!r} are one argument; give one")
    given = axis if dim is None else dim
    return default if given is None else given


def one_dim(what: str, ndim: int, dim: Any, axis: Any = None, default: int | None = None) -> int:
    """Returns a dimension as a number from 0; ``axis`` is another name of ``dim``.

    Args:
        what: The operator, for messages.
        ndim: How many dimensions there are.
        dim: The dimension by PyTorch's name.
        axis: By NumPy's.
        default: Where neither is given; None where one must be.

    Raises:
        ShapeError: None or both are given, not an integer, or out of bounds.
    """
    given = named_once(what, dim, axis, default)
    if not is_integer(given) or isinstance(given, bool):
        raise ShapeError(f"{what}: dim={given!r}: expected an integer")
    if not -ndim <= given < ndim:
        raise ShapeError(f"{what}: dim={given} is out of bounds for {ndim} dimensions")
    return int(given) % ndim


def one_axis(what: str, x: Any, dim: Any, axis: Any, default: int | None = None) -> int:
    """Returns an axis of the array ``x`` as `one_dim` does; a number by itself has the axis 0.

    Raises:
        ShapeError: As there.
        DTypeError: ``x`` is no device array.
    """
    dtype_of(what, "x", x)
    return one_dim(what, len(x.shape) or 1, dim, axis, default)


def several_dims(
    what: str, ndim: int, dims: Any, axis: Any = None, default: Any = None
) -> tuple[int, ...]:
    """Returns dimensions as numbers from 0, in the order given.

    Raises:
        ShapeError: None or both are given, not integers, out of bounds, or named twice.
    """
    given = named_once(what, dims, axis, default)
    words = isinstance(given, str | bytes | Mapping)
    several = given if isinstance(given, Iterable) and not words else (given,)
    found = tuple(one_dim(what, ndim, d) for d in several)
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
