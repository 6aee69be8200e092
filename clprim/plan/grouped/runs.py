"""Plans the kernel that reduces groups of elements and then maps them, while a near cache has them.

A normalisation reads its input twice: for the statistics of a group, and to apply them. Where the
elements of a group lie in runs and fit a core's second cache, one work-item does both, and memory
is read once:

    reduce    terms of every element into partials         Σ (x - origin), Σ (x - origin)²
    finalize  the partials to values of the group          mean, 1 / deviation
    each      element again, with the values               (x - mean) / deviation

Where strings for it are given (``near=``), elements are taken twice, and results are begun the
second time and kept near, so that what is dear is computed once an element:

    first     what results depend on                        the greatest x
    step      results, begun, into the other partials       exp(x - greatest), and their sum
    finish    results, kept in the near cache               times 1 / sum

Groups that are neighbours in memory, as channels of NHWC, are not for this: a few of their columns,
rows apart, share few sets of a cache, and a vector at a time is no way to read memory (0.5 to 1.1
times as fast as two passes, on two cores).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from clprim.dtypes import stored_type, value_dtype
from clprim.language.componentwise import is_componentwise
from clprim.language.grouped import GroupedDefinition, Near
from clprim.language.snippet import Snippet
from clprim.plan.grouped.problem import Groups
from clprim.plan.kernel import (
    Argument,
    Buffer,
    KernelCode,
    KernelPlan,
    OperandCode,
    Parameter,
    Scalar,
    ScalarCode,
)
from clprim.plan.reduction.code import PartialCode, partial_code
from clprim.plan.snippets import index_type, own_names, unified_functions
from clprim.plan.strides import Dim, Space, broadcast_strides, collapse, memory_order
from clprim.traits import DeviceTraits

# Of a group, what the second pass still finds in a core's second cache; and the core's part of the
# last one, where that is more.
NEAR_BYTES = 1 << 20
SHARE = 4
# What begun results may take of it: in groups of more, the two walks and the store cost what was
# saved where nothing was dear (log_softmax of rows of 16384: 1.04 times the time).
BEGUN_BYTES = 1 << 15
# Work-items a compute unit, and how few still share the work evenly.
ITEMS, FEW_ITEMS = 8, 2
# Vectors of a group, below which the values of a group cost more than lanes of other groups, of
# which each element is fetched and put by itself: with two arrays, and one less an array more. The
# least is that of groups whose results are begun: their partials merge at little cost (softmax and
# log_softmax of rows of 32 take 0.63 of the time, of rows of 21 1.05 and 2.1 times).
SMALLEST, LEAST = 4, 2
# Values taken one after another into one partial; then it is merged into the group's.
LONGEST_CHAIN = 1024
MOST_CHAINS = 4096
# Independent partials of a long run, and how many may be in registers. They are merged one after
# another, which softmax does by an exponential each: u of them are for groups of 4 u² vectors and
# more (softmax of rows of 128 to 512 takes 0.88 to 0.97 of the time by one runtime, 0.98 to 1.03 by
# another; sums the same).
UNROLL, REGISTERS = 4, 16


@dataclass(frozen=True)
class PhaseCode:
    """One walk over a group, which takes elements into partials.

    Attributes:
        parts: Names of the snippets ``expr``, ``step`` and ``combine``.
        expr, step, combine, init: They, and what starts partials.
        merge: The function that ``combine`` becomes.
        combine_vectors: Whether partials merge as vectors.
        partials, scalars: All of them.
        known: Names of the partials that an earlier walk has found.
        values: Names and types of what ``expr`` assigns.
        inputs: What is read.
    """

    parts: tuple[str, str, str]
    expr: str
    step: str
    combine: str
    init: str
    merge: str
    combine_vectors: bool
    partials: tuple[PartialCode, ...]
    scalars: tuple[ScalarCode, ...]
    known: tuple[str, ...]
    values: tuple[tuple[str, str], ...]
    inputs: tuple[OperandCode, ...]

    positions: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunsCode(KernelCode):
    """What grouped/runs.cl.jinja prints; the reduction's part of it as `ReductionCode` has it.

    Attributes:
        value: Type that is calculated in.
        widths: Elements of a vector, and of shorter ones for what is left of a run; the last is 1.
        unroll: Independent partials of a run.
        arrays: All operands by name; ``inner`` is the step to the next lane of a vector.
        still: Names of those that have one element a group.
        phases: The walks of the reduction.
        results: Where elements go.
        finalized, mapped: Names of the inputs that ``finalize`` and ``each`` read.
        kept: Names of the values that are stored, by number.
        group_values: How many values a group has.
        partials, scalars: The reduction's, and what their names are.
        init, finalize, each: Snippets.
        each_part: What the last one is called.
        begun: Elements there is room for of each result that the last walk begins; 0 where none is.
        streaming: Whether results go past the cache.
        ahead: Whether the next run is asked for while one is reduced.
    """

    value: str
    widths: tuple[int, ...]
    unroll: int
    arrays: tuple[OperandCode, ...]
    still: tuple[str, ...]
    phases: tuple[PhaseCode, ...]
    results: tuple[OperandCode, ...]
    finalized: tuple[str, ...]
    mapped: tuple[str, ...]
    kept: tuple[tuple[int, str], ...]
    group_values: int
    partials: tuple[PartialCode, ...]
    scalars: tuple[ScalarCode, ...]
    init: str
    finalize: str
    each: str
    each_part: str
    begun: int
    streaming: bool
    ahead: bool

    positions: tuple[str, ...] = ()
    coords: tuple[tuple[int, int], ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()

    @property
    def vector(self) -> int:
        """Elements of a vector."""
        return self.widths[0]

    @property
    def named(self) -> dict[str, OperandCode]:
        """The operands by name."""
        return {a.name: a for a in self.arrays}


@dataclass(frozen=True)
class Loops:
    """What a group is in memory.

    Attributes:
        outer, group: The groups, along one axis or two.
        row, run: Elements of a group: runs of neighbours, and how often there is one.
        starts: Of all arrays, in elements.
        index: Type that reaches every element.
    """

    outer: Dim
    group: Dim
    row: Dim
    run: Dim
    starts: tuple[int, ...]
    index: str

    @property
    def groups(self) -> int:
        """How many."""
        return self.outer.size * self.group.size

    @property
    def moving(self) -> list[int]:
        """Numbers of the arrays that have more than one element a group."""
        return [n for n in range(len(self.starts)) if self.run.strides[n] or self.row.strides[n]]


def plan_runs(problem: Groups, traits: DeviceTraits) -> KernelPlan | None:
    """Plans the kernel, or returns None where a group is no such thing as above, or too large.

    Args:
        problem: What to compute; nothing of it may be empty.
        traits: Of the device: a CPU, whose caches the kernel counts on.
    """
    loops = loops_of(problem, traits)
    if loops is None:
        return None
    definition = problem.definition
    outer, group, row, run = loops.outer, loops.group, loops.row, loops.run
    width = min(16, traits.vector_bytes // problem.value.itemsize)
    if width < 2 or not _pays(problem, loops, width, traits):
        return None
    vectors = run.size // width
    unroll = max(1, min(UNROLL, REGISTERS // definition.taken.partials))
    while unroll > 1 and (vectors < 2 * unroll or row.size * vectors < 4 * unroll**2):
        unroll //= 2
    steps = -(-run.size // (width * unroll))
    rows_a_chain = max(1, LONGEST_CHAIN // steps)
    if steps > MOST_CHAINS or row.size > MOST_CHAINS * rows_a_chain:
        return None
    an_item = max(1, loops.groups // (ITEMS * traits.compute_units))
    numbers = {
        "groups": loops.groups,
        "inner_groups": group.size,
        "groups_an_item": an_item,
        "rows": row.size,
        "n": run.size,
        "rows_a_chain": rows_a_chain,
    }
    moving = loops.moving
    for n, name in enumerate(problem.names):
        numbers[f"{name}_start"] = loops.starts[n]
        numbers[f"{name}_outer"] = outer.strides[n]
        numbers[f"{name}_group"] = group.strides[n]
        if n in moving:
            # The next run is the next group's where a group is one: softmax asks for it.
            numbers[f"{name}_row"] = (row if row.size > 1 else group).strides[n]
    widths = tuple(dict.fromkeys(w for w in (width, 4, 1) if w <= width))
    items = -(-loops.groups // an_item)
    room = min(BEGUN_BYTES, traits.local_memory) // (problem.value.itemsize * definition.results)
    return group_kernel(
        "grouped/runs",
        problem,
        loops,
        numbers,
        widths,
        items,
        traits,
        begun=room if run.size * row.size <= room else 0,
        unroll=unroll,
        vectors=True,
    )


def group_kernel(
    template: str,
    problem: Groups,
    loops: Loops,
    numbers: Mapping[str, int],
    widths: tuple[int, ...],
    items: int,
    traits: DeviceTraits,
    *,
    begun: int,
    unroll: int = 1,
    vectors: bool = False,
) -> KernelPlan:
    """Returns the kernel that a template prints.

    Args:
        template: That prints it.
        problem: What to compute.
        loops: Of it.
        numbers: Its sizes and strides.
        widths: Elements of a vector, and of shorter ones for what is left; the last is 1.
        items: Work-items.
        traits: Of the device.
        begun: Elements of a group there is room for near it, if there is for all.
        unroll: Independent partials of a run.
        vectors: Whether vectors are of one run: they may go past the cache, and the next run is
            asked for.
    """
    definition, arrays, names = problem.definition, problem.arrays, problem.names
    run, value = loops.run, stored_type(problem.value).value
    operands = tuple(
        OperandCode.of(name, a.dtype, problem.value, step)
        for name, a, step in zip(names, arrays, run.strides, strict=True)
    )
    results = operands[: definition.results]
    written = len(arrays) - len(problem.inputs)
    scalars = tuple(ScalarCode(f"w{n}", value) for n in range(definition.scalars))
    parameters = [
        *(
            Parameter.memory(o.storage, f"{o.name}_memory", read_only=n >= written)
            for n, o in enumerate(operands)
        ),
        *(Parameter.number(value, w.name) for w in scalars),
        *(Parameter.number(loops.index, name) for name in numbers),
    ]
    elements = math.prod(problem.shape)
    near = definition.near if begun else None
    partials = tuple(partial_code(n, problem.value) for n in range(definition.taken.partials))
    phases = _phases(definition, near, operands, partials, scalars, value)
    each = definition.each if near is None else near.finish
    moved = elements * sum(arrays[n].dtype.itemsize for n in loops.moving if run.strides[n])
    taken, snippets = definition.taken, definition.snippets
    code = RunsCode(
        name=definition.name,
        preamble=definition.preamble,
        parameters=tuple(parameters),
        index=loops.index,
        unified=unified_functions(snippets, definition.preamble, traits),
        doubles=value == "double",
        own=own_names(snippets, definition.preamble),
        value=value,
        widths=widths,
        unroll=unroll,
        arrays=operands,
        still=tuple(name for n, name in enumerate(names) if n not in loops.moving),
        phases=phases,
        results=results,
        finalized=inputs_of(definition.finalized),
        mapped=inputs_of(each.numbers("x")),
        kept=tuple((n, f"group_y{n}") for n, k in enumerate(problem.kept) if k is not None),
        group_values=definition.group_values,
        partials=partials,
        scalars=scalars,
        init=taken.init.body,
        finalize=definition.finalize.body,
        each=each.body,
        each_part=each.rules.part,
        begun=0 if near is None else begun,
        streaming=vectors and traits.streams(moved) and _aligned(loops, results, widths[0]),
        ahead=vectors and traits.prefetch,
    )
    arguments: list[Argument] = [Buffer(name) for name in names]
    arguments += [Scalar(n) for n in range(len(scalars))]
    arguments += numbers.values()
    flops = taken.expr.flops + taken.step.flops + definition.each.flops
    return KernelPlan(template, code, tuple(arguments), (items,), (1,), moved, flops * elements)


def _phases(
    definition: GroupedDefinition,
    near: Near | None,
    operands: tuple[OperandCode, ...],
    partials: tuple[PartialCode, ...],
    scalars: tuple[ScalarCode, ...],
    value: str,
) -> tuple[PhaseCode, ...]:
    """Returns the walks of the reduction: one, or those of ``near``."""
    taken = definition.taken

    def phase(
        expr: Snippet | None,
        step: Snippet,
        combine: Snippet,
        values: int,
        known: Collection[int] = (),
        merge: str = "take_partial",
    ) -> PhaseCode:
        read = step.numbers("x") | (frozenset() if expr is None else expr.numbers("x"))
        return PhaseCode(
            parts=("" if expr is None else expr.rules.part, step.rules.part, combine.rules.part),
            expr="" if expr is None else expr.body,
            step=step.body,
            combine=combine.body,
            init=taken.init.body,
            merge=merge,
            combine_vectors=is_componentwise(combine),
            partials=partials,
            scalars=scalars,
            known=tuple(f"reduce_y{n}" for n in sorted(known)),
            values=tuple((f"y{n}", value) for n in range(values)),
            inputs=tuple(o for o in operands if o.name in inputs_of(read)),
        )

    if near is None:
        return (phase(taken.expr, taken.step, taken.combine, taken.values),)
    first = () if near.first is None else (phase(None, *near.first, 0, (), "take_first"),)
    return (*first, phase(near.begin, *near.step, definition.results, near.known))


def loops_of(problem: Groups, traits: DeviceTraits) -> Loops | None:
    """Returns the loops, if vectors do and what is reduced are runs of one axis or two."""
    definition = problem.definition
    if not (traits.is_cpu and definition.componentwise and problem.value.kind == "f"):
        return None
    dtypes = [*(a.dtype for a in problem.arrays), *problem.scalars]
    if any(d.kind in "biu" or value_dtype(d, [d]) != problem.value for d in dtypes):
        return None
    strides = [broadcast_strides(a, problem.shape) for a in problem.arrays]
    read = min(problem.definition.reduced)
    first = broadcast_strides(problem.inputs[read], problem.shape)
    order = memory_order(problem.shape, [first])
    dims = (Dim(problem.shape[d], tuple(s[d] for s in strides), d in problem.axes) for d in order)
    starts = tuple(a.in_elements(a.offset) for a in problem.arrays)
    space = collapse(Space(tuple(dims), starts), turn=False)
    kept, reduced = space.select(reduced=False), space.select(reduced=True)
    if len(kept) > 2 or not 1 <= len(reduced) <= 2 or not space.dims[-1].reduced:
        return None
    once = Dim(1, (0,) * len(starts))
    outer, group = (once, once, *kept)[-2:]
    row, run = (once, *reduced)[-2:]
    return Loops(outer, group, row, run, space.offsets, index_type(space, traits=traits))


def _pays(problem: Groups, loops: Loops, width: int, traits: DeviceTraits) -> bool:
    """Whether runs are vectors, and a cache holds a group."""
    row, run, names = loops.row, loops.run, problem.names
    size = row.size * run.size
    if size < shortest(problem, loops, width) or (run.size < width and row.size > 1):
        return False
    reduced = inputs_of(problem.definition.reduced)
    if not walk_together(problem, loops):
        return False
    near = max(NEAR_BYTES, traits.cache_bytes // (SHARE * traits.compute_units))
    nbytes = size * sum(
        problem.arrays[n].dtype.itemsize for n in loops.moving if names[n] in reduced
    )
    return nbytes <= near and loops.groups >= FEW_ITEMS * traits.compute_units


def shortest(problem: Groups, loops: Loops, width: int) -> int:
    """Returns how many elements a group has at least whose runs are vectors of ``width``."""
    if problem.definition.near is not None:
        return LEAST * width
    return min(SMALLEST, max(LEAST, SMALLEST + 2 - len(loops.moving))) * width


def walk_together(problem: Groups, loops: Loops) -> bool:
    """Whether arrays of more than one element a group have neighbours where a run has."""
    names, moving = problem.names, loops.moving
    once = inputs_of(problem.definition.finalized)
    if any(names[n] in once for n in moving):
        return False
    read = {
        *inputs_of(problem.definition.reduced),
        *(f"y{n}" for n in range(len(problem.results))),
    }
    return all(loops.run.strides[n] in ((1,) if names[n] in read else (0, 1)) for n in moving)


def _aligned(loops: Loops, results: tuple[OperandCode, ...], width: int) -> bool:
    """Whether the vectors of results are those of memory, and lie where these begin."""
    places = [loops.run.size]
    for n in range(len(results)):
        places += [loops.starts[n], *(d.strides[n] for d in (loops.outer, loops.group, loops.row))]
    aligned = width > 1 and all(place % width == 0 for place in places)
    return aligned and all(r.load == "direct" and r.storage == r.value for r in results)


def inputs_of(numbers: Collection[int]) -> tuple[str, ...]:
    """Their names."""
    return tuple(f"x{n}" for n in sorted(numbers))
