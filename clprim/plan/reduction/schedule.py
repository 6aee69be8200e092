"""Chooses how a reduction's loops are spread over vectors, work-items, work-groups and stages.

Numbers were set on CPUs and follow the usual rules on GPUs; each says what it balances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clprim.plan.cost import fewest_groups
from clprim.plan.kernel import power_of_two, round_up
from clprim.plan.machine import CHAIN, ITEMS, PAGE, UPDATES, WORK
from clprim.plan.strides import Dim, Space
from clprim.traits import DeviceTraits

# Vectors of a row that a GPU's work-item takes at least, where rows keep the device busy and a
# work-group is a sub-group or more: fewer work-items are fewer rounds of the tree that follows.
STEPS_OF_MANY = 16


@dataclass(frozen=True)
class Schedule:
    """How the loops are cut.

    Attributes:
        template: ``reduction/inner``, ``columns``, ``narrow``, ``lanes``, ``pairs`` and
            ``pairs_local``.
        vector, unroll: A work-item takes ``unroll`` vectors of ``vector`` elements at a time.
        lanes, rows: Work-items of a group along the contiguous dimension, and across.
        splits, chunk: The reduced space is cut into ``splits`` pieces of ``chunk`` elements.
        per_group: Outputs (or tiles of outputs) that a work-group takes one after another.
        groups: Work-groups, not counting splits.
        finish_lanes: Work-items that merge the partials of one output in the second stage.
        finish_vector, finish_unroll: Or so many vectors of outputs that one work-item merges.
        fours: Whether four rows of ``reduce_columns`` make a step.
        row_a_split: Whether every split is one whole row of the reduced space.
        exact: Whether that row (or the whole reduced space) is one tile, without a remainder.
        tall: Over pairs: rows of outputs of a work-item.
    """

    template: str
    vector: int = 1
    unroll: int = 1
    lanes: int = 1
    rows: int = 1
    splits: int = 1
    chunk: int = 1
    per_group: int = 1
    groups: int = 1
    finish_lanes: int = 1
    finish_vector: int = 1
    finish_unroll: int = 1
    fours: bool = False
    row_a_split: bool = False
    exact: bool = False
    tall: int = 1

    @property
    def finish(self) -> Schedule:
        """The schedule of the second stage."""
        return Schedule(
            "reduction/finish",
            vector=self.finish_vector,
            unroll=self.finish_unroll,
            lanes=self.finish_lanes,
        )


def choose_schedule(
    space: Space,
    *,
    inputs: int,
    itemsize: int,
    vector_type: str | None,
    partial_bytes: int,
    partials: int,
    summed: int,
    combine_vectors: bool,
    nbytes: int,
    traits: DeviceTraits,
) -> Schedule:
    """Chooses the schedule of one reduction.

    Args:
        space: The collapsed loops; operands ``0 … inputs - 1`` are the arrays that are read.
        inputs: How many arrays are read.
        itemsize: Bytes of the widest input's element.
        vector_type: Type of the vectors that may be used, or None.
        partial_bytes: Bytes of all partials of one output.
        partials: How many partials there are.
        summed: How many of them are sums, whose errors levels of accumulators bound.
        combine_vectors: Whether they merge as vectors do.
        nbytes: That the call moves, of which this reduction may be a part.
        traits: Of the device.
    """
    sums = summed == partials and combine_vectors
    chosen = _first_stage(
        space, inputs, itemsize, vector_type, partial_bytes, partials, sums, nbytes, traits
    )
    if chosen.splits == 1:
        return chosen
    if not traits.is_cpu:
        lanes = min(64, power_of_two(chosen.splits)) if chosen.splits > 8 else 1
        fitting = _fit(Schedule("reduction/finish", lanes=lanes), partial_bytes, traits)
        return replace(chosen, finish_lanes=fitting.lanes)
    outputs = math.prod(d.size for d in space.select(False))
    if not combine_vectors or vector_type is None:
        return chosen
    # Rows of partials lie far apart: what is read of one is to be long, but all cores are to read.
    vector = _widest(vector_type, traits)
    if outputs < vector:
        return chosen
    each = outputs // (4 * traits.compute_units * vector)
    return replace(chosen, finish_vector=vector, finish_unroll=max(1, min(each, 16 // partials, 8)))


def _first_stage(
    space: Space,
    inputs: int,
    itemsize: int,
    vector_type: str | None,
    partial_bytes: int,
    partials: int,
    sums: bool,
    nbytes: int,
    traits: DeviceTraits,
) -> Schedule:
    """Chooses how the first stage goes, and the cuts."""
    last = space.dims[-1] if space.dims else Dim(1, (0,) * len(space.offsets))
    narrow = _narrow(space, inputs, vector_type, partials, traits)
    if narrow is not None:
        return _cut(narrow, space, last, itemsize, nbytes, traits, sums)
    width = _vector_width(last, inputs, vector_type, traits)
    shape = _cpu_shape if traits.is_cpu else _gpu_shape
    chosen = shape(space, last, width, partials, traits)
    chosen = _fit(chosen, partial_bytes, traits)
    return _cut(chosen, space, last, itemsize, nbytes, traits, sums)


def _narrow(
    space: Space, inputs: int, vector_type: str | None, partials: int, traits: DeviceTraits
) -> Schedule | None:
    """The schedule for a contiguous kept dimension narrower than a vector, if it is one."""
    if vector_type is None or not traits.is_cpu or len(space.dims) < 2:
        return None
    rows, last = space.dims[-2:]
    widest = min(
        16, traits.vector_bytes // (8 if vector_type in ("long", "ulong", "double") else 4)
    )
    contiguous = all(
        (column, row) in ((1, last.size), (0, 0))
        for column, row in zip(last.strides[:inputs], rows.strides[:inputs], strict=True)
    )
    only = len(space.select(True)) == 1 and rows.reduced and not last.reduced
    fits = last.size < widest and last.size * partials <= 16 and rows.size >= 8 * widest
    if not (contiguous and only and fits and widest > 1):
        return None
    return Schedule("reduction/narrow", vector=widest, unroll=last.size)


def _widest(vector_type: str, traits: DeviceTraits) -> int:
    """Elements of a register; OpenCL C has vectors of up to 16."""
    return min(16, traits.vector_bytes // (8 if vector_type in ("long", "ulong", "double") else 4))


def _vector_width(last: Dim, inputs: int, vector_type: str | None, traits: DeviceTraits) -> int:
    """Elements of a vector along ``last``; 1 where vectors do not compute, or load, as elements."""
    if vector_type is None or any(s not in (0, 1) for s in last.strides[:inputs]):
        return 1
    widest = _widest(vector_type, traits)
    if last.size >= 8 * widest:
        return widest
    # Short rows: the elements that fill no vector cost one step each, so less width may be more.
    candidates = [w for w in (16, 8, 4, 2) if w <= widest and w <= last.size]
    return min(candidates, key=lambda w: last.size // w + last.size % w, default=1)


def _cpu_shape(
    space: Space, last: Dim, width: int, partials: int, traits: DeviceTraits
) -> Schedule:
    """A CPU runs a work-group as a loop: one work-item a group, tiles in its registers.

    Without vectors in the source there are two ways to fill the registers all the same: a runtime
    whose sub-groups are vectors wants neighbouring work-items, any other a tile of independent
    scalars.
    """
    simd = traits.sub_group_size > 1
    registers = max(1, 16 // partials)  # accumulators that stay in registers, of 32
    if last.reduced:
        if width > 1:
            steps = last.size // width
            return Schedule("reduction/inner", width, min(steps if steps <= 8 else 4, registers))
        if not simd:
            return Schedule("reduction/inner", unroll=16 if last.size >= 16 else 1)
        if last.size >= 64 or len(space.dims) == 1:
            return Schedule("reduction/inner", lanes=traits.sub_group_size)
        return Schedule("reduction/lanes", lanes=_columns(space, traits.sub_group_size))
    if width > 1:
        return Schedule("reduction/columns", width, _tile_vectors(last.size, width, registers))
    if simd and last.size >= traits.sub_group_size:
        return Schedule("reduction/lanes", lanes=traits.sub_group_size)
    return Schedule("reduction/columns", unroll=min(16, last.size))


def _tile_vectors(size: int, width: int, registers: int) -> int:
    """Vectors side by side in a tile of columns.

    Wider tiles read longer runs of memory, narrower ones keep the accumulators in registers. The
    last tile overlaps its neighbour, which reads columns twice: one tile that is a vector wider is
    better, even if not all of its accumulators are in registers.
    """
    steps = size // width
    usual = max(1, min(steps, 8, registers))
    most = max(usual, min(steps, 12, registers * 3 // 2))
    most = most if most == steps else max(usual, min(12, registers))
    return min(
        range(usual // 2 + 1, most + 1),
        key=lambda vectors: (-(-size // (vectors * width)) * vectors, -vectors),
    )


def _gpu_shape(
    space: Space, last: Dim, width: int, partials: int, traits: DeviceTraits
) -> Schedule:
    """A GPU wants neighbouring work-items on neighbouring elements, and many of them."""
    length = math.prod(d.size for d in space.select(True))
    group = 256
    if last.reduced and (last.size >= 32 or len(space.dims) == 1):
        vector = width if last.size >= 4 * width * 32 else 1
        one, outputs = _one_sub_group(traits), math.prod(d.size for d in space.select(False))
        many = outputs >= traits.compute_units * ITEMS
        lanes = min(32, one)
        while lanes < group:
            # What a further doubling is to leave every work-item, in vectors.
            steps = STEPS_OF_MANY if many and lanes >= one else 4
            if lanes * vector * steps > length:
                break
            lanes *= 2
        # Rows that keep the device busy hide each other's latency.
        unroll = 2 if last.size >= (STEPS_OF_MANY if many else 8) * lanes * vector else 1
        return Schedule("reduction/inner", vector, unroll, lanes)
    lanes = _columns(space, 64)
    rows = 1
    while rows * lanes < group and rows * 4 <= length:
        rows *= 2
    return Schedule("reduction/lanes", lanes=lanes, rows=rows)


def _one_sub_group(traits: DeviceTraits) -> int:
    """Work-items that are one sub-group, whose barriers compilers leave out; 32 where unknown."""
    sizes = traits.sub_groups or (traits.sub_group_size,)
    return min((size for size in (16, 32, 64) if size in sizes), default=32)


def _columns(space: Space, most: int) -> int:
    """Work-items side by side on the innermost kept dimension: a power of two up to ``most``."""
    kept: Sequence[Dim] = space.select(False)
    width = kept[-1].size if kept else 1
    lanes = 1
    while lanes < most and lanes < width:
        lanes *= 2
    return lanes


def _fit(chosen: Schedule, partial_bytes: int, traits: DeviceTraits) -> Schedule:
    """Halves the work-group until the device can run it and local memory holds its partials."""
    while chosen.lanes * chosen.rows > 1 and (
        chosen.lanes * chosen.rows > traits.max_work_group_size
        or chosen.lanes * chosen.rows * partial_bytes > traits.local_memory
    ):
        if chosen.rows > 1:
            chosen = replace(chosen, rows=chosen.rows // 2)
        else:
            chosen = replace(chosen, lanes=chosen.lanes // 2)
    return chosen


def _cut(
    chosen: Schedule,
    space: Space,
    last: Dim,
    itemsize: int,
    nbytes: int,
    traits: DeviceTraits,
    sums: bool,
) -> Schedule:
    """Cuts the reduced space where outputs are few, and hands out several where they are many."""
    kept, reduced = space.select(False), space.select(True)
    length = math.prod(d.size for d in reduced)
    outputs = math.prod(d.size for d in kept)
    step = chosen.vector * chosen.unroll * chosen.lanes  # elements side by side
    if chosen.template == "reduction/inner":
        tiles, work, granule, chain = outputs, length, step, length // step
    elif chosen.template == "reduction/narrow":
        tiles, work = outputs // last.size, length * last.size
        granule, chain = chosen.vector, length // chosen.vector
    else:
        width = kept[-1].size if kept else 1
        tiles = outputs // max(1, width) * -(-width // step)
        work, granule, chain = length * min(step, width), chosen.rows, length // chosen.rows

    columns = chosen.template == "reduction/columns"
    near = columns and nbytes <= traits.cache_bytes
    wanted = traits.compute_units * ITEMS
    if traits.is_cpu:
        useful = work // WORK
    else:
        steps = work // (8 * chosen.lanes * chosen.rows * chosen.vector)
        useful = min(-(-wanted // tiles), steps) if tiles < wanted else 1
    splits = max(1, useful, -(-chain // CHAIN))
    if chosen.template == "reduction/lanes" and traits.is_cpu:
        # Sub-groups walk the rows one after another: what they share must stay in the cache.
        splits = max(splits, length * step * itemsize // (1 << 18))
    if columns and not sums:
        splits = max(splits, -(-length // UPDATES))
    chunk = max(1, round_up(-(-length // splits), granule))
    # Short rows with other outputs between them: reduced one by one they are read in the order of
    # memory, for partials of 1/16 of the input at most.
    row_a_split = (
        chosen.template == "reduction/inner"
        and traits.is_cpu
        and len(reduced) > 1
        and 16 <= last.size <= PAGE // itemsize
    )
    if row_a_split:
        chunk = last.size
    splits = max(1, -(-length // chunk))

    per_group = 1
    if traits.is_cpu and chosen.template != "reduction/narrow":
        each = chunk if chosen.template == "reduction/inner" else chunk * (work // max(1, length))
        groups, most = (wanted, 4 * WORK) if near else (2 * wanted, WORK)
        groups = min(groups, fewest_groups(tiles * work, traits.compute_units))
        per_group = max(1, min(tiles, tiles * splits // groups, most // max(1, each)))
        per_group = -(-tiles // max(1, -(-tiles // per_group)))  # shared out equally
    # Rows that follow each other are a stream.
    fours = columns and near and step < width and chosen.vector > 1
    return replace(
        chosen,
        splits=splits,
        chunk=chunk,
        per_group=per_group,
        groups=-(-tiles // per_group),
        fours=fours,
        row_a_split=row_a_split,
        exact=chosen.template == "reduction/inner"
        and chosen.vector * chosen.unroll > 1
        and step == last.size
        and (row_a_split or length == step),
    )
