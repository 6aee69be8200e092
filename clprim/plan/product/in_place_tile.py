"""Rows and columns of contractions that are read in place: which index becomes which, and the tile.

Lanes are rows of a tile where their elements along depth are neighbours (channels-last images and
matrices), or where pixels of a plane are transposed once they are summed up; they are columns
where they are neighbours themselves, in vectors of a line.
"""

from __future__ import annotations

import math

from clprim.plan.kernel import round_up
from clprim.plan.product.problem import Bounds, Contraction
from clprim.plan.product.register_tile import (
    FEW_SUMS,
    Tile,
    lanes_of,
    register_tiles,
    tile_vectors,
)
from clprim.traits import DeviceTraits

# Steps of k that the product's loop takes at a time.
UNROLL = 4
# Rows of a tile whose addresses fit in the registers of a processor. Matrices have no more, unless
# two vectors have all outputs; of other tiles the step between many rows is a constant.
FEW_ROWS = 8
# Vectors of a pixel that are passed one after another where stores are streaming and steps of k
# few: many such stores at once make the next tile wait. Else rows of a tile of whole pixels.
NARROW, PASSING_ROWS = 12, 4
# Steps of k that are few, as in windows of 3×3 and 3 channels.
SHORT = 32
# Steps that are few enough to be written out where registers are 16. There columns are better than
# planes that are transposed; written out they gain only if they are as short as `SHORT`.
SHORT_OF_FEW = 150
# What tiles cost beyond their products if they do not divide a line, and if a matrix has no more
# than so many rows, or sums where four vectors divide its outputs.
UNEVEN, UNEVEN_OF_FEW, FEW_LANES, FEW_SUMMED = 1.05, 1.15, 256, 1 << 18
# What a step of transposing a vector of sums costs where registers are 32, in products; what a
# product costs where pixels are columns and factors in memory; and what storing a vector costs.
TRANSPOSE, COLUMN, STORED = 3.0, 1.6, 5.3
# Outputs that become rows where pixels become columns.
FEW_OUTPUTS = 4
# What a load costs beside a product where registers are 32 and columns are neighbours, and what a
# tile of fewer rows must come to beside one of more.
READING, FEWER_ROWS = 0.25, 0.993
# What tiles may compute twice, where lines are short; those of windows of few outputs may do so as
# they like: tiles that are gathered cost more.
WASTE = 1.2
# What a vector of pixels costs at least there, in products, where registers are 32: few share it.
LOADING = 4


def is_planar(what: Contraction, traits: DeviceTraits) -> bool:
    """Whether the pixels of a plane are neighbours, in the operand or in the result.

    They are rows all the same, if outputs fill a vector: windows then may have any step, and tiles
    waste nothing at the ends of lines. Only the sums are transposed, when they are stored. Fewer
    outputs are rows where pixels cannot be columns, with a stride.
    """
    x = what.gathered
    neighbours = x.depth[2] != 1 and (what.near.lane[2] == 1 or x.lane[2] == 1)
    fills = what.outputs * what.value.itemsize >= traits.vector_bytes
    if not neighbours or (has_columns(what) and not fills):
        return False
    columns = has_columns(what) or has_alternate_columns(what, traits)
    if not columns or not _is_small(what, traits):
        return True
    return column_tile(what, traits, once=False) is None


