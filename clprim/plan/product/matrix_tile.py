"""Chooses the matrix unit of a contraction, and the tile that a work-group computes by it.

A sub-group's tile is some units down and across: each step of k reads its rows and columns from
local memory, which `clprim.plan.cost` weighs against what the units do meanwhile, the work-groups
that keep a device busy, and what is wasted at the edges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from clprim.plan.cost import LAUNCH, GroupWork
from clprim.plan.kernel import round_up
from clprim.plan.machine import ITEMS, LINE, STARTING, SUB_GROUP, UNROLL
from clprim.plan.product.local_tile import STORE
from clprim.plan.product.problem import Contraction
from clprim.plan.product.splits import cut_depth, without_bounds
from clprim.plan.product.tile_reading import walked, widest
from clprim.plan.product.walk import Walk
from clprim.plan.strategy import Weighed
from clprim.plan.units.known import unit_of
from clprim.plan.units.unit import MatrixUnit
from clprim.traits import DeviceTraits

# Multiply-adds of 16-bit elements that units do for a work-item in the time of an instruction.
RATE = 8
# Instructions' time until a work-item's first fragment of a stage is there, and its last product.
STAGE = 100.0
# Bytes of local memory that a unit reads in the time of one that it copies there from a cache.
FAR = 4
#: Bound: bytes of local memory that lie in the same banks, which swizzles move as one; ``ldmatrix``
#: and ``cp.async`` read and write so many at once.
CHUNK = 16
#: Bound: bytes of registers that hold neither sums nor elements: addresses, and what loops count.
OTHERS = 188
# Bytes of a line of a tile along k.
LINES = (LINE, 2 * LINE)
# Bound: steps of k from which on three products of TF32 have no larger error than float32's, as
# `tests/plan/units/test_parts.py` measures: fewer steps leave more of what each product lacks.
PARTS_STEPS = 128
#: Bound: the width of a vector of sums that is stored, 16 bytes; as many lie between lines of them.
WIDTH = 4


@dataclass(frozen=True)
class MatrixTile:
    """A tile, in units, and who computes it."""

    down: int  # Sub-groups along the tile's rows and columns
    across: int
    rows: int  # Units of a sub-group along its rows and columns
    columns: int
    steps: int  # Steps of units along k that are in local memory at a time
    stages: int  # Tiles of both operands that are in local memory


@dataclass(frozen=True)
class Use:
    """How a contraction is computed by a unit."""

    unit: MatrixUnit
    # 0 where elements are what the unit takes; of float32 how many products it makes of each, whose
    # factors are 1: the nearest element, or 3: that one, and what it lacks
    parts: int
    itemsize: int  # Bytes of an element in memory

    @property
    def chunk(self) -> int:
        """Elements that a swizzle moves as one."""
        return CHUNK // self.itemsize

    def shape(self, tile: MatrixTile) -> tuple[int, int, int]:
        """Rows and columns of a work-group's tile, and steps of k of a stage."""
        unit = self.unit
        return (
            tile.down * tile.rows * unit.rows,
            tile.across * tile.columns * unit.columns,
            tile.steps * unit.steps,
        )

    def items(self, tile: MatrixTile) -> int:
        """Work-items of a group."""
        return tile.down * tile.across * self.unit.items

    def sums(self, tile: MatrixTile) -> int:
        """Sums of a work-item."""
        return tile.rows * tile.columns * self.unit.c.elements

    def registers(self, tile: MatrixTile) -> int:
        """Bytes that a work-item holds: sums, elements, their parts, and those on the way."""
        unit, parts, unrolled = self.unit, min(self.parts, 2), 1 + bool(self.unit.matrices)
        # What no instruction loads is loaded where it is multiplied, a unit's columns at a time.
        held = tile.columns if unit.matrices or parts else 1
        sides = ((tile.rows, unit.a), (held, unit.b))
        elements = sum(n * side.elements for n, side in sides)
        rows, columns, steps = self.shape(tile)
        waiting = 0 if unit.copies else (rows + columns) * steps // self.items(tile)
        return (
            4 * self.sums(tile)
            # Where loops over steps are unrolled, parts of two; what waits, on its way in and out.
            + elements * (self.itemsize + parts * unit.itemsize * unrolled)
            + waiting * self.itemsize * 3 * unrolled // 2
        )

    def exchanged(self, tile: MatrixTile) -> int:
        """Words by which an emulated unit's work-items exchange what they hold."""
        unit = self.unit
        if not unit.emulated:
            return 0
        operands = (unit.rows + unit.columns) * unit.steps * unit.itemsize // 4
        return max(self.items(tile), tile.down * tile.across * operands)

    def local_bytes(self, tile: MatrixTile) -> int:
        """Bytes of all stages, or of the sums that are stored at a time, if those are more."""
        rows, columns, steps = self.shape(tile)
        stages = tile.stages * (rows + columns) * steps * self.itemsize
        stored = tile.down * self.unit.rows * (columns + WIDTH) * 4
        return max(stages, stored) + 4 * self.exchanged(tile)


