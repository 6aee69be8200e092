"""``reduction/inner``: rows are reduced, each along its elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from clprim.plan.machine import GROUP, ITEMS, STEPS
from clprim.plan.reduction.schedule import Cut, Schedule, Walk


def inner_shape(walk: Walk) -> Schedule | None:
    """Returns what a work-item takes at a time; None where rows are not reduced."""
    # Without vectors in the source a CPU's registers are filled by neighbouring work-items, where
    # sub-groups are vectors, or by a tile of independent scalars.
    last, width = walk.last, walk.width
    if not last.reduced:
        return None
    if not walk.traits.is_cpu:
        return _gpu_shape(walk)
    if width > 1:
        steps = last.size // width
        return Schedule("reduction/inner", width, min(steps if steps <= 8 else 4, walk.registers))
    if walk.traits.sub_group_size <= 1:
        return Schedule("reduction/inner", unroll=16 if last.size >= 16 else 1)
    if last.size >= 64 or len(walk.space.dims) == 1:
        return Schedule("reduction/inner", lanes=walk.traits.sub_group_size)
    return None


def _gpu_shape(walk: Walk) -> Schedule:
    """A GPU wants neighbouring work-items on neighbouring elements, and many of them."""
    last, width, length, traits = walk.last, walk.width, walk.length, walk.traits
    vector = width if last.size >= 4 * width * 32 else 1
    one, many = _one_sub_group(walk), walk.outputs >= traits.compute_units * ITEMS
    lanes = min(32, one)
    while lanes < 4 * GROUP:
        # What a further doubling is to leave every work-item, in vectors.
        steps = STEPS if many and lanes >= one else 4
        if lanes * vector * steps > length:
            break
        lanes *= 2
    # Rows that keep the device busy hide each other's latency.
    unroll = 2 if last.size >= (STEPS if many else 8) * lanes * vector else 1
    return Schedule("reduction/inner", vector, unroll, lanes)


def _one_sub_group(walk: Walk) -> int:
    """Work-items that are one sub-group, whose barriers compilers leave out; 32 where unknown."""
    sizes = walk.traits.sub_groups or (walk.traits.sub_group_size,)
    return min((size for size in (16, 32, 64) if size in sizes), default=32)


def suits_inner(walk: Walk) -> bool:
    """Whether rows are long enough for a GPU's work-items to share them."""
    return walk.traits.is_cpu or walk.last.size >= 32 or len(walk.space.dims) == 1


def inner_near(cut: Cut, walk: Walk) -> Iterator[Cut]:
    """Yields cuts that are worth timing beside one."""
    yield replace(cut, per_group=2 * cut.per_group)
    yield replace(cut, per_group=-(-cut.per_group // 2))
    yield replace(cut, splits=2 * cut.splits)
    yield replace(cut, splits=-(-cut.splits // 2))
    most = max(1, walk.last.size // (cut.vector * cut.lanes))
    for unroll in (2 * cut.unroll, cut.unroll // 2):
        if 1 <= unroll <= min(most, walk.registers):
            yield replace(cut, unroll=unroll)
    if not walk.traits.is_cpu:
        for lanes in (2 * cut.lanes, cut.lanes // 2):
            if lanes:
                yield replace(cut, lanes=lanes)
        if cut.vector > 1:
            yield replace(cut, vector=1, unroll=cut.unroll * cut.vector)
        elif walk.width > 1:
            yield replace(cut, vector=walk.width)
