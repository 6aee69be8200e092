"""How a reduction's loops are spread over vectors, work-items, work-groups and stages.

What a work-item takes at a time is the file's of each kernel beside this one, `inner`, `columns`,
`narrow` and `lanes`; how the work is shared out is said here. Numbers were set on CPUs and follow
the usual rules on GPUs; each says what it balances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from clprim.plan.cost import fewest_groups
from clprim.plan.kernel import power_of_two, round_up
from clprim.plan.machine import CHAIN, ITEMS, PAGE, UPDATES, WORK
from clprim.plan.strides import Dim, Space
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class Schedule:
    """How the loops are cut."""

    # ``reduction/inner``, ``columns``, ``narrow``, ``lanes``, ``pairs`` and ``pairs_local``
    template: str
    vector: int = 1  # A work-item takes ``unroll`` vectors of ``vector`` elements at a time
    unroll: int = 1
    lanes: int = 1  # Work-items of a group along the contiguous dimension, and across
    rows: int = 1
    splits: int = 1  # The reduced space is cut into ``splits`` pieces of ``chunk`` elements
    chunk: int = 1
    per_group: int = 1  # Outputs (or tiles of outputs) that a work-group takes one after another
    groups: int = 1
    finish_lanes: int = 1  # Work-items that merge the partials of one output in the second stage
    finish_vector: int = 1  # Or so many vectors of outputs that one work-item merges
    finish_unroll: int = 1
    fours: bool = False  # Whether four rows of ``reduce_columns`` make a step
    row_a_split: bool = False  # Whether every split is one whole row of the reduced space
    # Whether that row (or the whole reduced space) is one tile, without a remainder
    exact: bool = False
    tall: int = 1  # Over pairs: rows of outputs of a work-item

    @property
    def finish(self) -> Schedule:
        """The schedule of the second stage."""
        return Schedule(
            "reduction/finish",
            vector=self.finish_vector,
            unroll=self.finish_unroll,
            lanes=self.finish_lanes,
        )


@dataclass(frozen=True)
class Cut:
    """What tables keep of a schedule: of the same names, see `Schedule`."""

    vector: int
    unroll: int
    lanes: int
    rows: int
    splits: int
    per_group: int

    @classmethod
    def of(cls, schedule: Schedule) -> Cut:
        """Returns that of a schedule."""
        return cls(*(getattr(schedule, name) for name in cls.__dataclass_fields__))


@dataclass(frozen=True)
class Walk:
    """What of a reduction decides how it is cut."""

    space: Space  # The collapsed loops; operands ``0 … inputs - 1`` are the arrays that are read
    inputs: int  # How many arrays are read
    itemsize: int  # Bytes of the widest input's element
    vector_type: str | None  # Type of the vectors that may be used, or None
    partial_bytes: int  # Bytes of all partials of one output
    partials: int  # How many partials there are
    summed: int  # How many of them are sums, whose errors levels of accumulators bound
    combine_vectors: bool  # Whether they merge as vectors do
    nbytes: int  # That the call moves, of which this reduction may be a part
    traits: DeviceTraits

    @cached_property
    def last(self) -> Dim:
        """The innermost loop."""
        space = self.space
        return space.dims[-1] if space.dims else Dim(1, (0,) * len(space.offsets))

    @cached_property
    def length(self) -> int:
        """Elements of an output."""
        return math.prod(d.size for d in self.space.select(True))

    @cached_property
    def outputs(self) -> int:
        """How many there are."""
        return math.prod(d.size for d in self.space.select(False))

    @property
    def registers(self) -> int:
        """Vectors of accumulators, of each partial, that stay in registers, of 32."""
        return max(1, 16 // self.partials)

    @cached_property
    def widest(self) -> int:
        """Elements of a register; OpenCL C has vectors of up to 16. 1 where none may be used."""
        if self.vector_type is None:
            return 1
        itemsize = 8 if self.vector_type in ("long", "ulong", "double") else 4
        return self.traits.lanes(itemsize)

    @cached_property
    def width(self) -> int:
        """Elements of a vector along `last`; 1 where vectors do not compute, or load, as such."""
        last, widest = self.last, self.widest
        if self.vector_type is None or any(s not in (0, 1) for s in last.strides[: self.inputs]):
            return 1
        if last.size >= 8 * widest:
            return widest
        # The elements that fill no vector cost a step each, so less width may be more.
        candidates = [w for w in (16, 8, 4, 2) if w <= widest and w <= last.size]
        return min(candidates, key=lambda w: last.size // w + last.size % w, default=1)


def scheduled(walk: Walk, shape: Schedule, given: Cut | None = None) -> Schedule:
    """Returns the schedule of a reduction."""
    traits = walk.traits
    chosen = _cut(walk, _fit(shape, walk.partial_bytes, traits), given)
    if chosen.splits == 1:
        return chosen
    if not traits.is_cpu:
        lanes = min(64, power_of_two(chosen.splits)) if chosen.splits > 8 else 1
        fitting = _fit(Schedule("reduction/finish", lanes=lanes), walk.partial_bytes, traits)
        return replace(chosen, finish_lanes=fitting.lanes)
    outputs, vector = walk.outputs, walk.widest
    if not walk.combine_vectors or walk.vector_type is None or outputs < vector:
        return chosen
    # Rows of partials lie far apart: what is read of one is to be long, but all cores are to read.
    each = outputs // (4 * traits.compute_units * vector)
    unroll = max(1, min(each, 16 // walk.partials, 8))
    return replace(chosen, finish_vector=vector, finish_unroll=unroll)


def side_by_side(walk: Walk, most: int) -> int:
    """Work-items side by side on the innermost kept dimension: a power of two up to ``most``."""
    kept = walk.space.select(False)
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


def _cut(walk: Walk, chosen: Schedule, given: Cut | None) -> Schedule:
    """Cuts the reduced space where outputs are few, and hands out several where they are many."""
    traits, last, length, outputs = walk.traits, walk.last, walk.length, walk.outputs
    kept, reduced = walk.space.select(False), walk.space.select(True)
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
    near = columns and walk.nbytes <= traits.cache_bytes
    wanted = traits.compute_units * ITEMS
    if traits.is_cpu:
        useful = work // WORK
    else:
        steps = work // (8 * chosen.lanes * chosen.rows * chosen.vector)
        useful = min(-(-wanted // tiles), steps) if tiles < wanted else 1
    if given is not None:
        useful = given.splits
    splits = max(1, useful, -(-chain // CHAIN))
    if chosen.template == "reduction/lanes" and traits.is_cpu:
        # Sub-groups walk the rows one after another: what they share must stay in the cache.
        splits = max(splits, length * step * walk.itemsize // (1 << 18))
    if columns and not (walk.summed == walk.partials and walk.combine_vectors):
        splits = max(splits, -(-length // UPDATES))
    chunk = max(1, round_up(-(-length // splits), granule))
    # Short rows with other outputs between them: reduced one by one they are read in the order of
    # memory, for partials of 1/16 of the input at most.
    row_a_split = (
        chosen.template == "reduction/inner"
        and traits.is_cpu
        and len(reduced) > 1
        and 16 <= last.size <= PAGE // walk.itemsize
    )
    if row_a_split:
        chunk = last.size
    splits = max(1, -(-length // chunk))

    per_group = 1 if given is None else min(tiles, given.per_group)
    if given is None and traits.is_cpu and chosen.template != "reduction/narrow":
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
