"""Places the tiles of `clprim.plan.pointwise.tiling`: sizes and strides, and work-items in all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clprim.dtypes import AnyDType
from clprim.plan.kernel import OperandCode, round_up
from clprim.plan.machine import AHEAD, ITEMS, PAGE, WORK
from clprim.plan.pointwise.tiling import Tiling
from clprim.plan.strides import Dim
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class Placed:
    """A tiling's launch."""

    operands: tuple[OperandCode, ...]  # As the template prints them
    outer: int  # Loops around those that a work-item walks through
    middle: int
    ahead: int  # How far ahead inputs are prefetched, as in `TileCode`
    numbers: tuple[tuple[str, int], ...]  # Sizes and strides by name
    global_size: tuple[int, int]


def place_tiles(
    tiling: Tiling,
    dims: Sequence[Dim],
    offsets: Sequence[int],
    operands: Sequence[OperandCode],
    dtype: AnyDType,
    nbytes: int,
    traits: DeviceTraits,
) -> Placed:
    """Returns who does what of a tiling, and all numbers for it."""
    around = [d for n, d in enumerate(dims) if n not in (*tiling.long, *tiling.short)]
    # A batch of one is a loop, too, so that it needs no kernel of its own.
    around = around or [Dim(1, (0,) * len(operands))]
    middle = _middle(around, min(tiling.tiled, default=0))
    around = [d for d in around if d not in middle]
    between = math.prod(d.size for d in middle)
    long = [dims[d] for d in tiling.long]
    short = [dims[d] for d in tiling.short]
    rows = math.prod(d.size for d in around)
    iteration = math.prod(d.size for d in short) * dtype.itemsize
    runs, m_run = _share_out(
        [d.size for d in long], tiling.tile, iteration, between, rows, traits.compute_units
    )
    pieces = [-(-d.size // run) for d, run in zip(long, runs, strict=True)]
    m_pieces = -(-between // m_run)
    numbers = [("n", long[0].size), ("run", runs[0])]
    work = (pieces[0], rows * m_pieces)
    if len(long) > 1:
        numbers += [("pieces", pieces[0]), ("nb", long[1].size), ("b_run", runs[1])]
        if tiling.room:
            numbers.append(("tile_b", tiling.tile[1]))
        work = (pieces[1], rows * m_pieces * pieces[0])
    numbers += [("m", between), ("m_run", m_run), ("m_pieces", m_pieces)]
    if len(middle) > 1:
        numbers.append(("m1", middle[1].size))
    numbers += [(f"n{d}", dim.size) for d, dim in enumerate(around)]
    placed = []
    for k, operand in enumerate(operands):
        name = operand.name
        numbers.append((f"{name}_start", offsets[k]))
        numbers += [(f"{name}_m{d}", dim.strides[k]) for d, dim in enumerate(middle)]
        numbers += [(f"{name}_s{d}", dim.strides[k]) for d, dim in enumerate(around)]
        numbers += [(f"{name}_r{d}", dim.strides[k]) for d, dim in enumerate(short)]
        if k in tiling.tiled:
            placed.append(replace(operand, inner="tile"))
            if len(long) > 1:
                numbers.append((f"{name}_step", long[0].strides[k]))
        else:
            placed.append(replace(operand, inner="one" if long[0].strides[k] else "zero"))
            if len(long) > 1:
                numbers.append((f"{name}_b", long[1].strides[k]))
    # Whole rows leave nothing further along them: what comes next is further along the inputs.
    ahead = (0 if tiling.room else tiling.tile[0]) if len(long) > 1 else AHEAD // dtype.itemsize
    if not tiling.tiled or not traits.prefetches(nbytes):
        ahead = 0
    return Placed(tuple(placed), len(around), len(middle), ahead, tuple(numbers), work)


def _middle(around: Sequence[Dim], other: int) -> list[Dim]:
    """The loops that a work-item walks through around its tiles."""
    # They are the innermost one of the results and that of operand ``other``, the shorter one
    # inside, so that both are walked through as they lie, but for a few places at a time.
    walked = [d for d in around if d.strides[other]]
    near = min(walked, key=lambda d: abs(d.strides[other]), default=around[-1])
    both = [around[-1]] if near is around[-1] else [around[-1], near]
    return sorted(both, key=lambda d: -d.size)


def _share_out(
    sizes: Sequence[int], tile: Sequence[int], iteration: int, between: int, rows: int, units: int
) -> tuple[tuple[int, ...], int]:
    """Returns one work-item's share: iterations of each long loop, and of the loop around them."""
    total = math.prod(sizes) * iteration * between * rows
    wanted = max(PAGE, min(4 * WORK, total // (ITEMS * units)))
    runs = [round_up(size, piece) for size, piece in zip(sizes, tile, strict=True)]
    for k, piece in enumerate(tile):
        others = math.prod(r for j, r in enumerate(runs) if j != k) * iteration
        if runs[k] * others > wanted:
            runs[k] = max(piece, wanted // others // piece * piece)
    each = math.prod(min(r, s) for r, s in zip(runs, sizes, strict=True)) * iteration
    return tuple(runs), max(1, min(between, wanted // max(1, each)))
