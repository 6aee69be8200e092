"""The strategy of the gradient in the weight by vectors of channels, on CPUs.

depthwise/weight/channels.cl.jinja draws it.
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
from clprim.plan.depthwise.registers import COLUMNS, MOST_SUMS
from clprim.plan.depthwise.weight.code import (
    DepthwiseGradient,
    gradient_arguments,
    gradient_code,
    gradient_plan,
)
from clprim.plan.depthwise.weight.unrolled import UnrolledGradientCode
from clprim.plan.kernel import Plan, round_up
from clprim.plan.machine import CHAIN, ITEMS, near
from clprim.plan.strategy import Example, Strategy
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class GradientChannelsTile:
    """What a table keeps of this strategy."""

    columns: int  # Of the gradient that share the vectors of x below them
    vectors: int  # Vectors of channels that take turns at a place; local memory keeps their sums
    items: int  # Work-items a compute unit; each has splits of its own


@dataclass(frozen=True)
class GradientChannelsCode(UnrolledGradientCode):
    """What depthwise/weight/channels.cl.jinja prints."""

    columns: int  # Of the gradient that are taken at once
    taps_rows: int  # Rows of taps that are summed up at once
    sums: int


def gradient_channels_applicable(what: DepthwiseGradient, traits: DeviceTraits) -> bool:
    """Whether vectors of channels are there, and taps that can be unrolled."""
    together = what.x.channel == 1 and what.grad.channel == 1 and what.multiplier == 1
    return together and what.channels >= _most(what, traits) and unrolls(what.rows, what.columns)


def gradient_channels_tile(what: DepthwiseGradient, traits: DeviceTraits) -> GradientChannelsTile:
    """Returns the rule's tile."""
    vectors = -(-what.channels // _most(what, traits))
    _, _, sums, a_vector = _sums(what, traits)
    return GradientChannelsTile(COLUMNS, max(1, min(vectors, sums // a_vector)), ITEMS // 2)


def fits_gradient_channels(
    tile: GradientChannelsTile, what: DepthwiseGradient, traits: DeviceTraits
) -> bool:
    """Whether registers hold a tile's columns, and local memory the sums of its vectors."""
    _, _, sums, a_vector = _sums(what, traits)
    return tile.columns <= MOST_SUMS and tile.vectors * a_vector <= sums


def _sums(what: DepthwiseGradient, traits: DeviceTraits) -> tuple[int, int, int, int]:
    """Returns rows of taps at once, taps in whole such rows, elements of sums, those a vector."""
    width, h, v = _most(what, traits), what.rows, what.columns
    taps_rows = min(h.kernel, max(1, traits.sums // v.kernel))
    taps = round_up(h.kernel, taps_rows) * v.kernel
    sums = max(taps * width, min(traits.local_memory, near(traits)) // what.value.itemsize)
    return taps_rows, taps, sums, taps * width


def plan_gradient_channels(
    what: DepthwiseGradient, traits: DeviceTraits, tile: GradientChannelsTile
) -> Plan:
    """Plans the kernels of an applicable gradient, see `gradient_channels_applicable`."""
    width = _most(what, traits)
    h, v = what.rows, what.columns
    vectors = -(-what.channels // width)
    wanted = tile.items * traits.compute_units
    a_split = spread_rows(what.images, h.outputs, 1, wanted)
    a_split = max(1, min(a_split, CHAIN // v.outputs))
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


def _most(what: DepthwiseGradient, traits: DeviceTraits) -> int:
    """Lanes of a vector of channels."""
    return max(2, traits.lanes(what.value.itemsize))


def _near(rule: GradientChannelsTile, *_: object) -> Iterator[GradientChannelsTile]:
    for columns in (4, 7, 8, 14):
        yield replace(rule, columns=columns)
    for vectors in around(rule.vectors):
        yield replace(rule, vectors=vectors)
    for items in ITEMS_WORTH_TIMING:
        yield replace(rule, items=items)


def _examples() -> Iterator[Example[Convolution]]:
    yield Example("", dense_depthwise(2, 32, 14, last=True, direction="weight"), CPU)


GRADIENT_CHANNELS: Strategy[DepthwiseGradient] = Strategy(
    "depthwise/weight/channels",
    GradientChannelsTile,
    applicable=gradient_channels_applicable,
    rule=gradient_channels_tile,
    plan=plan_gradient_channels,
    fits=fits_gradient_channels,
    near=_near,
    examples=_examples,
    needs=NEEDS,
    preferred=on_cpus,
)