def use_of(what: Contraction, traits: DeviceTraits) -> Use | None:
    """Returns how a device's units compute a contraction; None where they do not."""
    x, w = what.gathered.dtype.name, what.packed.dtype.name
    # The first of its operands, but one that has more registers.
    units = sorted(map(unit_of, reversed(traits.matrix_units)), key=lambda unit: unit.registers)
    found = {unit.operands: unit for unit in units}
    rows = walked(what)[2]
    operands = (x, w) if rows else (w, x)
    if what.value == (np.int32 if what.gathered.dtype.itemsize == 1 else np.float32):
        unit = found.get(operands)
        if unit is not None:
            return Use(unit, 0, unit.itemsize)
    if not x == w == what.value.name == "float32":
        return None
    exact = traits.matrix_parts and what.precision == "highest"
    exact = exact and math.prod(what.depths) >= PARTS_STEPS
    for kind, parts, there in (
        ("tf32", 3, exact),
        ("bfloat16", 1, what.precision == "medium"),
        ("tf32", 1, what.precision != "highest"),
        ("bfloat16", 3, what.precision == "high"),
    ):
        unit = found.get((kind, kind))
        # Compilers keep long fragments in three parts in memory.
        if there and unit is not None and (parts < 3 or unit.a.run * unit.itemsize <= CHUNK):
            return Use(unit, parts, what.value.itemsize)
    return None


