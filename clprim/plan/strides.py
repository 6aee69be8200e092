"""Shapes and strides: broadcasting, memory order, collapsing of dimensions, overlap."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from clprim.dtypes import AnyDType, is_integer
from clprim.errors import ShapeError, quoted

Shape = tuple[int, ...]
# Iterable, but nothing that holds integers in an order.
NO_SEQUENCES: tuple[type, ...] = (bytes, bytearray, memoryview, dict, set, frozenset, np.flexible)
# Bound: elements of an argument that is several integers: what goes on for ever is refused.
_MOST_ELEMENTS = 1 << 16
# Bound: elements that indices of 31 bits reach, beside work-items past the end of a work-group.
REACH = 2**31 - 2**20


def index_reaching(*elements: int) -> str:
    """Returns the index type that reaches so many elements: ``int`` of 31 bits, else ``long``."""
    return "int" if max(elements) < REACH else "long"


def elements_of(value: Any) -> tuple[Any, ...] | None:
    """Returns what a sequence holds in its order; None for anything else, as words and sets."""
    # What holds more than any list of axes or sizes does, or has no end, is none either.
    if isinstance(value, (str, *NO_SEQUENCES)):
        return None
    try:
        found = tuple(islice(value, _MOST_ELEMENTS + 1))
    except Exception:  # what looks like a sequence may say itself that it is none: a closed file
        return None
    return found if len(found) <= _MOST_ELEMENTS else None


@dataclass(frozen=True)
class Operand:
    """Where the elements of one array lie: ``offset + Σ index[d] * strides[d]`` bytes."""

    shape: Shape
    # Bytes from one element to the next along every dimension; may be negative or 0
    strides: tuple[int, ...]
    offset: int  # Bytes from the start of the buffer to the first element
    dtype: AnyDType
    # What tells its memory from others', and where the buffer starts in it; None for an array that
    # is still to be allocated. Two operands are equal in whichever memory
    memory: tuple[Hashable, int] | None = field(default=None, compare=False, repr=False)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def in_elements(self, bytes_: int) -> int:
        """Converts a stride or offset to elements."""
        elements, rest = divmod(bytes_, self.dtype.itemsize)
        if rest:
            raise ShapeError(
                f"strides {self.strides} and offset {self.offset} must be multiples of the "
                f"{self.dtype} element size, {self.dtype.itemsize} bytes"
            )
        return elements


@dataclass(frozen=True)
class Dim:
    """One loop of a kernel."""

    size: int
    # Elements (for an array) or steps (for a position) per iteration, an operand each
    strides: tuple[int, ...]
    reduced: bool = False  # Whether the loop is summed over, in a reduction


@dataclass(frozen=True)
class Space:
    """The loops of a kernel, outermost first, and where every operand starts."""

    dims: tuple[Dim, ...]
    offsets: tuple[int, ...]

    def select(self, reduced: bool) -> tuple[Dim, ...]:
        """The reduced dimensions alone, or the kept ones."""
        return tuple(d for d in self.dims if d.reduced is reduced)


def broadcast_shapes(what: str, shapes: Sequence[Shape]) -> Shape:
    """Returns the shape that all ``shapes`` broadcast to, by NumPy's rules."""
    result: list[int] = [1] * max((len(s) for s in shapes), default=0)
    for shape in shapes:
        for d, size in enumerate(reversed(shape), 1):
            if result[-d] == 1:
                result[-d] = size
            elif size not in (1, result[-d]):
                listed = ", ".join(map(str, shapes))
                raise ShapeError(f"{what}: shapes {listed} do not broadcast together")
    return tuple(result)


def broadcasts_to(shape: Shape, target: Shape) -> bool:
    """Whether ``shape`` broadcasts to exactly ``target``."""
    tail = target[len(target) - len(shape) :]
    return len(shape) <= len(target) and all(
        size in (1, wanted) for size, wanted in zip(shape, tail, strict=True)
    )


def broadcast_strides(operand: Operand, shape: Shape) -> tuple[int, ...]:
    """Returns the operand's strides in elements over ``shape``: 0 where it is repeated."""
    missing = len(shape) - len(operand.shape)
    own = [
        0 if size == 1 or stride == 0 else operand.in_elements(stride)
        for size, stride in zip(operand.shape, operand.strides, strict=True)
    ]
    return (*[0] * missing, *own)


def row_major_strides(shape: Shape, axes: Sequence[int] | None = None) -> tuple[int, ...]:
    """Returns the strides in elements that number ``axes``, or all, in C order; 0 elsewhere."""
    strides = [0] * len(shape)
    step = 1
    for d in reversed(range(len(shape))):
        if axes is None or d in axes:
            strides[d] = step
            step *= shape[d]
    return tuple(strides)


