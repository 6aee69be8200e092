"""``reduction/narrow``: rows of neighbouring outputs that are shorter than a vector, on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from clprim.plan.reduction.schedule import Cut, Schedule, Walk


def narrow_shape(walk: Walk) -> Schedule | None:
    """Returns what a work-item takes at a time; None of other rows."""
    widest, dims = walk.widest, walk.space.dims
    if not walk.traits.is_cpu or widest == 1 or len(dims) < 2:
        return None
    rows, last = dims[-2:]
    contiguous = all(
        (column, row) in ((1, last.size), (0, 0))
        for column, row in zip(
            last.strides[: walk.inputs], rows.strides[: walk.inputs], strict=True
        )
    )
    only = len(walk.space.select(True)) == 1 and rows.reduced and not last.reduced
    fits = last.size < widest and last.size * walk.partials <= 16 and rows.size >= 8 * widest
    if not (contiguous and only and fits):
        return None
    return Schedule("reduction/narrow", vector=widest, unroll=last.size)


def narrow_near(cut: Cut, walk: Walk) -> Iterator[Cut]:
    """Yields cuts that are worth timing beside one."""
    del walk
    yield replace(cut, splits=2 * cut.splits)
    yield replace(cut, splits=-(-cut.splits // 2))
