"""``reduction/columns``: neighbouring outputs, a tile of which a CPU's work-item adds up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from clprim.plan.reduction.schedule import Cut, Schedule, Walk


def columns_shape(walk: Walk) -> Schedule | None:
    """Returns what a work-item takes at a time; None where rows are reduced."""
    # Without vectors in the source registers are filled by neighbouring work-items, where
    # sub-groups are vectors, or by a tile of independent scalars.
    traits, last, width = walk.traits, walk.last, walk.width
    if last.reduced or not traits.is_cpu:
        return None
    if width > 1:
        return Schedule("reduction/columns", width, _tile_vectors(walk))
    if 1 < traits.sub_group_size <= last.size:
        return None
    return Schedule("reduction/columns", unroll=min(16, last.size))


def _tile_vectors(walk: Walk) -> int:
    """Vectors side by side in a tile."""
    # The last tile overlaps its neighbour, which reads columns twice: one tile that is a vector
    # wider is better, even if not all of its accumulators are in registers.
    size, width, registers = walk.last.size, walk.width, walk.registers
    steps = size // width
    usual = max(1, min(steps, 8, registers))
    most = max(usual, min(steps, 12, registers * 3 // 2))
    most = most if most == steps else max(usual, min(12, registers))
    return min(
        range(usual // 2 + 1, most + 1),
        key=lambda vectors: (-(-size // (vectors * width)) * vectors, -vectors),
    )


def columns_near(cut: Cut, walk: Walk) -> Iterator[Cut]:
    """Yields cuts that are worth timing beside one."""
    yield replace(cut, per_group=2 * cut.per_group)
    yield replace(cut, per_group=-(-cut.per_group // 2))
    yield replace(cut, splits=2 * cut.splits)
    yield replace(cut, splits=-(-cut.splits // 2))
    most = min(walk.last.size // cut.vector, walk.registers * 3 // 2)
    for unroll in (2 * cut.unroll, cut.unroll + 1, cut.unroll - 1, cut.unroll // 2):
        if 1 <= unroll <= most:
            yield replace(cut, unroll=unroll)