def memory_order(shape: Shape, strides: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Returns the axes from the slowest to the fastest, as NumPy's order ``"K"`` does."""
    # Two axes are compared by the first operand that tells them apart; an operand that is repeated
    # along one of them (stride 0, or size 1) does not.

    def before(a: int, b: int) -> bool:
        """Whether axis a, which stands behind b, should stand before it."""
        for s in strides:
            if s[a] and s[b] and shape[a] != 1 and shape[b] != 1 and abs(s[a]) != abs(s[b]):
                return abs(s[a]) > abs(s[b])
        return False

    order: list[int] = []
    for axis in range(len(shape)):
        # Insertion sort: walk left over everything that is not told apart, stop at the first
        # axis that must stay before; insert before the leftmost one that must come after.
        place = len(order)
        for at in reversed(range(len(order))):
            if before(axis, order[at]):
                place = at
            elif before(order[at], axis):
                break
        order.insert(place, axis)
    return tuple(order)


def dense_strides(shape: Shape, itemsize: int, order: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides in bytes of a dense array whose axes lie in memory in ``order``."""
    strides = [0] * len(shape)
    step = itemsize
    for axis in reversed(order):
        strides[axis] = step
        step *= max(1, shape[axis])
    return tuple(strides)


def dense_array(
    shape: Shape, *, dtype: Any = np.float32, order: Sequence[int] | None = None
) -> Operand:
    """Describes an array without gaps, whose axes lie in memory in C order or another."""
    stored = np.dtype(dtype)
    axes = range(len(shape)) if order is None else order
    return Operand(shape, dense_strides(shape, stored.itemsize, axes), 0, stored)


def reduced_axes(what: str, axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Returns the axes of a reduction; of a number by itself 0 and -1 are none, as in NumPy."""
    one = axis[0] if isinstance(axis, tuple | list) and len(axis) == 1 else axis
    if not ndim and is_integer(one) and one in (0, -1):
        return ()
    return normalize_axes(what, axis, ndim)


def normalize_axes(what: str, axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Returns axes as sorted non-negative numbers; None is all of them."""
    if axis is None:
        return tuple(range(ndim))
    several = None if is_integer(axis) else elements_of(axis)
    given = (axis,) if several is None else several
    found: set[int] = set()
    for a in given:
        if not is_integer(a):
            raise ShapeError(
                f"{what}: axis={quoted(axis)} is not an integer or a tuple of integers"
            )
        if not -ndim <= a < ndim:
            raise ShapeError(f"{what}: axis {quoted(a)} is out of bounds for {ndim} dimensions")
        if int(a) % ndim in found:
            raise ShapeError(f"{what}: axis {a} is named twice in axis={quoted(axis)}")
        found.add(int(a) % ndim)
    return tuple(sorted(found))


def normalize_axis(what: str, axis: Any, ndim: int) -> int:
    """Returns one axis, counted from 0."""
    if not is_integer(axis):
        raise ShapeError(f"{what}: axis={quoted(axis)} is not an integer")
    return normalize_axes(what, axis, ndim)[0]


def collapse(space: Space, *, flip: bool = True) -> Space:
    """Returns the same loops in as few dimensions as the operands allow."""
    # Dimensions of size 1 go; a dimension that every operand walks exactly as the continuation of
    # the next inner one is merged with it. The order of the dimensions stays.
    offsets = list(space.offsets)
    merged: list[Dim] = []  # innermost first
    for given in reversed(space.dims):
        dim = given
        if dim.size == 1:
            continue
        if flip and dim.strides and dim.strides[0] < 0:
            for k, stride in enumerate(dim.strides):
                offsets[k] += (dim.size - 1) * stride
            dim = replace(dim, strides=tuple(-s for s in dim.strides))
        if merged:
            inner = merged[-1]
            continues = all(
                outer == step * inner.size
                for outer, step in zip(dim.strides, inner.strides, strict=True)
            )
            if continues and dim.reduced is inner.reduced:
                merged[-1] = replace(inner, size=inner.size * dim.size)
                continue
        merged.append(dim)
    return Space(tuple(reversed(merged)), tuple(offsets))


# Bound: where made-up memory starts, an address that stays positive under negative strides.
ADDRESS_BASE = 1 << 46


class _Interface:
    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


def addresses(operand: Operand) -> np.ndarray[Any, Any]:
    """Returns a NumPy array of the same geometry over made-up addresses."""
    # NumPy then answers questions about device memory; nothing may be read from it. Any address
    # does that stays positive under negative strides.
    return np.asarray(
        _Interface(
            {
                "version": 3,
                "shape": operand.shape,
                "typestr": f"|V{operand.dtype.itemsize}",
                "strides": operand.strides,
                "data": (ADDRESS_BASE + operand.offset, True),
            }
        )
    )


def shares_memory(a: Operand, b: Operand) -> bool:
    """Whether an element of ``a`` and one of ``b``, in the same buffer, have a byte in common."""
    if not a.size or not b.size:
        return False
    try:
        return bool(np.shares_memory(addresses(a), addresses(b), max_work=10**6))  # type: ignore[arg-type, unused-ignore] # any bound is allowed
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(operand: Operand) -> bool:
    """Whether two elements of an array lie in the same place (or may: nested windows)."""
    walked = sorted(
        (abs(stride), size)
        for stride, size in zip(operand.strides, operand.shape, strict=True)
        if size > 1
    )
    reach = operand.dtype.itemsize
    for stride, size in walked:
        if stride < reach:
            return operand.size > 1
        reach += stride * (size - 1)
    return False


def is_channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether strides say that channels lie side by side, by PyTorch's rule for ambiguous ones."""
    if strides[1] == 0:
        return False
    least = 0
    for d in (1, 3, 2, 0):
        step = abs(strides[d])
        if shape[d] == 0 or step < least or (d == 0 and least == abs(strides[1])):
            return False
        least = step * max(1, shape[d])
    return True
