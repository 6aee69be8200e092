"""What a work-item of a `Pointwise` takes, words, vectors, runs; which stores are streaming."""

from __future__ import annotations

import math
from collections.abc import Sequence

from clprim.dtypes import AnyDType, stored_type
from clprim.language.definition import PointwiseDefinition
from clprim.plan.kernel import OperandCode, round_up
from clprim.plan.machine import AHEAD, ITEMS, LINE, STARTING, UNROLL, WORK
from clprim.plan.strides import Dim, Space, collapse
from clprim.traits import DeviceTraits

# Elements that a CPU's work-item takes at least, where it prepares nothing but a function's
# coefficients first; beside patterns, a few hundred loads, it takes `WORK`.
RUN = 2 * STARTING
# Elements of a row that is short: finding its place takes about as long as it does itself.
SHORT_ROW = 512
#: Bytes of what is calculated in, and of indices.
SIZES = {
    "char": 1,
    "uchar": 1,
    "short": 2,
    "ushort": 2,
    "int": 4,
    "uint": 4,
    "float": 4,
    "double2": 16,
} | dict.fromkeys(("long", "ulong", "double", "float2"), 8)


def in_words(space: Space, itemsize: int, traits: DeviceTraits) -> tuple[Space, int]:
    """Returns the loops of a copy over larger elements, and how large they are."""
    # What is copied need not be known: neighbours that stay neighbours are one word, up to 4 bytes;
    # where rows are shorter than a register up to 8, so that a row is fewer.
    word = SIZES["long"]
    if itemsize > word:  # a complex128 is two
        arrays = len(space.offsets)
        dims = [Dim(d.size, tuple(2 * s for s in d.strides)) for d in space.dims]
        pairs = (*dims, Dim(2, (1,) * arrays))
        space, itemsize = collapse(Space(pairs, tuple(2 * o for o in space.offsets))), word
    while space.dims:
        *outer, inner = space.dims
        row = inner.size * itemsize
        if itemsize == 8 or (itemsize == 4 and not (traits.is_cpu and row < traits.vector_bytes)):
            break
        places = [*space.offsets, *(s for d in outer for s in d.strides), inner.size]
        if any(s != 1 for s in inner.strides) or any(place % 2 for place in places):
            break
        halved = [Dim(d.size, tuple(s // 2 for s in d.strides)) for d in outer]
        inner = Dim(inner.size // 2, inner.strides)
        space = Space((*halved, inner), tuple(place // 2 for place in space.offsets))
        itemsize *= 2
    return space, itemsize


def widest(value: str, traits: DeviceTraits) -> int:
    """Elements of a register; OpenCL C has vectors of up to 16."""
    return max(2, traits.lanes(SIZES[value]))


def vector_width(
    value: str | None,
    operands: Sequence[OperandCode],
    results: int,
    inner: Dim,
    traits: DeviceTraits,
) -> int:
    """Elements a work-item takes at a time: a register where memory is contiguous, else one."""
    if value is None or any(o.inner == "any" for o in operands):
        return 1
    if any(o.inner != "one" for o in operands[:results]):
        return 1
    size, most = inner.size, widest(value, traits)
    if size >= 8 * most:
        return most
    # Short rows: the elements that fill no vector cost a step each, so less width may be more.
    widths = (w for w in (16, 8, 4, 2) if w <= min(most, size))
    return min(widths, key=lambda w: size // w + size % w, default=1)


def find_period(
    dims: Sequence[Dim], arrays: int, results: int, value: str | None, traits: DeviceTraits
) -> tuple[int, int] | None:
    """Vector width and vectors a period, where operands repeat along contiguous memory."""
    # The last two loops are then one for all operands but those that have a value for every
    # iteration of the inner one, over and over: images with a bias of few channels.
    if value is None or not traits.is_cpu or len(dims) < 2:
        return None
    rows, inner = dims[-2:]
    steps = list(zip(rows.strides[:arrays], inner.strides[:arrays], strict=True))
    full, repeated, constant = (inner.size, 1), (0, 1), (0, 0)
    if any(s not in (full, repeated, constant) for s in steps):
        return None
    if any(s != full for s in steps[:results]):
        return None
    vector = widest(value, traits)
    patterns = inner.size // math.gcd(inner.size, vector)
    # Patterns are to stay in registers, and to be made seldom.
    if patterns * steps.count(repeated) > 12 or rows.size * inner.size < 4 * patterns * vector:
        return None
    return vector, patterns


def run_length(inner: int, vector: int, patterns: int, traits: DeviceTraits) -> int:
    """Elements of a row that one work-item takes: a vector, and on a CPU a run of them."""
    # At memory speed a 64-byte vector is gone in some 18 cycles, about what finding its place
    # takes; a CPU's work-item therefore stays for RUN elements once it is there, or longer.
    if vector == 1 or not traits.is_cpu:
        return vector
    long = min(WORK, inner // (ITEMS * traits.compute_units))
    pieces = -(-inner // max(long, RUN if patterns == 1 else WORK))
    return round_up(-(-inner // pieces), vector * patterns)


def rows_together(inner: int, outer: Sequence[Dim], vector: int, traits: DeviceTraits) -> int:
    """Rows that one work-item takes one after another; 1 where rows are long."""
    # So a short row's place is a step from the one before, where dividing its number for every loop
    # takes longer than copying it. Long rows gain nothing.
    if vector == 1 or not traits.is_cpu or not outer or inner > SHORT_ROW:
        return 1
    return min(outer[-1].size, RUN // inner)


def group_size(run: int, vector: int, traits: DeviceTraits) -> int:
    """Work-items of a group."""
    # A CPU runs a work-group as one loop: long ones cost less to start.
    wanted = max(1, RUN // run) if vector > 1 else 1024
    return min(wanted if traits.is_cpu else 256, traits.max_work_group_size)


def may_stream(dtype: AnyDType, vector: int, nbytes: int, traits: DeviceTraits) -> bool:
    """Whether a result should have streaming stores."""
    # Streaming stores save reading each line before it is overwritten, but cost a reader that comes
    # soon; so only for data that would not stay in the cache anyway. They need whole registers.
    wide = vector * dtype.itemsize >= 16
    return traits.streams(nbytes) and stored_type(dtype).load == "direct" and wide


def chunk_vector(
    definition: PointwiseDefinition,
    operands: Sequence[OperandCode],
    dtypes: Sequence[AnyDType],
    inner: Dim,
    nbytes: int,
    traits: DeviceTraits,
) -> int:
    """Returns the width of vectors that results are stored by, or 1 where they are not."""
    # What cannot be computed by vectors, as a choice by a mask of bytes, is then computed one by
    # one, some vectors at a time, and is streamed all the same.
    vector = min(16, LINE // max(t.itemsize for t in dtypes))
    if any(t.kind == "c" for t in dtypes):
        return 1
    if not definition.straight or inner.size < 2 * UNROLL * vector:
        return 1
    if any(o.inner != "one" for o in operands[: len(dtypes)]):
        return 1
    if any(o.inner not in ("one", "back", "zero") for o in operands):
        return 1
    return vector if all(may_stream(t, vector, nbytes, traits) for t in dtypes) else 1


def prefetched(
    inputs: Sequence[OperandCode],
    dims: Sequence[Dim],
    results: int,
    nbytes: int,
    traits: DeviceTraits,
) -> tuple[tuple[str, int], ...]:
    """Returns the inputs that vectors prefetch, and how many elements ahead."""
    # Where rows are short, those that follow have to be next to them in memory.
    if not traits.prefetches(nbytes):
        return ()
    found = []
    for k, x in enumerate(inputs, results):
        ahead = AHEAD // SIZES[x.value]
        step = {"one": 1, "back": -1}.get(x.inner, 0)
        if len(dims) > 1 and dims[-1].size < 4 * ahead:
            step = step and int(dims[-2].strides[k] == dims[-1].size)
        if step:
            found.append((x.name, step * ahead))
    return tuple(found)


def aligned(results: int, outer: Sequence[Dim], space: Space, vector: int) -> bool:
    """Whether all rows of the results start where a register may be stored."""
    places = [
        place
        for k in range(results)
        for place in (space.offsets[k], *(d.strides[k] for d in outer))
    ]
    return not any(place % vector for place in places)
