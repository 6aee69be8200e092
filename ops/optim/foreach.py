"""Checks the lists that a step of an optimizer takes, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.arrays.array import view_of
from clprim.arrays.creation import empty
from clprim.arrays.memory import is_dense
from clprim.dtypes import AnyDType
from clprim.errors import DTypeError, ShapeError
from clprim.ops.shared.checks import check_floating, real
from clprim.primitives.lists import run_lists
from clprim.primitives.pointwise import Pointwise

Lists = Sequence[Any]
_COPY = Pointwise("(void)x1; y0 = x0;", name="gather")

# Elements of an array that is worth a launch of its own, and arrays that are few.
SMALL = 1 << 16
FEW = 4


def lists(
    what: str, params: Lists, called: str = "params", /, **others: Lists
) -> list[tuple[Any, ...]]:
    """Returns a tuple for each parameter: itself, and what belongs to it of the other lists.

    Parameters that follow each other in memory, as `flat` lays them out, and so do their gradients
    and states, are one line of elements: one kernel then steps all of them.
    """
    for name, given in {called: params, **others}.items():
        if not isinstance(given, Sequence):
            raise DTypeError(
                f"{what}: expected a list of arrays for {name}, got {type(given).__name__}"
            )
        if len(given) != len(params):
            raise ShapeError(f"{what}: {name}= holds {len(given)} arrays, params {len(params)}")
        for n, array in enumerate(given):
            check_floating(what, f"{name}[{n}]", array)
            if array.shape != params[n].shape:
                raise ShapeError(
                    f"{what}: {name}[{n}] has shape {array.shape}, "
                    f"params[{n}] has {params[n].shape}"
                )
    return _joined(list(zip(params, *others.values(), strict=True)))


def _joined(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The same elements in as few arrays as possible."""
    joined: list[tuple[Any, ...]] = []
    run: list[tuple[Any, ...]] = []
    for row in rows:
        if run and not all(map(_follows, run[-1], row)):
            joined.append(_line(run))
            run = []
        run.append(row)
    return [*joined, *([_line(run)] if run else [])]


def _follows(before: Any, array: Any) -> bool:
    """Whether an array begins where another one ends, both without gaps."""
    return (
        array.base_data is before.base_data
        and array.dtype == before.dtype
        and array.offset == before.offset + before.size * before.dtype.itemsize
        and is_dense(before, range(before.ndim))
        and is_dense(array, range(array.ndim))
    )


def _line(run: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    if len(run) == 1:
        return run[0]
    count = sum(row[0].size for row in run)
    return tuple(view_of(a, (count,), (a.dtype.itemsize,), a.offset) for a in run[0])


def run_all(
    kernel: Pointwise,
    rows: Sequence[Sequence[Any]],
    numbers: Sequence[Any],
    *written: int,
    shared: int = 0,
) -> None:
    """Runs a kernel on the arrays of every row, by as few launches as there can be."""
    what = kernel.definition.name
    left: Sequence[int] = range(1)
    if len(rows) != 1:
        left = run_lists(what, kernel.definition, rows, written, numbers, shared)
    for k in left:
        outs = tuple(rows[k][n] for n in written)
        kernel(*rows[k], *numbers, out=outs if len(outs) > 1 else outs[0])


def gathered(rows: Sequence[Sequence[Any]], dtype: AnyDType) -> list[Any]:
    """Returns the same elements for a reduction in fewer arrays: copies of small ones in one line.

    A reduction of a small array takes less time than its launch, and a few launches copy hundreds.
    """
    small = [a for (a,) in rows if 0 < a.size <= SMALL]
    if len(small) < FEW:
        return [a for (a,) in rows]
    line = empty((sum(a.size for a in small),), dtype)
    pairs, start = [], 0
    for a in small:
        pairs.append((a, line[start : start + a.size].reshape(a.shape)))
        start += a.size
    run_all(_COPY, pairs, (), 1)
    return [line, *(a for (a,) in rows if a.size > SMALL)]


def not_negative(what: str, **values: Any) -> tuple[float, ...]:
    """Returns the numbers as Python floats."""
    found = {name: real(what, name, value) for name, value in values.items()}
    for name, value in found.items():
        if not value >= 0:
            raise ShapeError(f"{what}: {name}={value} must not be negative")
    return tuple(found.values())


def fraction(what: str, **values: Any) -> tuple[float, ...]:
    """Returns the numbers as Python floats, each at least 0 and less than 1."""
    found = not_negative(what, **values)
    for name, value in zip(values, found, strict=True):
        if value >= 1:
            raise ShapeError(f"{what}: {name}={value} must be less than 1")
    return found
