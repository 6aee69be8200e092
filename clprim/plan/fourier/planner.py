"""Plans Fourier transforms: lines of up to a thousand numbers in local memory, longer ones by them.

On a CPU a vector of neighbouring lines is transformed side by side, on a GPU a work-group has a
line, or a few neighbouring ones.

A length is a product of radices, and one above what local memory holds of such lengths: columns,
which are turned by roots of unity, then rows. One with other primes is a convolution, in one kernel
where that fits: of a prime that follows a product of radices in the order of a generator's powers
(C. Rader, 1968), of others of chirps (L. Bluestein, 1970). An even number of real numbers are half
as many complex ones, whose transform is taken apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from clprim.dtypes import AnyDType, stored_type, value_dtype
from clprim.language.complex_numbers import is_complex
from clprim.plan.fourier.code import FourierCode, StringCode
from clprim.plan.fourier.lengths import Recipe, fine_bits, radices_of, recipe
from clprim.plan.fourier.problem import (
    Lines,
    Places,
    Side,
    Strung,
    Transform,
    moved,
    stages,
)
from clprim.plan.kernel import (
    KernelPlan,
    OperandCode,
    Plan,
    ScalarCode,
    power_of_two,
    round_up,
    work_group,
)
from clprim.plan.machine import GROUP, ITEMS, STARTING, WORK
from clprim.plan.parameters import Arguments
from clprim.plan.snippets import Printed, own_names, unified_functions
from clprim.plan.strides import index_reaching
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class FourierTile:
    """How lines share a device."""

    radix: int  # The widest power of two
    share: int  # Work-groups a compute unit, where there are enough lines


def tile_of(what: Transform, traits: DeviceTraits) -> FourierTile:
    """Returns the tile where nothing was measured."""
    return FourierTile(16 if traits.vector_registers >= 32 else 8, ITEMS)


def takes(what: Transform, traits: DeviceTraits) -> bool:
    """Whether no line is read again where a kernel has written it, as one of the last tile is."""
    if not what.in_place:
        return True
    made = recipe(what.n, what.count, np.dtype(what.dtype).itemsize, traits, what.halved)
    first, *more = stages(what, made)
    stage = _Stage(first, what.dtype, what.given, made.tables, traits, tile_of(what, traits))
    return bool(more) or first.sizes[stage.lane] % stage.width == 0


def plan_fourier(what: Transform, traits: DeviceTraits, tile: FourierTile) -> Plan:
    """Plans one call."""
    made = recipe(what.n, what.count, np.dtype(what.dtype).itemsize, traits, what.halved)
    kernels: list[KernelPlan] = []
    workspace: dict[str, tuple[int, AnyDType]] = {}
    for part in _parts(what, made, traits):
        for lines in stages(part, made):
            given = what.given if lines.x.buffer == what.x.buffer else what.dtype
            stage = _Stage(lines, what.dtype, given, made.tables, traits, tile)
            kernels.append(stage.halves() if lines.alone else stage.kernel())
            if lines.y.buffer != "y":
                size = 2 * lines.count * (lines.whole or lines.n)
                most, _ = workspace.get(lines.y.buffer, (0, what.dtype))
                workspace[lines.y.buffer] = max(most, size), what.dtype
    return Plan(tuple(kernels), workspace)


def _parts(what: Transform, made: Recipe, traits: DeviceTraits) -> Iterator[Transform]:
    """Yields a transform in parts whose numbers stay in a CPU's cache from kernel to kernel."""
    size, rest = what.sizes[0], math.prod(what.sizes[1:])
    several = len(made.lengths) > 1 or (what.halved and made.convolved)
    if not several or not traits.is_cpu:
        yield what
        return
    line = 2 * 2 * np.dtype(what.dtype).itemsize * max(made.n, made.convolved) * rest
    lanes = traits.lanes(np.dtype(what.dtype).itemsize)
    room = max(1, traits.cache_bytes // 2 // line)
    each = round_up(room, lanes) if room >= lanes else room
    for start in range(0, size, each):

        def later(side: Side, start: int = start) -> Side:
            return replace(side, start=side.start + start * side.strides[0])

        yield replace(
            what,
            sizes=(min(each, size - start), *what.sizes[1:]),
            x=later(what.x),
            y=later(what.y),
            load=moved(what.load, later),
            store=moved(what.store, later),
        )


def _way(side: Side, lane: int, *, lone: bool, edge: bool, same: bool) -> str:
    """How vectors of a side are read or written."""
    if lone:
        places = side.start, side.step, *side.strides
        paired = same and side.part == 1 and not any(place % 2 for place in places)
        return "pairs" if paired else "any"
    if side.unit == lane:
        return "lanes"
    if lane == 1 and side.part:
        return "apart"
    if edge:
        return "any"
    return "turned" if side.unit == side.step else "any"


def _kind(places: Places, lane: int) -> str:
    return ("one" if lane else "zero") if places.table else ""


@dataclass(frozen=True)
class _Stage:
    """A kernel to be: lines of one length, on a device."""

    lines: Lines
    dtype: AnyDType
    given: AnyDType  # Of what is read
    tables: dict[str, int]
    traits: DeviceTraits
    tile: FourierTile

    @property
    def itemsize(self) -> int:
        """Bytes of a part."""
        return int(np.dtype(self.dtype).itemsize)

    @cached_property
    def radices(self) -> tuple[int, ...]:
        """Of the passes; fewer, which take more registers, where a near cache holds no tile."""
        n, traits = self.lines.n, self.traits
        near = traits.is_cpu and 4 * self.itemsize * n * self.width < traits.l2_bytes
        return radices_of(n, min(self.tile.radix, 8) if near else self.tile.radix) or (1,)

    @cached_property
    def most(self) -> int:
        """Lines that a work-group has at a time where there are enough."""
        return self.traits.lanes(self.itemsize) if self.traits.is_cpu else ITEMS

    @cached_property
    def lane(self) -> int:
        """Which loop lanes lie along: where numbers are neighbours on both sides, or on one."""
        lines, wanted = self.lines, self.most

        def worth(d: int) -> tuple[int, int]:
            close = sum(side.unit == side.strides[d] for side in (lines.x, lines.y))
            return min(lines.sizes[d], wanted) * (2 + close), lines.sizes[d]

        return max(range(len(lines.sizes)), key=worth)

    @cached_property
    def width(self) -> int:
        """Lines that a work-group has at a time."""
        lines, lane = self.lines, self.lane
        if any(p.table and p.strides[lane] > 1 for p in (lines.read, lines.written)):
            return 1  # a table is read at one place, or at neighbouring ones
        room = self.traits.local_memory // (4 * max(lines.n, lines.whole) * self.itemsize)
        width = self.most
        while width > 1 and width > min(lines.sizes[lane], room):
            width //= 2
        return width

    @property
    def items(self) -> int:
        """Work-items that share a line."""
        if self.traits.is_cpu:
            return 1
        most = min(4 * GROUP, self.traits.max_work_group_size)
        return min(most // self.width, power_of_two(max(1, self.lines.n // max(self.radices))))

    @property
    def index(self) -> str:
        """Type of places in memory."""
        lines = self.lines
        return index_reaching(
            *(
                abs(side.start)
                + abs(side.step) * lines.n
                + sum(abs(a) * b for a, b in zip(side.strides, lines.sizes, strict=True))
                for side in (lines.x, lines.y, *(side for _, side in self._operands()))
            )
        )

    def kernel(self) -> KernelPlan:
        """Plans it."""
        lines, lane, traits, n = self.lines, self.lane, self.traits, self.lines.n
        others = [d for d in range(len(lines.sizes)) if d != lane]
        tiles = -(-lines.sizes[lane] // self.width) * math.prod(lines.sizes[d] for d in others)
        work = min(WORK // (n * self.width), tiles // (self.tile.share * traits.compute_units))
        per_group = max(1, work) if traits.is_cpu else 1
        found = self._arguments(others, tiles, per_group)
        code = self._code(found, others, lane)
        group = code.items * code.beside
        size = -(-tiles // per_group) * group
        nbytes = 4 * self.itemsize * lines.count * (lines.whole or n)
        flops = 5 * lines.count * n * n.bit_length() * (2 if lines.convolved else 1)
        arguments = tuple(found.arguments)
        return KernelPlan("fourier/lines", code, arguments, (size, 1), (group, 1), nbytes, flops)

    def halves(self) -> KernelPlan:
        """Plans what makes pairs of real numbers of their transform, or that of those."""
        lines = self.lines
        others = [*range(len(lines.sizes))]
        found = self._arguments(others, lines.count, 1)
        wanted, is_cpu = lines.n if lines.halves == "x" else lines.n + 1, self.traits.is_cpu
        dense = all(side.part and side.unit == side.step for side in (lines.x, lines.y))
        vectors = is_cpu and dense and not lines.read.limit
        work = STARTING if is_cpu else 1
        group, _ = work_group((-(-wanted // work), 1), 1 if is_cpu else 4 * GROUP)
        code = replace(
            self._code(found, others),
            name="halves",
            n=0,
            radices=(),
            whole=0,
            lanes=self.traits.lanes(self.itemsize) if vectors else 1,
            items=group,
            work=work,
        )
        sizes = round_up(-(-wanted // work), group), lines.count
        arguments = tuple(found.arguments)
        nbytes = 4 * self.itemsize * lines.count * lines.n
        return KernelPlan("fourier/halves", code, arguments, sizes, (group, 1), nbytes, 4 * nbytes)

    def _code(self, found: Arguments, others: list[int], lane: int = 0) -> FourierCode:
        lines, n, is_cpu = self.lines, self.lines.n, self.traits.is_cpu
        x, y, read, written = lines.x, lines.y, lines.read, lines.written
        lone = not is_cpu or self.width == 1
        mirrored = bool(lines.points)
        printed = Printed()
        load = self._string("load", lines.load, lane, printed)
        store = self._string("store", lines.store, lane, printed)
        snippets = [s.definition.expr for s in (lines.load, lines.store) if s is not None]
        edges = [bool(p.limit and p.strides[lane]) for p in (read, written)]
        return FourierCode(
            name=f"fourier_{n}",
            parameters=tuple(found.parameters),
            index=self.index,
            doubles=self.itemsize == 8,
            real=stored_type(self.dtype).value,
            given=OperandCode.of("x", self.given, self.dtype, 1),
            n=n,
            radices=self.radices,
            lanes=self.width if is_cpu else 1,
            items=self.items,
            beside=1 if is_cpu else self.width,
            x=_way(x, x.strides[lane], lone=lone, edge=edges[0], same=self.given == self.dtype)
            if lone or not mirrored
            else "any",
            y=_way(y, y.strides[lane], lone=lone, edge=edges[1], same=True),
            edge_x=edges[0],
            edge_y=edges[1],
            real_x=not x.part,
            real_y=not y.part,
            hermitian=mirrored,
            in_limit=bool(read.limit),
            out_limit=bool(written.limit),
            before=_kind(read, read.strides[lane]),
            after=_kind(written, written.strides[lane]),
            fine=fine_bits(written.step * n, self.itemsize, self.traits)
            if "turns" in written.table
            else 0,
            swap_x=lines.swap_x,
            swap_y=lines.swap_y,
            scaled=lines.scaled,
            halves=lines.halves,
            minus=lines.minus,
            convolved=lines.convolved,
            real_first=lines.real_first,
            whole=lines.whole if lines.convolved == "order" else n,
            work=n,
            load=load,
            store=store,
            guards=printed.guards,
            unified=unified_functions(snippets, "", self.traits),
            own=own_names(snippets, ""),
            outer=len(others),
        )

    def _string(self, part: str, strung: Strung | None, lane: int, p: Printed) -> StringCode | None:
        """Returns what is printed of a string."""
        if strung is None:
            return None
        definition, width = strung.definition, self.width if self.traits.is_cpu else 1
        every = [strung.x, strung.y, *strung.dtypes, *strung.scalars]
        x, y, *values = (stored_type(value_dtype(d, every)).value for d in every)
        steps = [side.strides[lane] for side in strung.sides]
        sources = zip(strung.dtypes, values, steps, strict=False)
        operands = [
            replace(OperandCode.of(f"{part}_x{k}", d, value_dtype(d, every), step), value=value)
            for k, (d, value, step) in enumerate(sources, 1)
        ]
        scalars = tuple(ScalarCode(f"w{n}", v) for n, v in enumerate(values[len(strung.dtypes) :]))
        pair = f"{stored_type(self.dtype).value}2"
        types = {"x0": x, "y0": y} | {f"x{k}": o.value for k, o in enumerate(operands, 1)}
        types |= {w.name: w.value for w in scalars}
        mixed = is_complex(definition.expr, tuple(types.items()))
        same = all(v in (pair, pair[:-1]) for v in types.values())
        fits = definition.pairs_componentwise if mixed else definition.componentwise
        near = all(step in (0, 1) for step in steps)
        lanes = (width // 2 if mixed else width) if fits and same and near else 1
        text = p.text(definition.expr, types, vectors=mixed and lanes > 1)
        return StringCode(part, text, max(1, lanes), x, y, tuple(operands), scalars, strung.pairs)

    def _strung(self) -> list[tuple[str, Strung]]:
        """The strings that there are, and what part each is."""
        parts = ("load", self.lines.load), ("store", self.lines.store)
        return [(name, strung) for name, strung in parts if strung is not None]

    def _operands(self) -> list[tuple[str, Side]]:
        """What strings read beside the transform's own, and where."""
        return [
            (f"{part}_x{k}", side)
            for part, strung in self._strung()
            for k, side in enumerate(strung.sides, 1)
        ]

    def _arguments(self, others: list[int], tiles: int, per_group: int) -> Arguments:
        lines, lane, tables = self.lines, self.lane, self.tables
        real = stored_type(self.dtype).value
        found = Arguments(self.index)
        found.memory(stored_type(self.given).storage, "x_memory", lines.x.buffer)
        found.memory(real, "y_memory", lines.y.buffer, read_only=False)
        found.memory(real, "table_memory", "table")
        found.numbers(lines=lines.sizes[lane], tiles=tiles, per_group=per_group)
        found.numbers(root=tables.get(f"roots{lines.n}", 0))
        found.numbers(**{name: tables.get(name, 0) for name in ("halves", "filter", "order")})
        for side, label in ((lines.x, "x"), (lines.y, "y")):
            names = [f"{label}_{word}" for word in ("start", "step", "lane", "part")]
            given = side.start, side.step, side.strides[lane], side.part
            found.numbers(**dict(zip(names, given, strict=True)))
        for places, label, table in ((lines.read, "in", "before"), (lines.written, "out", "after")):
            names = [*(f"{label}_{word}" for word in ("step", "lane", "limit")), table]
            where = tables.get(places.table, 0)
            given = places.step, places.strides[lane], places.limit, where
            found.numbers(**dict(zip(names, given, strict=True)))
        found.numbers(points=lines.n if lines.alone else lines.points)
        found.numbers(x_point=lines.point, in_given=lines.given)
        for k, d in enumerate(others):
            found.numbers(**{f"k{k}": lines.sizes[d]})
            walked = [each.strides[d] for each in (lines.x, lines.y)]
            walked += [each.strides[d] for each in (lines.read, lines.written)]
            for label, step in zip(("x", "y", "in", "out"), walked, strict=True):
                found.numbers(**{f"{label}_k{k}": step})
        for k, d in enumerate(others):
            for name, side in self._operands():
                found.numbers(**{f"{name}_k{k}": side.strides[d]})
        if lines.scaled:
            found.scalar(real, "scale", 0)
        for part, strung in self._strung():
            every = [strung.x, strung.y, *strung.dtypes, *strung.scalars]
            for k, dtype in enumerate(strung.dtypes, 1):
                found.memory(stored_type(dtype).storage, f"{part}_x{k}_memory")
            for n, dtype in enumerate(strung.scalars):
                value = stored_type(value_dtype(dtype, every)).value
                code = ScalarCode(f"{part}_w{n}", value)
                found.scalar(code.argument, code.name, strung.first + n)
        for name, side in self._operands():
            words = ("start", "step", "lane", "part")
            given = side.start, side.step, side.strides[lane], side.part
            labels = [f"{name}_{word}" for word in words]
            found.numbers(**dict(zip(labels, given, strict=True)))
        return found
