"""Plans attention on CPUs as one kernel: a work-item has a few vectors of queries to itself.

Queries are the lanes of vectors, so that maxima and sums over keys need no lanes merged, and keys
and values are read where they lie, element by element. What queries make of a block of keys stays
in the nearest cache.
"""

from __future__ import annotations

from clprim.plan.fused.heads import (
    KEYS,
    VECTORS,
    AttentionCode,
    Heads,
    few_lanes,
    head_kernel,
    room,
    vectors_of,
)
from clprim.plan.kernel import Plan
from clprim.traits import DeviceTraits


def plan_attention(what: Heads, traits: DeviceTraits) -> Plan | None:
    """Plans softmax(q kᵀ · scale + mask) v; scale is the call's first number."""
    # None on a GPU, of few queries, of head sizes that local memory has no room for, of heads in
    # more than four loops.
    queries, _, size, features = what.sizes.values()
    width = what.width(traits)
    few = few_lanes(queries, width) and not what.cached
    if not traits.is_cpu or not what.real or few:
        return None
    vectors = vectors_of(queries, width, VECTORS)
    lanes = width * vectors
    if (room(size) + room(features) + KEYS) * lanes * what.value.itemsize > traits.local_memory:
        return None
    flops = 2 * what.pairs * (size + features)
    launch = (-(-queries // lanes), what.heads), what.nbytes("qkvy"), flops
    kernel = head_kernel(
        what,
        "attention",
        ("y", "sums"),
        launch,
        AttentionCode,
        {},
        traits,
        width=width,
        vectors=vectors,
        rows=min(8, traits.sums // vectors // 4 * 4),
    )
    return None if kernel is None else Plan((kernel,))
