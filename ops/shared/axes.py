"""``dim=`` and ``axis=``: the two names of one argument."""

from __future__ import annotations

from typing import Any

from clprim.errors import ShapeError
from clprim.ops.shared.arguments import dtype_of
from clprim.plan.strides import normalize_axes

__all__ = ["one_axis"]


def one_axis(what: str, x: Any, dim: Any, axis: Any, default: int | None = None) -> int:
    """Returns an axis of ``x`` from 0; a number by itself has the axis 0.

    Args:
        what: The operator, for messages.
        x: The array.
        dim: The axis by PyTorch's name.
        axis: The axis by NumPy's.
        default: Where neither is given; None where one must be.

    Raises:
        ShapeError: None or both are given, or it is no axis of the array.
        DTypeError: ``x`` is no device array.
    """
    dtype_of(what, "x", x)
    if dim is not None and axis is not None:
        raise ShapeError(f"{what}: dim={dim!r} and axis={axis!r} are one argument; give one")
    given = axis if dim is None else dim
    if given is None:
        given = default
    if given is None or isinstance(given, tuple | list):
        raise ShapeError(f"{what}: dim={given!r}: expected one axis")
    (found,) = normalize_axes(what, given, len(x.shape) or 1)
    return found
