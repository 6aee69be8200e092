"""The GPU strategy of the gradient of a depthwise convolution in its weight: sums in registers.

A work-item sums up some rows of taps of a channel; depthwise/weight/windows.cl.jinja draws it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from clprim.plan.conv.dense import GPU, dense_depthwise
from clprim.plan.conv.problem import Convolution
from clprim.plan.depthwise.code import NEEDS, around
from clprim.plan.depthwise.registers import (
    MOST_SUMS,
    busy_items,
    interlaced,
    registers_hold,
    single_taps,
    taps_in_registers,
)
from clprim.plan.depthwise.weight.code import (
    DepthwiseGradient,
    GradientCode,
    gradient_arguments,
    gradient_code,
    gradient_plan,
    longest_split,
)
from clprim.plan.kernel import Plan, power_of_two, work_group
from clprim.plan.machine import GROUP, UNROLL
from clprim.plan.strategy import Example, Strategy
from clprim.traits import DeviceTraits

# Elements of the largest tile that the rule chooses from.
LARGEST = 8


@dataclass(frozen=True)
class GradientWindowsTile:
    """What a table keeps of this strategy."""

    rows: int  # Of the gradient, that meet the elements of x below them at once
    columns: int
    split: int  # Rows of such tiles that are a split
    group: int  # Work-items of a work-group, at most


@dataclass(frozen=True)
class GradientWindowsCode(GradientCode):
    """What depthwise/weight/windows.cl.jinja prints."""

    along: str  # What neighbouring work-items take: ``channel``, or tiles along a ``column``
    group: int  # Work-items that add up their sums
    kernel: tuple[int, int]  # Taps (rows, columns) whose sums are in registers
    stride: tuple[int, int]
    rows: int  # Of a tile of the gradient
    columns: int
    dilated: bool  # Whether taps are apart, and so the elements of a tile

    @property
    def below(self) -> tuple[int, int]:
        """Rows and columns of x that are below a tile."""
        (h, v), (sh, sv) = self.kernel, self.stride
        return (self.rows - 1) * sh + h, (self.columns - 1) * sv + v


def gradient_windows_applicable(what: DepthwiseGradient, _: DeviceTraits) -> bool:
    """Whether a row of taps fits the registers, and windows share what is below them."""
    lines = h, v = single_taps(what)
    few = taps_in_registers(h, v) > 0
    return few and all(line.stride == 1 or line.dilation == 1 for line in lines)


def gradient_windows_tile(what: DepthwiseGradient, traits: DeviceTraits) -> GradientWindowsTile:
    """Returns the rule's tile: the least instructions, and splits for the whole device."""
    h, v = single_taps(what)
    rows_of_taps = taps_in_registers(h, v)
    most = min(GROUP, power_of_two(traits.max_work_group_size + 1) // 2)
    group = most
    while group > 1 and not _fits_local(what, group, traits):
        group //= 2

    def cost(shape: tuple[int, int]) -> float:
        rows, columns = shape
        below = (rows - 1) * h.stride + rows_of_taps
        beside = (columns - 1) * v.stride + v.kernel
        a_tile = below * beside + rows * columns * (1 + rows_of_taps * v.kernel)
        return interlaced(h, rows) * interlaced(v, columns) * a_tile

    shapes = (
        GradientWindowsTile(rows, columns, _tile_rows(what, rows), group)
        for rows, columns in _shapes(_along(what))
    )
    tile = min(
        (t for t in shapes if fits_gradient_windows(t, what, traits)),
        key=lambda t: cost((t.rows, t.columns)),
    )
    lanes = min(group, interlaced(v, tile.columns)) if _along(what) == "column" else 1
    items = what.channels * (h.kernel // rows_of_taps) * what.images * lanes
    tile_rows, split = interlaced(h, tile.rows), tile.split
    while split > 1 and items * -(-tile_rows // split) < busy_items(traits):
        split //= 2
    return GradientWindowsTile(tile.rows, tile.columns, split, group)


def fits_gradient_windows(
    tile: GradientWindowsTile, what: DepthwiseGradient, traits: DeviceTraits
) -> bool:
    """Whether a device runs a tile for an applicable gradient."""
    h, v = single_taps(what)
    if power_of_two(tile.group) != tile.group or tile.group > traits.max_work_group_size:
        return False
    if tile.split > _tile_rows(what, tile.rows) or not _fits_local(what, tile.group, traits):
        return False
    if tile.rows > max(1, longest_split(what)):
        return False
    factors = tile.rows * tile.columns
    values = taps_in_registers(h, v) * v.kernel + factors
    small = registers_hold(values, what.value.itemsize, traits) and factors <= MOST_SUMS
    return small or factors == 1  # none is smaller


def plan_gradient_windows(
    what: DepthwiseGradient, traits: DeviceTraits, tile: GradientWindowsTile
) -> Plan:
    """Plans the kernels of an applicable gradient, see `gradient_windows_applicable`."""
    along, (h, v) = _along(what), single_taps(what)
    rows_of_taps = taps_in_registers(h, v)
    blocks = h.kernel // rows_of_taps
    dilated = max(h.dilation, v.dilation) > 1
    tile_rows, tile_columns = interlaced(h, tile.rows), interlaced(v, tile.columns)
    bands = -(-tile_rows // tile.split)
    splits = what.images * bands
    found = gradient_arguments(what)
    found.numbers(
        multiplier=what.multiplier,
        taps=what.taps,
        bands=bands,
        tile_rows=tile_rows,
        tile_columns=tile_columns,
        tile_rows_a_split=tile.split,
    )
    if dilated:
        found.numbers(row_dilation=h.dilation, column_dilation=v.dilation)
    local: tuple[int, ...]
    if along == "channel":
        group = 1
        local = (*work_group((what.channels, blocks), tile.group), 1)
        sizes = (what.channels, blocks, splits)
    else:
        group = min(tile.group, power_of_two(tile_columns))
        local = (group, 1, 1)
        sizes = (group, blocks * what.channels, splits)
    code = GradientWindowsCode(
        **gradient_code(what, found, along),
        along=along,
        group=group,
        kernel=(rows_of_taps, v.kernel),
        stride=(h.stride, v.stride),
        rows=tile.rows,
        columns=tile.columns,
        dilated=dilated,
    )
    return gradient_plan(
        what, "depthwise/weight/windows", code, found, sizes, local, splits, traits
    )


def _shapes(along: str) -> Iterator[tuple[int, int]]:
    """Yields rows and columns of tiles: one column where neighbours' reads would be apart."""
    powers = [1 << n for n in range(LARGEST.bit_length())]
    for rows, columns in itertools.product(powers, powers):
        fits = columns == 1 if along == "column" else rows <= columns <= UNROLL
        if fits and rows * columns <= LARGEST:
            yield rows, columns


def _along(what: DepthwiseGradient) -> str:
    return "channel" if what.channels > 1 and what.grad.channel == 1 else "column"


def _tile_rows(what: DepthwiseGradient, rows: int) -> int:
    """Rows of tiles of a split at most: sums of more would get too long."""
    h, _ = single_taps(what)
    return max(1, min(interlaced(h, rows), longest_split(what) // rows))


def _fits_local(what: DepthwiseGradient, group: int, traits: DeviceTraits) -> bool:
    """Whether local memory holds the sums of a work-group, where it adds them up."""
    h, v = single_taps(what)
    sums = taps_in_registers(h, v) * v.kernel * (group + 1)
    return _along(what) == "channel" or sums * what.value.itemsize <= traits.local_memory


def _near(rule: GradientWindowsTile, *_: object) -> Iterator[GradientWindowsTile]:
    for rows, columns in itertools.product((1, 2, 4), (1, 2, 4)):
        split = max(1, rule.split * rule.rows // rows)
        yield replace(rule, rows=rows, columns=columns, split=split)
    for split, group in itertools.product(around(rule.split), (32, 64, 128)):
        yield replace(rule, split=split, group=group)


def _examples() -> Iterator[Example[Convolution]]:
    yield Example("columns", dense_depthwise(2, 32, 14, direction="weight"), GPU)
    yield Example("channels", dense_depthwise(2, 32, 14, last=True, direction="weight"), GPU)


GRADIENT_WINDOWS: Strategy[DepthwiseGradient] = Strategy(
    "depthwise/weight/windows",
    GradientWindowsTile,
    applicable=gradient_windows_applicable,
    rule=gradient_windows_tile,
    plan=plan_gradient_windows,
    fits=fits_gradient_windows,
    near=_near,
    examples=_examples,
    needs=NEEDS,
)
