"""How the lanes of a contraction are read where they lie: which loops there are, and what is a row.

Several contractions are the same sums by other loops; these are made here as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from clprim.plan.epilogue import NO_EPILOGUE
from clprim.plan.product.in_place_tile import (
    SHORT,
    UNROLL,
    column_tile,
    has_alternate_columns,
    has_columns,
    is_planar,
    is_short,
    is_transposed,
    row_limits,
    row_tile,
    transposed_tile,
)
from clprim.plan.product.panels import LONGEST_CHAIN
from clprim.plan.product.problem import Bounds, Contraction, Digits
from clprim.plan.product.register_tile import Tile
from clprim.traits import DeviceTraits

# Taps of a row that are taken at a time, where these follow each other.
MOST_TAPS = 7
# Lines of memory, one a step of k, that columns are read from in place.
MOST_LINES = 1024


@dataclass(frozen=True)
class Reading:
    """What lanes become in a tile, and the loops over depth.

    Attributes:
        rows: Whether lanes are rows of the tile, else columns.
        planar: Whether these rows are neighbouring pixels of a plane: vectors of sums are
            transposed in registers when they are stored.
        transposed: Whether these columns are pixels whose channels are neighbours in memory: they
            are transposed when they are copied to local memory.
        alternate: Whether these columns are every second pixel of a line.
        taps, run: A row of taps as two loops: around, and along what follows each other.
        taps_inside: Whether the inner one runs along taps.
        unit: Steps of k that are taken together.
    """

    rows: bool
    planar: bool
    transposed: bool
    alternate: bool
    taps: int
    run: int
    taps_inside: bool
    unit: int

    @property
    def along_outputs(self) -> bool:
        """Whether a vector that is stored has outputs side by side, not lanes."""
        return self.rows and not self.planar


def reading_of(what: Contraction, traits: DeviceTraits) -> Reading | None:
    """Returns how lanes are read, or None where they must be gathered.

    Args:
        what: The contraction, collapsed.
        traits: Of the device.
    """
    x, bounds = what.gathered, what.gathered.bounds
    if x.dtype != what.value or not 0 < math.prod(what.depths) <= LONGEST_CHAIN:
        return None
    if bounds is not None and not _is_image(bounds):
        return None
    planar = bounds is not None and is_planar(what, traits)
    transposed = bounds is not None and is_transposed(what, bounds, traits)
    dense = what.near.output == 1 and what.outputs > 1 and x.depth[2] == 1
    rows = planar or (dense and not transposed)
    alternate = not (rows or transposed) and has_alternate_columns(what, traits)
    if not (rows or transposed or alternate or has_columns(what)):
        return None
    taps, run = _runs(what, rows=rows and not planar)
    # Of planes any step of k may come next: the longer of the two runs.
    taps_inside = planar and taps > run
    if taps_inside:
        taps, run = run, taps
    # Columns have a run as long as they want: the next step of k is another line.
    short = transposed or not rows or is_short(what, traits, SHORT)
    if run < (2 if planar else 1 if short else UNROLL):
        return None
    unit = min(run, MOST_TAPS if taps_inside else UNROLL)
    return Reading(rows, planar, transposed, alternate, taps, run, taps_inside, unit)


def tile_of_lanes(
    what: Contraction, reading: Reading, width: int, traits: DeviceTraits, *, streaming: bool
) -> Tile | None:
    """Returns the tile where none is given, or None if lanes had better be gathered.

    Args:
        what: The contraction, collapsed.
        reading: How its lanes are read.
        width: Elements of a vector.
        traits: Of the device.
        streaming: Whether results are written by streaming stores.
    """
    if reading.transposed:
        return transposed_tile(what, traits)
    if not reading.rows:
        return column_tile(what, traits, once=not stays_near(what))
    planar = reading.planar
    most, outputs = row_limits(what, width, traits, planar=planar, streaming=streaming)
    return row_tile(what, traits, most, outputs, planar=planar)


def stays_near(what: Contraction) -> bool:
    """Whether the lines that a tile of columns reads stay in a near cache until the next tile.

    Many of them do not, and steps of a power of two send them all to the same few places of it.
    """
    x = what.gathered
    step = x.depth[2] * x.dtype.itemsize
    return x.bounds is not None or (math.prod(what.depths) <= MOST_LINES and step % 1024 != 0)


def without_shuffle(what: Contraction) -> Contraction:
    """Returns the same sums, stored with outputs as channels."""
    assert what.plain is not None
    packed = replace(what.packed, digits=None)
    return replace(what, packed=packed, y=what.plain, epilogue=NO_EPILOGUE, digits=None, plain=None)


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
