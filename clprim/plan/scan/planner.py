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
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from clprim.dtypes import AnyDType
from clprim.language.componentwise import is_componentwise
from clprim.language.definition import ReductionDefinition
from clprim.plan.arguments import Arguments
from clprim.plan.kernel import BAKED_DIMS, KernelPlan, Plan, round_up
from clprim.plan.pointwise.schedule import widest
from clprim.plan.reduction.code import KernelLoops, Scaling
from clprim.plan.reduction.loops import FoldLoops, operand_numbers
from clprim.plan.reduction.stage import Folding
from clprim.plan.scan.code import ScanCode
from clprim.plan.scan.schedule import ScanSchedule, choose_schedule
from clprim.plan.snippets import index_type, own_names, unified_functions
from clprim.plan.strides import Dim, Operand, Space
from clprim.traits import DeviceTraits

# Names that count elements.
_PLACES = {"index", "scan_item"}


@dataclass(frozen=True)
class ScanPlan(Plan):
    """One or two launches, and the memory between them."""

    schedule: ScanSchedule = field(kw_only=True)  # How the work was cut, for explanations and tests


def plan_scan(
    definition: ReductionDefinition,
    shape: tuple[int, ...],
    axis: int,
    results: Sequence[Operand],
    inputs: Sequence[Operand],
    scalars: Sequence[AnyDType],
    partials: Sequence[AnyDType],
    *,
    exclusive: bool,
    reverse: bool,
    traits: DeviceTraits,
) -> ScanPlan:
    """Plans one call."""
    plain = [Scaling()] * len(results)
    folding = Folding(definition, results, inputs, scalars, partials, plain, traits)
    used = frozenset().union(*(s.used for s in definition.snippets))
    loops = FoldLoops.of(folding, shape, (axis,), used, "scan_item", flip=False)
    lines = _lines(loops, reverse=reverse)
    schedule = choose_schedule(
        lines.line.size,
        loops.kept,
        lines.across.size,
        along=lines.along,
        vector=_vector(folding, lines.inner),
        partial_bytes=sum(p.itemsize for p in partials),
        traits=traits,
    )
    walked = _walked(folding, loops, lines, schedule)
    read = sum(min(a.size, math.prod(shape)) * a.dtype.itemsize for a in inputs)
    written = sum(r.size * r.dtype.itemsize for r in results)
    given = folding, schedule, walked
    last = _kernel(*given, exclusive=exclusive, totals=False, nbytes=read + written)
    if schedule.pieces == 1:
        return ScanPlan((last,), schedule=schedule)
    pairs = zip(folding.partial_codes, partials, strict=True)
    workspace = {code.name: (loops.kept * schedule.pieces, dtype) for code, dtype in pairs}
    first = _kernel(*given, exclusive=exclusive, totals=True, nbytes=read)
    return ScanPlan((first, last), workspace, schedule=schedule)


@dataclass(frozen=True)
class _ScanLines:
    """The loops of one call: outer ones, across neighbouring lines, and along a line."""

    kept: tuple[Dim, ...]
    across: Dim
    line: Dim
    starts: tuple[int, ...]  # Where each operand's first line begins
    along: bool  # Whether a line's elements lie closer together than neighbouring lines do

    @property
    def inner(self) -> Dim:
        """The loop that vectors lie along."""
        return self.line if self.along else self.across


def _lines(loops: FoldLoops, *, reverse: bool) -> _ScanLines:
    """Divides loops; lines that are walked from their end begin there."""
    space, across = loops.space, loops.single()
    kept = space.select(False)
    line = next(iter(space.select(True)), loops.single(reduced=True))
    starts = space.offsets
    if reverse:
        ends = zip(starts, line.strides, strict=True)
        starts = tuple(at + (line.size - 1) * step for at, step in ends)
        line = replace(line, strides=tuple(-step for step in line.strides))
    along = not kept or space.dims[-1].reduced
    if not along:
        kept, across = kept[:-1], kept[-1]
    return _ScanLines(kept, across, line, starts, along)


def _vector(folding: Folding, inner: Dim) -> int:
    """Elements side by side along the innermost loop: a register where all allow it, else 1."""
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


