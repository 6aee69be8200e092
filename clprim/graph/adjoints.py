"""Adjoints: what the result's gradient in memory is, buffer by buffer, as a backward pass goes.

The adjoint of a buffer has the layout of the buffer, so that the adjoint of a view is the same
view of it. What was added for one operand alone stays the array that it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clprim.arrays.array import Array, array_over, new_array
from clprim.graph.graph import Buffer, buffer_of, is_whole, same_place
from clprim.plan.strides import Operand, overlaps_itself, shares_memory
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction
from clprim.runtime.device import Device

_ADD = Pointwise("y0 = x0 + x1;", name="add")
_COPY = Pointwise("y0 = x0;", name="copy")
_ZERO = Pointwise("y0 = 0;", name="zero")
_SUM = Reduction("", init="reduce_y0 = 0;", step="reduce_y0 += x0;", name="sum")


@dataclass
class _Adjoint:
    """Of one buffer."""

    whole: tuple[Any, int] | None = None
    own: bool = False
    parts: list[tuple[Operand, Array]] = field(default_factory=list)


class Adjoints:
    """Adjoints of buffers; those that nothing was added to are 0."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._of: dict[Buffer, _Adjoint] = {}

    def add(self, operand: Operand, grad: Array) -> None:
        """Adds to the adjoint of an operand."""
        broadcast = tuple(
            d
            for d, (n, s) in enumerate(zip(operand.shape, operand.strides, strict=True))
            if n > 1 and not s
        )
        if broadcast:
            grad = _SUM(grad, axis=broadcast, keepdims=True)
            operand = Operand(
                tuple(1 if d in broadcast else n for d, n in enumerate(operand.shape)),
                operand.strides,
                operand.offset,
                operand.dtype,
                operand.memory,
            )
        if overlaps_itself(operand):  # as windows do, of which every few lie apart
            axis, step = _apart(operand)
            for first in range(step):
                index = (slice(None),) * axis + (slice(first, None, step),)
                self.add(_every(operand, axis, step, first), grad[index])
            return
        if grad.dtype != operand.dtype:
            grad = grad.astype(operand.dtype)
        parts = self._of.setdefault(buffer_of(operand), _Adjoint()).parts
        for n, (other, before) in enumerate(parts):
            if same_place(other, operand):
                parts[n] = operand, _ADD(before, grad)
                return
        parts.append((operand, grad))

    def of(self, operand: Operand) -> Array | None:
        """Returns the adjoint of an operand, to be read at once; None where it is 0."""
        found = self._of.get(buffer_of(operand))
        if found is None:
            return None
        if found.whole is None:
            near = [part for part in found.parts if shares_memory(part[0], operand)]
            if not near:
                return None
            if len(near) == 1 and same_place(near[0][0], operand):
                return near[0][1]
        self._settle(buffer_of(operand), found)
        return self._view(found, operand)

    def take(self, operand: Operand, touched: Callable[[], bool]) -> Array | None:
        """Returns the adjoint of what is overwritten; before that it was 0."""
        buffer = buffer_of(operand)
        found, grad = self._of.get(buffer), self.of(operand)
        if found is None or grad is None:
            return None
        if is_whole(operand):
            del self._of[buffer]
        elif found.whole is None:
            found.parts = [part for part in found.parts if not same_place(part[0], operand)]
        elif touched():
            self._make_own(buffer, found, operand)
            view = self._view(found, operand)
            grad = _COPY(view)
            _ZERO(out=view)
        return grad

    def _view(self, adjoint: _Adjoint, operand: Operand) -> Array:
        assert adjoint.whole is not None
        memory, start = adjoint.whole
        where = operand.shape, operand.dtype, operand.strides, start + operand.offset
        return array_over(self._device, memory, *where, operand.size)

    def _settle(self, buffer: Buffer, adjoint: _Adjoint) -> None:
        """Gives the adjoint memory, in which all parts are added up."""
        parts, adjoint.parts = adjoint.parts, []
        fresh = adjoint.whole is None
        for n, (operand, grad) in enumerate(parts):
            if adjoint.whole is None:
                if is_whole(operand) and _same_layout(operand, grad):
                    adjoint.whole = grad.base_data, grad.offset - operand.offset
                    continue
                self._allocate(buffer, adjoint, operand)
                if not _tile(buffer, [o for o, _ in parts]):
                    _ZERO(out=self._line(buffer, adjoint, operand))
            self._make_own(buffer, adjoint, operand)
            view = self._view(adjoint, operand)
            if fresh and not any(shares_memory(operand, other) for other, _ in parts[:n]):
                _COPY(grad, out=view)
            else:
                _ADD(view, grad, out=view)

    def _line(self, buffer: Buffer, adjoint: _Adjoint, like: Operand) -> Array:
        """All of the memory, as elements of the operand's dtype."""
        size = like.dtype.itemsize
        return self._view(adjoint, Operand((buffer.nbytes // size,), (size,), 0, like.dtype))

    def _allocate(self, buffer: Buffer, adjoint: _Adjoint, like: Operand) -> None:
        size = like.dtype.itemsize
        count = buffer.nbytes // size
        new = new_array(self._device, (count,), like.dtype, (size,), count)
        adjoint.whole, adjoint.own = (new.base_data, 0), True

    def _make_own(self, buffer: Buffer, adjoint: _Adjoint, like: Operand) -> None:
        """Gives the adjoint memory that may be written to."""
        if not adjoint.own:
            before = self._line(buffer, adjoint, like)
            self._allocate(buffer, adjoint, like)
            _COPY(before, out=self._line(buffer, adjoint, like))


def _every(operand: Operand, axis: int, step: int, first: int = 0) -> Operand:
    """Every so many-th element along an axis."""
    shape, strides = [*operand.shape], [*operand.strides]
    shape[axis] = -(-(shape[axis] - first) // step)
    offset = operand.offset + first * strides[axis]
    strides[axis] *= step
    return replace(operand, shape=tuple(shape), strides=tuple(strides), offset=offset)


def _apart(operand: Operand) -> tuple[int, int]:
    """An axis, and the least step along it by which no elements lie over one another.

    Where one axis is not enough it is the narrowest one, element by element.
    """
    axes = [d for d, n in enumerate(operand.shape) if n > 1]
    found = [(step, d) for d in axes if (step := _least_step(operand, d)) is not None]
    if found:
        step, axis = min(found)
        return axis, step
    axis = min(axes, key=lambda d: (abs(operand.strides[d]), operand.shape[d]))
    return axis, operand.shape[axis]


def _least_step(operand: Operand, axis: int) -> int | None:
    steps = range(2, operand.shape[axis] + 1)
    return next((n for n in steps if not overlaps_itself(_every(operand, axis, n))), None)


def _tile(buffer: Buffer, operands: Sequence[Operand]) -> bool:
    """Whether operands are all of a buffer, and lie apart."""
    if sum(o.size * o.dtype.itemsize for o in operands) != buffer.nbytes:
        return False
    return not any(shares_memory(a, b) for a, b in itertools.combinations(operands, 2))


def _same_layout(operand: Operand, array: Array) -> bool:
    steps = zip(operand.shape, operand.strides, array.strides, strict=True)
    return all(n == 1 or a == b for n, a, b in steps)
