"""What a Fourier transform is to be, and the shorter ones that it is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from clprim.dtypes import AnyDType
from clprim.language.definition import PointwiseDefinition
from clprim.plan.fourier.lengths import Recipe, in_pairs, recipe
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class Side:
    """Where numbers lie, in reals: of a line from one to the next, and from line to line."""

    buffer: str
    start: int
    step: int
    part: int  # From a number's real part to its imaginary one; 0 of real numbers
    strides: tuple[int, ...]

    @property
    def unit(self) -> int:
        """The step of neighbours; 0 where parts lie apart."""
        return {0: 1, 1: 2}.get(self.part, 0)

    def in_pairs(self) -> Side:
        """Returns the side of real numbers, every second of which is an imaginary part."""
        return replace(self, step=2 * self.step, part=self.step)

    def every(self, k: int) -> Side:
        """Returns the side of lines of every k-th number, which begin at neighbouring ones."""
        return replace(self, step=self.step * k, strides=(*self.strides, self.step))


@dataclass(frozen=True)
class Strung:
    """The user's string on what is read, or on what is written."""

    definition: PointwiseDefinition
    x: AnyDType  # Of ``x0``, and of ``y0``
    y: AnyDType
    # Where what else it reads lies, in elements, and of which dtypes that is
    sides: tuple[Side, ...]
    dtypes: tuple[AnyDType, ...]
    scalars: tuple[AnyDType, ...]  # Of its run-time numbers, and which of the call is the first
    first: int
    pairs: bool = False  # Whether a number is two real ones, each of them an element

    def in_pairs(self) -> Strung:
        """Returns it on pairs of real numbers."""
        return replace(self.moved(Side.in_pairs), pairs=True)

    def moved(self, change: Callable[[Side], Side]) -> Strung:
        """Returns it for other lines."""
        return replace(self, sides=tuple(map(change, self.sides)))


def moved(strung: Strung | None, change: Callable[[Side], Side]) -> Strung | None:
    """Returns a string, if there is one, for other lines."""
    return strung and strung.moved(change)


@dataclass(frozen=True)
class Places:
    """The positions of numbers within a longer line, by which limits and tables know them."""

    step: int
    strides: tuple[int, ...]
    limit: int = 0  # Positions from here on are none: read as 0, not written; 0 where all are
    table: str = ""  # What numbers are multiplied by there


@dataclass(frozen=True)
class Lines:
    """Transforms of one length, of numbers that two sides have."""

    n: int
    sizes: tuple[int, ...]
    x: Side
    y: Side
    read: Places
    written: Places
    swap_x: bool = False  # An inverse transform is one of swapped parts, swapped again
    swap_y: bool = False
    scaled: bool = False
    # Of what is given as half a spectrum, how long the whole is, its side's step, and how much of
    # it there is
    points: int = 0
    point: int = 0
    given: int = 0
    halves: str = ""  # Where a line stands for one of real numbers, twice as long: ``x`` or ``y``
    minus: bool = False
    alone: bool = False  # Whether nothing else is computed
    # The points of a line that is a convolution of n numbers: of chirps, or in an ``order``
    whole: int = 0
    convolved: str = ""
    real_first: bool = False  # Whether the first number of a transform is real
    load: Strung | None = None
    store: Strung | None = None

    @property
    def count(self) -> int:
        """How many there are."""
        return math.prod(self.sizes)


@dataclass(frozen=True)
class Transform:
    """What a call computes."""

    n: int
    sizes: tuple[int, ...]  # Of the lines
    x: Side
    y: Side
    dtype: AnyDType  # Of real parts
    given: AnyDType  # Of real parts that are read, which may be narrower, or whole numbers
    inverse: bool = False
    have: int = 0  # Numbers that are given of each line; the rest are 0
    kept: int = 0  # Numbers that are wanted
    half: bool = False  # Whether what is given is half a spectrum, of which the rest follows
    real: bool = False  # Whether real numbers are transformed, or are what half a spectrum is of
    scaled: bool = True
    load: Strung | None = None
    store: Strung | None = None
    in_place: bool = False  # Whether results lie where lines are read

    def __str__(self) -> str:
        return f"{math.prod(self.sizes)} transforms of {self.n} numbers"

    @property
    def halved(self) -> bool:
        """Whether real numbers are transformed in pairs, as half as many complex ones."""
        return self.real and in_pairs(self.n, self.have, self.kept, self.half)

    @property
    def count(self) -> int:
        """How many there are."""
        return math.prod(self.sizes)

    def runs_strings(self, traits: DeviceTraits) -> bool:
        """Whether what reads and writes the numbers that strings are of runs strings."""
        if not self.halved:
            return not (self.half and self.load)
        made = recipe(self.n, self.count, np.dtype(self.dtype).itemsize, traits, halved=True)
        several = len(made.lengths) > 1 or made.convolved
        return not (several and (self.load if self.half else self.store))


