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
from dataclasses import dataclass
from typing import Any

from clprim.dtypes import stored_type
from clprim.plan.arguments import Arguments
from clprim.plan.fused.attention import FLOATS
from clprim.plan.fused.heads import (
    KEYS,
    VECTORS,
    AttentionCode,
    code_of,
    few_lanes,
    room,
    vectors_of,
)
from clprim.plan.kernel import KernelPlan, Plan, round_up
from clprim.plan.machine import ITEMS
from clprim.plan.strides import Operand, Shape
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


@dataclass(frozen=True)
class AttentionGradientCode(AttentionCode):
    """What fused/attention_gradient.cl.jinja prints."""

    columns: int  # Vectors of a head's elements that are summed up at a time
    tile: int


@dataclass(frozen=True)
class AttentionRowsCode(AttentionCode):
    """What fused/attention_rows.cl.jinja prints."""

    large: int  # A logarithm from which on a query's largest score and its sum are found anew


def plan_attention_gradient(
    arrays: dict[str, Operand],
    tiles: GradientTiles,
    causal: bool,
    drop_rows: int,
    traits: DeviceTraits,
    shared: int = 1,
) -> Plan | None:
    """Plans the gradients of `plan_attention`, or None of heads in more than four loops."""
    value = stored_type(arrays["sums"].dtype).value
    *batch, queries, size = arrays["q"].shape
    keys, features = arrays["v"].shape[-2:]
    if value not in FLOATS:
        return None
    sizes = {"queries": queries, "keys": keys, "size": size, "features": features}
    partial = dict(zip(("partial_rows", "partial_size"), tiles.partial, strict=True))
    written = "dq", "dk", "dv", "dmask"
    numbers = {**sizes, **partial, "shared": shared}
    read = {name: a for name, a in arrays.items() if name != "sums"}
    common = code_of(read, written, causal, drop_rows, traits, **numbers)
    rows = _rows(arrays, tiles, causal, traits)
    if common is None or rows is None:
        return None
    fields, found = common
    heads = math.prod(batch)
    pairs = heads * queries * keys // (2 if causal else 1)
    kernel = KernelPlan(
        "fused/attention_gradient",
        AttentionGradientCode(
            name="attention_gradient",
            **_with_rows(fields, found, read_only=True),
            width=tiles.width,
            vectors=tiles.vectors,
            rows=tiles.rows,
            block=KEYS,
            query_room=room(size),
            value_room=room(features),
            columns=tiles.columns,
            tile=tiles.tile,
        ),
        tuple(found.arguments),
        (tiles.slices, heads // shared),
        (1, 1),
        sum(a.size * a.dtype.itemsize for a in arrays.values()),
        2 * pairs * (3 * size + 2 * features),
    )
    return Plan((rows, kernel), {_ROWS: (2 * heads * queries, arrays["sums"].dtype)})


_ROWS = "rows"


def _with_rows(fields: dict[str, Any], found: Arguments, *, read_only: bool) -> dict[str, Any]:
    """Fields of a kernel that also has what weights are made from, two numbers a query."""
    found.memory(fields["value"], f"{_ROWS}_memory", _ROWS, read_only=read_only)
    return {**fields, "parameters": tuple(found.parameters)}


def _rows(
    arrays: dict[str, Operand], tiles: GradientTiles, causal: bool, traits: DeviceTraits
) -> KernelPlan | None:
    """The kernel that finds what weights are made from, with queries as the lanes."""
    q, k, sums = (arrays[name] for name in ("q", "k", "sums"))
    *batch, queries, size = q.shape
    keys, heads = k.shape[-2], math.prod(batch)
    read = {n: a for n, a in arrays.items() if n in ("q", "k", "sums", "mask")}
    common = code_of(read, (), causal, 0, traits, queries=queries, keys=keys, size=size)
    if common is None:
        return None
    fields, found = common
    code = AttentionRowsCode(
        name="attention_rows",
        **_with_rows(fields, found, read_only=False),
        width=tiles.width,
        vectors=tiles.vectors,
        rows=tiles.rows,
        block=KEYS,
        query_room=room(size),
        value_room=0,
        large=LARGE,
    )
    return KernelPlan(
        "fused/attention_rows",
        code,
        tuple(found.arguments),
        (-(-queries // (tiles.width * tiles.vectors)), heads),
        (1, 1),
        3 * heads * queries * sums.dtype.itemsize,
        heads * queries,
    )
