"""The CPU strategy of depthwise convolutions of small planes: vectors run across the ends of rows.

It is for results that are as large as the input divided by the stride; depthwise/runs.cl.jinja
draws it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from clprim.plan.conv.dense import CPU, dense_depthwise
from clprim.plan.conv.problem import Convolution
from clprim.plan.depthwise.code import (
    HALVED,
    NEEDS,
    UNROLLED,
    BandTile,
    DepthwiseCode,
    add_planes,
    arguments_of,
    is_masked,
    items_of,
    joins_rows,
    near_bands,
    on_cpus,
    prefetches_rows,
    spread_rows,
    stores,
)
from clprim.plan.depthwise.problem import Depthwise, Line, moved_bytes
from clprim.plan.kernel import KernelPlan, OperandCode, Plan, round_up
from clprim.plan.machine import near, scratch
from clprim.plan.strategy import Example, Strategy
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class RunsCode(DepthwiseCode):
    """What depthwise/runs.cl.jinja prints."""

    w: OperandCode
    masked: tuple[bool, ...]  # Of every column of taps, whether it reaches into another row
    neighbours: bool  # Whether taps of a row are neighbours in the copy
    source: int  # Elements of local memory for rows of x, and for masks
    masks: int
    ahead: bool  # Whether the next rows of x are prefetched
    twice: bool  # Whether there are two copies, one to fill and one to read


@dataclass(frozen=True)
class _Margins:
    """Rows of the copy above and below those of a band, columns before a row's first, and sizes."""

    above: int  # Rows, of each phase of the stride
    below: int
    left: int  # Columns that taps reach to the left, likewise
    right: int
    part: int  # Elements of a band's copy, of one phase
    rows: int


