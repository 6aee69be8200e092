"""What attention's kernels share: arrays by heads, in up to four loops."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from clprim.dtypes import AnyDType, stored_type
from clprim.plan.fused.score import Score, ScoreCode, add_score, arrays_of
from clprim.plan.kernel import KernelCode, KernelPlan, OperandCode, round_up
from clprim.plan.machine import LOOPS
from clprim.plan.parameters import Arguments
from clprim.plan.snippets import index_type
from clprim.plan.strides import Dim, Operand, Space, collapse
from clprim.traits import DeviceTraits

# Vectors of lanes: with 16 registers 4 × 3 sums read least.
VECTORS = 3
# Keys, or queries, at a time: a multiple of every tile's rows. 32 to 128 take equally long.
KEYS = 96
# What head sizes are rounded up to: one kernel for many of them.
ROOM = 64
# Arrays of one number a row, or a head.
_COLUMNS = ("sums", "delta", "length")


#: The buffer of what weights are made from.
ROWS = "rows"
# Numbers of weights that drop out, with their types where these are not that of sums.
_DROPPING = (
    ("", "drop_below"),
    ("", "drop_scale"),
    ("ulong", "seed"),
    ("ulong", "first_call"),
)
# Numbers of attention over a static cache: how many keys a query sees, its own the last one, and
# at what scores are capped, 0 for not at all.
_CACHED = (("long", "window"), ("", "softcap"))


@dataclass(frozen=True, kw_only=True)
class HeadsCode(KernelCode):
    """What all kernels of attention print."""

    lanes: ClassVar[str] = ""  # What lies in the lanes of vectors: ``queries``, ``keys``
    value: str
    # By their names, ``mask`` and its gradient the last where there is one; ``inner`` is along a
    # head's elements, of a mask along queries
    arrays: tuple[OperandCode, ...]
    mask: str  # ``bool``, ``float`` or nothing
    mask_of_queries: bool  # Whether a mask's queries lie side by side
    causal: bool  # Whether a query sees no later key
    # Whether ``length`` says how many keys are there, of which the last are the queries' own
    cached: bool = False
    biased: bool = False  # Whether ``bias`` has each head's slope of distances, and its sink
    dropout: bool
    score: ScoreCode | None = None  # The user's string, and the coordinates that it asks for
    coords: tuple[tuple[int, int], ...] = ()
    sizes: tuple[tuple[int, str], ...] = ()
    query_room: int  # Elements of a head that local memory has room for
    value_room: int

    @property
    def score_slope(self) -> str:
        """The string's derivative."""
        return self.score.slope if self.score else ""


@dataclass(frozen=True, kw_only=True)
class AttentionCode(HeadsCode):
    """What fused/attention.cl.jinja prints, and fused/attention_gradient.cl.jinja most of."""

    lanes: ClassVar[str] = "queries"
    width: int
    vectors: int  # Of queries; in the gradient, of keys
    # Keys, and later elements of values, that are summed up at a time; in the gradient queries, and
    # later elements of a head
    rows: int
    block: int = KEYS  # Of what the lanes are multiplied with


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


@dataclass(frozen=True)
class Heads:
    """One call of attention or of its gradients."""

    # By name, queries the first; the last a mask and its gradient, or lengths and a bias, if any
    arrays: Mapping[str, Operand]
    causal: bool = False
    drop_rows: int = 0  # See `clprim.ops.attention`; 0 where no weights drop out
    score: Score | None = None  # Which reads arrays ``x0``, … behind those above

    def only(self, names: Iterable[str]) -> dict[str, Operand]:
        """Returns the arrays of these names that are there, and those of the string."""
        scored = arrays_of(self.score, self.arrays)
        return {n: self.arrays[n] for n in names if n in self.arrays} | scored

    @property
    def heads(self) -> int:
        """How many."""
        return math.prod(self.arrays["q"].shape[:-2])

    @property
    def cached(self) -> bool:
        """Whether the keys that are there are counted by an array."""
        return "length" in self.arrays

    @property
    def sizes(self) -> dict[str, int]:
        """Queries and keys of a head, and elements of both and, if there are any, of values."""
        queries, size = self.arrays["q"].shape[-2:]
        keys = "capacity" if self.cached else "keys"
        found = {"queries": queries, keys: self.arrays["k"].shape[-2], "size": size}
        v = self.arrays.get("v")
        return found if v is None else {**found, "features": v.shape[-1]}

    @property
    def pairs(self) -> int:
        """Pairs of queries and keys that see each other, of all heads."""
        queries, keys, *_ = self.sizes.values()
        return self.heads * queries * keys // (2 if self.causal else 1)

    @property
    def value(self) -> AnyDType:
        """Dtype of sums."""
        return next(self.arrays[name].dtype for name in _COLUMNS if name in self.arrays)

    @property
    def real(self) -> bool:
        """Whether that is one of OpenCL C's floating types."""
        return stored_type(self.value).value in ("float", "double")

    def width(self, traits: DeviceTraits) -> int:
        """Lanes of a vector."""
        return max(2, traits.lanes(self.value.itemsize))

    def nbytes(self, names: Iterable[str]) -> int:
        """Bytes of some arrays."""
        arrays = (self.arrays[name] for name in names)
        return sum(a.size * a.dtype.itemsize for a in arrays)


