"""The CPU strategy of depthwise convolutions whose channels lie side by side.

A work-item walks down a band of rows and sums up tiles of rows × columns × one vector of channels
in registers; depthwise/channels.cl.jinja draws it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from clprim.plan.conv.dense import CPU, dense_depthwise
from clprim.plan.conv.problem import Convolution
from clprim.plan.cost import OPERAND, WEIGHTS
from clprim.plan.depthwise.code import (
    HALVED,
    ITEMS_WORTH_TIMING,
    NEEDS,
    TiledCode,
    add_taps,
    arguments_of,
    on_cpus,
    pack_taps,
    prefetches_rows,
    spread_rows,
    stores,
    unrolls,
)
from clprim.plan.depthwise.problem import Depthwise, moved_bytes
from clprim.plan.depthwise.registers import COLUMNS, MOST_SUMS
from clprim.plan.kernel import KernelPlan, Plan, power_of_two
from clprim.plan.machine import ITEMS, LAUNCH
from clprim.plan.strategy import CANDIDATES, Example, Strategy
from clprim.traits import DeviceTraits

# What a vector costs more that may lie outside of x, in multiply-adds of vectors.
EDGE = 2.0


@dataclass(frozen=True)
class ChannelsTile:
    """What a table keeps of this strategy."""

    rows: int  # Outputs that are summed up in registers, a vector of channels of each
    columns: int
    # Work-items a compute unit: more of them are balanced better, and read the rows that windows
    # share more often
    items: int


@dataclass(frozen=True)
class ChannelsCode(TiledCode):
    """What depthwise/channels.cl.jinja prints."""

    ahead: bool  # Whether what the next tile reads is prefetched


def _applicable(what: Depthwise, traits: DeviceTraits) -> bool:
    """Whether this strategy can do a convolution: vectors of channels must be there."""
    y_or_x = what.x.channel == 1 and (what.y.channel == 1 or what.channels == 1)
    return y_or_x and what.multiplier == 1 and _width(what, traits) > 1


def _tile(what: Depthwise, traits: DeviceTraits) -> ChannelsTile:
    """Returns the rule's tile."""
    return ChannelsTile(*_shapes(what, traits)[0], ITEMS)


def _fits(tile: ChannelsTile, what: Depthwise, traits: DeviceTraits) -> bool:
    """Whether a tile can be taken for an applicable convolution, see `_applicable`."""
    if tile.rows * tile.columns > _most_sums(traits):
        return False
    if not unrolls(what.rows, what.columns):
        return tile.rows == 1
    # Tiles of the adjoint begin at whole strides.
    return not what.adjoint or not (
        tile.rows % what.rows.stride or tile.columns % what.columns.stride
    )


