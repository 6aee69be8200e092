"""Plans attention on CPUs as one kernel: a work-item has a few vectors of queries to itself.

Queries are the lanes of vectors, so that maxima and sums over keys need no lanes merged, and keys
and values are read where they lie, element by element. What queries make of a block of keys stays
in the nearest cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from clprim.dtypes import stored_type
from clprim.plan.arguments import Arguments
from clprim.plan.kernel import KernelCode, KernelPlan, OperandCode, Plan, round_up
from clprim.plan.snippets import index_type
from clprim.plan.strides import Dim, Operand, Space, collapse
from clprim.traits import DeviceTraits

__all__ = ["AttentionCode", "plan_attention"]

# Loops over heads that a kernel has.
MOST_DIMS = 4
# Vectors of queries: with 16 registers 4 × 3 sums read least.
VECTORS = 3
# Keys at a time: a multiple of every tile's rows. 32 to 128 take equally long.
KEYS = 96
# What head sizes are rounded up to: one kernel for many of them.
ROOM = 64
# Fewer queries, which a matrix product computes as well, leave most lanes idle.
LEAST_LANES = 4

_FLOATS = ("float", "double")


@dataclass(frozen=True)
class AttentionCode(KernelCode):
    """What fused/attention.cl.jinja prints.

    Attributes:
        value: Type to calculate in.
        arrays: ``q``, ``k``, ``v``, ``y``, ``sums`` and, where there is one, ``mask``; ``inner`` is
            along a head's elements, of a mask along queries.
        mask: ``bool``, ``float`` or nothing.
        causal: Whether a query sees no later key.
        width: Lanes of a vector.
        vectors: Of queries.
        rows: Keys, and later elements of values, that are summed up at a time.
        keys: A block of them.
        query_room, value_room: Elements of a head that local memory has room for.
    """

    value: str
    arrays: tuple[OperandCode, ...]
    mask: str
    causal: bool
    width: int
    vectors: int
    rows: int
    keys: int
    query_room: int
    value_room: int


def plan_attention(
    q: Operand,
    k: Operand,
    v: Operand,
    y: Operand,
    sums: Operand,
    mask: Operand | None,
    causal: bool,
    traits: DeviceTraits,
) -> Plan | None:
    """Plans softmax(q kᵀ · scale + mask) v, whose scale · log₂ e is the call's number.

    Args:
        q: (…, L, E).
        k: (…, S, E), of the same dtype as the sums; of one head where several share it.
        v: (…, S, F), likewise.
        y: (…, L, F), written; nothing of these may be empty.
        sums: (…, L, 1), written: the logarithm of each query's sum of exponentials; of float32 or
            float64, in which everything is calculated.
        mask: (…, L, S), of bool or to be added.
        causal: Whether query i sees keys up to i alone.
        traits: Of the device.

    Returns:
        The plan, or None where it does not suit: on a GPU, of few queries, of head sizes that local
        memory has no room for, of heads in more than four loops.
    """
    value = stored_type(sums.dtype).value
    width = max(2, traits.lanes(sums.dtype.itemsize))
    *batch, queries, size = q.shape
    keys, features = v.shape[-2:]
    if not traits.is_cpu or value not in _FLOATS or queries < LEAST_LANES:
        return None
    vectors = min(VECTORS, -(-queries // width))
    rows = min(8, traits.sums // vectors // 4 * 4)
    query_room, value_room = round_up(size, ROOM), round_up(features, ROOM)
    lanes = width * vectors
    if (query_room + value_room + KEYS) * lanes * sums.dtype.itemsize > traits.local_memory:
        return None
    arrays = (q, k, v, y, sums) if mask is None else (q, k, v, y, sums, mask)
    dims = [
        Dim(n, tuple(a.strides[d] if a.shape[d] > 1 else 0 for a in arrays))
        for d, n in enumerate(batch)
    ]
    space = collapse(Space(tuple(dims), tuple(a.offset for a in arrays)), turn=False)
    if len(space.dims) > MOST_DIMS:
        return None
    loops = [Dim(1, (0,) * len(arrays))] * (MOST_DIMS - len(space.dims)) + list(space.dims)
    along, inner = ([a.strides[d] for a in arrays] for d in (-2, -1))
    reach = Dim(max(queries, keys), tuple(along)), Dim(max(size, features, keys), tuple(inner))
    kind = index_type(Space((*loops, *reach), space.offsets), traits=traits)
    found = Arguments(kind)
    codes = []
    for n, (name, a) in enumerate(zip(("q", "k", "v", "y", "sums", "mask"), arrays, strict=False)):
        step = along[n] if a is mask else inner[n]
        as_value = a.dtype if a is mask and a.dtype.kind == "b" else sums.dtype
        code = OperandCode.of(name, a.dtype, as_value, a.in_elements(step))
        found.memory(code.storage, f"{name}_memory", read_only=name not in ("y", "sums"))
        codes.append(code)
    found.scalar(value, "scale", 0)
    found.numbers(
        queries=queries,
        keys=keys,
        size=size,
        features=features,
        **{f"size_{n}": d.size for n, d in enumerate(loops)},
    )
    for n, (code, a) in enumerate(zip(codes, arrays, strict=True)):
        found.numbers(
            **{f"{code.name}_start": a.in_elements(space.offsets[n])},
            **{f"{code.name}_{m}": a.in_elements(d.strides[n]) for m, d in enumerate(loops)},
            **{f"{code.name}_row": a.in_elements(along[n])},
        )
        if a is mask or (a is not sums and code.inner != "one"):
            found.numbers(**{f"{code.name}_step": a.in_elements(inner[n])})
    heads = math.prod(batch)
    pairs = heads * queries * keys // (2 if causal else 1)
    kernel = KernelPlan(
        "fused/attention",
        AttentionCode(
            name="attention",
            preamble="",
            parameters=tuple(found.parameters),
            constants=(),
            index=kind,
            unified=(),
            doubles=value == "double",
            own=(),
            value=value,
            arrays=tuple(codes),
            mask="" if mask is None else "bool" if mask.dtype.kind == "b" else "float",
            causal=causal,
            width=width,
            vectors=vectors,
            rows=rows,
            keys=KEYS,
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
