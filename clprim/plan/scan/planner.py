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
from clprim.plan.kernel import (
    BAKED_DIMS,
    KernelPlan,
    OperandCode,
    Plan,
    PositionCode,
    round_up,
)
from clprim.plan.reduction.code import Scaling
from clprim.plan.reduction.stage import Stages
from clprim.plan.scan.code import ScanCode
from clprim.plan.scan.schedule import Schedule, choose_schedule
from clprim.plan.snippets import (
    index_type,
    own_names,
    refuse_byte_choices,
    resolve_positions,
    unified_functions,
)
from clprim.plan.strides import (
    Dim,
    Operand,
    Space,
    broadcast_strides,
    collapse,
    memory_order,
)
from clprim.traits import DeviceTraits

_SIZES = {"int": 4, "uint": 4, "float": 4, "long": 8, "ulong": 8, "double": 8}


@dataclass(frozen=True)
class ScanPlan(Plan):
    """One or two launches, and the memory between them.

    Attributes:
        schedule: How the work was cut, for explanations and tests.
    """

    schedule: Schedule = field(kw_only=True)


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
    """Plans one call.

    Args:
        definition: The checked snippets.
        shape: The broadcast shape of the inputs, and the shape of the results; not empty.
        axis: Along which to scan, from 0.
        results: Where the results go.
        inputs: Where the inputs lie, before broadcasting.
        scalars: dtypes of the run-time scalars.
        partials: dtypes of the partials.
        exclusive: Whether an element's result is what came before it.
        reverse: Whether lines are walked from their end.
        traits: Of the device.

    Raises:
        ShapeError: ``coord(d)`` of a dimension that is not there, a stride of half an element.
    """
    plain = [Scaling()] * len(results)
    stages = Stages(definition, results, inputs, scalars, partials, plain, traits)
    return _Planner(shape, axis, stages, exclusive, reverse).plan()


