"""Where the elements of one piece of memory go in another one, as strides say it.

A copy of an operand to another one says of every element of the first where it goes. Its dimensions
are digits: they are read off an address from the largest stride to the smallest one, so that any
operand over the same memory whose strides are sums of these has its own strides at the other end.

    from  [4, 8, 6]  strides 192, 24, 4        digits (2, 5, 1)  ->  2*192 + 5*24 + 1*4
    to               strides 960, 24, 4                              2*960 + 5*24 + 1*4
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import mul
from typing import Any, NamedTuple

from clprim.plan.strides import Operand


class Digit(NamedTuple):
    """A loop over both ends."""

    size: int
    stride: int
    to: int


@dataclass(frozen=True)
class Relocation:
    """Where elements go."""

    digits: tuple[Digit, ...]
    start: int
    to: int
    itemsize: int

    @property
    def keeps_order(self) -> bool:
        """Whether the element that lies behind another one goes behind it."""
        tos = [digit.to for digit in self.digits]
        return tos == sorted(tos, reverse=True) and all(to > 0 for to in tos)

    @property
    def keeps_runs(self) -> bool:
        """Whether elements that lie side by side go side by side."""
        last = self.digits[-1:]
        return all(d.stride == d.to or d.stride != self.itemsize for d in last)

    def read(self, offset: int) -> list[int] | None:
        """Returns the digits of a distance in bytes; None where it is none in whole elements."""
        sign, rest = (-1, -offset) if offset < 0 else (1, offset)
        found = []
        for digit in self.digits:
            number, rest = divmod(rest, digit.stride)
            found.append(sign * number)
        return None if rest else found

    def steps(self, operand: Operand) -> list[list[int] | None] | None:
        """Returns the digits of an operand's first element, then of a step along each dimension."""
        first = self.read(operand.offset - self.start)
        if first is None or operand.dtype.itemsize != self.itemsize or not operand.size:
            return None
        low, high = [*first], [*first]
        found: list[list[int] | None] = [first]
        for size, stride in zip(operand.shape, operand.strides, strict=True):
            step = self.read(stride)
            found.append(step)
            if size == 1:
                continue
            if step is None:
                return None
            for d, number in enumerate(step):
                low[d] += min(0, number * (size - 1))
                high[d] += max(0, number * (size - 1))
        for a, b, digit in zip(low, high, self.digits, strict=True):
            if a < 0 or b >= digit.size:
                return None
        return found

    def __call__(self, operand: Operand, memory: Any) -> Operand | None:
        """Returns where the elements of an operand go; None where no strides say it."""
        steps = self.steps(operand)
        if steps is None or steps[0] is None:
            return None
        tos = [digit.to for digit in self.digits]
        strides = tuple(
            stride if step is None else _dot(step, tos)
            for step, stride in zip(steps[1:], operand.strides, strict=True)
        )
        offset = self.to + _dot(steps[0], tos)
        return replace(operand, strides=strides, offset=offset, memory=memory)


def _dot(numbers: Sequence[int], strides: Sequence[int]) -> int:
    return sum(map(mul, numbers, strides))


def relocation(a: Operand, b: Operand, *, joined: bool = True) -> Relocation | None:
    """Returns where a copy of one operand to another one puts elements."""
    start, to = a.offset, b.offset
    digits = []
    for size, stride, other in zip(a.shape, a.strides, b.strides, strict=True):
        if size > 1 and stride < 0:
            start, to = start + (size - 1) * stride, to + (size - 1) * other
            digits.append(Digit(size, -stride, -other))
        elif size > 1:
            digits.append(Digit(size, stride, other))
    digits.sort(key=lambda d: -d.stride)
    reach = a.dtype.itemsize
    for digit in reversed(digits):
        if digit.stride < reach:
            return None
        reach += (digit.size - 1) * digit.stride
    if joined:
        digits = _joined(digits)
    return Relocation(tuple(digits), start, to, a.dtype.itemsize)


def _joined(digits: Sequence[Digit]) -> list[Digit]:
    found: list[Digit] = []
    for digit in digits:
        outer = found[-1] if found else None
        if outer and (outer.stride, outer.to) == (digit.size * digit.stride, digit.size * digit.to):
            found[-1] = digit._replace(size=outer.size * digit.size)
        else:
            found.append(digit)
    return found


def source_of(whole: Operand, moves: Sequence[tuple[Operand, Operand]]) -> Operand | None:
    """Returns what a piece of memory is a copy of, as one operand of its shape."""
    digits = relocation(whole, whole, joined=False)
    if digits is None or any(s < 0 for s in whole.strides):
        return None
    parts = []
    for a, to in moves:
        steps = digits.steps(to)
        if steps is None or steps[0] is None:
            return None
        walked = zip(a.shape, a.strides, steps[1:], strict=True)
        parts.append((a.offset, steps[0], [(s, step) for n, s, step in walked if n > 1 and step]))
    found = _strides(parts)
    if len(found) != len(digits.digits):
        return None
    strides = [found[d] for d in range(len(found))]
    offset = parts[0][0] - _dot(parts[0][1], strides)
    for begin, start, walks in parts:
        if begin != offset + _dot(start, strides):
            return None
        if any(stride != _dot(step, strides) for stride, step in walks):
            return None
    own = tuple(
        stride if (step := digits.read(stride)) is None else _dot(step, strides)
        for stride in whole.strides
    )
    return replace(whole, strides=own, offset=offset, memory=moves[0][0].memory)


def _strides(parts: Sequence[tuple[int, list[int], list[tuple[int, list[int]]]]]) -> dict[int, int]:
    """Strides of digits: those that a part walks along, and those that parts differ by."""
    found: dict[int, int] = {}
    for _, _, walks in parts:
        for stride, step in walks:
            along = [d for d, number in enumerate(step) if number]
            if len(along) == 1:
                found.setdefault(along[0], stride // step[along[0]])
    begin, origin, _ = parts[0]
    for other, start, _ in parts[1:]:
        apart = [d for d, (m, n) in enumerate(zip(origin, start, strict=True)) if m != n]
        if len(apart) == 1:
            d = apart[0]
            found.setdefault(d, (other - begin) // (start[d] - origin[d]))
    return found