def is_transposed(what: Contraction, bounds: Bounds, traits: DeviceTraits) -> bool:
    """Whether outputs are too few for a vector, and pixels had better be columns.

    Copied to the row buffer by channels, as planes, neighbouring pixels are a vector all the same:
    there are as many times fewer products as outputs are fewer than a vector's elements. The
    outputs of a pixel are interleaved when they are stored.
    """
    x, width = what.gathered, traits.vector_bytes // what.value.itemsize
    images = x.depth[2] == 1 and x.lane[2] != 1 and bounds.column_lane[1] == 1
    few = what.groups == 1 and what.digits is None and what.outputs <= min(FEW_OUTPUTS, width // 4)
    return images and few and what.near.lane[2] == what.outputs and what.lanes[2] >= width


def has_columns(what: Contraction) -> bool:
    """Whether lanes of a line are neighbours, in the operand as in the result."""
    return what.gathered.lane[2] == 1 and what.near.lane[2] == 1 and what.lanes[2] > 1


def has_alternate_columns(what: Contraction, traits: DeviceTraits) -> bool:
    """Whether every second pixel of a line is one of a vector of columns, as with a stride of 2."""
    x, bounds = what.gathered, what.gathered.bounds
    halves = bounds is not None and x.lane[2] == bounds.column_lane[1] == 2
    return halves and what.near.lane[2] == 1 and traits.sums > FEW_SUMS and what.lanes[2] > 1


def is_short(what: Contraction, traits: DeviceTraits, most: int) -> bool:
    """Whether windows have at most so many elements, on a device of few registers."""
    few = what.gathered.bounds is not None and traits.sums <= FEW_SUMS
    return few and math.prod(what.depths) <= most


def _is_small(what: Contraction, traits: DeviceTraits) -> bool:
    """Whether transposing tiles costs more than vectors of pixels waste at the ends of lines."""
    depth, lanes, width = (
        math.prod(what.depths),
        what.lanes[2],
        lanes_of(what.value.itemsize, traits),
    )
    if what.gathered.bounds is None or not 0 < depth <= SHORT_OF_FEW:
        return False
    if traits.sums <= FEW_SUMS:
        return True
    outputs = min(-(-what.outputs // rows) * rows for rows, v in register_tiles(traits) if v == 1)
    columns = -(-lanes // width) * outputs * (COLUMN + STORED / depth)
    return columns < _row_tile(what, traits, lanes, what.outputs, planar=True)[0]


def row_limits(
    what: Contraction, width: int, traits: DeviceTraits, *, planar: bool, streaming: bool
) -> tuple[int, int]:
    """Returns the most rows of a tile, and the outputs that its vectors are chosen for.

    Lines of a stride's pixels are short, and few rows waste more of them. Where lanes are aliased,
    few rows keep them in a cache.
    """
    x, lanes, outputs = what.gathered, what.lanes[2], what.outputs
    several = outputs > width and not planar
    store_bound = several and _is_store_bound(what)
    wide = traits.sums > FEW_SUMS
    passing = wide and streaming and (store_bound or (several and math.prod(what.depths) <= SHORT))
    adds = any(any(o.lane) for o in what.epilogue.arrays)
    narrow = outputs <= (NARROW if passing and not adds else 2) * width
    if wide and narrow and (passing or store_bound):
        return lanes, width
    if passing:
        return PASSING_ROWS, outputs
    whole = what.lanes[0] * what.lanes[1] == 1  # lines are long
    few = store_bound if x.bounds is not None else x.aliased or (whole and outputs > 2 * width)
    return FEW_ROWS if few else lanes, outputs


def _is_store_bound(what: Contraction) -> bool:
    """Whether windows of stride 1 are so small that storing sums costs as much as adding them up.

    Then wide tiles are better, which store whole pixels. Two vectors are better passed one after
    another, many rows of each.
    """
    bounds = what.gathered.bounds
    short = what.depths[2] < UNROLL or math.prod(what.depths) <= SHORT
    return bounds is not None and bounds.column_lane[1] == 1 and short


def row_tile(
    what: Contraction, traits: DeviceTraits, most: int, outputs: int, *, planar: bool
) -> Tile:
    """At most so many rows, which divide a line with little left over; columns fill registers.

    Args:
        what: The contraction.
        traits: Of the device.
        most: Rows of a tile.
        outputs: That its vectors are chosen for.
        planar: Whether sums are transposed when they are stored, as squares of vectors.
    """
    _, rows, vectors = _row_tile(what, traits, most, outputs, planar=planar)
    return Tile(rows, vectors)


def _row_tile(
    what: Contraction, traits: DeviceTraits, most: int, outputs: int, *, planar: bool
) -> tuple[float, int, int]:
    """What a step of k costs a line, in products, and the rows and vectors; see `row_tile`."""
    lanes, width = what.lanes[2], lanes_of(what.value.itemsize, traits)
    transposing = 0.0
    if planar and traits.sums > FEW_SUMS:
        transposing = TRANSPOSE * width * (width.bit_length() - 1) / math.prod(what.depths)
    wide = -(-outputs // width)
    matrix = what.gathered.bounds is None
    every = math.prod(what.lanes)
    whole = outputs % (4 * width) == 0 and every * outputs <= FEW_SUMMED
    small = matrix and (every <= FEW_LANES or whole)
    uneven = UNEVEN_OF_FEW if small else UNEVEN
    best: tuple[float, int, int] | None = None
    # Three vectors divide what two do not, or are not worth a kernel of their own.
    for rows, most_vectors in register_tiles(traits, (4, 3, 2, 1) if wide % 6 == 3 else None):
        if rows > min(lanes, most):
            continue
        vectors = min(most_vectors, 4 if wide >= 3 else wide)
        # Of every step of k: a product for each sum, and loads of what they share. Columns are
        # the dearer ones: few rows pass them by before others take their place.
        step = rows * vectors + rows + (2 + transposing) * vectors
        cost = float(-(-lanes // rows) * -(-wide // vectors) * step)
        if lanes % rows:
            cost *= uneven
        # Of 8 rows of 2 vectors and 4 of 4, which cost the same, the latter.
        if best is None or cost < best[0] or (small and cost == best[0]):
            best = cost, rows, vectors
    assert best is not None
    return best


def column_tile(what: Contraction, traits: DeviceTraits, *, once: bool) -> Tile | None:
    """Columns that divide a line with little left over, and rows to fill the registers.

    None where vectors are longer than lines, or waste more of them than `WASTE`; or where there are
    more outputs than rows, if the lines are to be read ``once``.
    """
    lanes, outputs = what.lanes[2], what.outputs
    width = lanes_of(what.value.itemsize, traits)
    best: tuple[float, int, int] | None = None
    # No tile but this one suits windows of few outputs.
    few = what.gathered.bounds is not None and outputs < width
    # One vector of pixels and a factor of each output in memory, where registers are 32.
    one = traits.sums > FEW_SUMS and outputs >= width and _is_small(what, traits)
    reading, less = (1, 1) if one or traits.sums <= FEW_SUMS else (READING, FEWER_ROWS)
    for vectors in (1,) if one else reversed(tile_vectors(traits)):
        columns = vectors * width
        if columns > lanes:
            break
        fitting = [r for r, v in register_tiles(traits) if v == vectors]
        for rows in (r for r in fitting if r >= outputs or not once):
            tiles = -(-lanes // columns) * -(-outputs // rows)
            step = vectors * max(rows, LOADING if few and traits.sums > FEW_SUMS else 1)
            cost = tiles * (step + reading * (rows + vectors))
            if best is None or cost < less * best[0]:
                best = cost, rows, vectors
    if best is None or not (one or few or round_up(lanes, best[2] * width) <= WASTE * lanes):
        return None
    return Tile(best[1], best[2])


def transposed_tile(what: Contraction, traits: DeviceTraits) -> Tile:
    """All outputs as rows, and columns that fill the registers, but not much longer than a line."""
    width = lanes_of(what.value.itemsize, traits)
    sums = traits.sums
    fitting = [v for v in (4, 2, 1) if v * what.outputs <= sums and v * width <= what.lanes[2]]
    vectors = min(fitting, key=lambda v: -(-what.lanes[2] // (v * width)) * (v + 1))
    return Tile(what.outputs, vectors)