def stages(what: Transform, made: Recipe) -> Iterator[Lines]:
    """Yields the transforms that a kernel computes each, in order."""
    zeros = (0,) * len(what.sizes)
    whole = Lines(
        what.n,
        what.sizes,
        what.x,
        what.y,
        Places(1, zeros, what.have if what.have < what.n and not what.half else 0),
        Places(1, zeros, what.kept if what.kept < what.n else 0),
        what.inverse,
        what.inverse,
        what.scaled,
        what.n if what.half else 0,
        what.x.step,
        what.have,
        real_first=what.real and not what.half,
        load=what.load,
        store=what.store,
    )
    yield from (_halved if what.halved else _composed)(whole, made)


def _halved(whole: Lines, made: Recipe) -> Iterator[Lines]:
    """Yields what transforms pairs of real numbers, in one kernel where one transforms a line."""
    n, zeros, half = whole.n // 2, (0,) * len(whole.sizes), bool(whole.points)
    every = Places(1, zeros)
    minus = half is not whole.swap_x
    pairs = replace(whole, n=n, written=every, points=0, real_first=False, minus=minus)
    if half:
        limit, side = (whole.given if whole.given <= n else 0), "x"
        pairs = replace(pairs, y=whole.y.in_pairs(), store=whole.store and whole.store.in_pairs())
    else:
        limit, side = whole.read.limit // 2, "y"
        pairs = replace(pairs, x=whole.x.in_pairs(), load=whole.load and whole.load.in_pairs())
    pairs = replace(pairs, read=Places(1, zeros, limit))
    if len(made.lengths) == 1 and not made.convolved:
        yield replace(pairs, halves=side)
        return
    between = _dense("halves", whole.sizes, n)
    alone = replace(pairs, halves=side, alone=True, swap_x=False, swap_y=False)
    if half:
        yield replace(alone, y=between, scaled=False, store=None)
        yield from _composed(replace(pairs, x=between, read=every), made)
    else:
        yield from _composed(replace(pairs, y=between, scaled=False), made)
        yield replace(alone, x=between, read=every, load=None)


def _composed(whole: Lines, made: Recipe) -> Iterator[Lines]:
    if not made.convolved:
        yield from _stages(whole, made.lengths, 0)
        return
    m, n = made.convolved, whole.n
    if made.fused and made.ordered:
        yield replace(whole, n=m, whole=n, convolved="order", swap_y=not whole.swap_y)
        return
    if made.fused:
        yield replace(
            whole,
            n=m,
            whole=n,
            convolved="chirp",
            read=replace(whole.read, limit=whole.read.limit or n, table="chirp"),
            written=replace(whole.written, limit=whole.written.limit or n, table="chirp"),
            swap_x=False,
            swap_y=True,
        )
        return
    spectrum = _dense("spectrum", whole.sizes, m)
    zeros = (0,) * len(whole.sizes)
    first = replace(
        whole,
        n=m,
        y=spectrum,
        read=replace(whole.read, limit=whole.read.limit or n, table="chirp"),
        written=Places(1, zeros, 0, "filter"),
        swap_x=False,
        swap_y=False,
        scaled=False,
        real_first=False,
        store=None,
    )
    last = Lines(
        m,
        whole.sizes,
        spectrum,
        whole.y,
        Places(1, zeros),
        replace(whole.written, limit=whole.written.limit or n, table="chirp"),
        True,
        True,
        whole.scaled,
        real_first=whole.real_first,
        store=whole.store,
    )
    yield from _stages(first, made.lengths, 0)
    yield from _stages(last, made.lengths, 0)


def _dense(name: str, sizes: tuple[int, ...], n: int) -> Side:
    strides, step = [], 2 * n
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return Side(name, 0, 2, 1, tuple(reversed(strides)))


def _stages(whole: Lines, lengths: tuple[int, ...], level: int) -> Iterator[Lines]:
    """Yields transforms of columns, turned as their places say, then those of rows."""
    if len(lengths) == 1:
        yield whole
        return
    first, rest = lengths[0], whole.n // lengths[0]
    x, y, read, written = whole.x, whole.y, whole.read, whole.written
    between = _dense(f"between{level}", (*whole.sizes, first), rest)
    columns = Side(between.buffer, 0, 2 * rest, 1, (*between.strides[:-1], 2))
    none = (0,) * len(whole.sizes)
    yield Lines(
        first,
        (*whole.sizes, rest),
        x.every(rest),
        columns,
        Places(read.step * rest, (*read.strides, read.step), read.limit, read.table),
        Places(rest, (*none, 1), 0, f"turns{whole.n}"),
        whole.swap_x,
        points=whole.points,
        point=whole.point,
        given=whole.given,
        load=moved(whole.load, lambda side: side.every(rest)),
    )
    yield from _stages(
        Lines(
            rest,
            (*whole.sizes, first),
            between,
            y.every(first),
            Places(1, (*none, 0)),
            Places(
                written.step * first, (*written.strides, written.step), written.limit, written.table
            ),
            False,
            whole.swap_y,
            whole.scaled,
            real_first=whole.real_first,
            store=moved(whole.store, lambda side: side.every(first)),
        ),
        lengths[1:],
        level + 1,
    )
