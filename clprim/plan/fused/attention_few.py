"""Plans attention of few queries on CPUs, as texts are generated: it passes over keys once.

What takes the time is to read keys and values, so these are read as they are stored. Slices of keys
are computed apart where there are fewer heads than keep the device busy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from clprim.dtypes import stored_type
from clprim.plan.fused.attention import FLOATS
from clprim.plan.fused.heads import KEYS, AttentionCode, code_of, room
from clprim.plan.kernel import KernelPlan, Plan
from clprim.plan.strides import Operand
from clprim.traits import DeviceTraits

# Queries at most: more of them are better the lanes of vectors.
FEW = 6


@dataclass(frozen=True)
class AttentionFewCode(AttentionCode):
    """What fused/attention_few.cl.jinja prints."""

    columns: int  # Vectors of a value's elements that are summed up at a time
    # Whether it is a slice's: ``sums`` gets the largest score and the sum of exponentials below it,
    # ``y`` what is not yet divided by that sum
    parts: bool


def slices_of(q: Operand, k: Operand, v: Operand, traits: DeviceTraits) -> int:
    """Returns how many slices keys are cut into, or 0 where the plan does not suit."""
    *batch, queries, size = q.shape
    keys, features = v.shape[-2:]
    itemsize = 8 if q.dtype.itemsize == 8 else 4
    width = max(2, traits.lanes(itemsize))
    dense = all(a.in_elements(a.strides[-1]) == 1 for a in (k, v))
    memory = FEW * (room(size) + room(features)) * itemsize
    if not traits.is_cpu or not dense or queries > FEW or memory > traits.local_memory:
        return 0
    if size % width or features % width:
        return 0
    wanted = -(-2 * traits.compute_units // math.prod(batch))
    return max(1, min(wanted, keys // KEYS))


def plan_attention_few(
    q: Operand,
    k: Operand,
    v: Operand,
    y: Operand,
    sums: Operand,
    mask: Operand | None,
    steps: tuple[int, int],
    slices: int,
    traits: DeviceTraits,
) -> Plan | None:
    """Plans softmax(q kᵀ · scale + mask) v; None of heads in more than four loops."""
    value = stored_type(sums.dtype).value
    width = max(2, traits.lanes(sums.dtype.itemsize))
    *batch, queries, size = q.shape
    keys, features = v.shape[-2:]
    if value not in FLOATS:
        return None
    arrays = {"q": q, "k": k, "v": v, "y": y, "sums": sums}
    if mask is not None:
        arrays["mask"] = mask
    sizes = {"queries": queries, "keys": keys, "size": size, "features": features}
    apart = {"y_slice": y.in_elements(steps[0]), "sums_slice": sums.in_elements(steps[1])}
    common = code_of(arrays, ("y", "sums"), False, 0, traits, **sizes, **apart)
    if common is None:
        return None
    fields, found = common
    heads = math.prod(batch)
    kernel = KernelPlan(
        "fused/attention_few",
        AttentionFewCode(
            name="attention_few",
            **fields,
            width=width,
            vectors=1,
            rows=FEW,
            block=KEYS,
            query_room=room(size),
            value_room=room(features),
            columns=next(n for n in (4, 2, 1) if features // width % n == 0),
            parts=slices > 1,
        ),
        tuple(found.arguments),
        (slices, heads),
        (1, 1),
        sum(a.size * a.dtype.itemsize for a in (q, k, v, y)),
        2 * heads * queries * keys * (size + features),
    )
    return Plan((kernel,))
