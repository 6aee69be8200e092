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

from dataclasses import dataclass, field
from typing import Any

from clprim.plan.kernel import BAKED_DIMS, KernelPlan, Plan, round_up
from clprim.plan.reduction.code import KernelLoops
from clprim.plan.reduction.columns import columns_shape
from clprim.plan.reduction.inner import inner_shape, suits_inner
from clprim.plan.reduction.lanes import lanes_shape
from clprim.plan.reduction.loops import FoldLoops, operand_numbers
from clprim.plan.reduction.narrow import narrow_shape
from clprim.plan.reduction.pairs import PairLoops, plan_pairs, takes_pairs
from clprim.plan.reduction.problem import Reduced
from clprim.plan.reduction.schedule import Schedule, Walk, scheduled
from clprim.plan.reduction.stage import Folding, Stage
from clprim.plan.snippets import index_type
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class ReductionPlan(Plan):
    """One or two launches, and the memory between them."""

    schedule: Schedule = field(kw_only=True)  # How the work was cut, for explanations and tests


@dataclass(frozen=True)
class Found:
    """What a device's traits make of a reduction."""

    folding: Folding
    loops: FoldLoops
    walk: Walk  # What decides how it is cut
    pairs: tuple[PairLoops, Schedule] | None  # How pairs are cut, if it is over pairs
    schedule: Schedule  # The one that the rule chooses


def found_of(problem: Reduced, traits: DeviceTraits) -> Found:
    """Returns what is known of a reduction on a device, which is found once."""
    known = problem.found.get(traits)
    if known is None:
        known = problem.found[traits] = _found(problem, traits)
    return known


def _found(problem: Reduced, traits: DeviceTraits) -> Found:
    p, definition = problem, problem.definition
    folding = Folding(definition, p.operands, p.inputs, p.scalars, p.partials, p.scaling, traits)
    used = definition.expr.used | definition.step.used
    flip = not definition.positions
    loops = FoldLoops.of(folding, p.shape, p.axes, used, "reduce_item", flip=flip)
    walk = Walk(
        loops.space,
        inputs=len(folding.inputs),
        itemsize=max(a.dtype.itemsize for a in folding.inputs),
        vector_type=folding.vector_type(),
        partial_bytes=sum(p.itemsize for p in folding.partials),
        partials=len(folding.partials),
        summed=sum(n in folding.summed or p.kind in "iub" for n, p in enumerate(folding.partials)),
        combine_vectors=definition.combine_componentwise,
        nbytes=p.read if p.moved is None else p.moved,
        traits=traits,
    )
    pairs = takes_pairs(folding, loops)
    schedule = scheduled(walk, _shape(walk)) if pairs is None else pairs[1]
    return Found(folding, loops, walk, pairs, schedule)


def _shape(walk: Walk) -> Schedule:
    """What a work-item takes at a time."""
    ways = (narrow_shape, inner_shape, columns_shape) if suits_inner(walk) else ()
    chosen = next((shape for way in ways if (shape := way(walk)) is not None), None)
    chosen = lanes_shape(walk) if chosen is None else chosen
    assert chosen is not None  # it takes whatever the others leave
    return chosen


def plan_reduction(
    problem: Reduced, traits: DeviceTraits, schedule: Schedule | None = None
) -> ReductionPlan:
    """Plans one call."""
    found = found_of(problem, traits)
    folding, loops, partials = found.folding, found.loops, problem.partials
    read, written = problem.read, problem.written
    if found.pairs is not None:
        stages, panels = plan_pairs(folding, loops, *found.pairs, read + written)
        return ReductionPlan(stages, panels, schedule=found.schedule)
    schedule = found.schedule if schedule is None else schedule
    walked = _walked(folding, loops, schedule)
    outputs, definition = loops.kept, problem.definition
    stored = sum(p.itemsize for p in partials) * outputs * schedule.splits
    two_stages = schedule.splits > 1
    stage = Stage(
        schedule,
        walked,
        partial=two_stages,
        nbytes=read + (stored if two_stages else written),
        flops=(definition.expr.flops + definition.step.flops) * outputs * loops.reduced,
        global_size=(schedule.groups * schedule.lanes, schedule.rows * schedule.splits),
    )
    first = folding.kernel(stage)
    if not two_stages:
        return ReductionPlan((first,), schedule=schedule)
    second = _finish(folding, loops, schedule, walked, stored + written)
    pairs = zip(folding.partial_codes, partials, strict=True)
    workspace = {code.name: (outputs * schedule.splits, dtype) for code, dtype in pairs}
    return ReductionPlan((first, second), workspace, schedule=schedule)


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
        index=index_type(space, compared=loops.counts),
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
    stage = Stage(
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
    return folding.kernel(stage)
