"""What attention's kernels by matrix units share: tiles in local memory, and who computes what.

A sub-group has a unit or more of one side's rows, ``own``, which stay, and multiplies them with
block after block of the other side's. What comes of the product is an operand of the next one, as
it lies where a unit's sums lie as its operands do, else through local memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clprim.plan.fused.heads import Heads, HeadsCode
from clprim.plan.kernel import round_up
from clprim.plan.machine import GROUP
from clprim.plan.product.matrix_tile import CHUNK
from clprim.plan.product.tile_reading import ReadCode
from clprim.plan.strides import Operand
from clprim.plan.units.known import unit_of
from clprim.plan.units.unit import Fragment, MatrixUnit
from clprim.traits import DeviceTraits

# Rows that are multiplied while others arrive, half of them where these wait in registers.
BLOCKS = (GROUP, GROUP // 2)
# Bound: words of a draw: its counter, key and products, where it begins and which call it is of.
DRAWN = 20
# Work-items that share a block at most.
MOST_ITEMS = 4 * GROUP


@dataclass(frozen=True)
class HeadTile:
    """Who computes what of a block."""

    down: int  # Sub-groups that have rows of their own
    across: int  # Sub-groups that share rows: each has a part of keys, and of elements of heads
    units: int  # Units of rows of a sub-group
    block: int  # Rows of the other side at a time
    held: bool  # Whether own rows stay in registers, not in local memory


@dataclass(frozen=True)
class RowsCode(ReadCode):
    """Rows of heads in local memory."""

    rows: int = 1
    room: int = 1  # Elements of a row
    turned: bool = False  # Whether rows are columns there


@dataclass(frozen=True, kw_only=True)
class MatrixHeadsCode(HeadsCode):
    """What kernels of attention by matrix units print."""

    unit: MatrixUnit
    tile: HeadTile
    kept: bool  # Whether products stay in registers on their way to be operands
    memory: int  # Bytes of it, and words that an emulated unit's work-items exchange
    exchanged: int
    itemsize: int = 2  # Bytes of an element in memory

    @property
    def chunk(self) -> int:
        """Elements that a swizzle moves as one."""
        return CHUNK // self.itemsize

    @property
    def copies(self) -> bool:
        """Whether copies to local memory are not waited for."""
        return bool(self.unit.copies)

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.tile.down * self.tile.across * self.unit.items

    @property
    def side(self) -> int:
        """Rows of a unit, which are its columns where it is turned, and of the other operand."""
        return self.unit.columns if self.unit.turned else self.unit.rows

    @property
    def other(self) -> int:
        """Rows of the other operand of a unit."""
        return self.unit.rows if self.unit.turned else self.unit.columns

    @property
    def own_rows(self) -> int:
        """Rows of a group."""
        return self.tile.down * self.tile.units * self.side


def unit_for(what: Heads, traits: DeviceTraits) -> MatrixUnit | None:
    """Returns the unit that multiplies heads as they are stored; None where there is none."""
    names = {what.arrays[name].dtype.name for name in "qkv"}
    if what.cached or what.value.name != "float32":
        return None
    units = map(unit_of, traits.matrix_units)
    found = (u for u in units if u.itemsize == 2 and {*u.operands} == names)
    return next(found, None)


def head_room(size: int) -> int:
    """Returns the elements that a row of local memory has room for: whole turns of a swizzle."""
    return round_up(size, BLOCKS[0] if size > BLOCKS[1] else BLOCKS[1])


def sides(unit: MatrixUnit) -> tuple[int, int, Fragment, Fragment]:
    """Returns rows of a unit that stay and that change, and their fragments."""
    if unit.turned:
        return unit.columns, unit.rows, unit.b, unit.a
    return unit.rows, unit.columns, unit.a, unit.b


def head_tiles(
    unit: MatrixUnit, traits: DeviceTraits, rows: int, *, smaller: bool = False
) -> Iterator[HeadTile]:
    """Yields tiles in order of preference, for so many rows of all heads, ``smaller`` ones too."""
    own, _, _, _ = sides(unit)
    most = min(MOST_ITEMS, traits.max_work_group_size)
    for across in (1, 2, 4, 8):
        for units in (2, 1) if across == 1 else (1,):
            down = max(1, GROUP // own)
            while down > 1 and down * across * unit.items > most:
                down //= 2
            if down * across * unit.items > most:
                continue
            if units > 1 and rows < units * down * own * traits.compute_units:
                continue  # too few groups
            for held in (True, False):
                for block in BLOCKS if unit.copies else BLOCKS[1:]:
                    yield HeadTile(down, across, units, block, held)
                    if smaller and down > 1:
                        yield HeadTile(down // 2, across, units, block, held)


def divides(unit: MatrixUnit, tile: HeadTile, *rooms: int) -> bool:
    """Whether sub-groups share a block, and elements of heads of these rooms, in whole units."""
    _, other, _, _ = sides(unit)
    step = other * tile.across * (2 if unit.matrices else 1)
    return tile.block % unit.steps == 0 and all(n % step == 0 for n in (tile.block, *rooms))


def read_tile(
    name: str, tile: str, a: Operand, shape: tuple[int, int], items: int, along: str = "depth"
) -> RowsCode:
    """Returns how rows of a head are copied to local memory, by vectors as they are aligned.

    They lie there as in memory, and are summed over ``along`` themselves (``depth``) or over each
    other (``lanes``); for the latter they may be ``turned``.
    """
    rows, room = shape
    width = CHUNK // a.dtype.itemsize
    steps = [a.strides[d] for d in range(len(a.shape) - 1) if a.shape[d] > 1]
    numbers = [a.in_elements(n) for n in (*steps, a.offset)]
    if a.in_elements(a.strides[-1]) != 1:
        width = 1
    while any(n % width for n in (*numbers, a.shape[-1])):
        width //= 2
    units = rows * room // width
    turned = along == "turned"
    return RowsCode(
        name,
        "ushort",
        "ushort",
        "direct",
        tile=tile,
        pitch=rows if turned else room,
        along="depth" if turned else along,
        width=width,
        units=units,
        reads=-(-units // items),
        rows=rows,
        room=room,
        turned=turned,
    )


def between(tile: str, block: int) -> RowsCode:
    """Returns products of rows with a block, which go through local memory."""
    return RowsCode(tile, "ushort", "ushort", "direct", tile=tile, pitch=block)


def exchanged_words(unit: MatrixUnit, tile: HeadTile) -> int:
    """Returns the words by which an emulated unit's work-items exchange what they hold."""
    if not unit.emulated:
        return 0
    groups = tile.down * tile.across
    operands = (unit.rows + unit.columns) * unit.steps * unit.itemsize // 4
    return groups * max(unit.items, operands)


def fits(unit: MatrixUnit, tile: HeadTile, words: int, local: int, traits: DeviceTraits) -> bool:
    """Whether a device has room for these words of a work-item, and bytes of local memory."""
    registers = 5 * traits.register_bytes // 8  # others hold addresses
    return 4 * words <= registers and local + 4 * exchanged_words(unit, tile) <= traits.local_memory
