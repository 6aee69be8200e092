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
rows apart, share few sets of a cache, and a vector at a time is no way to read memory.
"""

from __future__ import annotations

from clprim.plan.grouped.code import group_kernel
from clprim.plan.grouped.loops import Loops, inputs_of, loops_of, places_of, walk_together
from clprim.plan.grouped.problem import Groups
from clprim.plan.kernel import KernelPlan
from clprim.plan.machine import CHAIN, ITEMS, UNROLL, UPDATES, near, second
from clprim.traits import DeviceTraits

# Vectors of a group, below which lanes of several groups are better.
LEAST = 2


def plan_runs(problem: Groups, traits: DeviceTraits) -> KernelPlan | None:
    """Plans the kernel, or returns None where a group is no such thing as above, or too large."""
    loops = loops_of(problem, traits) if traits.is_cpu else None
    if loops is None:
        return None
    definition = problem.definition
    row, run = loops.row, loops.run
    width = traits.lanes(problem.value.itemsize)
    if width < 2 or not _pays(problem, loops, width, traits):
        return None
    vectors = run.size // width
    # Independent partials are merged one after another, by an exponential each in softmax: u of
    # them are for groups of 4 u² vectors and more.
    unroll = max(1, min(UNROLL, traits.vector_registers // 2 // definition.taken.partials))
    while unroll > 1 and (vectors < 2 * unroll or row.size * vectors < 4 * unroll**2):
        unroll //= 2
    steps = -(-run.size // (width * unroll))
    rows_a_chain = max(1, UPDATES // steps)
    if steps > CHAIN or row.size > CHAIN * rows_a_chain:
        return None
    an_item = max(1, loops.groups // (ITEMS * traits.compute_units))
    numbers = places_of(problem, loops)
    numbers |= {"groups_an_item": an_item, "rows_a_chain": rows_a_chain}
    widths = tuple(dict.fromkeys(w for w in (width, 4, 1) if w <= width))
    items = -(-loops.groups // an_item)
    room = min(near(traits), traits.local_memory) // (problem.value.itemsize * definition.results)
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
        ahead=traits.prefetch,
    )


def _pays(problem: Groups, loops: Loops, width: int, traits: DeviceTraits) -> bool:
    """Whether runs are vectors, and a cache holds a group."""
    row, run, names = loops.row, loops.run, problem.names
    size = row.size * run.size
    if size < LEAST * width or (run.size < width and row.size > 1):
        return False
    reduced = inputs_of(problem.definition.reduced)
    if not walk_together(problem, loops):
        return False
    # In its second cache, or in half of its share of the last one, the second pass finds a group.
    stays = max(second(traits), traits.cache_bytes // (2 * traits.compute_units))
    nbytes = size * sum(
        problem.arrays[n].dtype.itemsize for n in loops.moving if names[n] in reduced
    )
    return nbytes <= stays and loops.groups >= traits.compute_units
