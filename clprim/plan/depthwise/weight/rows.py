"""The CPU strategies of the gradient of a depthwise convolution in its weight.

Sums of all taps stay in registers while rows are read one after another: vectors of channels, or of
columns, whichever are adjacent in memory.
depthwise/weight/channels.cl.jinja and depthwise/weight/planes.cl.jinja draw it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from clprim.plan.conv.dense import CPU, dense_depthwise
from clprim.plan.conv.problem import Convolution
from clprim.plan.depthwise.code import (
    ITEMS_WORTH_TIMING,
    NEEDS,
    around,
    on_cpus,
    spread_rows,
    unrolls,
)
from clprim.plan.depthwise.weight.code import (
    LONGEST_CHAIN,
    DepthwiseGradient,
    GradientCode,
    gradient_arguments,
    gradient_code,
    gradient_plan,
)
from clprim.plan.kernel import Plan, mask_type, round_up
from clprim.plan.strategy import Example, Strategy
from clprim.traits import DeviceTraits

__all__ = [
    "GRADIENT_CHANNELS",
    "GRADIENT_PLANES",
    "GradientChannelsCode",
    "GradientChannelsTile",
    "GradientPlanesCode",
    "GradientPlanesTile",
]

# Columns of the gradient that share the vectors of x below them.
COLUMNS = 7
MOST_COLUMNS = 16
# Work-items a compute unit, unless a table says otherwise: of channels, of planes.
ITEMS, PLANE_ITEMS = 4, 8
# Taps whose sums stay in registers, beside the gradient.
MOST_TAPS = 25
# Of local memory, for sums of vectors of channels that take turns, and how many do so at most: what
# they read of some rows is to be in a near cache when the next row needs it.
SUM_BYTES = 16 << 10
TURNS = 12
# Of local memory, for rows of x.
SCRATCH_BYTES = 64 << 10
NEAR_BYTES = 16 << 10


@dataclass(frozen=True)
class GradientChannelsTile:
    """What a table keeps of this strategy.

    Attributes:
        columns: Of the gradient that share the vectors of x below them.
        vectors: Vectors of channels that take turns at a place; local memory keeps their sums.
        items: Work-items a compute unit; each has splits of its own.
    """

    columns: int
    vectors: int
    items: int


@dataclass(frozen=True)
class GradientPlanesTile:
    """What a table keeps of this strategy.

    Attributes:
        band: Rows of the gradient below which x is in local memory at a time.
        items: Work-items a compute unit; each has splits of its own.
    """

    band: int
    items: int


@dataclass(frozen=True)
class UnrolledGradientCode(GradientCode):
    """What both kernels print in common.

    Attributes:
        width: Elements of a vector.
        kernel, stride: (rows, columns).
    """

    width: int
    kernel: tuple[int, int]
    stride: tuple[int, int]

    @property
    def mask(self) -> str:
        """Type of a lane of what `select` takes beside vectors of sums."""
        return mask_type(self.value)


@dataclass(frozen=True)
class GradientChannelsCode(UnrolledGradientCode):
    """What depthwise/weight/channels.cl.jinja prints.

    Attributes:
        columns: Of the gradient that are taken at once.
        taps_rows: Rows of taps that are summed up at once.
        sums: Elements of local memory.
    """

    columns: int
    taps_rows: int
    sums: int


@dataclass(frozen=True)
class GradientPlanesCode(UnrolledGradientCode):
    """What depthwise/weight/planes.cl.jinja prints.

    Attributes:
        source: Elements of local memory for rows of x.
    """

    source: int


def takes_gradient_channels(what: DepthwiseGradient, traits: DeviceTraits) -> bool:
    """Whether vectors of channels are there, and taps that can be unrolled."""
    together = what.x.channel == 1 and what.grad.channel == 1 and what.multiplier == 1
    return together and what.channels >= _most(what, traits) and unrolls(what.rows, what.columns)


def gradient_channels_tile(what: DepthwiseGradient, traits: DeviceTraits) -> GradientChannelsTile:
    """Returns the rule's tile."""
    vectors = -(-what.channels // _most(what, traits))
    _, _, sums, a_vector = _sums(what, traits)
    return GradientChannelsTile(COLUMNS, max(1, min(vectors, TURNS, sums // a_vector)), ITEMS)


def fits_gradient_channels(
    tile: GradientChannelsTile, what: DepthwiseGradient, traits: DeviceTraits
) -> bool:
    """Whether registers hold a tile's columns, and local memory the sums of its vectors."""
    _, _, sums, a_vector = _sums(what, traits)
    return tile.columns <= MOST_COLUMNS and tile.vectors * a_vector <= sums


def _sums(what: DepthwiseGradient, traits: DeviceTraits) -> tuple[int, int, int, int]:
    """Returns rows of taps at once, taps in whole such rows, elements of sums, those a vector."""
    width, h, v = _most(what, traits), what.rows, what.columns
    taps_rows = min(h.kernel, MOST_TAPS // v.kernel)
    taps = round_up(h.kernel, taps_rows) * v.kernel
    sums = max(taps * width, min(traits.local_memory, SUM_BYTES) // what.value.itemsize)
    return taps_rows, taps, sums, taps * width


def plan_gradient_channels(
    what: DepthwiseGradient, traits: DeviceTraits, tile: GradientChannelsTile
) -> Plan:
    """Plans the kernels of a gradient that `takes_gradient_channels`.

    Args:
        what: The gradient; nothing of it may be empty.
        traits: Of the device.
        tile: One that fits.
    """
    width = _most(what, traits)
    h, v = what.rows, what.columns
    vectors = -(-what.channels // width)
    wanted = tile.items * traits.compute_units
    a_split = spread_rows(what.images, h.outputs, 1, wanted)
    a_split = max(1, min(a_split, LONGEST_CHAIN // v.outputs))
    bands = -(-h.outputs // a_split)
    groups = max(1, min(vectors, wanted // (what.images * bands)))
    vectors_a_item = -(-vectors // groups)
    taps_rows, _, sums, _ = _sums(what, traits)
    found = gradient_arguments(what)
    found.numbers(
        bands=bands,
        rows_a_split=a_split,
        vectors=vectors,
        vectors_a_item=vectors_a_item,
        vectors_a_block=min(vectors_a_item, tile.vectors),
    )
    code = GradientChannelsCode(
        **gradient_code(what, found, "channel"),
        width=width,
        kernel=(h.kernel, v.kernel),
        stride=(h.stride, v.stride),
        columns=tile.columns,
        taps_rows=taps_rows,
        sums=sums,
    )
    size = (-(-vectors // vectors_a_item), bands, what.images)
    return gradient_plan(
        what,
        "depthwise/weight/channels",
        code,
        found,
        size,
        (1, 1, 1),
        what.images * bands,
        traits,
    )


def takes_gradient_planes(what: DepthwiseGradient, traits: DeviceTraits) -> bool:
    """Whether vectors of columns are there, and taps that can be unrolled."""
    together = what.x.column == 1 and what.grad.column == 1 and what.rows.before >= 0
    together = together and what.columns.before >= 0 and _width(what, traits) > 1
    return together and unrolls(what.rows, what.columns) and _band(what, traits) > 0


def gradient_planes_tile(what: DepthwiseGradient, traits: DeviceTraits) -> GradientPlanesTile:
    """Returns the rule's tile."""
    return GradientPlanesTile(_band(what, traits), PLANE_ITEMS)


def fits_gradient_planes(
    tile: GradientPlanesTile, what: DepthwiseGradient, traits: DeviceTraits
) -> bool:
    """Whether local memory holds x below a tile's band."""
    return _copied(what, traits, tile.band) <= _source(what, traits)


def plan_gradient_planes(
    what: DepthwiseGradient, traits: DeviceTraits, tile: GradientPlanesTile
) -> Plan:
    """Plans the kernels of a gradient that `takes_gradient_planes`.

    Args:
        what: The gradient; nothing of it may be empty.
        traits: Of the device.
        tile: One that fits.
    """
    width = _width(what, traits)
    h, v = what.rows, what.columns
    planes = what.images * what.channels
    wanted = tile.items * traits.compute_units
    a_split = spread_rows(planes, h.outputs, 1, wanted)
    a_split = max(1, min(a_split, LONGEST_CHAIN * width // v.outputs))
    bands = -(-h.outputs // a_split)
    a_band = min(a_split, tile.band)
    planes_a_item = max(1, planes // wanted)
    pitch = _pitch(what, width)

    def at(column: int) -> int:
        place, phase = divmod(column + v.before, v.stride)
        return phase * pitch + place

    found = gradient_arguments(what)
    found.numbers(
        multiplier=what.multiplier,
        planes=planes,
        planes_a_item=planes_a_item,
        bands=bands,
        rows_a_split=a_split,
        rows_a_band=a_band,
        x_size=what.x.end(what.images, what.channels // what.multiplier, h.inputs, v.inputs),
        grad_size=what.grad.end(what.images, what.channels, h.outputs, v.outputs),
        pitch=pitch,
        source_used=_copied(what, traits, a_band),
        even_at=at(0),
        odd_at=at(1),
    )
    code = GradientPlanesCode(
        **gradient_code(what, found, "column"),
        width=width,
        kernel=(h.kernel, v.kernel),
        stride=(h.stride, v.stride),
        source=_source(what, traits),
    )
    size = (-(-planes // planes_a_item), bands, 1)
    return gradient_plan(
        what,
        "depthwise/weight/planes",
        code,
        found,
        size,
        (1, 1, 1),
        what.images * bands,
        traits,
    )


def _most(what: DepthwiseGradient, traits: DeviceTraits) -> int:
    """Lanes of a vector of channels."""
    return max(2, _width(what, traits))


def _width(what: DepthwiseGradient, traits: DeviceTraits) -> int:
    return min(16, traits.vector_bytes // what.value.itemsize)


def _pitch(what: DepthwiseGradient, width: int) -> int:
    """Elements from one row of the copy to the next, of one phase of the stride."""
    v = what.columns
    copied = -(-(v.before + v.inputs) // v.stride)
    read = round_up(v.outputs, width) + (v.reach - 1) // v.stride + 1
    return round_up(max(copied, read) + width, width)


def _source(what: DepthwiseGradient, traits: DeviceTraits) -> int:
    return min(traits.local_memory, SCRATCH_BYTES) // what.value.itemsize


def _source_rows(what: DepthwiseGradient, rows: int) -> int:
    return (rows - 1) * what.rows.stride + what.rows.kernel


def _copied(what: DepthwiseGradient, traits: DeviceTraits, rows: int) -> int:
    """Elements of local memory for x below some rows."""
    width = _width(what, traits)
    return _source_rows(what, rows) * what.columns.stride * _pitch(what, width) + width


def _band(what: DepthwiseGradient, traits: DeviceTraits) -> int:
    """Returns how many rows fit local memory; 0 where none does."""
    rows = 0
    while rows < what.rows.outputs:
        used = _copied(what, traits, rows + 1)
        if used > _source(what, traits):
            break
        near = used * what.value.itemsize <= NEAR_BYTES
        if rows >= 4 * (what.rows.kernel - 1) and rows and not near:
            break
        rows += 1
    return rows


def _near_channels(rule: GradientChannelsTile, *_: object) -> Iterator[GradientChannelsTile]:
    for columns in (4, 7, 8, 14):
        yield replace(rule, columns=columns)
    for vectors in around(rule.vectors):
        yield replace(rule, vectors=vectors)
    for items in ITEMS_WORTH_TIMING:
        yield replace(rule, items=items)


def _near_planes(rule: GradientPlanesTile, *_: object) -> Iterator[GradientPlanesTile]:
    for band in around(rule.band):
        yield replace(rule, band=band)
    for items in ITEMS_WORTH_TIMING:
        yield replace(rule, items=items)


def _examples_channels() -> Iterator[Example[Convolution]]:
    yield Example("", dense_depthwise(2, 32, 14, last=True, direction="weight"), CPU)


GRADIENT_CHANNELS: Strategy[DepthwiseGradient] = Strategy(
    "depthwise/weight/channels",
    GradientChannelsTile,
    takes=takes_gradient_channels,
    rule=gradient_channels_tile,
    plan=plan_gradient_channels,
    fits=fits_gradient_channels,
    near=_near_channels,
    examples=_examples_channels,
    needs=NEEDS,
    meant=on_cpus,
)


def _examples_planes() -> Iterator[Example[Convolution]]:
    yield Example("", dense_depthwise(2, 32, 14, direction="weight"), CPU)


GRADIENT_PLANES: Strategy[DepthwiseGradient] = Strategy(
    "depthwise/weight/planes",
    GradientPlanesTile,
    takes=takes_gradient_planes,
    rule=gradient_planes_tile,
    plan=plan_gradient_planes,
    fits=fits_gradient_planes,
    near=_near_planes,
    examples=_examples_planes,
    needs=NEEDS,
    meant=on_cpus,
)
