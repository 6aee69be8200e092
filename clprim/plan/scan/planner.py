"""Plans a `Scan`: every partial result along an axis.

Lines along the axis are independent of each other. After collapsing, the loops are sorted as the
first input lies in memory, and the fastest decides:

* ``scan/vectors``: the line itself, on a CPU. A work-item walks along a line, a vector at a time,
  whose elements are combined in log₂ steps.
* ``scan/columns``: a loop across lines. A work-item walks along neighbouring lines, a vector of
  them side by side on a CPU.
* ``scan/group``: the line itself, on a GPU. The work-items of a group share a line: each takes
  neighbours, and what they sum up to is scanned in local memory.

Where lines are too few to keep the device busy they are cut in pieces: a first stage stores what
each piece sums up to, and the second starts every piece from what those before it make together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from clprim.dtypes import AnyDType
from clprim.language.componentwise import is_componentwise
from clprim.language.definition import ReductionDefinition
from clprim.plan.kernel import BAKED_DIMS, KernelPlan, Plan, power_of_two, round_up
from clprim.plan.machine import GROUP, UNROLL, UPDATES, WORK
from clprim.plan.pointwise.schedule import widest
from clprim.plan.reduction.code import FoldCode, KernelLoops, Scaling
from clprim.plan.reduction.loops import FoldLoops, operand_numbers
from clprim.plan.reduction.problem import Folds
from clprim.plan.reduction.stage import Folding
from clprim.plan.snippets import index_type
from clprim.plan.strides import Dim, Operand, Space
from clprim.traits import DeviceTraits

# Names that count elements.
_PLACES = {"index", "scan_item"}


@dataclass(frozen=True)
class ScanCode(FoldCode):
    """What scan/*.cl.jinja print."""

    vector: int  # Elements side by side: of a line, or of neighbouring lines
    lanes: int  # Work-items of a group that share a line
    each: int  # Neighbouring elements of a line that a work-item of such a group takes
    block: int  # Elements after which a partial result begins anew, so that errors stay small
    exclusive: bool  # Whether an element's result is what came before it
    # Whether this is the first of two stages, which stores only what a piece sums up to
    totals: bool
    pieces: bool  # Whether lines are cut in pieces, so that a piece starts from those before it


@dataclass(frozen=True)
class Scanned(Folds):
    """What a call computes."""

    definition: ReductionDefinition
    shape: tuple[int, ...]  # That the arrays broadcast to; it has elements
    axis: int
    results: tuple[Operand, ...]
    inputs: tuple[Operand, ...]
    scalars: tuple[AnyDType, ...]
    partials: tuple[AnyDType, ...]  # dtypes of what is accumulated
    exclusive: bool = False
    reverse: bool = False
    # What devices' traits make of it
    found: dict[DeviceTraits, ScanLines] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{'×'.join(map(str, self.shape))} along {self.axis}"

    @property
    def axes(self) -> tuple[int, ...]:
        """The only one."""
        return (self.axis,) if self.shape else ()

    @property
    def value(self) -> AnyDType:
        """Dtype of the first partial."""
        return self.partials[0]

    def lines(self, traits: DeviceTraits) -> ScanLines:
        """Returns the loops on a device, which are found once."""
        if traits not in self.found:
            self.found[traits] = _lines(self, traits)
        return self.found[traits]


@dataclass(frozen=True)
class ScanLines:
    """The loops of one call: outer ones, across neighbouring lines, and along a line."""

    folding: Folding
    loops: FoldLoops
    kept: tuple[Dim, ...]
    across: Dim
    line: Dim
    starts: tuple[int, ...]  # Where each operand's first line begins
    along: bool  # Whether a line's elements lie closer together than neighbouring lines do

    @property
    def inner(self) -> Dim:
        """The loop that vectors lie along."""
        return self.line if self.along else self.across

    def tiles(self, vector: int) -> int:
        """Lines, or neighbours of them side by side."""
        if self.along:
            return self.loops.kept
        width = self.across.size
        return self.loops.kept // width * (width // vector + width % vector)


def _lines(what: Scanned, traits: DeviceTraits) -> ScanLines:
    """Divides loops; lines that are walked from their end begin there."""
    plain = [Scaling()] * len(what.results)
    given = what.results, what.inputs, what.scalars, what.partials, plain
    folding = Folding(what.definition, *given, traits)
    used = frozenset().union(*(s.used for s in what.definition.snippets))
    loops = FoldLoops.of(folding, what.shape, what.axes, used, "scan_item", flip=False)
    space, across = loops.space, loops.single()
    kept = space.select(False)
    line = next(iter(space.select(True)), loops.single(reduced=True))
    starts = space.offsets
    if what.reverse:
        ends = zip(starts, line.strides, strict=True)
        starts = tuple(at + (line.size - 1) * step for at, step in ends)
        line = replace(line, strides=tuple(-step for step in line.strides))
    along = not kept or space.dims[-1].reduced
    if not along:
        kept, across = kept[:-1], kept[-1]
    return ScanLines(folding, loops, kept, across, line, starts, along)


@dataclass(frozen=True)
class ScanTile:
    """How lines are cut."""

    vector: int  # These as in `ScanCode`
    lanes: int
    each: int
    pieces: int  # Of a line
    per_group: int  # Lines (or tiles of lines) that a work-group takes one after another

    def chunk(self, lines: ScanLines) -> int:
        """Elements of a piece: whole steps of a work-group."""
        granule = max(self.lanes * self.each, self.vector if lines.along else 1)
        return round_up(-(-lines.line.size // self.pieces), granule)


def scan_tile(template: str, what: Scanned, traits: DeviceTraits) -> ScanTile | None:
    """Returns the tile that a template's rule chooses; None where it is not for these lines."""
    lines = what.lines(traits)
    length, cpu, units = lines.line.size, traits.is_cpu, traits.compute_units
    group = template == "scan/group"
    if lines.along is (template == "scan/columns") or (group and (cpu or length < GROUP)):
        return None
    vector, lanes, each = 1 if group else _vector(lines), 1, 1
    if group:
        each = UNROLL
        lanes = min(4 * GROUP, traits.max_work_group_size, power_of_two(-(-length // UNROLL)))
        while lanes > 1 and lanes * sum(p.itemsize for p in what.partials) > traits.local_memory:
            lanes //= 2
    tiles = lines.tiles(vector)
    wanted = units if cpu else units * (4 if group else 2 * GROUP)
    least = WORK if cpu else (8 * lanes * each if group else 2 * GROUP)
    pieces = 1
    if tiles < wanted and length >= 2 * least:
        target = 4 * wanted if cpu else wanted
        # Every piece adds up the totals of those before it: few enough that this costs nothing.
        pieces = max(1, min(-(-target // tiles), length // least, 4 * GROUP))
    tile = ScanTile(vector, lanes, each, pieces, 1)
    chunk = tile.chunk(lines)
    per_group = 1
    if cpu:
        work = chunk * (1 if lines.along else vector)
        per_group = max(1, min(WORK // work, tiles // (4 * units)))
    return replace(tile, pieces=-(-length // chunk), per_group=per_group)


def fits_scan(tile: ScanTile, what: Scanned, traits: DeviceTraits) -> bool:
    """Whether pieces are as long as they say, and a device can run it."""
    lines = what.lines(traits)
    group = tile.lanes * tile.each > 1
    room = traits.local_memory // sum(p.itemsize for p in what.partials)
    return (
        tile.vector in (1, _vector(lines))
        and tile.lanes == power_of_two(tile.lanes) <= min(traits.max_work_group_size, room)
        and -(-lines.line.size // tile.chunk(lines)) == tile.pieces
        and tile.per_group <= (1 if group else lines.tiles(tile.vector))
    )


def near_scan(tile: ScanTile, what: Scanned, traits: DeviceTraits) -> Iterator[ScanTile]:
    """Yields tiles that are worth timing beside one."""
    lines = what.lines(traits)
    for pieces in (2 * tile.pieces, -(-tile.pieces // 2)):
        chunk = replace(tile, pieces=pieces).chunk(lines)
        yield replace(tile, pieces=-(-lines.line.size // chunk))
    for per_group in (2 * tile.per_group, -(-tile.per_group // 2)):
        yield replace(tile, per_group=per_group)


def plan_scan(template: str, what: Scanned, traits: DeviceTraits, tile: ScanTile) -> Plan:
    """Plans one call."""
    lines = what.lines(traits)
    last = _kernel(template, what, lines, tile, totals=False)
    if tile.pieces == 1:
        return Plan((last,))
    pairs = zip(lines.folding.partial_codes, what.partials, strict=True)
    workspace = {code.name: (lines.loops.kept * tile.pieces, dtype) for code, dtype in pairs}
    return Plan((_kernel(template, what, lines, tile, totals=True), last), workspace)


def _vector(lines: ScanLines) -> int:
    """Elements side by side along the innermost loop: a register where all allow it, else 1."""
    folding, inner = lines.folding, lines.inner
    definition, value = folding.definition, folding.vector_type()
    operands = len(folding.inputs) + len(folding.results)
    steps = inner.strides[:operands]
    finalize = definition.finalize
    if (
        value is None
        or not folding.traits.is_cpu
        or not definition.combine_componentwise
        or any(y.value != value or y.load == "bool" for y in folding.result_codes)
        or (finalize is not None and not is_componentwise(finalize))
        or (finalize is not None and finalize.used & _PLACES)
        or any(s not in (0, 1) for s in steps[: len(folding.inputs)])
        or any(s != 1 for s in steps[len(folding.inputs) :])
    ):
        return 1
    width = widest(value, folding.traits)
    while width > 2 and width > inner.size:
        width //= 2
    return width if width <= inner.size else 1


def _walked(lines: ScanLines, tile: ScanTile) -> KernelLoops:
    """What the kernels of both stages walk over."""
    loops, kept, across, line = lines.loops, lines.kept, lines.across, lines.line
    inputs, results = lines.folding.operands(lines.inner, lines.inner)
    numbers = [("n", line.size), ("chunk", tile.chunk(lines)), ("width", across.size)]
    numbers += [("outputs", loops.kept), ("per_group", tile.per_group)]
    numbers += [(f"k{d}", dim.size) for d, dim in enumerate(kept)]
    names = [o.name for o in (*inputs, *results)] + [p.name for p in loops.positions]
    for k, (name, start) in enumerate(zip(names, lines.starts, strict=True)):
        numbers += operand_numbers(name, k, start, kept, step=line, column=across)
    space = Space((*kept, across, line), lines.starts)
    return KernelLoops(
        numbers=(*numbers, *loops.size_numbers()),
        index=index_type(space, compared=loops.counts),
        baked=len(space.dims) > BAKED_DIMS,
        inputs=inputs,
        results=results,
        kept=len(kept),
        positions=loops.positions,
        coords=loops.coords,
        sizes=loops.sizes,
    )


def _kernel(
    template: str, what: Scanned, lines: ScanLines, tile: ScanTile, *, totals: bool
) -> KernelPlan:
    """Plans one stage: the one that stores totals of pieces, or the one that stores results."""
    several, elements, traits = tile.pieces > 1, math.prod(what.shape), lines.folding.traits
    suffix = "_totals" if totals else ""
    loops = _walked(lines, tile)
    common, arguments = lines.folding.common(loops, suffix, partial=totals, between=several)
    code = ScanCode(
        **common,
        vector=tile.vector,
        lanes=tile.lanes,
        each=tile.each,
        block=UPDATES * tile.vector if lines.along else UPDATES,
        exclusive=what.exclusive,
        totals=totals,
        pieces=several,
    )
    groups, local = -(-lines.tiles(tile.vector) // tile.per_group), tile.lanes
    if template != "scan/group" and not traits.is_cpu:
        local = min(GROUP, traits.max_work_group_size)
        groups = -(-groups // local)
    written = 0 if totals else sum(r.size * r.dtype.itemsize for r in what.results)
    return KernelPlan(
        template=template,
        code=code,
        arguments=arguments,
        global_size=(groups * local, tile.pieces - totals),
        local_size=(local, 1),
        nbytes=sum(min(a.size, elements) * a.dtype.itemsize for a in what.inputs) + written,
        flops=(what.definition.expr.flops + what.definition.step.flops) * elements,
    )