@dataclass
class _Planner:
    """One call, as `plan_scan` takes it."""

    shape: tuple[int, ...]
    axis: int
    stages: Stages
    exclusive: bool
    reverse: bool

    def plan(self) -> ScanPlan:
        stages, shape = self.stages, self.shape
        definition = self.stages.definition
        refuse_byte_choices(definition.snippets, stages.inputs, stages.traits)
        used = frozenset().union(*(s.used for s in definition.snippets))
        counted: dict[str, tuple[int, ...] | None] = {}
        if "index" in used or definition.draws:
            counted["index"] = None
        if "scan_item" in used:
            counted["scan_item"] = (self.axis,)
        names, position_strides, coords, sizes = resolve_positions(
            definition.name, definition.snippets, self.shape, counted
        )
        arrays = [*stages.inputs, *stages.results]
        strides = [broadcast_strides(a, shape) for a in arrays]
        order = memory_order(shape, strides)
        everything = [*strides, *position_strides]
        offsets = [*(a.in_elements(a.offset) for a in arrays), *(0 for _ in names)]
        space = collapse(
            Space(
                tuple(Dim(shape[d], tuple(s[d] for s in everything), d == self.axis) for d in order)
                or (Dim(1, (0,) * len(everything), True),),
                tuple(offsets),
            ),
            turn=False,
        )
        kept = space.select(False)
        line = next(iter(space.select(True)), Dim(1, (0,) * len(everything), True))
        starts = list(space.offsets)
        if self.reverse:
            starts = [at + (line.size - 1) * s for at, s in zip(starts, line.strides, strict=True)]
            line = replace(line, strides=tuple(-s for s in line.strides))
        lines = math.prod(d.size for d in kept)
        along = not kept or space.dims[-1].reduced
        across = Dim(1, (0,) * len(everything))
        if not along:
            kept, across = kept[:-1], kept[-1]

        inner = line if along else across
        vector = self._vector(inner)
        schedule = choose_schedule(
            line.size,
            lines,
            across.size,
            along=along,
            vector=vector,
            partial_bytes=sum(p.itemsize for p in stages.partials),
            traits=stages.traits,
        )
        inputs = tuple(
            OperandCode.of(f"x{k}", a.dtype, value, inner.strides[k])
            for k, (a, value) in enumerate(zip(stages.inputs, stages.input_values, strict=True))
        )
        results = tuple(
            replace(y, inner="one" if inner.strides[len(inputs) + n] == 1 else "any")
            for n, y in enumerate(stages.result_codes)
        )
        numbers = [("n", line.size), ("chunk", schedule.chunk), ("width", across.size)]
        numbers += [("outputs", lines), ("per_group", schedule.per_group)]
        numbers += [(f"k{d}", dim.size) for d, dim in enumerate(kept)]
        labels = [*(o.name for o in (*inputs, *results)), *names]
        for k, label in enumerate(labels):
            numbers.append((f"{label}_start", starts[k]))
            numbers.append((f"{label}_step", line.strides[k]))
            numbers.append((f"{label}_column", across.strides[k]))
            numbers += [(f"{label}_k{d}", dim.strides[k]) for d, dim in enumerate(kept)]
        numbers += [(f"size_{axis}", shape[axis]) for axis in sorted({a for _, a in sizes})]
        walked = Space((*kept, across, line), tuple(starts))
        kernel = _Kernel(
            stages,
            schedule,
            tuple(numbers),
            index_type(walked, compared=bool(names or sizes), traits=stages.traits),
            inputs,
            results,
            tuple(PositionCode(name) for name in names),
            coords,
            sizes,
            len(kept),
            len(kept) + 2 > BAKED_DIMS,
            self.exclusive,
        )
        read = sum(min(a.size, math.prod(shape)) * a.dtype.itemsize for a in stages.inputs)
        written = sum(r.size * r.dtype.itemsize for r in stages.results)
        last = kernel.plan(totals=False, nbytes=read + written)
        if schedule.pieces == 1:
            return ScanPlan((last,), schedule=schedule)
        pairs = zip(stages.partial_codes, stages.partials, strict=True)
        workspace = {code.name: (lines * schedule.pieces, dtype) for code, dtype in pairs}
        first = kernel.plan(totals=True, nbytes=read)
        return ScanPlan((first, last), workspace, schedule=schedule)

    def _vector(self, inner: Dim) -> int:
        """Elements side by side along the innermost loop: a register where all allow it, else 1."""
        stages = self.stages
        definition, value = stages.definition, stages.vector_type()
        operands = len(stages.inputs) + len(stages.results)
        steps = inner.strides[:operands]
        if (
            value is None
            or not stages.traits.is_cpu
            or not definition.combine_componentwise
            or any(y.value != value or y.load == "bool" for y in stages.result_codes)
            or (definition.finalize is not None and not is_componentwise(definition.finalize))
            or (definition.finalize is not None and definition.finalize.used & _PLACES)
            or any(s not in (0, 1) for s in steps[: len(stages.inputs)])
            or any(s != 1 for s in steps[len(stages.inputs) :])
        ):
            return 1
        width = min(16, max(2, stages.traits.vector_bytes // _SIZES[value]))
        while width > 2 and width > inner.size:
            width //= 2
        return width if width <= inner.size else 1


_PLACES = {"index", "scan_item"}


@dataclass
class _Kernel:
    """What both stages of one call have in common."""

    stages: Stages
    schedule: Schedule
    numbers: tuple[tuple[str, int], ...]
    index: str
    inputs: tuple[OperandCode, ...]
    results: tuple[OperandCode, ...]
    positions: tuple[PositionCode, ...]
    coords: tuple[tuple[int, int], ...]
    sizes: tuple[tuple[int, int], ...]
    kept: int
    baked: bool
    exclusive: bool

    def plan(self, *, totals: bool, nbytes: int) -> KernelPlan:
        """Plans one stage: the one that stores totals of pieces, or the one that stores results."""
        stages, schedule = self.stages, self.schedule
        definition = stages.definition
        found = Arguments(self.index)
        if not totals:
            for y in self.results:
                found.memory(y.storage, f"{y.name}_memory", read_only=False)
        for x in self.inputs:
            found.memory(x.storage, f"{x.name}_memory")
        if schedule.pieces > 1:
            for p in stages.partial_codes:
                found.memory(p.storage, f"{p.name}_memory", read_only=not totals)
        found.scalars(stages.scalar_codes)
        if definition.draws:
            found.random()
        if not self.baked:
            found.numbers(**dict(self.numbers))
        code = ScanCode(
            name=definition.name + ("_totals" if totals else ""),
            preamble=definition.preamble,
            parameters=tuple(found.parameters),
            constants=self.numbers if self.baked else (),
            index=self.index,
            unified=unified_functions(definition.snippets, definition.preamble, stages.traits),
            doubles=stages.doubles,
            own=own_names(definition.snippets, definition.preamble),
            **stages.texts(),
            results=() if totals else self.results,
            inputs=self.inputs,
            partials=stages.partial_codes,
            values=stages.values,
            scalars=stages.scalar_codes,
            positions=self.positions,
            coords=self.coords,
            sizes=self.sizes,
            kept=self.kept,
            vector=schedule.vector,
            lanes=schedule.lanes,
            each=schedule.each,
            block=schedule.block,
            exclusive=self.exclusive,
            totals=totals,
            pieces=schedule.pieces > 1,
            random=definition.draws,
        )
        values = dict(self.numbers)
        tiles = values["outputs"]
        if schedule.template == "scan/columns":
            width, vector = values["width"], schedule.vector
            tiles = tiles // width * (width // vector + width % vector)
        groups, local = -(-tiles // schedule.per_group), schedule.lanes
        if schedule.template != "scan/group" and not stages.traits.is_cpu:
            local = min(64, stages.traits.max_work_group_size)
            groups = round_up(groups, local) // local
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
