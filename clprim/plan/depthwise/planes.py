"""The CPU strategy of depthwise convolutions whose columns lie side by side.

A work-item copies some rows of a plane to local memory, with zeros around them, and convolves them
there in vectors of columns; depthwise/planes.cl.jinja draws it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from clprim.plan.conv.dense import CPU, dense_depthwise
from clprim.plan.conv.problem import Convolution
from clprim.plan.depthwise.code import (
    HALVED,
    ITEMS_WORTH_TIMING,
    NEEDS,
    DepthwiseCode,
    add_planes,
    add_taps,
    arguments_of,
    around,
    items_of,
    joins_rows,
    on_cpus,
    prefetches_rows,
    spread_rows,
    stores,
    unrolls,
)
from clprim.plan.depthwise.problem import Depthwise, Line, moved_bytes
from clprim.plan.depthwise.registers import MOST_SUMS
from clprim.plan.kernel import KernelPlan, OperandCode, Plan, round_up
from clprim.plan.machine import near, scratch
from clprim.plan.strategy import Example, Strategy
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class PlanesTile:
    """What a table keeps of this strategy."""

    rows: int  # That are summed up in registers at once
    band: int  # Rows of the result whose input is in local memory at a time
    items: int


@dataclass(frozen=True)
class PlanesCode(DepthwiseCode):
    """What depthwise/planes.cl.jinja prints."""

    w: OperandCode
    rows: int  # That are summed up at once
    source: int  # Elements of local memory for rows of x, and for sums
    wide: int
    ahead: bool  # Whether the next rows of x are prefetched


@dataclass(frozen=True)
class _Band:
    """How many rows local memory holds."""

    rows: int
    pitch: int  # Elements from one row of x to the next, of one phase of the stride
    wide_pitch: int  # Elements from one row of sums to the next
    source_row: int  # Elements of a row of x, of all phases
    source_rows: int  # Of x, for ``rows`` rows of sums in whole tiles


def _applicable(what: Depthwise, traits: DeviceTraits) -> bool:
    """Whether this strategy can do a convolution: a tile's rows must fit local memory."""
    if what.x.column != 1 or what.y.column != 1 or traits.lanes(what.value.itemsize) < 2:
        return False
    if what.adjoint and not unrolls(what.rows, what.columns):
        return False
    what = _cropped(what)
    return _band(what, traits, _tile_rows(what)) is not None


def _tile(what: Depthwise, traits: DeviceTraits) -> PlanesTile:
    """Returns the rule's tile of an applicable convolution, see `_applicable`."""
    what = _cropped(what)
    rows = _tile_rows(what)
    band = _band(what, traits, rows)
    assert band is not None
    return PlanesTile(rows, band.rows, items_of(what, traits))


def _fits(tile: PlanesTile, what: Depthwise, traits: DeviceTraits) -> bool:
    """Whether registers hold a tile, and local memory its band of whole tiles."""
    what = _cropped(what)
    if tile.rows > MOST_SUMS or tile.band % _step(what, tile.rows):
        return False
    return _band(what, traits, tile.rows, tile.band) is not None


