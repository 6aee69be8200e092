"""The GPU strategy of contractions: tiles in local memory, and a part of each in registers.

Both operands are read where they lie, so nothing is packed; product/tiles.cl.jinja draws it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from clprim.plan.kernel import KernelPlan, OperandCode, Plan, power_of_two
from clprim.plan.product.local_tile import (
    LocalTile,
    Sizes,
    busy_items,
    local_cost,
    local_tiles,
)
from clprim.plan.product.pixels import piece_of
from clprim.plan.product.problem import Contraction, moved_bytes
from clprim.plan.product.splits import (
    Cut,
    cut_depth,
    numbers_of,
    stored_at,
    with_finish,
    without_bounds,
)
from clprim.plan.product.tile_reading import (
    ReadCode,
    ReadingCode,
    index_in,
    is_aligned,
    other_is_aligned,
    parameters_of,
    walked,
)
from clprim.plan.product.walk import Walk
from clprim.plan.product.words import in_words, sign_of
from clprim.plan.store import storing
from clprim.traits import DeviceTraits

# Products of floats that the inner loop computes at a time; one of doubles counts as two. Compilers
# load all that they unroll ahead: more would take registers, and so work-groups that hide latency.
UNROLLED = 128
# Vectors of sums up to which each gets its own code that stores it. More would make too much of it;
# but where one piece of code serves all of them, some compilers copy sums in the inner loop too.
OWN_STORES = 8


@dataclass(frozen=True)
class TilesCode(ReadingCode):
    """What product/tiles.cl.jinja prints."""

    items_y: int  # Work-items of a group along rows and columns of its tile
    items_x: int
    rows: int  # Of the sums that each of them keeps
    columns: int
    unroll: int  # Steps of k that the inner loop takes at a time
    shift: bool  # Whether rows of sums are stored by one piece of code, through which they move
    # Where a step of k is a word of four bytes: whether those of rows and of columns have a sign,
    # as ``su``; else ""
    words: str = ""

    @property
    def c_version(self) -> tuple[int, int]:
        """OpenCL C that it is written in."""
        return (3, 0) if self.words else super().c_version

    @property
    def four_bytes(self) -> list[str]:
        """Types of a word of rows and of columns, as the bytes that they are."""
        return ["char4" if sign == "s" else "uchar4" for sign in self.words]

    @property
    def dot(self) -> str:
        """What OpenCL C calls the sum of their products."""
        return f"dot_4x8packed_{self.words}_{'uint' if self.words == 'uu' else 'int'}"

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.items_y * self.items_x

    @property
    def record(self) -> int:
        """Bytes of what is noted of a step of k."""
        places = (not self.x.linear) + (not self.w.linear)
        return places * (4 if self.index == "int" else 8) + (8 if self.x.bounds else 0)

    @property
    def aligned(self) -> int:
        """Bytes that such a record is read in at once; 0 where it is read one number at a time."""
        return power_of_two(self.record) if 4 < self.record <= 16 else 0


def plan_tiles(what: Contraction, traits: DeviceTraits, tile: LocalTile) -> Plan:
    """Plans the kernels of a contraction."""
    what = without_bounds(what)
    words = in_words(what, traits)
    bytes_, what = what, words or what
    lanes, depths, gathered_rows = walked(what)
    shape = tile.tile_rows, tile.tile_columns
    busy = busy_items(traits) // tile.items
    cut = cut_depth(what, shape, tile.steps, busy, gathered_rows=gathered_rows)
    code = _code(what, tile, lanes, depths, cut, traits, gathered_rows=gathered_rows)
    if words is not None:
        signs = sign_of(bytes_)
        code = replace(code, words="".join(signs if gathered_rows else signs[::-1]))
    numbers = numbers_of(what, lanes, depths, cut)
    parameters, arguments = parameters_of(what, code, numbers)
    groups = cut.lane_tiles * cut.output_tiles * what.groups * cut.splits
    main = KernelPlan(
        "product/tiles",
        replace(code, parameters=parameters),
        arguments,
        (groups * code.items,),
        (code.items,),
        moved_bytes(what) + cut.partial(what.groups) * what.value.itemsize,
        2 * what.groups * lanes.size * what.outputs * math.prod(bytes_.depths),
    )
    return with_finish(what, main, numbers, cut, traits)


def tiles_for(
    what: Contraction, traits: DeviceTraits, *, wide: bool = False
) -> tuple[LocalTile, ...]:
    """Returns the tiles of a contraction that fit, what promises most first; see `local_tiles`."""
    return local_tiles(_sizes(what, traits), traits, wide=wide)


def cost_of_tiles(what: Contraction, traits: DeviceTraits) -> float:
    """Returns what a contraction takes with the rule's tile, as `clprim.plan.cost` counts."""
    return local_cost(tiles_for(what, traits)[0], _sizes(what, traits), traits)


