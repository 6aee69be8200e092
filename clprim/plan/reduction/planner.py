"""Plans a `Reduction`: which schedule, how the work is cut, in one stage or two.

After collapsing, the loops are sorted as the first input lies in memory, and the fastest decides:

* ``reduction/inner``: it is reduced. A work-group walks along it for one output, its work-items and
  their vectors side by side.
* ``reduction/columns``: it is kept, on a CPU. A work-item holds a tile of neighbouring outputs in
  registers and walks the reduced loops row by row.
* ``reduction/narrow``: it is kept, on a CPU, and narrower than a vector. Vectors run across rows.
* ``reduction/pairs``: operands broadcast against each other; see `clprim.plan.reduction.pairs`.
* ``reduction/lanes``: it is kept, on a GPU, or rows are too short to share. Neighbouring work-items
  take neighbouring outputs; several rows of work-items share the reduced loops.

Where outputs are too few to keep the device busy (or chains of additions too long to be accurate),
the reduced space is cut: the first stage writes partials, ``reduction/finish`` merges them. Cuts
depend on shapes and traits alone, so the same input gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from clprim.dtypes import AnyDType
from clprim.language.definition import ReductionDefinition
from clprim.plan.kernel import BAKED_DIMS, KernelPlan, Plan, round_up
from clprim.plan.reduction.code import KernelLoops, Scaling
from clprim.plan.reduction.loops import FoldLoops, operand_numbers
from clprim.plan.reduction.pairs import plan_pairs, takes_pairs
from clprim.plan.reduction.schedule import Schedule, choose_schedule
from clprim.plan.reduction.stage import Folding
from clprim.plan.snippets import index_type
from clprim.plan.strides import Operand
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
    folding = Folding(definition, results, inputs, scalars, partials, scaling, traits)
    used = definition.expr.used | definition.step.used
    flip = not definition.positions
    loops = FoldLoops.of(folding, shape, axes, used, "reduce_item", flip=flip)
    read = sum(min(a.size, math.prod(shape)) * a.dtype.itemsize for a in inputs)
    written = sum(r.size * r.dtype.itemsize for r in results)
    over_pairs = takes_pairs(folding, loops)
    if over_pairs is not None:
        stages, panels = plan_pairs(folding, loops, *over_pairs, read + written)
        return ReductionPlan(stages, panels, schedule=over_pairs[1])
    schedule = _schedule(folding, loops, read if moved is None else moved)
    walked = _walked(folding, loops, schedule)

    outputs = loops.kept
    stored = sum(p.itemsize for p in partials) * outputs * schedule.splits
    two_stages = schedule.splits > 1
    first = folding.kernel(
        schedule,
        walked,
        partial=two_stages,
        nbytes=read + (stored if two_stages else written),
        flops=(definition.expr.flops + definition.step.flops) * outputs * loops.reduced,
        global_size=(schedule.groups * schedule.lanes, schedule.rows * schedule.splits),
    )
    if not two_stages:
        return ReductionPlan((first,), schedule=schedule)
    second = _finish(folding, loops, schedule, walked, stored + written)
    pairs = zip(folding.partial_codes, partials, strict=True)
    workspace = {code.name: (outputs * schedule.splits, dtype) for code, dtype in pairs}
    return ReductionPlan((first, second), workspace, schedule=schedule)


def _schedule(folding: Folding, loops: FoldLoops, nbytes: int) -> Schedule:
    """Cuts the loops of a call that moves so many bytes."""
    return choose_schedule(
        loops.space,
        inputs=len(folding.inputs),
        itemsize=max(a.dtype.itemsize for a in folding.inputs),
        vector_type=folding.vector_type(),
        partial_bytes=sum(p.itemsize for p in folding.partials),
        partials=len(folding.partials),
        summed=sum(n in folding.summed or p.kind in "iub" for n, p in enumerate(folding.partials)),
        combine_vectors=folding.definition.combine_componentwise,
        nbytes=nbytes,
        traits=folding.traits,
    )


def _walked(folding: Folding, loops: FoldLoops, schedule: Schedule) -> KernelLoops:
    """What the first stage walks over: all loops."""
    space = loops.space
    kept, column = space.select(False), loops.single()
    reduced, step = space.select(True), loops.single(reduced=True)
    inner = schedule.template == "reduction/inner"
    if kept and not inner:
        kept, column = kept[:-1], kept[-1]
    if reduced:
        reduced, step = reduced[:-1], reduced[-1]
    # Neighbouring vectors and work-items run along the innermost loop.
    inputs, results = folding.operands(step if inner else column, column)
    # What every element of an output reads alike is read once, which a compiler can only see
    # where no stride, which it does not know, is added to the place.
    still = tuple(
        x.name
        for k, x in enumerate(inputs)
        if loops.reduced > 1 and not any(d.strides[k] for d in (*reduced, step))
    )
    numbers = [("n", step.size), ("length", loops.reduced), ("chunk", schedule.chunk)]
    numbers += [("width", column.size), ("outputs", loops.kept)]
    numbers += [("per_group", schedule.per_group)]
    numbers += [(f"k{d}", dim.size) for d, dim in enumerate(kept)]
    numbers += [(f"r{d}", dim.size) for d, dim in enumerate(reduced)]
    names = [o.name for o in (*inputs, *results)] + [p.name for p in loops.positions]
    elsewhere = {y.name for y in results} if schedule.splits > 1 else set()
    for k, name in enumerate(names):
        if name in elsewhere:
            continue
        along: dict[str, Any] = {} if name in still else {"step": step, "reduced": reduced}
        numbers += operand_numbers(name, k, space.offsets[k], kept, column=column, **along)
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
        reduced=len(reduced),
        still=still,
    )


def _finish(
    folding: Folding, loops: FoldLoops, schedule: Schedule, walked: KernelLoops, nbytes: int
) -> KernelPlan:
    """The second stage: every output merges its partials, and reads inputs that it needs once."""
    kept, offsets, outputs = loops.space.select(False), loops.space.offsets, loops.kept
    numbers = [("length", loops.reduced), ("outputs", outputs), ("splits", schedule.splits)]
    numbers += [(f"k{d}", dim.size) for d, dim in enumerate(kept)]
    once = []
    for k, operand in enumerate((*walked.inputs, *walked.results)):
        if k < len(walked.inputs):
            if k not in folding.definition.finalized:
                continue
            once.append(operand)
        numbers += operand_numbers(operand.name, k, offsets[k], kept)
    # A work-group an output, a work-item several vectors of outputs, or a work-item an output
    # in groups of a handy size.
    finish = schedule.finish
    items, group = outputs * finish.lanes, finish.lanes
    if finish.vector > 1:
        items = -(-outputs // (finish.vector * finish.unroll))
    elif finish.lanes == 1:
        group = min(64, folding.traits.max_work_group_size)
    return folding.kernel(
        finish,
        KernelLoops(
            numbers=tuple(numbers),
            index=walked.index,
            baked=len(kept) > BAKED_DIMS,
            inputs=tuple(once),
            results=walked.results,
            kept=len(kept),
        ),
        partial=False,
        nbytes=nbytes,
        flops=folding.definition.combine.flops * outputs * schedule.splits,
        global_size=(round_up(items, group), 1),
        local_size=(group, 1),
    )
