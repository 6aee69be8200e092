"""The run-time scalars of a call: how many there are, and the dtypes they take part in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim import dtypes
from clprim.errors import DTypeError, ShapeError

_SINGLE = {float: np.dtype(np.float32), complex: np.dtype(np.complex64)}


def as_numbers(args: Sequence[Any], arrays: int = 0) -> Sequence[Any]:
    """Returns arguments with a number for every NumPy array without dimensions, or as they are."""
    for w in args[arrays:]:
        if w.__class__ is np.ndarray and not w.ndim:
            break
    else:
        return args
    numbers = (w[()] if type(w) is np.ndarray and not w.ndim else w for w in args[arrays:])
    return (*args[:arrays], *numbers)


def check_count(what: str, given: int, arrays: int, scalars: int) -> None:
    """Refuses another number of arguments than strings name."""
    if given != arrays + scalars:
        expected = [f"x{n}" for n in range(arrays)] + [f"w{n}" for n in range(scalars)]
        raise ShapeError(
            f"{what}: expected {len(expected)} argument{'s' if len(expected) != 1 else ''} "
            f"({', '.join(expected)}), got {given}"
        )


def split_arguments(
    what: str, args: Sequence[Any], arrays: int, scalars: int
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Splits positional arguments into arrays and scalars."""
    check_count(what, len(args), arrays, scalars)
    args = as_numbers(args, arrays)
    return args[:arrays], args[arrays:]


def scalar_dtypes(what: str, scalars: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
    """Returns the dtypes in which run-time scalars take part, beside arrays of these dtypes."""
    common = dtypes.promote(arrays) if arrays else None
    try:
        return [dtypes.scalar_dtype(w, common) for w in scalars]
    except DTypeError as error:
        raise DTypeError(f"{what}: {error}") from None


def weaken(
    scalars: Sequence[Any],
    types: Sequence[Any],
    arrays: Sequence[Any],
    results: Sequence[Any],
    fp64: bool,
) -> list[Any]:
    """Lets a Python float be a float32 where it alone would bring float64 into a call.

    It stays a float64, if the device has that, where whole results depend on it beside integers
    that a float32 cannot tell apart, as in ``int32_array > 0.5``.
    """
    has_double = any(d in (np.float64, np.complex128) for d in (*arrays, *results))
    wide = any(d.kind in "iu" and d.itemsize > 2 for d in arrays)
    whole = all(d.kind in "biu" for d in results)
    if has_double or (fp64 and wide and whole):
        return list(types)
    return [
        t if isinstance(w, np.generic) else _SINGLE.get(w.__class__, t)
        for w, t in zip(scalars, types, strict=True)
    ]
