"""Matrix units: instructions by which some work-items together multiply small matrices.

The work-items that share one hold pieces of A (rows × steps of k), B (steps × columns) and of the
sums (rows × columns). Which of them has which element is data, written as C's arithmetic of whole
numbers: kernels paste it, the emulated unit runs by it, and a model in NumPy evaluates it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

#: How names of units begin that compute what another one does without its instruction.
EMULATED = "emulated/"


def bytes_of(operand: str) -> int:
    """Returns the bytes of an element of ``float16``, ``tf32`` and so on."""
    return int(operand.lstrip("abcdefghijklmnopqrstuvwxyz")) // 8


@dataclass(frozen=True)
class Fragment:
    """The part of a matrix that a work-item holds: elements in order, several to a word."""

    # Place of ``element`` of work-item ``lane``: of A (row, step), of B (column, step), of sums
    # (row, column)
    line: str
    along: str
    elements: int
    run: int = 1  # Elements whose second places follow each other


@dataclass(frozen=True)
class MatrixUnit:
    """An instruction that multiplies matrices."""

    instructions: str  # The set that it is of
    rows: int
    columns: int
    steps: int
    operands: tuple[str, str]  # What elements of A and of B are, as `bytes_of` takes them
    items: int  # Work-items that share one, neighbours in a work-group
    a: Fragment
    b: Fragment
    c: Fragment
    # C that defines multiply_add(sums, a, b), of sums and of words of 32 bits
    text: str
    # C that defines load_matrices(words, from) and load_transposed: each of 32 work-items says
    # where 16 bytes lie, a line of one of four matrices, and gets a word of each of these
    matrices: str = ""
    # C that defines copy_4, copy_8, copy_16 (to, from, whether or zeros), copies_end() and
    # copies_wait(but for so many ends): copies to local memory that a work-item does not wait for
    copies: str = ""
    attribute: str = ""  # Of kernels
    # How attention lies in sums: whether queries are their columns, not rows; by which bits the
    # numbers of work-items differ that hold other sums of the same queries; and whether sums lie,
    # one unit's after another's, as operands do
    turned: bool = True
    partners: tuple[int, ...] = ()
    kept: bool = True
    partner: str = ""  # C that defines of_partner(value, bit), the float of the one that differs
    # C that defines pack(low, high), a word of 16 bits each, and power(x), of 2, or the language's
    pack: str = ""
    # C that defines load_block(words, from): a fragment of A, whose rows lie one after another in
    # local memory, by all of its work-items at once
    blocks: str = ""
    # Option of programs that have more registers than traits say, and bytes of a work-item's then
    option: str = ""
    registers: int = 0
    emulated: bool = False

    @property
    def name(self) -> str:
        """What traits call it."""
        shape = f"m{self.rows}n{self.columns}k{self.steps}"
        operands = ".".join(dict.fromkeys(self.operands))
        prefix = EMULATED if self.emulated else ""
        more = f"/{self.registers}" if self.registers else ""
        return f"{prefix}{self.instructions}/{shape}/{operands}/{self.items}{more}"

    @property
    def itemsize(self) -> int:
        """Bytes of an operand's element."""
        return bytes_of(self.operands[0])

    @property
    def value(self) -> str:
        """OpenCL C's type of sums."""
        return "int" if self.itemsize == 1 else "float"

    @property
    def queries(self) -> int:
        """Queries that a work-item holds sums of."""
        return 1 if self.turned else self.c.elements // self.c.run

    @property
    def words(self) -> tuple[int, int]:
        """Words of A and of B that a work-item holds."""
        a, b = (f.elements * self.itemsize // 4 for f in (self.a, self.b))
        return a, b

    def as_emulated(self) -> MatrixUnit:
        """Returns the unit whose work-items exchange fragments through local memory instead."""
        return replace(self, text="", attribute="", partner="", pack="", option="", emulated=True)
