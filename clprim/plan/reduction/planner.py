"""Plans a `Reduction`: which schedule, how the work is cut, in one stage or two.

After collapsing, the loops are sorted as the first input lies in memory, and the fastest decides:

* ``reduce_inner``: it is reduced. A work-group walks along it for one output, its work-items and
  their vectors side by side.
* ``reduce_columns``: it is kept, on a CPU. A work-item holds a tile of neighbouring outputs in
  registers and walks the reduced loops row by row.
* ``reduce_narrow``: it is kept, on a CPU, and narrower than a vector. Vectors run across rows.
* ``reduce_lanes``: it is kept, on a GPU, or rows are too short to share. Neighbouring work-items
  take neighbouring outputs; several rows of work-items share the reduced loops.

Where outputs are too few to keep the device busy (or chains of additions too long to be accurate),
the reduced space is cut: the first stage writes partials, ``reduce_finish`` merges them. Cuts
depend on shapes and traits alone, so the same input gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from clprim.dtypes import AnyDType
from clprim.language.definition import ReductionDefinition
from clprim.plan.kernel import (
    KernelPlan,
    OperandCode,
    Plan,
    PositionCode,
    round_up,
)
from clprim.plan.reduction.code import Scaling
from clprim.plan.reduction.schedule import Schedule, choose_schedule
from clprim.plan.reduction.stage import Stages
from clprim.plan.snippets import index_type, refuse_byte_choices, resolve_positions
from clprim.plan.strides import (
    Dim,
    Operand,
    Space,
    broadcast_strides,
    collapse,
    memory_order,
)
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class ReductionPlan(Plan):
    """One or two launches, and the memory between them.

    Attributes:
        schedule: How the work was cut, for explanations and tests.
    """

    schedule: Schedule = field(kw_only=True)


def plan_reduction(
    definition: ReductionDefinition,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    results: Sequence[Operand],
    inputs: Sequence[Operand],
    scalars: Sequence[AnyDType],
    partials: Sequence[AnyDType],
    scaling: Sequence[Scaling],
    traits: DeviceTraits,
    moved: int | None = None,
) -> ReductionPlan:
    """Plans one call.

    Args:
        definition: The checked snippets.
        shape: The broadcast shape of the inputs.
        axes: The reduced axes, sorted. The results hold at least one element; the reduced space
            may be empty.
        results: Where the results go, with all dimensions of ``shape``, size 1 along ``axes``.
        inputs: Where the inputs lie, before broadcasting.
        scalars: dtypes of the run-time scalars.
        partials: dtypes of the partials.
        scaling: Of every result.
        traits: Of the device.
        moved: Bytes that the whole call moves, where this is a part of one; else what it reads.

    Raises:
        ShapeError: ``coord(d)`` of a dimension that is not there, a stride of half an element.
    """
    stages = Stages(definition, results, inputs, scalars, partials, scaling, traits)
    return _Planner(shape, axes, stages, moved).plan()


class _Planner:
    """One call, as `plan_reduction` takes it."""

    def __init__(
        self, shape: tuple[int, ...], axes: tuple[int, ...], stages: Stages, moved: int | None
    ) -> None:
        self.shape, self.axes, self.stages, self.moved = shape, axes, stages, moved
        self.definition, self.traits = stages.definition, stages.traits
        self.inputs, self.results, self.partials = stages.inputs, stages.results, stages.partials

    def plan(self) -> ReductionPlan:
        definition = self.definition
        refuse_byte_choices(definition.snippets, self.inputs, self.traits)
        arrays = [*self.inputs, *self.results]
        strides = [broadcast_strides(a, self.shape) for a in arrays]
        definition = self.definition
        used = definition.expr.used | definition.step.used
        counted: dict[str, tuple[int, ...] | None] = {}
        if "index" in used or definition.draws:
            counted["index"] = None
        if "reduce_item" in used:
            counted["reduce_item"] = self.axes
        names, position_strides, coords, sizes = resolve_positions(
            definition.name, definition.snippets, self.shape, counted
        )
        everything = [*strides, *position_strides]
        order = list(memory_order(self.shape, strides))
        if definition.positions:
            # Of equal elements the step keeps the first it meets: they must come in their order.
            slots = [at for at, axis in enumerate(order) if axis in self.axes]
            for at, axis in zip(slots, self.axes, strict=True):
                order[at] = axis
        space = collapse(
            Space(
                tuple(
                    Dim(self.shape[d], tuple(s[d] for s in everything), d in self.axes)
                    for d in order
                ),
                (*(a.in_elements(a.offset) for a in arrays), *(0 for _ in names)),
            ),
            turn=not definition.positions,
        )
        kept, reduced = space.select(False), space.select(True)
        if not math.prod(d.size for d in reduced):
            # One empty loop: kernels divide by the lengths of several.
            reduced = (Dim(0, (0,) * len(everything), True),)
            space = Space((*kept, *reduced), space.offsets)
        outputs = math.prod(d.size for d in kept)
        length = math.prod(d.size for d in reduced)

        nbytes = sum(min(a.size, math.prod(self.shape)) * a.dtype.itemsize for a in self.inputs)
        schedule = choose_schedule(
            space,
            inputs=len(self.inputs),
            itemsize=max(a.dtype.itemsize for a in self.inputs),
            vector_type=self.stages.vector_type(),
            partial_bytes=sum(p.itemsize for p in self.partials),
            partials=len(self.partials),
            summed=len(self.stages.summed),
            combine_vectors=definition.combine_componentwise,
            nbytes=nbytes if self.moved is None else self.moved,
            traits=self.traits,
        )
        two_stages = schedule.splits > 1
        nothing = (0,) * len(everything)
        inner_kept = Dim(1, nothing)
        if schedule.template != "reduction/inner" and kept:
            kept, inner_kept = kept[:-1], kept[-1]
        inner_reduced = Dim(1, nothing, True)
        if reduced:
            reduced, inner_reduced = reduced[:-1], reduced[-1]

        # The loop that neighbouring vectors and work-items run along.
        along = inner_reduced if schedule.template == "reduction/inner" else inner_kept
        inputs = tuple(
            OperandCode.of(f"x{k}", a.dtype, value, along.strides[k])
            for k, (a, value) in enumerate(zip(self.inputs, self.stages.input_values, strict=True))
        )
        self.stages.result_codes = tuple(
            replace(y, inner="one" if inner_kept.strides[len(inputs) + n] == 1 else "any")
            for n, y in enumerate(self.stages.result_codes)
        )
        labels = [*(x.name for x in inputs), *(y.name for y in self.stages.result_codes), *names]
        # What every element of an output reads alike is read once, which a compiler can only see
        # where no stride, which it does not know, is added to the place.
        loops = (*reduced, inner_reduced)
        still = tuple(
            x.name
            for k, x in enumerate(inputs)
            if length > 1 and not any(d.strides[k] for d in loops)
        )
        numbers = [("n", inner_reduced.size), ("length", length), ("chunk", schedule.chunk)]
        numbers += [("width", inner_kept.size), ("outputs", outputs)]
        numbers += [("per_group", schedule.per_group)]
        numbers += [(f"k{d}", dim.size) for d, dim in enumerate(kept)]
        numbers += [(f"r{d}", dim.size) for d, dim in enumerate(reduced)]
        for k, label in enumerate(labels):
            if two_stages and label.startswith("y"):
                continue
            numbers.append((f"{label}_start", space.offsets[k]))
            if label not in still:
                numbers.append((f"{label}_step", inner_reduced.strides[k]))
            numbers.append((f"{label}_column", inner_kept.strides[k]))
            numbers += [(f"{label}_k{d}", dim.strides[k]) for d, dim in enumerate(kept)]
            if label not in still:
                numbers += [(f"{label}_r{d}", dim.strides[k]) for d, dim in enumerate(reduced)]
        numbers += [(f"size_{axis}", self.shape[axis]) for axis in sorted({a for _, a in sizes})]

        index = index_type(space, compared=bool(names or sizes), traits=self.traits)
        written = sum(r.size * r.dtype.itemsize for r in self.results)
        stored = sum(p.itemsize for p in self.partials) * outputs * schedule.splits
        flops = (definition.expr.flops + definition.step.flops) * outputs * length
        first = self.stages.kernel(
            schedule,
            numbers,
            index,
            space_dims=len(space.dims),
            inputs=inputs,
            positions=tuple(PositionCode(name) for name in names),
            coords=coords,
            sizes=sizes,
            kept=len(kept),
            reduced=len(reduced),
            partial=two_stages,
            still=still,
            template=schedule.template,
            nbytes=nbytes + (stored if two_stages else written),
            flops=flops,
            global_size=(schedule.groups * schedule.lanes, schedule.rows * schedule.splits),
        )
        if not two_stages:
            return ReductionPlan((first,), schedule=schedule)
        once = tuple(x for n, x in enumerate(inputs) if n in definition.finalized)
        second = self._finish(space, schedule, index, outputs, length, stored + written, once)
        size = outputs * schedule.splits
        pairs = zip(self.stages.partial_codes, self.partials, strict=True)
        workspace = {code.name: (size, dtype) for code, dtype in pairs}
        return ReductionPlan((first, second), workspace, schedule=schedule)

    def _finish(
        self,
        space: Space,
        schedule: Schedule,
        index: str,
        outputs: int,
        length: int,
        nbytes: int,
        once: tuple[OperandCode, ...],
    ) -> KernelPlan:
        """The second stage: every output merges its partials, and reads inputs ``once``."""
        kept = space.select(False)
        first_result = len(self.inputs)
        numbers = [("length", length), ("outputs", outputs), ("splits", schedule.splits)]
        numbers += [(f"k{d}", dim.size) for d, dim in enumerate(kept)]
        places = [(int(x.name[1:]), x.name) for x in once]
        places += [(first_result + n, f"y{n}") for n in range(len(self.results))]
        for k, name in places:
            numbers.append((f"{name}_start", space.offsets[k]))
            numbers += [(f"{name}_k{d}", dim.strides[k]) for d, dim in enumerate(kept)]
        # A work-group an output, a work-item several vectors of outputs, or a work-item an output
        # in groups of a handy size.
        finish = schedule.finish
        items, group = outputs * finish.lanes, finish.lanes
        if finish.vector > 1:
            items = -(-outputs // (finish.vector * finish.unroll))
        elif finish.lanes == 1:
            group = min(64, self.traits.max_work_group_size)
        return self.stages.kernel(
            finish,
            numbers,
            index,
            space_dims=len(kept),
            inputs=once,
            positions=(),
            coords=(),
            sizes=(),
            kept=len(kept),
            reduced=0,
            partial=False,
            still=(),
            template="reduction/finish",
            nbytes=nbytes,
            flops=self.definition.combine.flops * outputs * schedule.splits,
            global_size=(round_up(items, group), 1),
            local_size=(group, 1),
        )