def _sizes(what: Contraction, traits: DeviceTraits) -> Sizes:
    what = without_bounds(what)
    what = in_words(what, traits) or what
    lanes, depths, gathered_rows = walked(what)
    width = max(2, 16 // what.value.itemsize)
    x = width if is_aligned(what, width, lanes, depths)[0] else 1
    w = width if other_is_aligned(what, width, depths)[0] else 1
    sides = ((lanes.size, x), (what.outputs, w))[:: 1 if gathered_rows else -1]
    (rows, row_width), (columns, column_width) = sides
    rest = what.groups, depths.size, what.value.itemsize
    return Sizes(rows, columns, *rest, (row_width, column_width))


def _code(
    what: Contraction,
    tile: LocalTile,
    lanes: Walk,
    depths: Walk,
    cut: Cut,
    traits: DeviceTraits,
    *,
    gathered_rows: bool,
) -> TilesCode:
    piece = piece_of(what, tile.width)
    index = index_in(what, depths, cut, tile.items)
    sums = tile.rows * tile.columns
    return TilesCode(
        **storing(
            what,
            tile.width,
            lambda o: stored_at(what, o, lanes, piece, gathered_rows=gathered_rows),
            traits,
            whole=piece == tile.width or not gathered_rows,
        ),
        parameters=(),
        index=index,
        gathered="rows" if gathered_rows else "columns",
        items_y=tile.items_y,
        items_x=tile.items_x,
        rows=tile.rows,
        columns=tile.columns,
        steps=tile.steps,
        x=_gathered(what, tile, lanes, depths, gathered_rows=gathered_rows),
        w=_other(what, tile, depths, gathered_rows=gathered_rows),
        lane_digits=lanes.digits,
        depth_digits=depths.digits,
        shift=sums > OWN_STORES * tile.width,
        unroll=min(tile.steps, max(1, 4 * UNROLLED // (sums * what.value.itemsize))),
        ragged=depths.size % tile.steps != 0,
        split=cut.splits > 1,
        digits=what.digits is not None,
    )


def _gathered(
    what: Contraction, tile: LocalTile, lanes: Walk, depths: Walk, *, gathered_rows: bool
) -> ReadCode:
    x = what.gathered
    aligned, along = is_aligned(what, tile.width, lanes, depths)
    own = depths if x.bounds is not None else depths.only("x")
    operand = OperandCode.of("x", x.dtype, what.value, 0)
    read = _read(operand, tile, along, aligned=aligned, rows=gathered_rows)
    return replace(read, linear=own.digits == 1, bounds=x.bounds is not None)


def _other(what: Contraction, tile: LocalTile, depths: Walk, *, gathered_rows: bool) -> ReadCode:
    aligned, along = other_is_aligned(what, tile.width, depths)
    operand = OperandCode.of("w", what.packed.dtype, what.value, 0)
    read = _read(operand, tile, along, aligned=aligned, rows=not gathered_rows)
    return replace(read, linear=depths.only("w").digits == 1)


def _read(
    operand: OperandCode, tile: LocalTile, along: str, *, aligned: bool, rows: bool
) -> ReadCode:
    """How the tile is read: in whole vectors, if they are aligned."""
    lanes = tile.tile_rows if rows else tile.tile_columns
    width = tile.width if aligned and (along == "lanes" or tile.steps % tile.width == 0) else 1
    units = lanes * tile.steps // width
    return ReadCode(
        operand.name,
        operand.storage,
        operand.value,
        operand.load,
        operand.inner,
        tile="row" if rows else "column",
        lanes=lanes,
        # A vector more, so that steps of k begin in different banks of local memory.
        pitch=lanes + tile.width,
        along=along,
        width=width,
        units=units,
        reads=-(-units // tile.items),
    )