def _plan(what: Depthwise, traits: DeviceTraits, tile: ChannelsTile) -> Plan:
    """Plans the kernels of an applicable convolution, see `_applicable`."""
    width = _width(what, traits)
    h, v = what.rows, what.columns
    base = stores(what, width, "channel", traits, streaming=traits.streams(moved_bytes(what)))
    unrolled = unrolls(what.rows, what.columns)
    kernel = (h.kernel, v.kernel) if unrolled else (0, 0)
    stride = (h.stride, v.stride) if unrolled else (0, 0)
    phase = (h.before % h.stride, v.before % v.stride) if unrolled and what.adjoint else (0, 0)

    vectors = -(-what.channels // width)
    wanted = tile.items * traits.compute_units
    a_item = spread_rows(what.images, h.outputs, tile.rows, wanted)
    bands = -(-(h.outputs) // a_item)
    # Channels of a place are one piece of memory: they are shared by no more than have to be busy.
    groups = min(vectors, -(-traits.compute_units // (what.images * bands)))
    vectors_a_item = -(-vectors // groups)

    found = arguments_of(what, base, "packed")
    found.numbers(
        channels=what.channels,
        vectors=vectors,
        vectors_a_item=vectors_a_item,
        x_rows=h.inputs,
        x_columns=v.inputs,
        y_rows=h.outputs,
        y_columns=v.outputs,
        rows_before=h.before,
        columns_before=v.before,
        rows_a_item=a_item,
    )
    if not unrolled:
        add_taps(found, h, v)
    code = ChannelsCode(
        **base,
        parameters=tuple(found.parameters),
        kernel=kernel,
        stride=stride,
        rows=tile.rows,
        columns=tile.columns,
        phase=phase,
        ahead=unrolled and prefetches_rows(what, traits),
    )
    main = KernelPlan(
        "depthwise/channels",
        code,
        tuple(found.arguments),
        (-(-vectors // vectors_a_item), bands, what.images),
        (1, 1, 1),
        moved_bytes(what),
        what.flops,
    )
    pack, packed = pack_taps(what, traits)
    return Plan((pack, main), {"packed": (packed, what.value)})


def _width(what: Depthwise, traits: DeviceTraits) -> int:
    """Lanes of a vector: what a register has, or the largest power of two that channels fill."""
    most = max(1, min(traits.lanes(what.value.itemsize), what.channels))
    largest = power_of_two(most)
    return largest if largest == most else largest // 2


def _shapes(what: Depthwise, traits: DeviceTraits) -> list[tuple[int, int]]:
    """Rows and columns of tiles, those of the least cost first."""
    h, v = what.rows, what.columns
    if not unrolls(h, v):
        return [(1, 8)]
    down, across = (h.stride, v.stride) if what.adjoint else (1, 1)
    if what.adjoint and traits.streams(moved_bytes(what)):
        # Streaming stores of large tiles are to many places of memory at once.
        return [(down, 2 * across)]
    # Where memory decides, a near cache keeps what a column shares, and few rows are read at once.
    far = 2 * moved_bytes(what) > traits.cache_bytes
    most = min(_most_sums(traits), MOST_SUMS)
    rows = range(COLUMNS // down * down, 0, -down)
    every = [(r, c) for r in rows for c in range(across, most // r + 1, across)]
    overhead = WEIGHTS.tile

    def cost(shape: tuple[int, int]) -> float:
        rows, columns = shape
        products, taps = rows * columns * h.kernel * v.kernel, h.kernel * v.kernel
        if what.adjoint:
            products //= h.stride * v.stride
            below = (rows + h.kernel - 1) / h.stride * (columns + v.kernel - 1) / v.stride
        else:
            below = ((rows - 1) * h.stride + h.kernel) * ((columns - 1) * v.stride + v.kernel)
        tile = products + OPERAND * (below + taps) + overhead
        # At both ends of a line windows leave x.
        tiles = -(-v.outputs // columns)
        return -(-h.outputs // rows) * (tiles * tile + EDGE * min(2, tiles) * below)

    def order(shape: tuple[int, int]) -> tuple[bool, float, int, int]:
        rows, columns = shape
        large = columns > across or rows * h.stride > COLUMNS + 1
        return far and large, cost(shape), -rows * columns, columns

    return sorted(every, key=order)


def _most_sums(traits: DeviceTraits) -> int:
    """Sums of a tile that there are registers for, beside a vector of x and one of taps."""
    return traits.vector_registers - 2


def _preferred(what: Depthwise, traits: DeviceTraits) -> bool:
    """Whether it is a CPU, and packing the weight is worth a launch."""
    # Else kernels read it where it lies, if work-items share vectors there.
    small = what.flops // 2 < LAUNCH * traits.compute_units
    return traits.is_cpu and (what.kept or traits.sub_group_size == 1 or not small)


def _near(rule: ChannelsTile, what: Depthwise, traits: DeviceTraits) -> Iterator[ChannelsTile]:
    """Yields tiles that differ in what is compiled, then those that differ in loops."""
    shapes = _shapes(what, traits)
    wider = [shape for shape in shapes if shape[1] != rule.columns]
    for rows, columns in (*shapes[: CANDIDATES // 2], *wider[: CANDIDATES // 2]):
        yield replace(rule, rows=rows, columns=columns)
    for items in ITEMS_WORTH_TIMING:
        yield replace(rule, items=items)


def _examples() -> Iterator[Example[Convolution]]:
    yield Example("", dense_depthwise(2, 32, 14, last=True, epilogue=HALVED), CPU)
    yield Example(
        "adjoint",
        dense_depthwise(2, 32, 14, last=True, stride=2, direction="input", epilogue=HALVED),
        CPU,
    )
    yield Example(
        "loops",
        dense_depthwise(2, 32, 14, last=True, dilation=2, dtype=np.float16, epilogue=HALVED),
        CPU,
    )


CHANNELS: Strategy[Depthwise] = Strategy(
    "depthwise/channels",
    ChannelsTile,
    applicable=_applicable,
    rule=_tile,
    plan=_plan,
    fits=_fits,
    near=_near,
    examples=_examples,
    needs=NEEDS,
    preferred=_preferred,
    timed=on_cpus,
)
