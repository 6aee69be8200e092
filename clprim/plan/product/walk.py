"""Numbers of three digits that walk several arrays at once: put in order, and merged.

The lanes of a contraction walk its gathered operand and its result, its depths both operands. The
order of the digits is free, as long as all walk alike: whichever is last decides what neighbouring
work-items read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clprim.plan.product.problem import Contraction, Digits


@dataclass(frozen=True)
class Walk:
    """Digits, outermost first, and what each of them adds to some places."""

    sizes: Digits  # Of the digits; at most three are larger than 1
    steps: Mapping[str, Digits]  # By the name of the place: an array's name, ``row`` or ``column``

    @property
    def size(self) -> int:
        """All that can be counted."""
        return math.prod(self.sizes)

    @property
    def digits(self) -> int:
        """How many digits from the last one on count."""
        return next((3 - d for d, size in enumerate(self.sizes) if size != 1), 1)

    def last(self, name: str) -> int:
        """What the last digit adds to a place."""
        return self.steps[name][2]

    def ordered(self, *names: str) -> Walk:
        """Returns the walk with its largest steps first."""
        order = sorted(range(3), key=lambda d: -max(abs(self.steps[n][d]) for n in names))
        for name in names:
            near = [d for d in order if self.sizes[d] > 1 and abs(self.steps[name][d]) == 1]
            if near:
                order.remove(near[0])
                order.append(near[0])
                break
        return self._of([(self.sizes[d], {n: s[d] for n, s in self.steps.items()}) for d in order])

    def merged(self) -> Walk:
        """Returns the walk with as few digits as possible."""
        kept: list[tuple[int, dict[str, int]]] = []
        for d, size in enumerate(self.sizes):
            if size == 1:
                continue
            steps = {name: step[d] for name, step in self.steps.items()}
            if kept and all(kept[-1][1][name] == step * size for name, step in steps.items()):
                kept[-1] = (kept[-1][0] * size, steps)
            else:
                kept.append((size, steps))
        return self._of(kept)

    def only(self, name: str) -> Walk:
        """Returns the walk of one place alone, which may have fewer digits."""
        return Walk(self.sizes, {name: self.steps[name]}).merged()

    def _of(self, digits: Sequence[tuple[int, Mapping[str, int]]]) -> Walk:
        padded = [(1, dict.fromkeys(self.steps, 0))] * (3 - len(digits)) + list(digits)
        sizes = padded[0][0], padded[1][0], padded[2][0]
        steps = {n: (padded[0][1][n], padded[1][1][n], padded[2][1][n]) for n in self.steps}
        return Walk(sizes, steps)

    def taken_apart(self, number: int) -> Digits:
        """Returns the digits of a number; the first one that counts takes whatever is left."""
        found = [0, 0, 0]
        first = 3 - self.digits
        for d in range(2, first, -1):
            number, found[d] = divmod(number, max(1, self.sizes[d]))
        found[first] = number
        return found[0], found[1], found[2]

    def reach(self, name: str) -> tuple[int, int]:
        """Returns the least and the most that the digits add to a place."""
        ends = [step * (size - 1) for step, size in zip(self.steps[name], self.sizes, strict=True)]
        return sum(e for e in ends if e < 0), sum(e for e in ends if e > 0)

    def whole(self, name: str, width: int) -> bool:
        """Whether vectors of ``width`` along the last digit are neighbours, all starting alike."""
        *outer, inner = self.steps[name]
        return inner == 1 and self.sizes[2] % width == 0 and all(s % width == 0 for s in outer)


def lanes_of(what: Contraction) -> Walk:
    """Returns the lanes of a contraction as they walk the gathered operand and the result."""
    steps = {"x": what.gathered.lane, **{o.name: o.lane for o in what.stored}}
    b = what.gathered.bounds
    if b is not None:
        steps |= {"row": (*b.row_lane, 0), "column": (0, *b.column_lane)}
    # An epilogue's array may be called x0, never x: no name is taken twice.
    return Walk(what.lanes, steps)


def depths_of(what: Contraction) -> Walk:
    """Returns the depths of a contraction as they walk both operands."""
    steps = {"x": what.gathered.depth, "w": what.packed.depth}
    b = what.gathered.bounds
    if b is not None:
        steps |= {"row": (*b.row_depth, 0), "column": (0, *b.column_depth)}
    return Walk(what.depths, steps)
