"""How the lanes of a contraction are read where they lie: which loops there are, and what is a row.

Several contractions are the same sums by other loops; these are made here as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from clprim.plan.machine import CHAIN, TAPS, UNROLL
from clprim.plan.product.problem import Bounds, Contraction, Digits
from clprim.traits import DeviceTraits

# Steps of k that are few, as in windows of 3×3 and 3 channels: written out where registers are 16.
SHORT = 32


@dataclass(frozen=True)
class Reading:
    """What lanes become in a tile, and the loops over depth."""

    rows: bool  # Whether lanes are rows of the tile, else columns
    # Whether these rows are neighbouring pixels of a plane: vectors of sums are transposed in
    # registers when they are stored
    planar: bool
    # Whether these columns are pixels whose channels are neighbours in memory: they are transposed
    # when they are copied to local memory
    transposed: bool
    alternate: bool  # Whether these columns are every second pixel of a line
    taps: int  # A row of taps as two loops: around, and along what follows each other
    run: int
    taps_inside: bool  # Whether the inner one runs along taps
    unit: int  # Steps of k that are taken together

    @property
    def along_outputs(self) -> bool:
        """Whether a vector that is stored has outputs side by side, not lanes."""
        return self.rows and not self.planar


def forms_of(what: Contraction) -> Iterator[Contraction]:
    """Yields the same sums by other loops: lines as long as possible, or pixels as windows."""
    # Those are copied to local memory, and may become rows, whose sums are transposed in registers.
    plane = collapsed(what)
    if what.prologue.snippet is not None:  # its results are what the row buffer holds
        yield as_windows(plane)
        return
    yield plane
    if what.gathered.bounds is None and what.depths[:2] == (1, 1) and has_columns(plane):
        yield as_windows(plane)
        if plane.lanes != what.lanes:
            yield as_windows(what)


def readings_of(what: Contraction, traits: DeviceTraits) -> Iterator[Reading]:
    """Yields how lanes may be read; none where they must be gathered."""
    x, bounds = what.gathered, what.gathered.bounds
    if x.dtype != what.value or not 0 < math.prod(what.depths) <= CHAIN:
        return
    if bounds is not None and not _is_image(bounds):
        return
    neighbours = x.depth[2] != 1 and (what.near.lane[2] == 1 or x.lane[2] == 1)
    dense = what.near.output == 1 and what.outputs > 1 and x.depth[2] == 1
    alternate = _has_alternate_columns(what, traits)
    kinds = [
        kind
        for kind, there in (
            ("planar", bounds is not None and neighbours),
            ("transposed", bounds is not None and _is_transposed(what, bounds, traits)),
            ("rows", dense),
            ("columns", alternate or has_columns(what)),
        )
        if there
    ]
    for kind in kinds:
        rows = kind in ("rows", "planar")
        taps, run = _runs(what, rows=kind == "rows")
        # Of planes any step of k may come next: the longer of the two runs.
        taps_inside = kind == "planar" and taps > run
        if taps_inside:
            taps, run = run, taps
        # Columns have a run as long as they want: the next step of k is another line.
        short = not rows or is_short(what, traits)
        if run < (2 if kind == "planar" else 1 if short else UNROLL):
            continue
        unit = min(run, TAPS if taps_inside else UNROLL)
        yield Reading(
            rows,
            kind == "planar",
            kind == "transposed",
            kind == "columns" and alternate and not has_columns(what),
            taps,
            run,
            taps_inside,
            unit,
        )


def has_columns(what: Contraction) -> bool:
    """Whether lanes of a line are neighbours, in the operand as in the result."""
    return what.gathered.lane[2] == 1 and what.near.lane[2] == 1 and what.lanes[2] > 1


def _is_transposed(what: Contraction, bounds: Bounds, traits: DeviceTraits) -> bool:
    """Whether outputs are too few for a vector, so that pixels may be columns."""
    # Copied to the row buffer by channels, as planes, neighbouring pixels are a vector all the
    # same. The outputs of a pixel are interleaved when they are stored.
    x, width = what.gathered, traits.vector_bytes // what.value.itemsize
    images = x.depth[2] == 1 and x.lane[2] != 1 and bounds.column_lane[1] == 1
    few = what.groups == 1 and what.digits is None and what.outputs <= width // 4
    return images and few and what.near.lane[2] == what.outputs and what.lanes[2] >= width


def _has_alternate_columns(what: Contraction, traits: DeviceTraits) -> bool:
    """Whether every second pixel of a line is one of a vector of columns, as with a stride of 2."""
    x, bounds = what.gathered, what.gathered.bounds
    halves = bounds is not None and x.lane[2] == bounds.column_lane[1] == 2
    return halves and what.near.lane[2] == 1 and not traits.few_registers and what.lanes[2] > 1


def is_short(what: Contraction, traits: DeviceTraits) -> bool:
    """Whether windows have few elements, on a device of few registers."""
    few = what.gathered.bounds is not None and traits.few_registers
    return few and math.prod(what.depths) <= SHORT


def taps_last(what: Contraction) -> Contraction:
    """Returns the same sums with the taps of a row as the last digit of depth."""
    w = what.packed

    def swapped(digits: Digits) -> Digits:
        return digits[0], digits[2], digits[1]

    return replace(what, depths=swapped(what.depths), packed=replace(w, depth=swapped(w.depth)))


def as_windows(what: Contraction) -> Contraction:
    """Returns pixels of images, or lanes of lines, as windows of one element."""
    _, rows, columns = what.lanes
    bounds = Bounds(rows, columns, 0, 0, (0, 1), (1, 0), (0, 1), (1, 0))
    return replace(what, gathered=replace(what.gathered, bounds=bounds))


def collapsed(what: Contraction) -> Contraction:
    """Returns lines of lanes that follow each other in every operand as one line."""
    if what.gathered.bounds is not None:
        return what
    for outer, inner in ((1, 2), (0, 2)):
        size = what.lanes[inner]
        arrays = (*what.stored, *what.prologue.arrays)
        lanes_of = [what.gathered.lane, *(o.lane for o in arrays)]
        if what.lanes[outer] > 1 and any(lane[outer] != size * lane[inner] for lane in lanes_of):
            return what

        def merged(lane: Digits, outer: int = outer) -> Digits:
            return (lane[0] if outer else 0, 0, lane[2])

        lanes = (what.lanes[0] if outer else 1, 1, what.lanes[outer] * size)
        what = replace(
            what,
            lanes=lanes,
            gathered=replace(what.gathered, lane=merged(what.gathered.lane)),
            y=replace(what.y, lane=merged(what.y.lane)),
            epilogue=what.epilogue.placed(lambda e: replace(e, lane=merged(e.lane))),
            prologue=what.prologue.placed(lambda e: replace(e, lane=merged(e.lane))),
        )
    return what


def pixel_steps(what: Contraction, bounds: Bounds) -> tuple[int, int]:
    """Elements from a pixel to the one below and to the next one, known from windows' steps."""
    x = what.gathered
    down = _per(x.lane[1], bounds.row_lane[1], x.depth[0], bounds.row_depth[0])
    return down, _per(x.lane[2], bounds.column_lane[1], x.depth[1], bounds.column_depth[0])


def _per(lane: int, lane_step: int, depth: int, depth_step: int) -> int:
    """Elements of a step of one pixel; of no window that steps, the taps'."""
    return lane // lane_step if lane_step else depth // max(1, depth_step)


def _is_image(bounds: Bounds) -> bool:
    """Whether lanes are (image, y, x) and depths (y, x, channel), both upwards."""
    still = (bounds.row_lane[0], bounds.column_lane[0], bounds.row_depth[1], bounds.column_depth[1])
    steps = (bounds.row_lane[1], bounds.column_lane[1], bounds.row_depth[0], bounds.column_depth[0])
    return (
        not any(still) and min(steps) >= 0 and bounds.row_lane[1] > 0 and bounds.column_lane[1] > 0
    )


def _runs(what: Contraction, *, rows: bool) -> tuple[int, int]:
    """Taps of a row, and neighbours of a tap: all of them as one where taps are neighbours too."""
    _, taps, channels = what.depths
    bounds = what.gathered.bounds
    step = what.gathered.depth[1] if bounds is None else bounds.column_depth[0] * channels
    return (1, taps * channels) if rows and step == channels else (taps, channels)
