"""Dimensions as users name them (``dim=`` or ``axis=``), and results laid out as an input is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from clprim.arrays.array import Array, new_array, view_of
from clprim.arrays.validation import counted
from clprim.dtypes import AnyDType, is_integer
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.ops.shared.checks import Axis, dtype_of
from clprim.ops.shared.made import made
from clprim.plan.strides import dense_strides, elements_of, memory_order
from clprim.runtime.device import current_device


def named_once(what: str, dim: Any, axis: Any, default: Any = None, *, dims: Any = None) -> Any:
    """Returns what was given as ``dim``, or by its other names ``axis`` and ``dims``."""
    if dims is None and (dim is None or axis is None):  # on the way of nearly every call
        given = axis if dim is None else dim
        return default if given is None else given
    named = {"dims": dims, "dim": dim, "axis": axis}
    found = {name: value for name, value in named.items() if value is not None}
    if len(found) > 1:
        listed = " and ".join(f"{name}={quoted(value)}" for name, value in found.items())
        raise ShapeError(f"{what}: {listed} are one argument; give one")
    return dims


R_co = TypeVar("R_co", covariant=True)


class Along(Protocol[R_co]):
    """An operator along axes: ``dim`` is ``axis`` and ``keepdim`` is ``keepdims``."""

    def __call__(
        self, x: Any, axis: Axis = ..., keepdim: bool = ..., *, dim: Axis = ...,
        keepdims: bool = ..., **options: Any,
    ) -> R_co:  # fmt: skip
        """Computes along an axis, several, or None for all."""


class AlongNamed(Protocol[R_co]):
    """The same, where all but the axis is named."""

    def __call__(self, x: Any, axis: Axis = ..., *, dim: Axis = ..., **options: Any) -> R_co:
        """Computes along an axis, several, or None for all."""


def along(body: Callable[..., R_co]) -> Along[R_co]:
    """Returns an operator with NumPy's and PyTorch's names, given one of axes and keepdims."""
    return cast(
        "Along[R_co]", _along(body, "axis=None, keepdim=False, *, dim=None, keepdims=False")
    )


def along_named(body: Callable[..., R_co]) -> AlongNamed[R_co]:
    """Returns the same, with all but the axis named."""
    found = _along(body, "axis=None, *, dim=None, keepdims=False, keepdim=False")
    return cast("AlongNamed[R_co]", found)


def _along(body: Callable[..., Any], names: str) -> Callable[..., Any]:
    name = body.__name__
    _, _, _, *options = inspect.signature(body).parameters.values()
    usual = {f"_{o.name}": o.default for o in options}
    taken = "".join(f", {o.name}=_{o.name}" for o in options)
    given = "".join(f", {o.name}={o.name}" for o in options)
    call = f"body(x, once({name!r}, dim, axis), keepdims or keepdim{given})"
    space = {"body": body, "once": named_once, **usual}
    found = made(name, f"(x, {names}{taken})", call, body.__module__, body.__doc__ or "", space)
    kinds = {"axis": "Axis", "dim": "Axis", "keepdim": "bool", "keepdims": "bool"}
    found.__annotations__ = {**body.__annotations__, **kinds}
    return found


def one_dim(what: str, ndim: int, dim: Any, axis: Any = None, default: int | None = None) -> int:
    """Returns a dimension as a number from 0; ``axis`` is another name of ``dim``."""
    given = named_once(what, dim, axis, default)
    if not is_integer(given):
        raise ShapeError(f"{what}: dim={quoted(given)}: expected an integer")
    if not -ndim <= given < ndim:
        raise ShapeError(f"{what}: dim={quoted(given)} is out of bounds for {ndim} dimensions")
    return int(given) % ndim


def one_axis(what: str, x: Any, dim: Any, axis: Any, default: int | None = None) -> int:
    """Returns an axis of the array ``x`` as `one_dim` does; a number by itself has the axis 0."""
    dtype_of(what, "x", x)
    return one_dim(what, len(x.shape) or 1, dim, axis, default)


def several_dims(what: str, ndim: int, dims: Any, *, again: bool = False) -> tuple[int, ...]:
    """Returns dimensions as numbers from 0, in the order given; each once, or also ``again``."""
    several = None if is_integer(dims) else elements_of(dims)
    found = tuple(one_dim(what, ndim, d) for d in ((dims,) if several is None else several))
    if not again and len({*found}) != len(found):
        raise ShapeError(f"{what}: dim={quoted(dims)} names a dimension twice")
    return found


def whole(what: str, label: str, value: Any, least: int | None = None) -> int:
    """Returns a whole number of 64 bits."""
    if not is_integer(value):
        raise DTypeError(f"{what}: expected an integer for {label}, got {quoted(value)}")
    if least is not None and value < least:
        raise ShapeError(f"{what}: {label}={quoted(value)}: expected at least {least}")
    return int(counted(what, label, value))


def empty_like(x: Any, shape: tuple[int, ...], dtype: AnyDType) -> Array:
    """Allocates a result whose dimensions lie in memory in the order of x's, if it has as many."""
    order = memory_order(shape, [x.strides] if x.ndim == len(shape) else [])
    strides = dense_strides(shape, dtype.itemsize, order)
    size = 1
    for n in shape:
        size *= n
    return new_array(current_device(), shape, dtype, strides, size)


def spread(array: Any, shape: tuple[int, ...]) -> Array:
    """Returns a view of an array that broadcasts to a shape, in that shape."""
    missing = len(shape) - array.ndim
    steps = (0 if n == 1 else s for n, s in zip(array.shape, array.strides, strict=True))
    return view_of(array, shape, (*(0,) * missing, *steps), array.offset)
