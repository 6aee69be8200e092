"""The CPU strategy of depthwise convolutions whose planes keep their size, and have no gaps.

A plane is one run of vectors, and a tap the same run elsewhere; depthwise/flat.cl.jinja draws it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from clprim.plan.conv.dense import CPU, dense_depthwise
from clprim.plan.conv.problem import Convolution
from clprim.plan.depthwise.code import (
    CLIP,
    ITEMS_WORTH_TIMING,
    NEEDS,
    UNROLLED,
    DepthwiseCode,
    arguments_of,
    is_masked,
    joins_rows,
    on_cpus,
    passes_cache,
    plane_vector,
    spread_rows,
    stores,
)
from clprim.plan.depthwise.problem import Depthwise, moved_bytes
from clprim.plan.kernel import KernelPlan, OperandCode, Plan
from clprim.plan.strategy import Example, Strategy
from clprim.traits import DeviceTraits

__all__ = ["FLAT", "FlatCode", "FlatTile"]

# Of local memory, for masks.
MASK_BYTES = 16 << 10
# Work-items a compute unit, unless a table says otherwise.
ITEMS = 8


@dataclass(frozen=True)
class FlatTile:
    """What a table keeps of this strategy.

    Attributes:
        items: Work-items a compute unit.
    """

    items: int


@dataclass(frozen=True)
class FlatCode(DepthwiseCode):
    """What depthwise/flat.cl.jinja prints.

    Attributes:
        w: The weight.
        masked: Of every column of taps, whether it reaches into another row.
        neighbours: Whether taps of a row are neighbours.
        masks: Elements of local memory.
    """

    w: OperandCode
    masked: tuple[bool, ...]
    neighbours: bool
    masks: int


def _takes(what: Depthwise, traits: DeviceTraits) -> bool:
    """Whether this strategy can do a convolution."""
    h, v = what.rows, what.columns
    width = plane_vector(what, traits)
    if what.adjoint or what.x.column != 1 or what.y.column != 1 or width < 2:
        return False
    if v.kernel not in UNROLLED or h.kernel not in (1, v.kernel):
        return False
    if (h.stride, v.stride) != (1, 1) or (h.inputs, v.inputs) != (h.outputs, v.outputs):
        return False
    if what.x.row != v.inputs and h.inputs > 1:
        return False
    if h.outputs * v.outputs + h.reach * v.outputs >= 2**31 - 2**20:
        return False
    return joins_rows(what) and _period(what, width) * v.kernel * width <= _masks(what, traits)


def _tile(what: Depthwise, traits: DeviceTraits) -> FlatTile:
    """Returns the rule's tile."""
    return FlatTile(ITEMS)


def _plan(what: Depthwise, traits: DeviceTraits, tile: FlatTile) -> Plan:
    """Plans the kernel of a convolution that `_takes`.

    Args:
        what: The convolution; nothing of it may be empty.
        traits: Of the device.
        tile: Any.
    """
    width = plane_vector(what, traits)
    h, v = what.rows, what.columns
    base = stores(
        what, width, "column", traits, streaming=traits.streaming and passes_cache(what, traits)
    )
    planes = what.images * what.channels
    wanted = tile.items * traits.compute_units
    rows_a_item = spread_rows(planes, h.outputs, 1, wanted)
    planes_a_item = max(1, planes // wanted)

    found = arguments_of(what, base, "w")
    found.numbers(
        w_start=what.w.start,
        w_channel=what.w.image,
        w_row=what.w.row,
        w_column=what.w.column,
        planes=planes,
        planes_a_item=planes_a_item,
        channels=what.channels,
        multiplier=what.multiplier,
        x_size=what.x_end,
        y_rows=h.outputs,
        y_columns=v.outputs,
        rows_before=h.before,
        columns_before=v.before,
        row_dilation=h.dilation,
        column_dilation=v.dilation,
        rows_a_item=rows_a_item,
        period=_period(what, width),
    )
    code = FlatCode(
        **base,
        parameters=tuple(found.parameters),
        kernel=(h.kernel, v.kernel),
        stride=(1, 1),
        w=OperandCode.of("w", what.w.dtype, what.value, 2),
        masked=tuple(is_masked(v, kw) for kw in range(v.kernel)),
        neighbours=v.dilation == 1,
        masks=_masks(what, traits),
    )
    main = KernelPlan(
        "depthwise/flat",
        code,
        tuple(found.arguments),
        (-(-planes // planes_a_item), -(-h.outputs // rows_a_item), 1),
        (1, 1, 1),
        moved_bytes(what),
        what.flops,
    )
    return Plan((main,))


def _period(what: Depthwise, width: int) -> int:
    """Vectors after which they begin at the same column again."""
    return what.columns.outputs // math.gcd(what.columns.outputs, width)


def _masks(what: Depthwise, traits: DeviceTraits) -> int:
    return min(traits.local_memory, MASK_BYTES) // what.value.itemsize


def _near(rule: FlatTile, *_: object) -> Iterator[FlatTile]:
    for items in ITEMS_WORTH_TIMING:
        yield replace(rule, items=items)


def _examples() -> Iterator[Example[Convolution]]:
    yield Example("", dense_depthwise(2, 32, 112, epilogue=CLIP, beta=True), CPU)


FLAT: Strategy[Depthwise] = Strategy(
    "depthwise/flat",
    FlatTile,
    takes=_takes,
    rule=_tile,
    plan=_plan,
    fits=lambda *_: True,
    near=_near,
    examples=_examples,
    needs=NEEDS,
    meant=on_cpus,
)
