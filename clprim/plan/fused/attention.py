"""Plans attention on CPUs as one kernel: a work-item has a few vectors of queries to itself.

Queries are the lanes of vectors, so that maxima and sums over keys need no lanes merged, and keys
and values are read where they lie, element by element. What queries make of a block of keys stays
in the nearest cache.
"""

from __future__ import annotations

import math

from clprim.dtypes import stored_type
from clprim.plan.fused.heads import (
    KEYS,
    VECTORS,
    AttentionCode,
    code_of,
    few_lanes,
    room,
    vectors_of,
)
from clprim.plan.kernel import KernelPlan, Plan
from clprim.plan.strides import Operand
from clprim.traits import DeviceTraits

FLOATS = ("float", "double")


def plan_attention(
    q: Operand,
    k: Operand,
    v: Operand,
    y: Operand,
    sums: Operand,
    mask: Operand | None,
    causal: bool,
    drop_rows: int,
    traits: DeviceTraits,
) -> Plan | None:
    """Plans softmax(q kᵀ · scale + mask) v; scale is the call's first number."""
    # None on a GPU, of few queries, of head sizes that local memory has no room for, of heads in
    # more than four loops.
    value = stored_type(sums.dtype).value
    width = max(2, traits.lanes(sums.dtype.itemsize))
    *batch, queries, size = q.shape
    keys, features = v.shape[-2:]
    if not traits.is_cpu or value not in FLOATS or few_lanes(queries, width):
        return None
    vectors = vectors_of(queries, width, VECTORS)
    rows = min(8, traits.sums // vectors // 4 * 4)
    query_room, value_room = room(size), room(features)
    lanes = width * vectors
    if (query_room + value_room + KEYS) * lanes * sums.dtype.itemsize > traits.local_memory:
        return None
    arrays = {"q": q, "k": k, "v": v, "y": y, "sums": sums}
    if mask is not None:
        arrays["mask"] = mask
    sizes = {"queries": queries, "keys": keys, "size": size, "features": features}
    common = code_of(arrays, ("y", "sums"), causal, drop_rows, traits, **sizes)
    if common is None:
        return None
    fields, found = common
    heads = math.prod(batch)
    pairs = heads * queries * keys // (2 if causal else 1)
    kernel = KernelPlan(
        "fused/attention",
        AttentionCode(
            name="attention",
            **fields,
            width=width,
            vectors=vectors,
            rows=rows,
            block=KEYS,
            query_room=query_room,
            value_room=value_room,
        ),
        tuple(found.arguments),
        (-(-queries // lanes), heads),
        (1, 1),
        sum(a.size * a.dtype.itemsize for a in (q, k, v, y)),
        2 * pairs * (size + features),
    )
    return Plan((kernel,))