@dataclass(frozen=True)
class Form:
    """A contraction as units read it."""

    what: Contraction  # Without bounds that no window leaves, its other operand as it is read
    use: Use
    lanes: Walk
    depths: Walk
    rows: bool  # Whether lanes are rows
    widths: dict[str, tuple[int, str]]  # By operand: elements that are read at once, along what
    # Where the other operand is packed first: the contraction that it was, and how it was walked
    packs: tuple[Contraction, Walk] | None = None

    def linear(self, name: str) -> bool:
        """Whether an operand's steps of k lie evenly apart, and nothing is outside of a plane."""
        return not self.bounded(name) and self.depths.only(name).digits == 1

    def bounded(self, name: str) -> bool:
        """Whether an operand's windows leave the plane."""
        return name == "x" and self.what.gathered.bounds is not None

    def counting(self, tile: MatrixTile) -> int:
        """Bytes by which a work-item knows places: of reads, of steps of k, of elements."""
        use, (rows, columns, steps) = self.use, self.use.shape(tile)
        unit, found = use.unit, 0
        sides = ((rows, unit.a, tile.rows), (columns, unit.b, tile.columns))
        names = "xw" if self.rows else "wx"
        for name, (count, side, units) in zip(names, sides, strict=True):
            width, along = self.widths[name]
            reads = -(-count * steps // (width * use.items(tile)))
            # Of each read its place; of those that may be outside its row, its column, whether
            # these are there, the address, and the element, if it waits.
            words = 6 - bool(unit.copies) if self.bounded(name) else 1
            found += 4 * (words * reads + (0 if self.linear(name) else self.depths.digits))
            if along == "lanes" and not (unit.matrices and use.itemsize == 2):
                # Elements come one by one, a word each.
                found += units * side.elements * 4
        return found


def form_of(what: Contraction, traits: DeviceTraits) -> Form | None:
    """Returns how a device's units read a contraction; None where they do not compute it."""
    what = without_bounds(what)
    use = use_of(what, traits)
    if use is None:
        return None
    lanes, depths, rows = walked(what)
    form = Form(what, use, lanes, depths, rows, widest(what, use.chunk, lanes, depths))
    # Windows' weights are read in vectors of steps, where many lanes want them. A matrix is read as
    # it lies, unless its elements come one by one and rows in blocks: as many lanes do meanwhile.
    width, along = form.widths["w"]
    windows = depths.digits > 1 and width < use.chunk
    apart = bool(use.unit.blocks) and along == "lanes"
    many = (windows and lanes.size > what.outputs) or (apart and UNROLL * lanes.size >= STARTING)
    return _packed(form) if many or (what.kept and windows) else form


def _packed(form: Form) -> Form:
    what, depths = form.what, form.depths
    padded = round_up(depths.size, CHUNK)
    _, middle, inner = depths.sizes
    walk = replace(depths, steps={**depths.steps, "w": (middle * inner, inner, 1)})
    digits = None
    if what.digits is not None:
        digits = what.digits[1] * what.digits[2] * padded, what.digits[2] * padded, padded
    w = replace(
        what.packed,
        start=0,
        group=what.outputs * padded,
        output=padded,
        digits=digits,
        buffer="packed",
    )
    widths = {**form.widths, "w": (form.use.chunk, "depth")}
    packs = what, depths
    return replace(form, what=replace(what, packed=w), depths=walk, widths=widths, packs=packs)


def fits_matrix(tile: MatrixTile, what: Contraction, traits: DeviceTraits) -> bool:
    """Whether a device has room for it: work-items, registers and local memory."""
    form = form_of(what, traits)
    return form is not None and _fits(tile, form, traits)


def _fits(tile: MatrixTile, form: Form, traits: DeviceTraits) -> bool:
    use = form.use
    rows, columns, steps = use.shape(tile)
    counting = [form.widths[name] for name in "xw" if not form.linear(name)]
    numbers = (rows, columns, steps, use.items(tile))
    registers = max(use.unit.registers, traits.register_bytes)
    paired = not use.unit.matrices or tile.columns % 2 == 0
    return (
        all(n & (n - 1) == 0 for n in numbers)
        and min(rows, columns, steps) >= use.chunk
        and paired
        and tile.stages > 1
        # Who counts steps of k up reads the same ones of every stage.
        and all(use.items(tile) * w >= steps for w, along in counting if along == "depth")
        and use.items(tile) <= traits.max_work_group_size
        and use.sums(tile) * 4 <= registers // 2
        and use.registers(tile) + form.counting(tile) + OTHERS <= registers
        and use.local_bytes(tile) <= traits.local_memory
    )


@lru_cache(maxsize=32)
def matrix_tiles(what: Contraction, traits: DeviceTraits) -> tuple[Weighed, ...]:
    """Returns the tiles of a contraction that fit, what costs least first; none without a unit."""
    form = form_of(what, traits)
    if form is None:
        return ()
    tiles = [tile for tile in _tiles(form.use) if _fits(tile, form, traits)]
    weighed = [Weighed(_cost(form, traits, tile), tile) for tile in tiles]
    return tuple(sorted(weighed, key=lambda one: one.cost))


@lru_cache(maxsize=64)
def _tiles(use: Use) -> tuple[MatrixTile, ...]:
    """The tiles that are weighed."""
    powers = [1 << n for n in range(UNROLL)]
    most = ITEMS * SUB_GROUP // use.unit.items
    groups = [(d, a) for d in powers[:3] for a in powers[:3] if d * a <= most]
    stages = 3 if use.unit.copies else 2  # copies that nobody waits for need a third
    return tuple(
        MatrixTile(down, across, rows, columns, steps, stages)
        for down, across in groups
        for rows in powers
        for columns in powers
        for steps in _steps(use)
    )


def _steps(use: Use) -> Iterator[int]:
    """Steps of units in a line of memory, or in a half where lines wait in registers."""
    for line in LINES if use.unit.copies else (LINE // 2, *LINES):
        yield max(1, line // (use.unit.steps * use.itemsize))


def _cost(form: Form, traits: DeviceTraits, tile: MatrixTile) -> float:
    """Returns what a contraction takes with a tile, as `clprim.plan.cost` counts."""
    what, use = form.what, form.use
    unit, items = use.unit, use.items(tile)
    rows, columns, steps = use.shape(tile)
    busy = busy_groups(traits)
    cut = cut_depth(what, (rows, columns), steps, busy, gathered_rows=form.rows)
    products = tile.rows * tile.columns * unit.rows * unit.columns * max(1, use.parts)
    multiplied = products * unit.steps * unit.itemsize / (2 * unit.items * RATE)
    # Bytes that a work-item reads of local memory, each an instruction's time, and that it copies
    # there: a vector takes no less than its address.
    lines = tile.rows * unit.rows + tile.columns * unit.columns
    read = lines * unit.steps * use.itemsize / unit.items
    sides = zip("xw", (rows, columns) if form.rows else (columns, rows), strict=True)
    copied = sum(
        count * max(FAR * use.itemsize, CHUNK / form.widths[name][0]) for name, count in sides
    ) * (steps / items)
    step = tile.steps * (multiplied + read) + copied
    work = GroupWork(
        cut.lane_tiles * cut.output_tiles * what.groups * cut.splits,
        items,
        use.sums(tile),
        step,
        -(-cut.chunk // steps),
        STORE * use.sums(tile) * (1 + (cut.splits > 1)),
        STAGE / step,
        # Units have more local memory than a group may take: twice as much, or more.
        2 * traits.local_memory // use.local_bytes(tile),
    )
    return work.cost(traits) + LAUNCH * (cut.splits > 1)


def busy_groups(traits: DeviceTraits) -> int:
    """Returns how many work-groups keep the device busy."""
    return max(1, traits.compute_units * ITEMS // UNROLL)
