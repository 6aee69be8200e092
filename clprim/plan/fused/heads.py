"""What attention's kernels share: arrays by heads, in up to four loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clprim.dtypes import stored_type
from clprim.plan.arguments import Arguments
from clprim.plan.kernel import KernelCode, OperandCode, round_up
from clprim.plan.machine import LOOPS
from clprim.plan.snippets import index_type
from clprim.plan.strides import Dim, Operand, Space, collapse
from clprim.traits import DeviceTraits

# Vectors of lanes: with 16 registers 4 × 3 sums read least.
VECTORS = 3
# Keys, or queries, at a time: a multiple of every tile's rows. 32 to 128 take equally long.
KEYS = 96
# What head sizes are rounded up to: one kernel for many of them.
ROOM = 64
# Arrays of one number a row.
_COLUMNS = ("sums", "delta")


@dataclass(frozen=True)
class AttentionCode(KernelCode):
    """What fused/attention.cl.jinja prints, and fused/attention_gradient.cl.jinja most of."""

    value: str
    # By their names, ``mask`` and its gradient the last where there is one; ``inner`` is along a
    # head's elements, of a mask along queries
    arrays: tuple[OperandCode, ...]
    mask: str  # ``bool``, ``float`` or nothing
    mask_of_queries: bool  # Whether a mask's queries, which are lanes, lie side by side
    causal: bool  # Whether a query sees no later key
    dropout: bool
    width: int
    vectors: int  # Of queries; in the gradient, of keys
    # Keys, and later elements of values, that are summed up at a time; in the gradient queries, and
    # later elements of a head
    rows: int
    block: int  # Of what the lanes are multiplied with
    query_room: int  # Elements of a head that local memory has room for
    value_room: int


def few_lanes(queries: int, width: int) -> bool:
    """Whether so few queries, which a matrix product computes as well, leave most lanes idle."""
    return 4 * queries < width


def room(size: int) -> int:
    """Returns the elements of a head that local memory has room for."""
    return round_up(max(1, size), ROOM)


def vectors_of(lanes: int, width: int, most: int) -> int:
    """Returns the vectors of a block such that blocks of all lanes take least."""
    every = -(-lanes // width)
    # What a block takes besides: half as much as a vector.
    return min(range(most, 0, -1), key=lambda n: -(-every // n) * (2 * n + 1))


def code_of(
    arrays: dict[str, Operand],
    written: tuple[str, ...],
    causal: bool,
    drop_rows: int,
    traits: DeviceTraits,
    **numbers: int,
) -> tuple[dict[str, Any], Arguments] | None:
    """Returns what kernels share, and the arguments; None of heads in more than four loops."""
    given = tuple(arrays.values())
    dims = [
        Dim(n, tuple(a.strides[d] if a.shape[d] > 1 else 0 for a in given))
        for d, n in enumerate(given[0].shape[:-2])
    ]
    space = collapse(Space(tuple(dims), tuple(a.offset for a in given)), flip=False)
    if len(space.dims) > LOOPS:
        return None
    loops = [Dim(1, (0,) * len(given))] * (LOOPS - len(space.dims)) + list(space.dims)
    along, inner = ([a.strides[d] for a in given] for d in (-2, -1))
    most = max(numbers.values())
    reach = Dim(most, tuple(along)), Dim(most, tuple(inner))
    kind = index_type(Space((*loops, *reach), space.offsets))
    found = Arguments(kind)
    codes = []
    wide = next(arrays[name].dtype for name in _COLUMNS if name in arrays)
    value = stored_type(wide).value
    for n, (name, a) in enumerate(arrays.items()):
        step = along[n] if name == "mask" else inner[n]
        as_value = a.dtype if name == "mask" and a.dtype.kind == "b" else wide
        code = OperandCode.of(name, a.dtype, as_value, a.in_elements(step))
        found.memory(code.storage, f"{name}_heads", name, read_only=name not in written)
        codes.append(code)
    found.scalar(value, "scale", 0)
    if drop_rows:
        for n, name in enumerate(("drop_below", "drop_scale")):
            found.scalar(value, name, n + 1)
        for n, name in enumerate(("seed", "first_call")):
            found.scalar("ulong", name, n + 3)
        found.numbers(drop_rows=drop_rows)
    found.numbers(**numbers, **{f"size_{n}": d.size for n, d in enumerate(loops)})
    for n, (code, a) in enumerate(zip(codes, given, strict=True)):
        found.numbers(
            **{f"{code.name}_start": a.in_elements(space.offsets[n])},
            **{f"{code.name}_{m}": a.in_elements(d.strides[n]) for m, d in enumerate(loops)},
            **{f"{code.name}_row": a.in_elements(along[n])},
        )
        if code.name == "mask" or (code.name not in _COLUMNS and code.inner != "one"):
            found.numbers(**{f"{code.name}_step": a.in_elements(inner[n])})
    mask = arrays.get("mask")
    return {
        "parameters": tuple(found.parameters),
        "index": kind,
        "doubles": value == "double",
        "value": value,
        "arrays": tuple(codes),
        "mask": "" if mask is None else "bool" if mask.dtype.kind == "b" else "float",
        "mask_of_queries": mask is not None and mask.in_elements(mask.strides[-2]) == 1,
        "causal": causal,
        "dropout": drop_rows > 0,
    }, found
