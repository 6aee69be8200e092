"""The GPU strategy of depthwise convolutions: windows in registers, arrays of any strides.

A work-item sums up a tile of rows × columns of a channel; depthwise/windows.cl.jinja draws it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from clprim.plan.conv.dense import GPU, dense_depthwise
from clprim.plan.conv.problem import Convolution
from clprim.plan.cost import GroupWork
from clprim.plan.depthwise.code import HALVED, NEEDS, TiledCode, arguments_of, stores
from clprim.plan.depthwise.problem import Depthwise, moved_bytes
from clprim.plan.depthwise.registers import (
    MOST_SUMS,
    MOST_TAPS,
    busy_items,
    interlaced,
    registers_hold,
    single_taps,
    taps_in_registers,
)
from clprim.plan.kernel import KernelPlan, OperandCode, Plan, round_up, work_group
from clprim.plan.strategy import Example, Strategy
from clprim.traits import DeviceTraits

# Rows, and columns, of the tiles that a rule chooses from.
MOST = 4
# Instructions of a GPU beside a multiply-add: of reading an element of a window, of storing a sum;
# and how many times more of both for each column that neighbours are apart beside the first.
READ, STORE, APART = 6.4, 2.0, 0.22


@dataclass(frozen=True)
class WindowsTile:
    """What a table keeps of this strategy."""

    rows: int  # Outputs that are summed up in registers
    columns: int
    group: int  # Work-items of a work-group, at most


@dataclass(frozen=True)
class WindowsCode(TiledCode):
    """What depthwise/windows.cl.jinja prints; ``kernel`` are the taps in registers."""

    w: OperandCode
    along: str  # What neighbouring work-items take: ``channel`` or ``column``
    dilated: bool  # Whether taps are apart, and so the outputs of a tile
    looped: bool  # Whether more rows of taps follow those in registers


def _applicable(what: Depthwise, _: DeviceTraits) -> bool:
    """Whether a row of taps fits the registers, and windows share what is below them."""
    h, v = single_taps(what)
    if not taps_in_registers(h, v):
        return False
    if what.adjoint:
        whole = taps_in_registers(h, v) == h.kernel
        return whole and h.dilation == v.dilation == 1 and min(h.before, v.before) >= 0
    return all(line.stride == 1 or line.dilation == 1 for line in (h, v))


def _tile(what: Depthwise, traits: DeviceTraits) -> WindowsTile:
    """Returns the rule's tile: what promises most of few, as each is compiled."""
    if traits.is_cpu:
        # One column wide where columns lie side by side, or its neighbours' reads would be apart.
        columns = MOST if _along(what) == "channel" else 1
        return _ordered(what, traits, MOST, columns, groups=1)[0]
    return _ordered(what, traits, MOST)[0]


def _ordered(
    what: Depthwise, traits: DeviceTraits, rows: int, columns: int = MOST, groups: int = 3
) -> list[WindowsTile]:
    """Returns the tiles of at most such sizes that fit a device, what promises most first."""
    sizes = range(1, rows + 1), range(1, columns + 1)
    h, v = _steps(what)
    most = 1 << (traits.max_work_group_size.bit_length() - 1)
    every = dict.fromkeys(
        WindowsTile(rows * h, columns * v, min(group, most))
        for rows, columns, group in itertools.product(*sizes, (64, 128, 256)[:groups])
    )
    fitting = [tile for tile in every if _fits(tile, what, traits)]
    return sorted(fitting, key=lambda tile: _cost(what, tile, traits))


