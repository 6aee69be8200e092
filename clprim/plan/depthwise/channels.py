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
from clprim.plan.depthwise.code import (
    CLIP,
    ITEMS_WORTH_TIMING,
    NEEDS,
    TiledCode,
    add_taps,
    arguments_of,
    around,
    on_cpus,
    pack_taps,
    passes_cache,
    spread_rows,
    stores,
    unrolls,
)
from clprim.plan.depthwise.problem import Depthwise, moved_bytes
from clprim.plan.kernel import KernelPlan, Plan, power_of_two, round_up
from clprim.plan.strategy import Example, Strategy
from clprim.traits import DeviceTraits

# Bytes of x below a tile, of all vectors of a block, that stay in a core's nearest cache.
BLOCK_BYTES = 24 << 10
# Work-items a compute unit, unless a table says otherwise.
ITEMS = 8
# What an output counts in a tile of rows × columns, outputs past the end of the planes included:
# an order of tiles, no times.
_SHAPES = {(4, 4): 1.0, (7, 2): 1.02, (2, 7): 1.05, (2, 4): 1.06, (1, 7): 1.2}
_STRIDED = {(2, 4): 1.0, (7, 2): 1.02, (1, 7): 1.05}
# Multiply-adds of a unit that take no longer than the launch that packs a weight: fewer of them are
# left to kernels that read the weight where it lies, if work-items share vectors there.
PACKED_FROM = 100_000
# Sums of a tile that some registers can be found for.
MOST_SUMS = 28


@dataclass(frozen=True)
class ChannelsTile:
    """What a table keeps of this strategy.

    Attributes:
        rows, columns: Outputs that are summed up in registers, a vector of channels of each.
        vectors: Vectors of channels that take turns at a place, before the next place.
        items: Work-items a compute unit: more of them are balanced better, and read the rows that
            windows share more often.
    """

    rows: int
    columns: int
    vectors: int
    items: int


@dataclass(frozen=True)
class ChannelsCode(TiledCode):
    """What depthwise/channels.cl.jinja prints.

    Attributes:
        ahead: Whether what the next tile reads is prefetched.
    """

    ahead: bool


def _applicable(what: Depthwise, traits: DeviceTraits) -> bool:
    """Whether this strategy can do a convolution: vectors of channels must be there."""
    y_or_x = what.x.channel == 1 and (what.y.channel == 1 or what.channels == 1)
    return y_or_x and what.multiplier == 1 and _width(what, traits) > 1


def _tile(what: Depthwise, traits: DeviceTraits) -> ChannelsTile:
    """Returns the rule's tile."""
    rows, columns = _shape(what, unrolls(what.rows, what.columns), traits)
    vectors = -(-what.channels // _width(what, traits))
    below = (rows + what.rows.kernel) * (columns + what.columns.kernel)
    a_vector = below * _width(what, traits) * what.x.dtype.itemsize
    return ChannelsTile(rows, columns, max(1, min(vectors, BLOCK_BYTES // a_vector)), ITEMS)


def _fits(tile: ChannelsTile, what: Depthwise, _: DeviceTraits) -> bool:
    """Whether a tile can be taken for an applicable convolution, see `_applicable`."""
    if tile.rows * tile.columns > MOST_SUMS:
        return False
    if not unrolls(what.rows, what.columns):
        return tile.rows == 1
    # Tiles of the adjoint begin at whole strides.
    return not what.adjoint or not (
        tile.rows % what.rows.stride or tile.columns % what.columns.stride
    )


def _plan(what: Depthwise, traits: DeviceTraits, tile: ChannelsTile) -> Plan:
    """Plans the kernels of an applicable convolution, see `_applicable`.

    Args:
        what: The convolution; nothing of it may be empty.
        traits: Of the device.
        tile: One that fits.
    """
    width = _width(what, traits)
    h, v = what.rows, what.columns
    large = passes_cache(what, traits)
    base = stores(what, width, "channel", traits, streaming=traits.streams(moved_bytes(what)))
    unrolled = unrolls(what.rows, what.columns)
    kernel = (h.kernel, v.kernel) if unrolled else (0, 0)
    stride = (h.stride, v.stride) if unrolled else (0, 0)
    phase = (h.before % h.stride, v.before % v.stride) if unrolled and what.adjoint else (0, 0)

    vectors = -(-what.channels // width)
    a_block = min(vectors, tile.vectors)
    wanted = tile.items * traits.compute_units
    a_item = spread_rows(what.images, h.outputs, tile.rows, wanted)
    bands = -(-(h.outputs) // a_item)
    groups = max(1, min(-(-vectors // a_block), wanted // (what.images * bands)))
    vectors_a_item = -(-vectors // groups)

    found = arguments_of(what, base, "packed")
    found.numbers(
        channels=what.channels,
        vectors=vectors,
        vectors_a_item=vectors_a_item,
        vectors_a_block=a_block,
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
        ahead=large and unrolled and traits.prefetch,
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
    most = max(1, min(16, traits.vector_bytes // what.value.itemsize, what.channels))
    largest = power_of_two(most)
    return largest if largest == most else largest // 2


def _shape(what: Depthwise, unrolled: bool, traits: DeviceTraits) -> tuple[int, int]:
    """Rows and columns of a tile: 14 or 16 sums leave registers for taps and a vector of x."""
    if not unrolled:
        return 1, 8
    h, v = what.rows, what.columns
    if what.adjoint:
        # Columns that are left over cost more than sums that hardly fit the registers.
        if v.stride == 2 and v.outputs % 4 and not v.outputs % 14 and traits.vector_bytes >= 64:
            return h.stride, 14
        # By streaming stores, tiles of many rows would write to many places at once.
        return h.stride if passes_cache(what, traits) else 2 * h.stride, 4
    shapes = _STRIDED if max(h.stride, v.stride) > 1 else _SHAPES
    fit = [s for s in shapes if s[0] * s[1] <= 14 or traits.vector_bytes >= 64]
    return min(fit, key=lambda s: round_up(h.outputs, s[0]) * round_up(v.outputs, s[1]) * shapes[s])


def _preferred(what: Depthwise, traits: DeviceTraits) -> bool:
    """Whether it is a CPU, and packing the weight is worth a launch."""
    small = what.flops // 2 < PACKED_FROM * traits.compute_units
    return traits.is_cpu and (what.kept or traits.sub_group_size == 1 or not small)


# Tiles worth timing, rows × columns.
_NEAR = ((1, 7), (1, 8), (1, 14), (2, 4), (2, 7), (2, 8), (4, 4))


def _near(rule: ChannelsTile, *_: object) -> Iterator[ChannelsTile]:
    """Yields tiles that differ in what is compiled, then those that differ in loops."""
    for rows, columns in _NEAR:
        yield replace(rule, rows=rows, columns=columns)
    for vectors in around(rule.vectors):
        yield replace(rule, vectors=vectors)
    for items in ITEMS_WORTH_TIMING:
        yield replace(rule, items=items)


def _examples() -> Iterator[Example[Convolution]]:
    yield Example("", dense_depthwise(2, 32, 14, last=True, epilogue=CLIP), CPU)
    yield Example(
        "adjoint",
        dense_depthwise(2, 32, 14, last=True, stride=2, direction="input", epilogue=CLIP),
        CPU,
    )
    yield Example(
        "loops",
        dense_depthwise(2, 32, 14, last=True, dilation=2, dtype=np.float16, epilogue=CLIP),
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
