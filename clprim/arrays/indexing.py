"""Indexing with arrays: what NumPy reads and writes where an index is a mask or positions.

Integers, slices, ``...`` and ``None`` make views. Masks and arrays of integers, on the device or
the host, gather a copy; assigning to them scatters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl.array as cl_array

from clprim.errors import OutOfBoundsError, ShapeError, quoted


def parts_of(index: Any) -> tuple[Any, ...]:
    """Returns an index as a tuple; an array or a list is one part."""
    return index if isinstance(index, tuple) else (index,)


def is_advanced(part: object) -> bool:
    """Whether a part of an index is a mask or positions."""
    return isinstance(part, list | np.ndarray | cl_array.Array | bool | np.bool_)


@dataclass(frozen=True)
class _Taken:
    """A view, and for each of its dimensions the positions to take, or None for all."""

    view: Any
    indices: list[Any]
    mask: Any = None


def select(x: Any, index: Any) -> Any:
    """Returns a copy of the elements that an index with masks or positions names."""
    taken = _split(x, index)
    operators = x._operators()
    if taken.mask is not None:
        return operators.masked_select(taken.view, taken.mask)
    return operators.index(taken.view, taken.indices)


def store(x: Any, index: Any, value: Any) -> None:
    """Writes ``value``, an array of x's dtype, to the elements that an index names.

    Of several that go to one place the last one counts.
    """
    taken = _split(x, index)
    view, indices = taken.view, taken.indices
    operators = x._operators()
    if taken.mask is not None:
        if value.size == 1:
            operators.where(taken.mask, value.reshape(()), view, out=view)
            return
        found = operators.nonzero(taken.mask)
        indices = [found[:, d] for d in range(view.ndim)]
    # Where NumPy puts the positions' dimensions: in place of neighbours, else in front.
    axes = [d for d, i in enumerate(indices) if i is not None]
    rest = [d for d in range(view.ndim) if d not in axes]
    arrays = [_at_least(x, indices[d]) for d in axes]
    try:
        common = np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError as error:
        raise ShapeError(f"{named(index)}: {error}") from None
    if all(isinstance(indices[d], int) for d in axes):
        common = ()
    together = axes[-1] - axes[0] + 1 == len(axes)
    front = len([d for d in rest if d < axes[0]]) if together else 0
    shape = (
        *(view.shape[d] for d in rest[:front]),
        *common,
        *(view.shape[d] for d in rest[front:]),
    )
    require_fitting(value, shape, named(index))
    value = x.namespace.broadcast_to(value, shape)
    if not value.size:
        return
    order = [
        *range(front, front + len(common)),
        *range(front),
        *range(front + len(common), len(shape)),
    ]
    turned = view.transpose(axes + rest)
    operators.index_put(turned, arrays, value.transpose(order), out=turned)


def named(index: Any) -> str:
    """What messages call a value that is assigned."""
    return f"array[{_named(index)}] = value"


def require_fitting(value: Any, shape: tuple[int, ...], what: str) -> None:
    """Refuses a value that does not broadcast to a shape."""
    fits = len(value.shape) <= len(shape) and all(
        n in (1, m) for n, m in zip(value.shape[::-1], shape[::-1], strict=False)
    )
    if not fits:
        raise ShapeError(f"{what} of shape {value.shape} does not broadcast to {shape}")


def _named(index: Any) -> str:
    arrays = (np.ndarray, cl_array.Array)
    return ", ".join("array" if isinstance(p, arrays) else quoted(p) for p in parts_of(index))


def _at_least(x: Any, index: Any) -> Any:
    return x.namespace.asarray(np.int64(index)) if isinstance(index, int) else index


def _split(x: Any, index: Any) -> _Taken:
    """Checks an index, and separates what makes a view from masks and positions."""
    parts = [_checked(part) if is_advanced(part) else part for part in parts_of(index)]
    takes = sum(_dimensions(part) for part in parts)
    if takes > x.ndim:
        raise OutOfBoundsError(
            f"array of shape {x.shape}: an index of {takes} dimensions is one of too many"
        )
    if not any(part is Ellipsis for part in parts):
        parts.append(Ellipsis)
    basic: list[Any] = []
    indices: list[Any] = []
    mask = None
    at = 0  # the dimension of x that a part speaks of
    for part in parts:
        if part is Ellipsis:
            count = x.ndim - takes
            basic += [slice(None)] * count
            indices += [None] * count
            at += count
        elif part is None:
            basic.append(None)
            indices.append(None)
        elif isinstance(part, slice):
            basic.append(part)
            indices.append(None)
            at += 1
        elif not isinstance(part, np.ndarray | cl_array.Array):
            number = _number(x, part, at)
            basic.append(slice(None))
            indices.append(number)
            at += 1
        elif part.dtype.kind == "b":
            covered = x.shape[at : at + part.ndim]
            if part.shape != covered:
                raise OutOfBoundsError(
                    f"array of shape {x.shape}: a mask of shape {part.shape} where the array has "
                    f"{covered}"
                )
            basic += [slice(None)] * part.ndim
            there = x.namespace.asarray(part)
            if part.ndim == x.ndim and len(parts) == 2:
                mask = there
            elif not part.ndim:  # of a new dimension all or nothing
                basic.append(None)
                indices.append(x.namespace.zeros(int(there.item()), np.int64))
            else:
                found = x._operators().nonzero(there)
                indices += [found[:, d] for d in range(part.ndim)]
            at += part.ndim
        else:
            if isinstance(part, np.ndarray):
                for bound in (part.min(), part.max()) if part.size else ():
                    _number(x, bound, at)
            basic.append(slice(None))
            indices.append(x.namespace.asarray(part))
            at += 1
    return _Taken(x._view(tuple(basic)), indices, mask)


def _dimensions(part: Any) -> int:
    if part is None or part is Ellipsis:
        return 0
    mask = isinstance(part, np.ndarray | cl_array.Array) and part.dtype.kind == "b"
    return int(part.ndim) if mask else 1


def _number(x: Any, part: Any, at: int) -> int:
    size: int = x.shape[at]
    if not -size <= part < size:
        raise OutOfBoundsError(
            f"array of shape {x.shape}: index {part} is out of bounds for axis {at} of size {size}"
        )
    return int(part) % size


def _checked(part: Any) -> Any:
    """Returns a mask or positions as an array, of the device or the host."""
    try:
        found = part if isinstance(part, cl_array.Array) else np.asarray(part)
    except ValueError:  # lists of several lengths
        found = np.asarray(None)
    if not found.size and found.dtype.kind == "f":
        return found.astype(np.int64)  # NumPy's dtype of an empty list
    if found.dtype.kind not in "biu" or (isinstance(found, np.ndarray) and not found.ndim):
        raise ShapeError(
            f"array[{_named(part)}]: expected integers, slices, ..., None, masks or positions; not "
            f"{type(part).__name__}" + (f" of {found.dtype}" if found.ndim else "")
        )
    return found
