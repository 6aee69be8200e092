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

from collections.abc import Iterator
from dataclasses import dataclass, replace

from clprim.plan.grouped.code import Shares, group_plan
from clprim.plan.grouped.problem import Groups, Loops
from clprim.plan.kernel import Plan
from clprim.plan.machine import CHAIN, ITEMS, STARTING, UNROLL, UPDATES, near, second
from clprim.traits import DeviceTraits

# Vectors of a group, below which lanes of several groups are better.
LEAST = 2


@dataclass(frozen=True)
class RunsTile:
    """What a work-item takes."""

    unroll: int  # Independent partials of a run
    groups: int  # One after another


def runs_tile(problem: Groups, traits: DeviceTraits) -> RunsTile | None:
    """Returns the tile, or None where a group is no such thing as above, or too large."""
    loops = problem.loops if traits.is_cpu else None
    if loops is None or not _pays(loops, traits):
        return None
    vectors = loops.run.size // traits.lanes(problem.value.itemsize)
    # Independent partials are merged one after another, by an exponential each in softmax: u of
    # them are for groups of 4 u² vectors and more.
    partials = problem.definition.taken.partials
    unroll = max(1, min(UNROLL, traits.vector_registers // 2 // partials))
    while unroll > 1 and (vectors < 2 * unroll or loops.row.size * vectors < 4 * unroll**2):
        unroll //= 2
    tile = RunsTile(unroll, max(1, loops.groups // (ITEMS * traits.compute_units)))
    return tile if fits_runs(tile, problem, traits) else None


def fits_runs(tile: RunsTile, problem: Groups, traits: DeviceTraits) -> bool:
    """Whether registers hold the partials, and chains of additions are short."""
    loops, partials = problem.loops, problem.definition.taken.partials
    if loops is None or tile.unroll > max(1, traits.vector_registers // 2 // partials):
        return False
    steps, rows_a_chain = _chain(loops, tile, traits)
    return tile.groups <= loops.groups and steps <= CHAIN and loops.row.size <= CHAIN * rows_a_chain


def near_runs(tile: RunsTile, problem: Groups, traits: DeviceTraits) -> Iterator[RunsTile]:
    """Yields tiles that are worth timing beside one."""
    del problem, traits
    yield replace(tile, groups=2 * tile.groups)
    yield replace(tile, groups=-(-tile.groups // 2))
    yield replace(tile, unroll=2 * tile.unroll)
    yield replace(tile, unroll=-(-tile.unroll // 2))


def plan_runs(problem: Groups, traits: DeviceTraits, tile: RunsTile) -> Plan:
    """Plans the kernel."""
    loops = problem.loops
    assert loops is not None  # it has a tile
    width, itemsize = traits.lanes(problem.value.itemsize), problem.value.itemsize
    _, rows_a_chain = _chain(loops, tile, traits)
    room = min(near(traits), traits.local_memory) // (itemsize * problem.definition.results)
    shares = Shares(
        "grouped/runs",
        loops.places | {"groups_an_item": tile.groups, "rows_a_chain": rows_a_chain},
        widths=tuple(dict.fromkeys(w for w in (width, 4, 1) if w <= width)),
        items=-(-loops.groups // tile.groups),
        begun=room if loops.size <= room else 0,
        unroll=tile.unroll,
        vectors=True,
        ahead=traits.prefetch,
    )
    return group_plan(problem, loops, shares, traits)


def _chain(loops: Loops, tile: RunsTile, traits: DeviceTraits) -> tuple[int, int]:
    """Steps of a run, and rows after which partials begin anew."""
    width = traits.lanes(loops.problem.value.itemsize)
    steps = -(-loops.run.size // (width * tile.unroll))
    return steps, max(1, UPDATES // steps)


def _pays(loops: Loops, traits: DeviceTraits) -> bool:
    """Whether runs are vectors, and a cache holds a group."""
    width = traits.lanes(loops.problem.value.itemsize)
    if width < 2 or loops.size < LEAST * width or not loops.together:
        return False
    if loops.run.size < width and loops.row.size > 1:
        return False
    # In its second cache, or in half of its share of the last one, the second pass finds a group.
    stays = max(second(traits), traits.cache_bytes // (2 * traits.compute_units))
    # Pass by pass cores share a group: of a short one that is not worth the other kernels.
    busy = loops.groups >= traits.compute_units or loops.size <= STARTING
    return loops.reduced_bytes <= stays and busy