def _walked(
    folding: Folding, loops: FoldLoops, lines: _ScanLines, schedule: ScanSchedule
) -> KernelLoops:
    """What the kernels of both stages walk over."""
    kept, across, line = lines.kept, lines.across, lines.line
    inputs, results = folding.operands(lines.inner, lines.inner)
    numbers = [("n", line.size), ("chunk", schedule.chunk), ("width", across.size)]
    numbers += [("outputs", loops.kept), ("per_group", schedule.per_group)]
    numbers += [(f"k{d}", dim.size) for d, dim in enumerate(kept)]
    names = [o.name for o in (*inputs, *results)] + [p.name for p in loops.positions]
    for k, (name, start) in enumerate(zip(names, lines.starts, strict=True)):
        numbers += operand_numbers(name, k, start, kept, step=line, column=across)
    space = Space((*kept, across, line), lines.starts)
    return KernelLoops(
        numbers=(*numbers, *loops.size_numbers()),
        index=index_type(space, compared=loops.counts, traits=folding.traits),
        baked=len(space.dims) > BAKED_DIMS,
        inputs=inputs,
        results=results,
        kept=len(kept),
        positions=loops.positions,
        coords=loops.coords,
        sizes=loops.sizes,
    )


def _kernel(
    folding: Folding,
    schedule: ScanSchedule,
    loops: KernelLoops,
    *,
    exclusive: bool,
    totals: bool,
    nbytes: int,
) -> KernelPlan:
    """Plans one stage: the one that stores totals of pieces, or the one that stores results."""
    definition = folding.definition
    several = schedule.pieces > 1
    found = Arguments(loops.index)
    if not totals:
        for y in loops.results:
            found.memory(y.storage, f"{y.name}_memory", read_only=False)
    for x in loops.inputs:
        found.memory(x.storage, f"{x.name}_memory")
    if several:
        for p in folding.partial_codes:
            found.memory(p.storage, f"{p.name}_memory", read_only=not totals)
    found.scalars(folding.scalar_codes)
    if definition.draws:
        found.random()
    if not loops.baked:
        found.numbers(**dict(loops.numbers))
    code = ScanCode(
        name=definition.name + ("_totals" if totals else ""),
        preamble=definition.preamble,
        parameters=tuple(found.parameters),
        constants=loops.numbers if loops.baked else (),
        index=loops.index,
        unified=unified_functions(definition.snippets, definition.preamble, folding.traits),
        doubles=folding.doubles,
        own=own_names(definition.snippets, definition.preamble),
        **folding.texts(),
        results=() if totals else loops.results,
        inputs=loops.inputs,
        partials=folding.partial_codes,
        values=folding.values,
        scalars=folding.scalar_codes,
        positions=loops.positions,
        coords=loops.coords,
        sizes=loops.sizes,
        kept=loops.kept,
        vector=schedule.vector,
        lanes=schedule.lanes,
        each=schedule.each,
        block=schedule.block,
        exclusive=exclusive,
        totals=totals,
        pieces=several,
        random=definition.draws,
    )
    values = dict(loops.numbers)
    groups, local = _groups(schedule, values["outputs"], values["width"], folding.traits)
    elements = values["outputs"] * values["n"]
    return KernelPlan(
        template=schedule.template,
        code=code,
        arguments=tuple(found.arguments),
        global_size=(groups * local, schedule.pieces - totals),
        local_size=(local, 1),
        nbytes=nbytes,
        flops=(definition.expr.flops + definition.step.flops) * elements,
    )


def _groups(
    schedule: ScanSchedule, lines: int, width: int, traits: DeviceTraits
) -> tuple[int, int]:
    """Work-groups of so many lines, ``width`` of them neighbours, and work-items of a group."""
    tiles = lines
    if schedule.template == "scan/columns":
        tiles = lines // width * (width // schedule.vector + width % schedule.vector)
    groups, local = -(-tiles // schedule.per_group), schedule.lanes
    if schedule.template != "scan/group" and not traits.is_cpu:
        local = min(64, traits.max_work_group_size)
        groups = round_up(groups, local) // local
    return groups, local
