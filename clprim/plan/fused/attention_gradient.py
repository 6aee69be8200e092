"""Plans the gradients of attention on CPUs as one kernel: a work-item has some blocks of keys.

Keys are the lanes of vectors, as queries are in the result's kernel: what all queries make of some
keys is made again, block by block of queries, and stays in the nearest cache until it is in the
gradients of these keys, of their values, and of the queries. The latter come from all blocks of
keys: so that nobody waits, work-items add them up apart, and their sums are added in order. The
gradient of a mask is what products have, which a work-item adds up over heads that share the mask.

Weights are made again from the logarithm of each query's sum. Where all scores of a query are far
from 0, as behind a mask of finite numbers, rounding has taken from it what tells how many keys
there are: a kernel before finds the largest score and the sum below it again, of these queries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from clprim.plan.fused.heads import (
    KEYS,
    ROWS,
    VECTORS,
    AttentionCode,
    Heads,
    few_lanes,
    head_kernel,
    room,
    vectors_of,
)
from clprim.plan.kernel import Plan, round_up
from clprim.plan.machine import ITEMS
from clprim.plan.strides import Shape
from clprim.traits import DeviceTraits

# Bound: a logarithm from which on weights that are made from it alone are too coarse.
LARGE = 64


@dataclass(frozen=True)
class GradientTiles:
    """What is summed up at a time."""

    width: int
    vectors: int
    rows: int  # Queries, and later elements of heads, beside them
    columns: int  # Vectors of a head's elements, in the gradient of queries
    tile: int
    slices: int  # Work-items that a head's keys are divided among
    partial: Shape  # (rows, elements) that a slice writes for a head's queries


def tiles_of(
    shape: Shape, keys: int, features: int, itemsize: int, traits: DeviceTraits, shared: int = 1
) -> GradientTiles | None:
    """Returns the tiles for queries of a shape, or None where the plan does not suit."""
    *batch, queries, size = shape
    width = max(2, traits.lanes(itemsize))
    if not traits.is_cpu or few_lanes(min(queries, keys), width):
        return None
    # Keys as lanes and as rows, their gradient; values and theirs; weights and their gradient.
    elements = 3 * room(size) + 2 * room(features) + 2 * KEYS
    fitting = traits.local_memory // (elements * width * itemsize)
    if fitting < 1:
        return None
    vectors = vectors_of(keys, width, min(VECTORS, fitting))
    rows = min(8, traits.sums // vectors // 4 * 4)
    columns = min(4, -(-size // width))
    tile = max(1, rows * vectors // columns)
    while KEYS % tile:
        tile -= 1
    wanted = -(-(ITEMS // 2) * traits.compute_units * shared // math.prod(batch))
    # Each has memory for the gradients of all its queries: no more than all weights would take.
    slices = min(wanted, max(1, keys // room(size)), -(-keys // (width * vectors)))
    partial = round_up(queries, tile), round_up(size, columns * width)
    return GradientTiles(width, vectors, rows, columns, tile, slices, partial)


@dataclass(frozen=True, kw_only=True)
class AttentionGradientCode(AttentionCode):
    """What fused/attention_gradient.cl.jinja prints."""

    lanes: ClassVar[str] = "keys"
    columns: int  # Vectors of a head's elements that are summed up at a time
    tile: int


@dataclass(frozen=True, kw_only=True)
class AttentionRowsCode(AttentionCode):
    """What fused/attention_rows.cl.jinja prints."""

    large: int  # A logarithm from which on a query's largest score and its sum are found anew


@dataclass(frozen=True)
class HeadGradients(Heads):
    """One call."""

    shared: int = 1  # Heads that share the mask's gradient

    def tiles(self, traits: DeviceTraits) -> GradientTiles | None:
        """Returns the tiles, or None where the plan does not suit."""
        query, sizes = self.arrays["q"], self.sizes
        given = query.shape, sizes["keys"], sizes["features"], query.dtype.itemsize
        return tiles_of(*given, traits, self.shared)


def plan_attention_gradient(what: HeadGradients, traits: DeviceTraits) -> Plan | None:
    """Plans the gradients of `plan_attention`, or None of heads in more than four loops."""
    tiles = what.tiles(traits)
    if tiles is None or not what.real:
        return None
    arrays, sums = what.arrays, what.arrays["sums"].dtype
    queries, _, size, features = what.sizes.values()
    common = {"width": tiles.width, "vectors": tiles.vectors, "rows": tiles.rows}
    # Queries are the lanes of the kernel that finds what weights are made from.
    numbers = what.heads * queries
    lanes = -(-queries // (tiles.width * tiles.vectors))
    read = ("q", "k", "sums", "mask")
    before = head_kernel(
        replace(what, arrays=what.only(read), drop_rows=0),
        "attention_rows",
        (),
        ((lanes, what.heads), 3 * numbers * sums.itemsize, numbers),
        AttentionRowsCode,
        {},
        traits,
        "written",
        large=LARGE,
        **common,
    )
    items = tiles.slices, what.heads // what.shared
    more = dict(zip(("partial_rows", "partial_size"), tiles.partial, strict=True))
    kernel = head_kernel(
        replace(what, arrays={n: a for n, a in arrays.items() if n != "sums"}),
        "attention_gradient",
        ("dq", "dk", "dv", "dmask"),
        (items, what.nbytes(arrays), 2 * what.pairs * (3 * size + 2 * features)),
        AttentionGradientCode,
        {**more, "shared": what.shared},
        traits,
        "read",
        columns=tiles.columns,
        tile=tiles.tile,
        **common,
    )
    if before is None or kernel is None:
        return None
    return Plan((before, kernel), {ROWS: (2 * numbers, sums)})
