"""The image that the windows of a contraction walk over."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.plan.product.problem import Contraction


@dataclass(frozen=True)
class Image:
    """The image that windows walk over."""

    start: int  # Where its first pixel lies
    rows: int
    columns: int
    rows_before: int
    columns_before: int
    strides: tuple[int, int]  # Rows and columns from one window to the next


def image_of(problem: Contraction) -> Image | None:
    """Returns the image of a convolution; None where taps of a window are no neighbours."""
    x, bounds = problem.gathered, problem.gathered.bounds
    if bounds is None:
        steps = [_stride(*pair) for pair in zip(x.lane[1:], x.depth, strict=False)]
        if 0 in steps:
            return None
        sizes = zip(problem.lanes[1:], steps, problem.depths, strict=False)
        rows, columns = (s * (n - 1) + k for n, s, k in sizes)
        return Image(x.start, rows, columns, 0, 0, (steps[0], steps[1]))
    (_, down), (_, across) = bounds.row_lane, bounds.column_lane
    moves = (bounds.row_lane, bounds.column_lane, bounds.row_depth, bounds.column_depth)
    if moves != ((0, down), (0, across), (1, 0), (1, 0)) or 0 in (down, across):
        return None
    if x.lane[1:] != (down * x.depth[0], across * x.depth[1]):
        return None
    start = x.start - bounds.row_start * x.depth[0] - bounds.column_start * x.depth[1]
    rows_before, columns_before = -bounds.row_start, -bounds.column_start
    strides = (down, across)
    return Image(start, bounds.height, bounds.width, rows_before, columns_before, strides)


def _stride(lane: int, depth: int) -> int:
    """Pixels from one window to the next, by what they are apart in memory; 0 where not whole."""
    if lane == depth:
        return 1
    return max(lane // depth, 0) if depth and not lane % depth else 0