def _plan(what: Depthwise, traits: DeviceTraits, tile: PlanesTile) -> Plan:
    """Plans the kernel of an applicable convolution, see `_applicable`."""
    what = _cropped(what)
    band = _band(what, traits, tile.rows, tile.band)
    assert band is not None
    width = traits.lanes(what.value.itemsize)
    h, v = what.rows, what.columns
    base = stores(what, width, "column", traits, streaming=traits.streams(moved_bytes(what)))
    unrolled = unrolls(what.rows, what.columns)
    source, wide = _room(what, traits)

    shift = h.before if what.adjoint else 0
    rows_first = shift // h.stride * h.stride
    rows_last = shift + h.outputs
    planes = what.images * what.channels
    wanted = tile.items * traits.compute_units
    a_item = spread_rows(planes, rows_last - rows_first, _step(what, tile.rows), wanted)
    planes_a_item = max(1, planes // wanted)

    found = arguments_of(what, base, "w")
    add_planes(found, what, planes_a_item)
    found.numbers(
        columns_last=v.before + v.outputs,
        rows_first=rows_first,
        rows_last=rows_last,
        rows_a_item=a_item,
        rows_a_band=band.rows,
        rows_join=int(joins_rows(what)),
        pitch=band.pitch,
        wide_pitch=band.wide_pitch,
        source_used=band.source_rows * band.source_row + width,
        **_phases(what, band),
    )
    if not unrolled:
        add_taps(found, h, v)
    code = PlanesCode(
        **base,
        parameters=tuple(found.parameters),
        kernel=(h.kernel, v.kernel) if unrolled else (0, 0),
        stride=(h.stride, v.stride) if unrolled else (0, 0),
        w=OperandCode.of("w", what.w.dtype, what.value, 2),
        rows=tile.rows,
        source=source,
        wide=wide,
        ahead=prefetches_rows(what, traits),
    )
    main = KernelPlan(
        "depthwise/planes",
        code,
        tuple(found.arguments),
        (-(-planes // planes_a_item), -(-(rows_last - rows_first) // a_item), 1),
        (1, 1, 1),
        moved_bytes(what),
        what.flops,
    )
    return Plan((main,))


def _cropped(what: Depthwise) -> Depthwise:
    """Returns the same without negative padding, which the adjoint of much padding has."""

    def crop(line: Line) -> tuple[Line, int]:
        less = max(0, -line.before)
        inputs = max(0, line.inputs - less)
        return replace(line, before=line.before + less, inputs=inputs), less

    rows, above = crop(what.rows)
    columns, left = crop(what.columns)
    x = what.x
    start = x.start + above * x.row + left * x.column
    return replace(what, rows=rows, columns=columns, x=replace(x, start=start))


def _tile_rows(what: Depthwise) -> int:
    """Rows that are summed up at once, so that a vector of x is read once for all their taps."""
    if what.rows.outputs == 1:
        return 1
    if not unrolls(what.rows, what.columns):
        return 8
    return 2 if what.rows.stride > 1 else 4


def _step(what: Depthwise, rows: int) -> int:
    """What the rows of a band are a multiple of."""
    return what.rows.stride if what.adjoint else rows


def _room(what: Depthwise, traits: DeviceTraits) -> tuple[int, int]:
    """Half of local memory is for rows of x, a quarter for sums, one for sums without gaps."""
    elements = scratch(traits) // what.value.itemsize
    return elements // 2, elements // 4 - 64


def _phases(what: Depthwise, band: _Band) -> dict[str, int]:
    """Where the first even and the first odd column of x go in a row of its copy."""
    v = what.columns
    if what.adjoint:
        return {"even_at": (v.kernel - 1) // v.stride, "odd_at": 0}

    def at(column: int) -> int:
        place, phase = divmod(column + v.before, v.stride)
        return phase * band.pitch + place

    return {"even_at": at(0), "odd_at": at(1)}


def _band(
    what: Depthwise, traits: DeviceTraits, tile_rows: int, wanted: int | None = None
) -> _Band | None:
    """Returns what a band of rows takes, of as many as the rule wants or ``wanted``."""
    # None where they do not fit.
    width = traits.lanes(what.value.itemsize)
    h, v = what.rows, what.columns
    step = _step(what, tile_rows)
    source, wide = _room(what, traits)
    if what.adjoint:
        lead = (v.kernel - 1) // v.stride
        sums = -(-(v.before + v.outputs) // v.stride)
        pitch = round_up(max(v.inputs, round_up(sums, width)) + lead + width, width)
        wide_pitch = round_up(sums, width) * v.stride + width
        source_row = pitch
        lines = (h.kernel - 1) // h.stride, h.stride  # before the first row, and rows of each
    else:
        copied = -(-(v.before + v.inputs) // v.stride)
        read = round_up(v.outputs, width) + (v.reach - 1) // v.stride + 1
        pitch = round_up(max(copied, read) + width, width)
        wide_pitch = round_up(v.outputs, width)
        source_row = pitch * v.stride

    def source_rows(rows: int) -> int:
        if what.adjoint:
            return lines[0] + rows // lines[1] + 1
        return (rows - 1) * h.stride + h.reach

    def fits(rows: int) -> bool:
        used = source_rows(rows) * source_row + 2 * width
        return used <= source and rows * max(wide_pitch, v.outputs) + 2 * width <= wide

    if not fits(wanted or step):
        return None
    if wanted is not None:
        return _Band(wanted, pitch, wide_pitch, source_row, source_rows(wanted))
    shift = h.before % h.stride if what.adjoint else 0
    most = round_up(h.outputs + shift, step)
    rows = step
    while rows + step <= most and fits(rows + step):
        held = source_rows(rows) * source_row * what.value.itemsize
        # A band of few rows reads those that windows share again and again.
        if held >= near(traits) and rows >= 4 * (h.reach - 1):
            break
        rows += step
    return _Band(rows, pitch, wide_pitch, source_row, source_rows(rows))


def _near(rule: PlanesTile, *_: object) -> Iterator[PlanesTile]:
    for rows in (1, 2, 4, 8):
        yield replace(rule, rows=rows, band=round_up(rule.band, rows))
    for band in around(rule.band // rule.rows):
        yield replace(rule, band=band * rule.rows)
    for items in ITEMS_WORTH_TIMING:
        yield replace(rule, items=items)


def _examples() -> Iterator[Example[Convolution]]:
    yield Example("", dense_depthwise(2, 32, 90, stride=2, padding=0, epilogue=HALVED), CPU)
    yield Example(
        "adjoint",
        dense_depthwise(2, 32, 14, stride=2, direction="input", epilogue=HALVED),
        CPU,
    )
    yield Example("loops", dense_depthwise(2, 32, 14, 4, epilogue=HALVED), CPU)


WHOLE_PLANES: Strategy[Depthwise] = Strategy(
    "depthwise/planes",
    PlanesTile,
    applicable=_applicable,
    rule=_tile,
    plan=_plan,
    fits=_fits,
    near=_near,
    examples=_examples,
    needs=NEEDS,
    preferred=on_cpus,
)
