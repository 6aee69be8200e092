"""The strategy of contractions for devices with matrix units: tiles in local memory, sums in units.

Operands are read where they lie and copied to local memory as they are, stage by stage, some of
them on their way while others are multiplied; product/matrix.cl.jinja draws it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from clprim.plan.kernel import KernelPlan, Plan
from clprim.plan.product.matrix_tile import (
    WIDTH,
    MatrixTile,
    Use,
    busy_groups,
    matrix_tiles,
    use_of,
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
from clprim.plan.product.tiles import cost_of_tiles
from clprim.plan.product.walk import Walk
from clprim.plan.store import storing
from clprim.plan.units.unit import MatrixUnit
from clprim.traits import DeviceTraits

#: By bytes: the type of an element in memory, whatever it means.
_STORAGE = {1: "uchar", 2: "ushort", 4: "uint"}


@dataclass(frozen=True)
class MatrixCode(ReadingCode):
    """What product/matrix.cl.jinja prints."""

    unit: MatrixUnit
    down: int  # Sub-groups of a work-group along rows and columns of its tile
    across: int
    unit_rows: int  # Units of a sub-group along its rows and columns
    unit_columns: int
    stages: int
    parts: int  # See `Use.parts`
    itemsize: int  # Bytes of an element in memory
    copies: bool  # Whether copies to local memory are not waited for
    memory: int  # Bytes of local memory, and words that an emulated unit's work-items exchange
    exchanged: int

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.down * self.across * self.unit.items

    @property
    def chunk(self) -> int:
        """Elements that a swizzle moves as one."""
        return 16 // self.itemsize

    @property
    def row_pitch(self) -> int:
        """Elements between lines of sums on their way to where they are stored."""
        return self.across * self.unit_columns * self.unit.columns + WIDTH


def matrix_applicable(what: Contraction, traits: DeviceTraits) -> bool:
    """Whether the device has a unit, and both operands have steps of k that lie evenly apart."""
    if not traits.matrix_units or what.prologue.snippet is not None:
        return False
    what = without_bounds(what)
    if what.gathered.bounds is not None or use_of(what, traits) is None:
        return False
    depths = walked(what)[1]
    return all(depths.only(name).digits == 1 for name in "xw") and bool(matrix_tiles(what, traits))


def suits_matrix(what: Contraction, traits: DeviceTraits) -> bool:
    """Whether units take no longer than work-items that multiply by themselves."""
    return matrix_tiles(what, traits)[0].cost <= cost_of_tiles(what, traits)


def plan_matrix(what: Contraction, traits: DeviceTraits, tile: MatrixTile) -> Plan:
    """Plans the kernels of an applicable contraction, see `matrix_applicable`."""
    what = without_bounds(what)
    use = use_of(what, traits)
    assert use is not None  # it is applicable
    lanes, depths, gathered_rows = walked(what)
    rows, columns, steps = use.shape(tile)
    cut = cut_depth(what, (rows, columns), steps, busy_groups(traits), gathered_rows=gathered_rows)
    code = _code(what, tile, use, lanes, depths, cut, traits)
    numbers = numbers_of(what, lanes, depths, cut)
    parameters, arguments = parameters_of(what, code, numbers)
    groups = cut.lane_tiles * cut.output_tiles * what.groups * cut.splits
    main = KernelPlan(
        "product/matrix",
        replace(code, parameters=parameters),
        arguments,
        (groups * code.items,),
        (code.items,),
        moved_bytes(what) + cut.partial(what.groups) * what.value.itemsize,
        2 * what.groups * lanes.size * what.outputs * depths.size,
    )
    return with_finish(what, main, numbers, cut, traits)


def _code(
    what: Contraction,
    tile: MatrixTile,
    use: Use,
    lanes: Walk,
    depths: Walk,
    cut: Cut,
    traits: DeviceTraits,
) -> MatrixCode:
    gathered_rows = walked(what)[2]
    piece = piece_of(what, WIDTH)
    rows, columns, steps = use.shape(tile)
    (x_lanes, x_tile), (w_lanes, w_tile) = ((rows, "row"), (columns, "column"))[
        :: 1 if gathered_rows else -1
    ]
    x = _read("x", use, (x_tile, x_lanes, steps), tile, what, lanes, depths)
    w = _read("w", use, (w_tile, w_lanes, steps), tile, what, lanes, depths)
    return MatrixCode(
        **storing(
            what,
            WIDTH,
            lambda o: stored_at(what, o, lanes, piece, gathered_rows=gathered_rows),
            traits,
            whole=piece == WIDTH or not gathered_rows,
        ),
        parameters=(),
        index=index_in(what, depths, cut, use.items(tile)),
        gathered="rows" if gathered_rows else "columns",
        lane_digits=lanes.digits,
        digits=what.digits is not None,
        split=cut.splits > 1,
        steps=steps,
        x=x,
        w=w,
        depth_digits=depths.digits,
        ragged=depths.size % steps != 0,
        unit=use.unit,
        down=tile.down,
        across=tile.across,
        unit_rows=tile.rows,
        unit_columns=tile.columns,
        stages=tile.stages,
        parts=use.parts,
        itemsize=use.itemsize,
        copies=bool(use.unit.copies) and min(x.width, w.width) * use.itemsize >= 4,
        memory=use.local_bytes(tile) - 4 * use.exchanged(tile),
        exchanged=use.exchanged(tile),
    )


def _read(
    name: str,
    use: Use,
    shape: tuple[str, int, int],
    tile: MatrixTile,
    what: Contraction,
    lanes: Walk,
    depths: Walk,
) -> ReadCode:
    """How the tile is read: in vectors as wide as their alignment allows, of 16 bytes at most."""
    filled, count, steps = shape
    width, along = use.chunk, "depth"
    while True:
        if name == "x":
            aligned, along = is_aligned(what, width, lanes, depths)
        else:
            aligned, along = other_is_aligned(what, width, depths)
        if aligned or width == 1:
            break
        width //= 2
    storage = _STORAGE[use.itemsize]
    units, items = count * steps // width, use.items(tile)
    return ReadCode(
        name,
        storage,
        storage,
        "direct",
        "any",
        tile=filled,
        lanes=count,
        pitch=steps if along == "depth" else count,
        along=along,
        width=width,
        units=units,
        reads=-(-units // items),
        linear=True,
    )