def _applicable(what: Depthwise, traits: DeviceTraits) -> bool:
    """Whether this strategy can do a convolution."""
    h, v = what.rows, what.columns
    width = traits.lanes(what.value.itemsize)
    if what.adjoint or what.x.column != 1 or what.y.column != 1 or width < 2:
        return False
    if v.kernel not in UNROLLED or h.kernel not in (1, v.kernel) or max(h.stride, v.stride) > 2:
        return False
    if min(h.before, v.before) < 0:
        return False
    if (h.stride == 1) != (v.stride == 1) or -(-v.inputs // v.stride) > v.outputs:
        return False
    return joins_rows(what) and _margins(what, traits) is not None


def _tile(what: Depthwise, traits: DeviceTraits) -> BandTile:
    """Returns the rule's tile of an applicable convolution, see `_applicable`."""
    margins = _margins(what, traits)
    assert margins is not None
    return BandTile(margins.rows, items_of(what, traits))


def _fits(tile: BandTile, what: Depthwise, traits: DeviceTraits) -> bool:
    """Whether local memory holds a tile's band."""
    return _margins(what, traits, tile.band) is not None


def _plan(what: Depthwise, traits: DeviceTraits, tile: BandTile) -> Plan:
    """Plans the kernel of an applicable convolution, see `_applicable`."""
    margins = _margins(what, traits, tile.band)
    assert margins is not None
    width = traits.lanes(what.value.itemsize)
    h, v = what.rows, what.columns
    base = stores(what, width, "column", traits, streaming=traits.streams(moved_bytes(what)))
    source, masks = _room(what, traits)
    masked = tuple(is_masked(v, kw) for kw in range(v.kernel))
    planes = what.images * what.channels
    wanted = tile.items * traits.compute_units
    rows_a_item = spread_rows(planes, h.outputs, 1, wanted)
    planes_a_item = max(1, planes // wanted)

    twice = (
        h.stride == v.stride == 1
        and h.outputs <= min(margins.rows, rows_a_item)
        and 2 * margins.part <= source
    )

    found = arguments_of(what, base, "w")
    add_planes(found, what, planes_a_item)
    found.numbers(
        row_dilation=h.dilation,
        column_dilation=v.dilation,
        rows_a_item=rows_a_item,
        rows_a_band=margins.rows,
        rows_above=margins.above,
        rows_below=margins.below,
        columns_left=margins.left,
        part_size=margins.part,
        period=v.outputs // math.gcd(v.outputs, width),
    )
    code = RunsCode(
        **base,
        parameters=tuple(found.parameters),
        kernel=(h.kernel, v.kernel),
        stride=(h.stride, v.stride),
        w=OperandCode.of("w", what.w.dtype, what.value, 2),
        masked=masked,
        neighbours=v.stride == v.dilation == 1,
        source=source,
        masks=masks,
        ahead=prefetches_rows(what, traits),
        twice=twice,
    )
    main = KernelPlan(
        "depthwise/runs",
        code,
        tuple(found.arguments),
        (-(-planes // planes_a_item), -(-h.outputs // rows_a_item), 1),
        (1, 1, 1),
        moved_bytes(what),
        what.flops,
    )
    return Plan((main,))


def _room(what: Depthwise, traits: DeviceTraits) -> tuple[int, int]:
    elements = scratch(traits) // what.value.itemsize
    return elements * 3 // 4, elements // 4


def _reach(line: Line) -> tuple[int, int]:
    """Places of a phase of the stride that taps reach before and after an output's own."""
    last = line.reach - 1 - line.before
    return -(-line.before // line.stride), max(0, last // line.stride)


def _margins(what: Depthwise, traits: DeviceTraits, band: int | None = None) -> _Margins | None:
    """Returns what a band of rows takes, of as many as the rule wants or ``band``."""
    # None where they do not fit.
    h, v = what.rows, what.columns
    width = traits.lanes(what.value.itemsize)
    above, below = _reach(h)
    left, right = _reach(v)
    source, masks = _room(what, traits)
    period = v.outputs // math.gcd(v.outputs, width)
    if left > width or period * v.kernel * width > masks:
        return None
    parts = h.stride * v.stride

    def part(rows: int) -> int:
        used = (above + rows + below) * v.outputs + right
        return round_up(used + 3 * width, width)

    if parts * part(band or 1) > source:
        return None
    if band is not None:
        return _Margins(above, below, left, right, part(band), band)
    rows = 1
    while rows < h.outputs and parts * part(rows + 1) <= source:
        held = parts * part(rows) * what.value.itemsize
        if held >= near(traits) and rows >= 4 * (above + below):
            break
        rows += 1
    # Bands of whole vectors: the next one is aligned as well, and has no end to store by elements.
    whole = width // math.gcd(v.outputs, width)
    if whole <= rows < h.outputs:
        rows -= rows % whole
        # As large as each other, so that none is mostly margin.
        rows = round_up(-(-h.outputs // -(-h.outputs // rows)), whole)
    return _Margins(above, below, left, right, part(rows), rows)


def _examples() -> Iterator[Example[Convolution]]:
    yield Example("", dense_depthwise(2, 32, 14, stride=2, epilogue=HALVED), CPU)
    yield Example("twice", dense_depthwise(2, 32, 7, epilogue=HALVED), CPU)
    yield Example("whole", dense_depthwise(2, 32, 14, epilogue=HALVED, beta=True), CPU)


def _preferred(what: Depthwise, traits: DeviceTraits) -> bool:
    """Whether it is the faster one of two kernels that take planes which keep their size."""
    # What vectors across the ends of rows save, every tap pays in addresses and masks: of more
    # columns of taps than three it is for rows that leave half of their vectors empty.
    v, width = what.columns, traits.lanes(what.value.itemsize)
    vectors = -(-v.outputs // width)
    cheaper = v.kernel <= 3 or 2 * v.outputs <= vectors * width
    return traits.is_cpu and (v.stride > 1 or cheaper)


RUNS: Strategy[Depthwise] = Strategy(
    "depthwise/runs",
    BandTile,
    applicable=_applicable,
    rule=_tile,
    plan=_plan,
    fits=_fits,
    near=near_bands,
    examples=_examples,
    needs=NEEDS,
    preferred=_preferred,
    timed=on_cpus,
)
