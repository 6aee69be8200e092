"""``reduction/lanes``: neighbouring work-items take neighbouring outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from clprim.plan.machine import GROUP
from clprim.plan.reduction.schedule import Cut, Schedule, Walk, side_by_side


def lanes_shape(walk: Walk) -> Schedule | None:
    """Returns how work-items share a group; None on a CPU whose sub-groups are no vectors."""
    traits, last = walk.traits, walk.last
    if traits.is_cpu:
        simd = traits.sub_group_size
        if simd <= 1 or walk.width > 1:
            return None
        lanes = side_by_side(walk, simd) if last.reduced else simd
        return Schedule("reduction/lanes", lanes=lanes)
    lanes, rows = side_by_side(walk, GROUP), 1
    while rows * lanes < 4 * GROUP and rows * 4 <= walk.length:
        rows *= 2
    return Schedule("reduction/lanes", lanes=lanes, rows=rows)


def lanes_near(cut: Cut, walk: Walk) -> Iterator[Cut]:
    """Yields cuts that are worth timing beside one."""
    yield replace(cut, splits=2 * cut.splits)
    yield replace(cut, splits=-(-cut.splits // 2))
    if not walk.traits.is_cpu:
        for factor in (2, 4):
            yield replace(cut, rows=factor * cut.rows)
            if cut.rows >= factor:
                yield replace(cut, rows=cut.rows // factor)
        if cut.lanes > 1:
            yield replace(cut, lanes=cut.lanes // 2, rows=2 * cut.rows)