@dataclass(frozen=True)
class HeadLoops:
    """Arrays of a call that a kernel has, and where their heads lie."""

    codes: tuple[OperandCode, ...]
    index: str
    numbers: dict[str, int]


def head_loops(
    arrays: Mapping[str, Operand],
    wide: AnyDType,
    sizes: Mapping[str, int],
    scored: Collection[str] = (),
    *,
    keys: bool = False,
) -> HeadLoops | None:
    """Returns the loops over heads; None of more than four. ``keys`` may be the lanes."""
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
    most = max(sizes.values())
    reach = Dim(most, tuple(along)), Dim(most, tuple(inner))
    numbers = {**sizes, **{f"size_{n}": d.size for n, d in enumerate(loops)}}
    codes = []
    for n, (name, a) in enumerate(arrays.items()):
        of_pairs = name == "mask" or name in scored
        step = along[n] if of_pairs and not (keys and name in scored) else inner[n]
        as_value = a.dtype if a.dtype.kind in "biu" and name not in ("k", "v") else wide
        code = OperandCode.of(name, a.dtype, as_value, a.in_elements(step))
        codes.append(code)
        numbers[f"{name}_start"] = a.in_elements(space.offsets[n])
        numbers |= {f"{name}_{m}": a.in_elements(d.strides[n]) for m, d in enumerate(loops)}
        numbers[f"{name}_row"] = a.in_elements(along[n])
        if of_pairs or (name not in _COLUMNS and code.inner != "one"):
            numbers[f"{name}_step"] = a.in_elements(inner[n])
    return HeadLoops(tuple(codes), index_type(Space((*loops, *reach), space.offsets)), numbers)


def head_kernel(
    what: Heads,
    name: str,
    written: tuple[str, ...],
    launch: tuple[tuple[int, int], int, int],
    kind: type[HeadsCode],
    more: Mapping[str, int],
    traits: DeviceTraits,
    rows_memory: str = "",
    group: int = 1,
    **fields: Any,
) -> KernelPlan | None:
    """Returns a kernel of work-groups, bytes and operations; None of heads in too many loops."""
    # What weights are made from, two numbers a query, is ``read`` or ``written`` in `ROWS`.
    value, sizes = stored_type(what.value).value, what.sizes
    shared = _CACHED if what.cached else _DROPPING if what.drop_rows else ()
    scored = arrays_of(what.score, what.arrays)
    keys = kind.lanes == "keys"
    loops = head_loops(what.arrays, what.value, {**sizes, **more}, scored, keys=keys)
    if loops is None:
        return None
    found = Arguments(loops.index)
    for a in loops.codes:
        found.memory(a.storage, f"{a.name}_heads", a.name, read_only=a.name not in written)
    for n, (kind_of, scalar) in enumerate((("", "scale"), *shared)):
        found.scalar(kind_of or value, scalar, n)
    if what.drop_rows:
        found.numbers(drop_rows=what.drop_rows)
    found.numbers(**loops.numbers)
    if what.score is not None:
        codes = {a.name: a for a in loops.codes if a.name in scored}
        pairs = (*sizes.values(),)[:2]
        given = what.score, codes, pairs, what.value, traits
        fields |= add_score(found, *given, lanes=bool(kind.lanes))
    if rows_memory:
        found.memory(value, f"{ROWS}_memory", ROWS, read_only=rows_memory == "read")
    mask = what.arrays.get("mask")
    code = kind(
        name=name,
        parameters=tuple(found.parameters),
        index=loops.index,
        doubles=value == "double" or any(a.storage == "double" for a in loops.codes),
        value=value,
        arrays=tuple(a for a in loops.codes if a.name not in scored),
        mask="" if mask is None else "bool" if mask.dtype.kind == "b" else "float",
        mask_of_queries=mask is not None and mask.in_elements(mask.strides[-2]) == 1,
        causal=what.causal,
        cached=what.cached,
        biased="bias" in what.arrays,
        dropout=what.drop_rows > 0,
        **{
            "query_room": room(sizes["size"]),
            "value_room": room(sizes.get("features", 0)),
            **fields,
        },
    )
    (groups, heads), nbytes, flops = launch
    items, local = (groups * group, heads), (group, 1)
    return KernelPlan(f"fused/{name}", code, tuple(found.arguments), items, local, nbytes, flops)
