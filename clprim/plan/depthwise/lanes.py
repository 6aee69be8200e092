"""Depthwise convolutions that no other kernel takes: any taps, strides and dilations.

A work-item sums up a few outputs; its neighbours take what lies beside them in memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from clprim.plan.conv.dense import GPU, dense_depthwise
from clprim.plan.conv.problem import Convolution
from clprim.plan.depthwise.code import (
    CLIP,
    NEEDS,
    DepthwiseCode,
    add_taps,
    arguments_of_any,
    stores,
)
from clprim.plan.depthwise.problem import Depthwise, moved_bytes
from clprim.plan.depthwise.registers import MOST_SUMS
from clprim.plan.kernel import KernelPlan, OperandCode, Plan, round_up, work_group
from clprim.plan.machine import GROUP, UNROLL
from clprim.plan.strategy import Example, Strategy
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class LanesTile:
    """What a table keeps of this strategy."""

    outputs: int  # Of a work-item; each tap is read once for all of them
    group: int  # Work-items of a work-group, at most


@dataclass(frozen=True)
class LanesCode(DepthwiseCode):
    """What depthwise/lanes.cl.jinja prints."""

    w: OperandCode
    along: str  # What neighbouring work-items take: ``channel`` or ``column``
    outputs_a_item: int  # Outputs of a work-item, along the next axis


def _tile(what: Depthwise, traits: DeviceTraits) -> LanesTile:
    """Returns the rule's tile."""
    return LanesTile(UNROLL, min(GROUP if traits.is_cpu else 4 * GROUP, traits.max_work_group_size))


def _fits(tile: LanesTile, _: Depthwise, traits: DeviceTraits) -> bool:
    """Whether a device runs a tile."""
    return tile.outputs <= MOST_SUMS and tile.group <= traits.max_work_group_size


def _plan(what: Depthwise, traits: DeviceTraits, tile: LanesTile) -> Plan:
    """Plans the kernel of a convolution."""
    along = "channel" if what.channels > 1 and abs(what.y.channel) == 1 else "column"
    base = stores(what, 1, along, traits, streaming=False)
    found = arguments_of_any(what, base)
    h, v = what.rows, what.columns
    add_taps(found, h, v)
    code = LanesCode(
        **base,
        parameters=tuple(found.parameters),
        kernel=(0, 0),
        stride=(0, 0),
        w=OperandCode.of("w", what.w.dtype, what.value, 2),
        along=along,
        outputs_a_item=tile.outputs,
    )
    if along == "channel":
        sizes = (what.channels, -(-v.outputs // tile.outputs), what.images * h.outputs)
    else:
        sizes = (v.outputs, -(-h.outputs // tile.outputs), what.images * what.channels)
    local = (*work_group(sizes[:2], tile.group), 1)
    main = KernelPlan(
        "depthwise/lanes",
        code,
        tuple(found.arguments),
        tuple(round_up(size, group) for size, group in zip(sizes, local, strict=True)),
        local,
        moved_bytes(what),
        what.flops,
    )
    return Plan((main,))


def _near(_: LanesTile, *__: object) -> Iterator[LanesTile]:
    for outputs, group in itertools.product((1, 2, 4, 8), (64, 128, 256)):
        yield LanesTile(outputs, group)


def _examples() -> Iterator[Example[Convolution]]:
    yield Example("", dense_depthwise(2, 32, 14, stride=4, epilogue=CLIP), GPU)
    yield Example(
        "adjoint",
        dense_depthwise(2, 32, 14, stride=4, direction="input", epilogue=CLIP),
        GPU,
    )


LANES: Strategy[Depthwise] = Strategy(
    "depthwise/lanes",
    LanesTile,
    applicable=lambda *_: True,
    rule=_tile,
    plan=_plan,
    fits=_fits,
    near=_near,
    examples=_examples,
    needs=NEEDS,
)
