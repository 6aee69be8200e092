"""The strategy of contractions for devices with matrix units: tiles in local memory, sums in units.

Operands are read where they lie and copied to local memory as they are, stage by stage, some of
them on their way while others are multiplied; product/matrix.cl.jinja draws it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from clprim.plan.kernel import KernelPlan, OperandCode, Plan
from clprim.plan.machine import UNROLL
from clprim.plan.product.matrix_tile import (
    WIDTH,
    Form,
    MatrixTile,
    busy_groups,
    form_of,
    matrix_tiles,
)
from clprim.plan.product.pixels import piece_of
from clprim.plan.product.problem import Contraction, moved_bytes
from clprim.plan.product.splits import (
    Cut,
    cut_depth,
    numbers_of,
    stored_at,
    with_finish,
)
from clprim.plan.product.sub_group_code import PanelCode, pack_panels
from clprim.plan.product.tile_reading import (
    ReadCode,
    ReadingCode,
    index_in,
    parameters_of,
)
from clprim.plan.product.tiles import cost_of_tiles
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
    def options(self) -> tuple[str, ...]:
        """See `KernelCode.options`."""
        return (self.unit.option,) if self.unit.option else ()

    @property
    def row_pitch(self) -> int:
        """Elements between lines of sums on their way to where they are stored."""
        return self.across * self.unit_columns * self.unit.columns + WIDTH


def matrix_applicable(what: Contraction, traits: DeviceTraits) -> bool:
    """Whether the device has a unit and room for a tile, and nothing is done to what is read."""
    units = bool(traits.matrix_units) and what.prologue.snippet is None
    return units and bool(matrix_tiles(what, traits))


def cost_of_units(what: Contraction, traits: DeviceTraits) -> float:
    """Returns what a contraction takes with the rule's tile; infinity where units do not do it."""
    applicable = matrix_applicable(what, traits)
    return matrix_tiles(what, traits)[0].cost if applicable else math.inf


def suits_matrix(what: Contraction, traits: DeviceTraits) -> bool:
    """Whether units take no longer than work-items that multiply by themselves."""
    return cost_of_units(what, traits) <= cost_of_tiles(what, traits)


def plan_matrix(what: Contraction, traits: DeviceTraits, tile: MatrixTile) -> Plan:
    """Plans the kernels of an applicable contraction, see `matrix_applicable`."""
    form = form_of(what, traits)
    assert form is not None  # it is applicable
    what, use, lanes, depths = form.what, form.use, form.lanes, form.depths
    rows, columns, steps = use.shape(tile)
    cut = cut_depth(what, (rows, columns), steps, busy_groups(traits), gathered_rows=form.rows)
    code = _code(form, tile, cut, traits)
    numbers = numbers_of(what, lanes, depths, cut)
    for o in (code.x, code.w):
        numbers |= {f"{o.name}_leap_{d}": n for d, n in enumerate(depths.taken_apart(o.leap))}
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
    if form.packs is None:
        return with_finish(what, main, numbers, cut, traits)
    panels = _packing(form, code, traits)
    plan = with_finish(what, main, numbers, cut, traits, (panels,))
    elements = what.groups * what.packed.group
    return replace(plan, workspace={**plan.workspace, "packed": (elements, what.packed.dtype)})


def _packing(form: Form, code: MatrixCode, traits: DeviceTraits) -> KernelPlan:
    """The kernel that packs the other operand: steps of k of an output, side by side."""
    assert form.packs is not None  # it has one
    what, depths = form.packs
    cut = Cut(1, what.outputs, 1, 1, 1, 1)
    numbers = numbers_of(what, form.lanes, depths, cut)
    numbers["depth_padded"] = form.what.packed.output
    panel = PanelCode(
        name=f"{what.name}_pack",
        parameters=(),
        index=index_in(what, depths, cut, 1),
        doubles=False,
        w=OperandCode("w", code.w.storage, code.w.storage, "direct"),
        tile=1,
        run=2 * UNROLL,
        depth_digits=depths.digits,
        digits=code.digits,
    )
    return pack_panels(what, depths, numbers, panel, traits)


def _code(form: Form, tile: MatrixTile, cut: Cut, traits: DeviceTraits) -> MatrixCode:
    what, use, lanes, depths = form.what, form.use, form.lanes, form.depths
    piece = piece_of(what, WIDTH)
    rows, columns, steps = use.shape(tile)
    row, column = "xw" if form.rows else "wx"
    read = {
        row: _read(row, form, ("row", rows, steps), use.items(tile)),
        column: _read(column, form, ("column", columns, steps), use.items(tile)),
    }
    x, w = read["x"], read["w"]
    return MatrixCode(
        **storing(
            what,
            WIDTH,
            lambda o: stored_at(what, o, lanes, piece, gathered_rows=form.rows),
            traits,
            whole=piece == WIDTH or not form.rows,
        ),
        parameters=(),
        index=index_in(what, depths, cut, use.items(tile)),
        gathered="rows" if form.rows else "columns",
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


def _read(name: str, form: Form, shape: tuple[str, int, int], items: int) -> ReadCode:
    """How a tile is read: in vectors as wide as their alignment allows, of 16 bytes at most."""
    filled, count, steps = shape
    width, along = form.widths[name]
    storage = _STORAGE[form.use.itemsize]
    units, of_step = count * steps // width, count // width
    linear = form.linear(name)
    leap = steps if along == "depth" else min(steps, max(1, items // of_step))
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
        linear=linear,
        bounds=form.bounded(name),
        leap=0 if linear else leap,
        between=0 if linear or along == "depth" else max(1, of_step // items),
    )
