"""Plans a contraction: the sum of products over `depth` that matrix products and convolutions are.

    y[group, lane, output] = Σ_depth gathered[group, lane, depth] · packed[group, output, depth]

One operand is *gathered* where it lies: its lanes and depths are numbers of three digits, each with
its own stride, and a window's elements outside of a plane are 0. The other one is *packed* first.
Outputs mostly have one stride; where they become pixels they are numbers of three digits as well.
Which is which, what the digits mean and which of them become rows, is the operator's to say: the
windows of a convolution are lanes of (image, y, x) and depths of (y, x, channel), those of its
weight gradient the other way round, and a matrix has one digit of each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from clprim.dtypes import AnyDType
from clprim.plan.epilogue import NO_EPILOGUE, Epilogue, is_position
from clprim.plan.machine import PAGE
from clprim.plan.strides import index_reaching

Digits = tuple[int, int, int]


@dataclass(frozen=True)
class Bounds:
    """The plane that windows may leave."""

    # Element (lane, depth) lies in row ``start + Σ lane digit · lane + Σ depth digit · depth``;
    # likewise its column. The first two digits move rows, the last two columns.

    height: int
    width: int
    row_start: int  # Of the first lane's first element
    column_start: int
    row_lane: tuple[int, int]  # What the first two digits of a lane and of a depth add to the row
    row_depth: tuple[int, int]
    column_lane: tuple[int, int]  # What the last two digits add to the column
    column_depth: tuple[int, int]


@dataclass(frozen=True)
class Gathered:
    """The operand that is read where it lies; strides and places in elements."""

    dtype: AnyDType
    start: int  # Where lane 0, depth 0 lies; it need not exist, if ``bounds`` say so
    group: int  # From one group to the next
    lane: Digits
    depth: Digits
    size: int  # Elements of its buffer that may be read
    bounds: Bounds | None = None  # The plane it must not leave; None where no window does
    buffer: str = "x"  # Name of its buffer in a call

    @property
    def aliased(self) -> bool:
        """Whether all lanes lie in the same few places of a near cache: whole pages apart."""
        return self.lane[2] * self.dtype.itemsize % PAGE == 0


@dataclass(frozen=True)
class Packed:
    """The operand that is packed; strides in elements."""

    dtype: AnyDType
    start: int  # Where its first element lies
    group: int  # From one group to the next
    output: int  # From one output to the next
    depth: Digits  # Strides of the digits of depth
    digits: Digits | None = None  # Strides of an output's digits, where the contraction has any
    buffer: str = "w"  # Name of its buffer in a call


@dataclass(frozen=True)
class Output:
    """The result, or an array that the epilogue reads; strides in elements."""

    name: str  # ``y0``, ``bias``, ``x0``, ``x1``, …
    dtype: AnyDType
    start: int  # Where its first element lies
    group: int  # From one group to the next
    output: int  # From one output to the next
    lane: Digits  # Strides of a lane's digits
    digits: Digits | None = None  # Strides of an output's digits, where the contraction has any

    def reach(self, what: Contraction) -> int:
        """Returns how many elements it may span."""
        if what.digits is None or self.digits is None:
            outputs = abs(self.group) * what.groups + abs(self.output) * what.outputs
        else:
            outputs = span_of(self.digits, what.digits)
        return abs(self.start) + outputs + span_of(self.lane, what.lanes)


@dataclass(frozen=True)
class Contraction:
    """What to compute."""

    name: str
    groups: int
    lanes: Digits  # Sizes of the digits of lanes and depths
    depths: Digits
    outputs: int
    value: AnyDType  # dtype that sums are added up in
    gathered: Gathered
    packed: Packed
    y: Output
    epilogue: Epilogue[Output] = NO_EPILOGUE  # What becomes of a sum before it is stored
    # What becomes of a gathered element where it is read; the outputs of its arrays are elements
    # along depth
    prologue: Epilogue[Output] = NO_EPILOGUE
    # Sizes of an output's digits, where outputs, counted through all groups, are numbers of three
    # digits too; the groups' own strides then are not used. None: they have one stride
    digits: Digits | None = None
    # With `depth_to_space`, the layout that the result would have without it. Tiles and splits are
    # chosen from this one, so that both give the same bits
    plain: Output | None = None
    # Relative root mean square error that the algorithm may have, of random numbers; 0 for sums of
    # products only
    error: float = 0.0
    # How exact products of float32 are: ``highest``, ``high`` or ``medium``, as in `clprim.options`
    precision: str = "highest"
    # Whether the packed operand stays what it is, and what kernels make of it once
    kept: bool = True

    def __str__(self) -> str:
        sizes = math.prod(self.lanes), math.prod(self.depths), self.outputs
        return f"a product {sizes[0]}×{sizes[1]}×{sizes[2]} of {self.value}"

    @property
    def stored(self) -> tuple[Output, ...]:
        """The result, and what the epilogue reads."""
        return (self.y, *self.epilogue.arrays)

    @property
    def near(self) -> Output:
        """The array whose neighbours decide what becomes columns."""
        return self.y if self.plain is None else self.plain

    @property
    def unshuffled(self) -> Contraction:
        """The same sums, stored with outputs as channels where they become pixels."""
        if self.plain is None:
            return self
        packed = replace(self.packed, digits=None)
        return replace(
            self, packed=packed, y=self.plain, epilogue=NO_EPILOGUE, digits=None, plain=None
        )


def span_of(strides: Digits, sizes: Digits) -> int:
    """Returns how many elements numbers of such digits span at most."""
    return sum(abs(s) * n for s, n in zip(strides, sizes, strict=True))


def index_of(what: Contraction) -> str:
    """``int`` where 31 bits reach every element, with room for tiles past the end."""
    lanes = math.prod(what.lanes)
    depth = math.prod(what.depths)
    prologue = what.prologue.arrays
    return index_reaching(
        what.gathered.size,
        what.groups * (what.outputs + 64) * (depth + 64),
        what.groups * (what.outputs + 64) * (lanes + 64),
        *(o.reach(what) for o in what.stored),
        *(abs(p.start) + abs(p.output) * depth + span_of(p.lane, what.lanes) for p in prologue),
    )


def moved_bytes(what: Contraction) -> int:
    """Returns the bytes of every operand once, of what the epilogue reads and of the result."""
    lanes, depth = math.prod(what.lanes), math.prod(what.depths)
    moving = [o for o in what.epilogue.arrays if any(o.lane) and not is_position(o.name)]
    stored = (what.y, *moving)
    read = min(what.gathered.size, what.groups * lanes * depth) * what.gathered.dtype.itemsize
    packed = what.groups * what.outputs * depth * what.value.itemsize
    results = what.groups * lanes * what.outputs
    return read + packed + results * sum(o.dtype.itemsize for o in stored)


def result_bytes(what: Contraction) -> int:
    """Returns the bytes of the result."""
    return what.groups * math.prod(what.lanes) * what.outputs * what.y.dtype.itemsize
