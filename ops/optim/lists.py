"""Checks the lists that a step of an optimizer takes, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.errors import DTypeError, ShapeError
from clprim.ops.shared.arguments import dtype_of, real

__all__ = ["Lists", "fraction", "gradient_sign", "lists", "not_negative"]

Lists = Sequence[Any]


def lists(what: str, params: Lists, **others: Lists) -> list[tuple[Any, ...]]:
    """Returns a tuple for each parameter: itself, and what belongs to it of the other lists.

    Raises:
        ShapeError: Lists of different lengths, arrays of different shapes.
        DTypeError: No list, something that is no device array, or one of integers.
    """
    for name, given in {"params": params, **others}.items():
        if not isinstance(given, Sequence):
            raise DTypeError(
                f"{what}: {name}= expects a list of arrays, got {type(given).__name__}"
            )
        if len(given) != len(params):
            raise ShapeError(f"{what}: {name}= holds {len(given)} arrays, params {len(params)}")
        for n, array in enumerate(given):
            dtype = dtype_of(what, f"{name}[{n}]", array)
            if dtype.kind in "biu":
                raise DTypeError(f"{what}: {name}[{n}] is {dtype}, expected a floating dtype")
            if array.shape != params[n].shape:
                raise ShapeError(
                    f"{what}: {name}[{n}] has shape {array.shape}, "
                    f"params[{n}] has {params[n].shape}"
                )
    return list(zip(params, *others.values(), strict=True))


def gradient_sign(*, maximize: bool) -> str:
    """What stands before the gradient in a snippet: a minus where the objective is to grow."""
    return "-" if maximize else ""


def not_negative(what: str, **values: Any) -> tuple[float, ...]:
    """Returns the numbers as Python floats.

    Raises:
        ShapeError: One is negative.
        DTypeError: One is no number.
    """
    found = {name: real(what, name, value) for name, value in values.items()}
    for name, value in found.items():
        if not value >= 0:
            raise ShapeError(f"{what}: {name}={value} must not be negative")
    return tuple(found.values())


def fraction(what: str, **values: Any) -> tuple[float, ...]:
    """Returns the numbers as Python floats, each at least 0 and less than 1.

    Raises:
        ShapeError: One is outside.
        DTypeError: One is no number.
    """
    found = not_negative(what, **values)
    for name, value in zip(values, found, strict=True):
        if value >= 1:
            raise ShapeError(f"{what}: {name}={value} must be less than 1")
    return found
