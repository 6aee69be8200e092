"""Finds tiles for operands that lie in memory in different orders, for a CPU.

An element at a time, either the reads or the writes of a transposition jump from line to line. A
tile is large enough to have whole lines on both sides: it is read vector by vector as the inputs
lie, its elements change places in registers, and the results are calculated and written from the
cache as they lie. There are three kinds.

*Granules*: along one long loop, here w, all operands are contiguous but for a few short loops,
whose iterations make up a granule. Short loops that are inside w for an operand are part of its
contiguous memory; the others are rows of their own. So a picture of r² · C channels becomes one of
r times the height and width:

      input, NCHW    w for each (i, j)      i, j: input rows,       granule r²
      result, NCHW   (w, j) for each i         i: result rows

*Transpositions*: two long loops, one contiguous for the inputs, the other for the results.

*Rows*: nothing changes places, but rows are so short that to find each of them by itself would cost
more than to copy it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clprim.plan.kernel import round_up
from clprim.plan.machine import LINE, near, second
from clprim.plan.permutation import permute, transpose
from clprim.plan.pointwise.code import Shuffles
from clprim.plan.pointwise.schedule import SHORT_ROW
from clprim.plan.strides import Dim
from clprim.traits import DeviceTraits

# Bytes along a result's row in a transposition, and rows of its tile: inputs want to be read in
# long runs, of which a processor follows only a few dozens; two lines of a result are enough.
_ROW_BYTES, _ROWS = 2 * LINE, 256
# The same where rows are not aligned, and each piece of one has two lines that it shares.
_ODD_ROW_BYTES, _ODD_ROWS = 8 * LINE, 96
# Bound: vectors of a granule, whose steps a kernel has text for.
_MOST_VECTORS = 64
# Steps that permuting a vector of them may take.
_MOST_STEPS = 12


@dataclass(frozen=True)
class Tiling:
    """A tile."""

    template: str
    vector: int
    # The loops that a tile takes a piece of: w; for a transposition the results' contiguous one and
    # the inputs' contiguous one
    long: tuple[int, ...]
    short: tuple[int, ...]  # The loops of a granule, outermost first
    tiled: frozenset[int]  # Inputs that lie otherwise than the results, by number of the operand
    tile: tuple[int, ...]  # Iterations of each long loop in a tile
    result_step: int  # As in `TileCode`
    input_step: int
    result_rows: tuple[tuple[int, ...], ...]
    input_rows: tuple[tuple[int, ...], ...]
    shuffles: Shuffles
    room: tuple[int, ...] = ()  # Elements of a tile of whole rows; none for other tiles


def find_tiling(
    dims: Sequence[Dim],
    arrays: int,
    results: int,
    *,
    vectors: tuple[int, int],
    sizes: tuple[int, int],
    traits: DeviceTraits,
) -> Tiling | None:
    """Returns the tile that suits a call, or None where an element at a time is as good."""
    strides = [tuple(d.strides[k] for d in dims) for k in range(arrays)]
    if (
        not traits.is_cpu
        or len(dims) < 2
        or any(s[-1] != 1 or s != strides[0] for s in strides[:results])
    ):
        return None
    counts = [d.size for d in dims]
    vector = vectors[0]
    found = [
        _granule(w, counts, strides, results, vector, sizes[1], near(traits))
        for w in range(len(dims))
        if counts[w] >= vector
    ]
    granules = [tiling for tiling in found if tiling is not None]
    best = min(granules, key=lambda t: (_cost(t), -counts[t.long[0]]), default=None)
    if best is None or len(best.shuffles.outputs) > vector or _cost(best) > _MOST_STEPS / 2:
        other = _transposition(counts, strides, results, vector, *sizes, second(traits) // 16)
        best = other or best
    return best or _rows(counts, strides, vectors[1])


def _cost(tiling: Tiling) -> float:
    """Steps a vector."""
    return len(tiling.shuffles.steps) / max(1, len(tiling.shuffles.outputs))


Strides = tuple[int, ...]


def _inside(w: int, sizes: Sequence[int], strides: Strides) -> tuple[int, ...] | None:
    """Loops that an operand runs through within one step of w, without gaps, outermost first."""
    step = strides[w]
    if step < 1:
        return None
    inside = [d for d in range(len(sizes)) if d != w and 0 < strides[d] < step]
    inside.sort(key=lambda d: -strides[d])
    reach = 1
    for d in reversed(inside):
        if strides[d] != reach:
            return None
        reach *= sizes[d]
    return tuple(inside) if reach == step else None


def _granule(
    w: int,
    sizes: Sequence[int],
    strides: Sequence[Strides],
    results: int,
    vector: int,
    value_size: int,
    nbytes: int,
) -> Tiling | None:
    """The tile along w, if few loops are short."""
    of_result = _inside(w, sizes, strides[0])
    if of_result is None:
        return None
    along = (w, *of_result)
    tiled = {}
    for k, own in enumerate(strides[results:], results):
        if all(own[d] == strides[0][d] for d in along) or not any(own[d] for d in along):
            continue
        inside = _inside(w, sizes, own)
        if inside is None:
            return None
        tiled[k] = inside
    if len(set(tiled.values())) != 1:
        return None
    of_input = next(iter(tiled.values()))
    short = tuple(sorted({*of_result, *of_input}))
    count = math.prod(sizes[d] for d in short)
    if count > _MOST_VECTORS:
        return None
    result_rows = tuple(d for d in short if d not in of_result)
    input_rows = tuple(d for d in short if d not in of_input)
    shuffles = permute(
        _places(sizes, vector, (result_rows, of_result), (input_rows, of_input), count)
    )
    if len(shuffles.steps) > _MOST_STEPS * count:
        return None
    return Tiling(
        "pointwise/rows",
        vector,
        long=(w,),
        short=short,
        tiled=frozenset(tiled),
        tile=(max(1, nbytes // (count * vector * value_size)) * vector,),
        result_step=strides[0][w],
        input_step=strides[min(tiled)][w],
        result_rows=tuple(_indices(sizes, short, result_rows)),
        input_rows=tuple(_indices(sizes, short, input_rows)),
        shuffles=shuffles,
    )


def _indices(
    sizes: Sequence[int], short: Sequence[int], rows: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """Indices of the short loops at the start of every row."""
    return itertools.product(*(range(sizes[d]) if d in rows else (0,) for d in short))


Order = tuple[tuple[int, ...], tuple[int, ...]]  # loops that are rows, and those inside w


def _places(
    sizes: Sequence[int], vector: int, result: Order, given: Order, count: int
) -> list[list[tuple[int, int]]]:
    """Where the inputs' vectors hold the elements of the results' vectors."""

    def number(order: Order, at: dict[int, int], w: int) -> int:
        place = 0
        for d in order[0]:
            place = place * sizes[d] + at[d]
        place = place * vector + w
        for d in order[1]:
            place = place * sizes[d] + at[d]
        return place

    loops = (*result[0], *result[1])
    wanted = [[(0, 0)] * vector for _ in range(count)]
    for index in itertools.product(*(range(sizes[d]) for d in loops)):
        at = dict(zip(loops, index, strict=True))
        for w in range(vector):
            to, lane = divmod(number(result, at, w), vector)
            wanted[to][lane] = divmod(number(given, at, w), vector)
    return wanted


def _transposition(
    sizes: Sequence[int],
    strides: Sequence[Strides],
    results: int,
    vector: int,
    itemsize: int,
    value_size: int,
    nbytes: int,
) -> Tiling | None:
    """The tile over two long loops, one contiguous for the results, the other for the inputs."""
    last = len(sizes) - 1
    tiled = frozenset(k for k, own in enumerate(strides) if own[last] not in (0, 1))
    contiguous = {tuple(d for d, s in enumerate(strides[k]) if s == 1) for k in tiled}
    if len(contiguous) != 1 or sizes[last] < vector:
        return None
    (found,) = contiguous
    if len(found) != 1 or sizes[found[0]] < vector:
        return None
    across = found[0]
    bytes_, rows = _ROW_BYTES, _ROWS
    room: tuple[int, ...] = ()
    columns = 0
    if strides[0][across] % vector:
        bytes_, rows = _ODD_ROW_BYTES, _ODD_ROWS
        dense = ((1, sizes[last]), (0, 0))
        elements = nbytes // value_size
        if 4 * vector * sizes[last] <= elements and all(
            (own[last], own[across]) in dense for k, own in enumerate(strides) if k not in tiled
        ):
            room = (elements,)
            columns = round_up(sizes[last], vector)
            rows = (elements // sizes[last] - vector) // vector * vector
    return Tiling(
        "pointwise/transpose",
        vector,
        long=(last, across),
        short=(),
        tiled=tiled,
        tile=(columns or max(vector, bytes_ // itemsize // vector * vector), rows),
        result_step=1,
        input_step=1,
        result_rows=((),),
        input_rows=((),),
        shuffles=transpose(vector),
        room=room,
    )


def _rows(sizes: Sequence[int], strides: Sequence[Strides], vector: int) -> Tiling | None:
    """Short rows, which are walked one after the other, if nothing has to change places."""
    last = len(sizes) - 1
    if (
        vector < 2
        or not vector <= sizes[last] <= SHORT_ROW
        or any(s[last] not in (0, 1) for s in strides)
    ):
        return None
    return Tiling(
        "pointwise/rows",
        vector,
        long=(last,),
        short=(),
        tiled=frozenset(),
        tile=(round_up(SHORT_ROW, vector),),
        result_step=1,
        input_step=1,
        result_rows=((),),
        input_rows=((),),
        shuffles=Shuffles((), (), ()),
    )
