"""How quantised weights lie in device memory, whichever file they come from.

A weight (N, K) is one buffer of blocks: 32 outputs beside each other, over so many steps of k. A
block begins with what all its steps share and goes on with units of 32 steps, each of which has its
codes, word by word for all outputs, and then what 16 or 32 steps share. High bits of codes follow
the low ones, in the bytes that these are in once a word is cut into parts of 4 codes. An element is

    w[n, k] = scale · (code - zero) + offset, or scale · table[code]

where the scale is the product of all fields that are scales, and so is the offset of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

#: Bound: outputs that lie side by side, and steps of k of a unit: a bit of each is a word.
OUTPUTS = UNIT = 32


@dataclass(frozen=True)
class Field:
    """A number that some steps of k of an output share."""

    role: str  # ``scale``, ``offset`` or ``zero``
    kind: str  # Its type in memory: ``half``, ``bfloat16``, ``float``, ``char`` or ``uchar``
    steps: int  # 16, 32, or those of a block

    @property
    def size(self) -> int:
        """Its bytes."""
        return {"char": 1, "uchar": 1, "float": 4}.get(self.kind, 2)


@dataclass(frozen=True)
class Coding:
    """The layout of a weight, and the formula of its elements."""

    bits: int  # Of a code; of 16 it is the number itself, a ``half`` or a ``bfloat16``
    fields: tuple[Field, ...]
    zero: int = 0  # What is taken from every code, where no field says it
    minus: bool = False  # Whether the offset is subtracted
    table: tuple[float, ...] = ()  # What codes stand for, where that is no number
    number: str = ""  # Of 16 bits, which

    @property
    def steps(self) -> int:
        """Steps of k of a block."""
        return max([UNIT, *(f.steps for f in self.fields)])

    @property
    def planes(self) -> tuple[int, ...]:
        """Bits of a code that lie beside those of other steps in one word, the low ones first."""
        low = 1 << (self.bits.bit_length() - 1)
        return (low,) if low == self.bits else (low, self.bits - low)

    @property
    def head(self) -> tuple[Field, ...]:
        """What begins a block."""
        return tuple(f for f in self.fields if f.steps > UNIT)

    @property
    def shared(self) -> tuple[Field, ...]:
        """What ends a unit."""
        return tuple(f for f in self.fields if f.steps <= UNIT)

    @property
    def head_bytes(self) -> int:
        """Bytes that begin a block."""
        return OUTPUTS * sum(f.size for f in self.head)

    @property
    def unit_bytes(self) -> int:
        """Bytes of a unit."""
        each = sum(f.size * UNIT // f.steps for f in self.shared)
        return OUTPUTS * (UNIT * self.bits // 8 + each)

    @cached_property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return self.head_bytes + self.units * self.unit_bytes

    @property
    def units(self) -> int:
        """Units of a block."""
        return self.steps // UNIT

    def has(self, role: str) -> bool:
        """Whether some field has a role."""
        return any(f.role == role for f in self.fields)

    @property
    def group(self) -> int:
        """Steps of a unit that share all fields."""
        return min((f.steps for f in self.shared), default=UNIT)

    def place(self, field: Field) -> int:
        """Returns where a field begins in the block, or in the unit."""
        beside = self.head if field in self.head else self.shared
        before = beside[: beside.index(field)]
        first = 0 if field in self.head else OUTPUTS * UNIT * self.bits // 8
        return first + sum(OUTPUTS * f.size * max(1, UNIT // f.steps) for f in before)

    @property
    def parts(self) -> int:
        """Low bits that a byte of a word has room for: a code of each part of a word is a byte."""
        return 8 // self.planes[0]

    @property
    def high_parts(self) -> int:
        """Likewise of the high bits."""
        return 8 // self.planes[1]

    def plane(self, number: int) -> int:
        """Returns where a plane of codes begins in the unit."""
        return OUTPUTS * UNIT // 8 * sum(self.planes[:number])

    def nbytes(self, outputs: int, depth: int) -> int:
        """Returns the bytes of a weight (N, K)."""
        return -(-outputs // OUTPUTS) * (depth // self.steps) * self.block_bytes