def _cost(what: Depthwise, tile: WindowsTile, traits: DeviceTraits) -> float:
    """Returns what a tile takes: on a CPU instructions, if there are items for all units."""
    # Elsewhere as `clprim.plan.cost` counts; no read of a window waits for another.
    if traits.is_cpu:
        items = what.images * what.channels * math.prod(_tiles_a_plane(what, tile))
        return items * _instructions(what, tile) / min(items, busy_items(traits))
    h, v = single_taps(what)
    taps, sums = h.kernel * v.kernel, tile.rows * tile.columns
    reads, products = _reads(what, tile), sums * taps
    if what.adjoint:
        products //= h.stride * v.stride
    apart = 1 + APART * (tile.columns - 1) if _along(what) == "column" else 1.0
    sizes, local = _sizes(what, tile)
    groups = math.prod(-(-size // of) for size, of in zip(sizes, local, strict=True))
    ends = what.multiplier * (apart * READ * reads + taps + products) + apart * STORE * sums
    work = GroupWork(groups, math.prod(local), sums + taps, 0, 0, ends, waiting=0)
    return work.cost(traits)


def _fits(tile: WindowsTile, what: Depthwise, traits: DeviceTraits) -> bool:
    """Whether a device runs a tile for an applicable convolution, see `_applicable`."""
    h, v = _steps(what)
    # Tiles of the adjoint begin at whole strides.
    if tile.rows % h or tile.columns % v or tile.group > traits.max_work_group_size:
        return False
    if (tile.rows, tile.columns) == (h, v):
        return True  # none is smaller
    sums = tile.rows * tile.columns
    values = sums + min(MOST_TAPS, what.rows.kernel * what.columns.kernel)
    return sums <= MOST_SUMS and registers_hold(values, what.value.itemsize, traits)


def _plan(what: Depthwise, traits: DeviceTraits, tile: WindowsTile) -> Plan:
    """Plans the kernel of an applicable convolution, see `_applicable`."""
    along, (h, v) = _along(what), single_taps(what)
    base = stores(what, 1, along, traits, streaming=False)
    in_registers = taps_in_registers(h, v)
    dilated, looped = max(h.dilation, v.dilation) > 1, in_registers < h.kernel
    found = arguments_of(what, base, "w")
    found.numbers(
        channels=what.channels,
        multiplier=what.multiplier,
        x_rows=what.rows.inputs,
        x_columns=what.columns.inputs,
        y_rows=what.rows.outputs,
        y_columns=what.columns.outputs,
        rows_before=what.rows.before,
        columns_before=what.columns.before,
    )
    if along == "channel":
        found.numbers(tile_rows=_tiles_a_plane(what, tile)[0])
    if dilated:
        found.numbers(row_dilation=h.dilation, column_dilation=v.dilation)
    if looped:
        found.numbers(kernel_rows=h.kernel)
    code = WindowsCode(
        **base,
        parameters=tuple(found.parameters),
        kernel=(in_registers, v.kernel),
        stride=(h.stride, v.stride),
        w=OperandCode.of("w", what.w.dtype, what.value, 2),
        along=along,
        rows=tile.rows,
        columns=tile.columns,
        phase=(h.before % h.stride, v.before % v.stride) if what.adjoint else (0, 0),
        dilated=dilated,
        looped=looped,
    )
    sizes, local = _sizes(what, tile)
    main = KernelPlan(
        "depthwise/windows",
        code,
        tuple(found.arguments),
        tuple(round_up(size, group) for size, group in zip(sizes, local, strict=True)),
        local,
        moved_bytes(what),
        what.flops,
    )
    return Plan((main,))


def _sizes(what: Depthwise, tile: WindowsTile) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Work-items of all, and of a work-group."""
    tile_rows, tile_columns = _tiles_a_plane(what, tile)
    if _along(what) == "channel":
        sizes = (what.channels, tile_columns, what.images * tile_rows)
    else:
        sizes = (tile_columns, tile_rows, what.images * what.channels)
    return sizes, (*work_group(sizes[:2], tile.group), 1)


def _along(what: Depthwise) -> str:
    return "channel" if what.channels > 1 and abs(what.y.channel) == 1 else "column"


def _steps(what: Depthwise) -> tuple[int, int]:
    """What the rows and columns of a tile are multiples of."""
    return (what.rows.stride, what.columns.stride) if what.adjoint else (1, 1)


def _tiles_a_plane(what: Depthwise, tile: WindowsTile) -> tuple[int, int]:
    """Rows and columns of tiles."""
    h, v = single_taps(what)
    return interlaced(h, tile.rows), interlaced(v, tile.columns)


def _instructions(what: Depthwise, tile: WindowsTile) -> float:
    """About what a work-item does: reads of windows and taps, multiply-adds, stores."""
    h, v = single_taps(what)
    taps, sums, reads = h.kernel * v.kernel, tile.rows * tile.columns, _reads(what, tile)
    if what.adjoint:
        taps_an_output = taps / (h.stride * v.stride)
        return what.multiplier * (reads + taps + sums * taps_an_output) + 2 * sums
    return reads + taps + sums * (taps + 2)


def _reads(what: Depthwise, tile: WindowsTile) -> float:
    """How many elements of windows a work-item reads, for each output of a channel."""
    h, v = single_taps(what)
    if what.adjoint:
        return (tile.rows + h.kernel) / h.stride * (tile.columns + v.kernel) / v.stride
    rows = taps_in_registers(h, v)
    below = (tile.rows - 1) * h.stride + rows
    return h.kernel // rows * below * ((tile.columns - 1) * v.stride + v.kernel)


def _near(_: WindowsTile, what: Depthwise, traits: DeviceTraits) -> Iterator[WindowsTile]:
    yield from _ordered(what, traits, 2 * MOST)


def _examples() -> Iterator[Example[Convolution]]:
    yield Example("", dense_depthwise(2, 32, 14, epilogue=HALVED), GPU)
    yield Example(
        "loops",
        dense_depthwise(2, 32, 14, 9, dilation=2, last=True, epilogue=HALVED),
        GPU,
    )
    yield Example(
        "adjoint",
        dense_depthwise(2, 32, 14, stride=2, direction="input", epilogue=HALVED),
        GPU,
    )


WINDOWS: Strategy[Depthwise] = Strategy(
    "depthwise/windows",
    WindowsTile,
    applicable=_applicable,
    rule=_tile,
    plan=_plan,
    fits=_fits,
    near=_near,
    examples=_examples,
    needs=NEEDS,
)
