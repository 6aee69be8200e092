"""What the templates of Fourier transforms print: stations of a line, butterflies, constants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clprim.plan.kernel import (
    KernelCode,
    OperandCode,
    ScalarCode,
)

# Ways to read and write whole vectors of neighbouring lines.
WHOLE = ("lanes", "apart")


@dataclass(frozen=True)
class Station:
    """A step of a kernel, from memory or a buffer to another."""

    kind: str  # ``gather``, ``pass`` or ``scatter``
    start: str
    to: str
    radix: int = 0
    before: int = 1  # Product of the radices of earlier passes, and of later ones
    behind: int = 1
    # Whether pairs of numbers become what `Lines.halves` says, numbers are in the order of a
    # convolution, or are multiplied by its filter before they are written
    halves: bool = False
    ordered: bool = False
    filtered: bool = False


@dataclass(frozen=True)
class StringCode:
    """A string on numbers that are read, or that are to be written."""

    part: str
    text: str
    lanes: int  # Of the vectors that it computes; 1 where they are taken one by one
    x: str  # The types of ``x0`` and of ``y0``
    y: str
    operands: tuple[OperandCode, ...]
    scalars: tuple[ScalarCode, ...]
    pairs: bool  # Whether a number is two real ones, each of them an element


@dataclass(frozen=True, kw_only=True)
class FourierCode(KernelCode):
    """What fourier/lines.cl.jinja prints."""

    real: str
    given: OperandCode  # What is read
    n: int
    radices: tuple[int, ...]
    lanes: int  # Lines side by side in a vector
    items: int  # Work-items that share a line
    beside: int  # Neighbouring lines that a work-group has
    # How numbers are read and written: ``lanes``, ``apart`` (parts are), ``turned``, one by one as
    # ``pairs`` or ``any``
    x: str
    y: str
    real_x: bool
    real_y: bool
    hermitian: bool  # Whether half of what is read follows from the other half
    in_limit: bool
    out_limit: bool
    edge_x: bool  # Whether some of neighbouring lanes may be beyond the limit
    edge_y: bool
    # How the positions of neighbouring lanes lie in the table that numbers are multiplied by:
    # ``one`` or ``zero``; empty where they are not
    before: str
    after: str
    fine: int  # See `fine_bits`, of the table that is multiplied by after
    swap_x: bool
    swap_y: bool
    scaled: bool
    halves: str  # See `Lines`
    minus: bool
    convolved: str
    real_first: bool  # Whether rounding may not leave an imaginary part at place 0
    whole: int  # Points of a line; of a convolution of chirps its length, which many lines share
    work: int  # Numbers that a work-item has
    load: StringCode | None
    store: StringCode | None
    outer: int  # Loops beside the one across neighbouring lines

    @property
    def strings(self) -> tuple[StringCode, ...]:
        """Those that there are."""
        return tuple(s for s in (self.load, self.store) if s is not None)

    @property
    def vectors(self) -> list[str]:
        """The types of the vectors that strings compute in."""
        return sorted({f"{self.real}{s.lanes}" for s in self.strings if s.lanes > 1})

    @property
    def paired(self) -> int:
        """Lanes of the vectors of complex numbers that strings read."""
        found = [s.lanes for s in self.strings if any(o.value != self.real for o in s.operands)]
        return max(found, default=1)

    @property
    def width(self) -> int:
        """Lines that a work-group has at a time."""
        return self.lanes * self.beside

    @property
    def in_place(self) -> bool:
        """Whether positions of what is read are asked for."""
        return self.in_limit or self.hermitian or bool(self.before)

    @property
    def out_place(self) -> bool:
        """Whether positions of what is written are asked for."""
        return self.out_limit or bool(self.after)

    @property
    def butterflies(self) -> tuple[int, ...]:
        """The radices, and those that they are composed of, before them."""
        found: dict[int, None] = {}
        for radix in self.radices:
            _compose(radix, found)
        return tuple(found)

    def inner(self, radix: int) -> int:
        """The first of two radices that one is composed of, or 1."""
        return _first_of(radix)

    def cosine(self, turns: int, n: int) -> str:
        """Cosine of so many n-th of a turn, as text."""
        return self._text(_cosine(turns % n, n))

    def sine(self, turns: int, n: int) -> str:
        """Sine of so many n-th of a turn, as text."""
        return self._text(_cosine((4 * turns - n) % (4 * n), 4 * n))

    def _text(self, value: float) -> str:
        text = repr(value) if self.real == "double" else f"{float(np.float32(value))!r}f"
        return f"({text})" if value < 0 else text

    @cached_property
    def stations(self) -> tuple[Station, ...]:
        """The steps, through as few buffers as can be."""
        found: list[Station] = []
        both = bool(self.convolved)
        gathers = both or self.halves == "x" or (self.lanes > 1 and self.x not in WHOLE)
        scatters = both or self.halves == "y" or (self.lanes > 1 and self.y not in WHOLE)
        ordered = self.convolved == "order"
        names = ("first_buffer", "second_buffer")
        at, used = "memory", 0
        if gathers:
            found.append(Station("gather", at, names[0]))
            at, used = names[0], 1
        passes = len(self.radices)
        for k, radix in enumerate(self.radices * (1 + both)):
            before = math.prod(self.radices[: k % passes])
            last = k + 1 == passes and not scatters
            station = Station(
                "pass",
                at,
                "memory" if last else names[used % 2],
                radix,
                before,
                self.n // (before * radix),
                halves=not k and self.halves == "x",
                ordered=not k and ordered,
                filtered=both and k + 1 == passes,
            )
            found.append(station)
            at, used = station.to, used + 1
        if scatters:
            found.append(
                Station("scatter", at, "memory", halves=self.halves == "y", ordered=ordered)
            )
        return tuple(found)

    @property
    def buffers(self) -> tuple[str, ...]:
        """Those that steps write to."""
        return tuple(dict.fromkeys(s.to for s in self.stations if s.to != "memory"))


def _first_of(radix: int) -> int:
    bits = radix.bit_length() - 1
    return 1 << bits // 2 if radix == 1 << bits else 1


def _compose(radix: int, found: dict[int, None]) -> None:
    first = _first_of(radix)
    if first > 1:
        _compose(first, found)
        _compose(radix // first, found)
    found[radix] = None


def _cosine(turns: int, n: int) -> float:
    """Cosine of a part of a turn, exact at quarters."""
    turns = min(turns, n - turns)
    if 4 * turns == n:
        return 0.0
    return math.cos(2 * math.pi * turns / n)
