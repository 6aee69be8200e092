"""The strategy of the gradient in the weight that takes arrays of any strides, on any device.

A work-item sums up one tap of a channel over some rows.
depthwise/weight/lanes.cl.jinja draws it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from clprim.plan.conv.dense import GPU, dense_depthwise
from clprim.plan.conv.problem import Convolution
from clprim.plan.depthwise.code import NEEDS, around
from clprim.plan.depthwise.weight.code import (
    DepthwiseGradient,
    GradientCode,
    gradient_arguments,
    gradient_code,
    gradient_plan,
    longest_split,
)
from clprim.plan.kernel import (
    Plan,
    power_of_two,
    work_group,
)
from clprim.plan.strategy import Example, Strategy
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class GradientLanesTile:
    """What a table keeps of this strategy."""

    rows: int  # Of the gradient that are a split
    group: int  # Work-items of a work-group, at most


@dataclass(frozen=True)
class GradientLanesCode(GradientCode):
    """What depthwise/weight/lanes.cl.jinja prints."""

    along: str  # What neighbouring work-items take: ``channel``, or ``column``s that they add up
    group: int  # Work-items that add up columns


def gradient_lanes_tile(what: DepthwiseGradient, traits: DeviceTraits) -> GradientLanesTile:
    """Returns the rule's tile."""
    rows = what.rows.outputs
    items = what.channels * what.taps * what.images
    a_split = longest_split(what)
    wanted = 64 * traits.compute_units * (1 if traits.is_cpu else 64)
    while a_split > 1 and items * -(-rows // a_split) < wanted:
        a_split //= 2
    return GradientLanesTile(a_split, min(64, power_of_two(traits.max_work_group_size + 1) // 2))


def fits_gradient_lanes(
    tile: GradientLanesTile, what: DepthwiseGradient, traits: DeviceTraits
) -> bool:
    """Whether a device runs a tile, and no sum gets too long."""
    group = tile.group
    power = power_of_two(group) == group
    return power and group <= traits.max_work_group_size and tile.rows <= longest_split(what)


def plan_gradient_lanes(
    what: DepthwiseGradient, traits: DeviceTraits, tile: GradientLanesTile
) -> Plan:
    """Plans the kernels of a gradient in the weight, of arrays of any strides."""
    h, v = what.rows, what.columns
    along = "channel" if what.channels > 1 and what.grad.channel == 1 else "column"
    group = min(tile.group, power_of_two(v.outputs)) if along == "column" else 1
    found = gradient_arguments(what)
    # A split is some rows of an image.
    a_split = tile.rows
    bands = -(-h.outputs // a_split)
    found.numbers(
        multiplier=what.multiplier,
        taps=what.taps,
        bands=bands,
        rows_a_split=a_split,
        kernel_columns=v.kernel,
        row_stride=h.stride,
        column_stride=v.stride,
        row_dilation=h.dilation,
        column_dilation=v.dilation,
    )
    code = GradientLanesCode(**gradient_code(what, found, along), along=along, group=group)
    splits = what.images * bands
    if along == "channel":
        local = (*work_group((what.channels, what.taps), tile.group), 1)
        sizes = (what.channels, what.taps, splits)
    else:
        local = (group, 1, 1)
        sizes = (group, what.taps * what.channels, splits)
    return gradient_plan(what, "depthwise/weight/lanes", code, found, sizes, local, splits, traits)


def _near(rule: GradientLanesTile, *_: object) -> Iterator[GradientLanesTile]:
    for rows, group in itertools.product(around(rule.rows), (32, 64, 128)):
        yield GradientLanesTile(rows, group)


def _examples() -> Iterator[Example[Convolution]]:
    yield Example("", dense_depthwise(2, 32, 14, stride=4, direction="weight"), GPU)


GRADIENT_LANES: Strategy[DepthwiseGradient] = Strategy(
    "depthwise/weight/lanes",
    GradientLanesTile,
    applicable=lambda *_: True,
    rule=gradient_lanes_tile,
    plan=plan_gradient_lanes,
    fits=fits_gradient_lanes,
    near=_near,
    examples=_examples,
    needs=NEEDS,
)
