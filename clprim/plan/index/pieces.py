"""Plans a result that is put together from pieces, on a CPU: whole lines of it, in order, once.

A copy for each piece writes the lines in which pieces meet several times, and waits for those that
a cache has to fetch for it. Here a work-item walks along the result, whatever comes next:

    row      |ff|--- piece 0 ---|- piece 1 -|ff|--- piece 0 ---|- piece 1 -|ff|     f: the value
    lines    |===|===|===|===|===|===|===|===|===|===|===|===|===|===|===|

Lines of one piece are copied from it, those in which pieces meet are put together before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clprim.plan.arguments import Arguments
from clprim.plan.kernel import KernelCode, KernelPlan, Plan
from clprim.plan.pointwise.schedule import run_length
from clprim.plan.snippets import index_type
from clprim.plan.strides import Dim, Operand, Space, memory_order
from clprim.traits import DeviceTraits

# The kernel has text for each of them, and for each loop.
MOST_PIECES, MOST_DIMS = 8, 4
# How far ahead pieces are asked for. Measured, rolled rows of 1024 and planes of 56 x 56 with a
# border: 1.01 and 0.91 of a copy's bandwidth; with 4096, where what is read ahead and what is
# written lie alike in pages, 0.89 and 0.83.
AHEAD_BYTES = 2048


@dataclass(frozen=True)
class Cut:
    """A diagonal of the last two dimensions: of all pieces only what is on one side of it.

    Attributes:
        diagonal: The last one that is kept; 0 is the main one, 1 the one above.
        lower: Whether what is below is kept, else what is above.
    """

    diagonal: int
    lower: bool


@dataclass(frozen=True)
class PieceCode:
    """A piece.

    Attributes:
        name: Of its array.
        wide: Whether its rows are no shorter than a vector.
        bounded: Loops that it has not all iterations of.
        cut: Whether it ends (``to``) or begins (``from``) an element later in every row; else "".
    """

    name: str
    wide: bool
    bounded: tuple[int, ...]
    cut: str


@dataclass(frozen=True)
class PiecesCode(KernelCode):
    """What index/pieces.cl.jinja prints.

    Attributes:
        word: Type that is copied.
        vector: Elements of a line, or of what is stored at once.
        ahead: Words that are asked for ahead; 0 where nothing is.
        outer: Loops around a row.
        pieces: In the order in which they begin in a row.
        filled: Whether there are elements between them.
        streaming: Whether the result goes past the cache.
    """

    word: str
    vector: int
    ahead: int
    outer: int
    pieces: tuple[PieceCode, ...]
    filled: bool
    streaming: bool


@dataclass(frozen=True)
class _Loop:
    """A dimension of the result: where each piece begins and ends, and its stride."""

    size: int
    starts: tuple[int, ...]
    stops: tuple[int, ...]
    strides: tuple[int, ...]

    def around(self, inner: _Loop) -> _Loop | None:
        """This and the next one as one, where the pieces have all of that and walk on."""
        n = inner.size
        if any(inner.starts) or any(stop != n for stop in inner.stops):
            return None
        if any(
            s != t * n and stop - start > 1
            for s, t, start, stop in zip(
                self.strides, inner.strides, self.starts, self.stops, strict=True
            )
        ):
            return None
        starts, stops = (tuple(v * n for v in values) for values in (self.starts, self.stops))
        return _Loop(self.size * n, starts, stops, inner.strides)

    def in_pairs(self, *, row: bool) -> _Loop | None:
        """The same in words twice as large; a row has half as many, other loops half the steps."""
        if row and (
            any(v % 2 for v in (self.size, *self.starts, *self.stops))
            or any(s != 1 for s in self.strides)
        ):
            return None
        if row:
            starts, stops = (tuple(v // 2 for v in w) for w in (self.starts, self.stops))
            return _Loop(self.size // 2, starts, stops, self.strides)
        if any(s % 2 for s in self.strides):
            return None
        return replace(self, strides=tuple(s // 2 for s in self.strides))


def plan_pieces(
    y: Operand,
    pieces: Sequence[tuple[Operand, Sequence[int]]],
    traits: DeviceTraits,
    *,
    filled: bool,
    cut: Cut | None = None,
) -> Plan | None:
    """Plans a result of pieces; arrays are named ``y``, ``x0``, ``x1`` and so on.

    Args:
        y: The result.
        pieces: Arrays of its dtype, not empty, and where they begin in it; they lie apart.
        traits: Of the device.
        filled: Whether the call's number, a word of the result's size, is what no piece has.
        cut: A diagonal, where there is one piece of the result's shape.

    Returns:
        The plan, or None where it does not suit: on a GPU, many pieces, rows of few elements a
        piece, a result with gaps, neighbours that are not such in a piece, words below 4 bytes.
    """
    itemsize = y.dtype.itemsize
    if not (traits.is_cpu and 0 < len(pieces) <= MOST_PIECES and y.size):
        return None
    order = memory_order(y.shape, [y.strides])
    last = len(y.shape) - 1
    if cut and ({*order[-2:]} != {last - 1, last} or itemsize < 4):
        return None
    loops = []
    for n, d in enumerate(order):
        starts = tuple(start[d] for _, start in pieces)
        stops = tuple(start[d] + x.shape[d] for x, start in pieces)
        strides = tuple(x.in_elements(x.strides[d]) for x, _ in pieces)
        apart = cut is not None and n >= last - 1
        loop = _Loop(y.shape[d], starts, stops, strides)
        loops.append((loop, y.in_elements(y.strides[d]), apart))
    step = 1
    for loop, stride, _ in reversed(loops):
        if loop.size > 1 and stride != step:
            return None
        step *= loop.size
    merged: list[_Loop] = []
    for loop, _, apart in loops:
        if apart:
            merged.append(loop)
        elif not merged or merged[-1].size == 1:
            merged[-1:] = [loop]
        elif loop.size > 1:
            joined = merged[-1].around(loop)
            merged[-1:] = [joined] if joined else [merged[-1], loop]
    offsets = [y.in_elements(y.offset), *(x.in_elements(x.offset) for x, _ in pieces)]
    while itemsize < 4:
        paired = [loop.in_pairs(row=n == len(merged) - 1) for n, loop in enumerate(merged)]
        if any(loop is None for loop in paired) or any(o % 2 for o in offsets):
            return None
        merged = [loop for loop in paired if loop is not None]
        offsets = [o // 2 for o in offsets]
        itemsize *= 2
    *outer, row = merged
    vector = traits.lanes(itemsize)
    lengths = [stop - start for start, stop in zip(row.starts, row.stops, strict=True)]
    if len(merged) > MOST_DIMS or any(
        s != 1 and n > 1 for s, n in zip(row.strides, lengths, strict=True)
    ):
        return None
    # Of a row, pieces and what is between them: lines that are put together take longer, most of
    # all element by element. Measured: planes of 56 x 56 and 28 x 28 with a border took 0.65 of the
    # time of copies, of 14 x 14 as long; rows of 20 and 12 elements 1.4 times as long.
    parts = len({*row.starts, *row.stops, 0, row.size}) - 1
    least = parts * vector // 2 if min(lengths) >= vector and not cut else 2 * parts * vector
    if vector < 2 or row.size < least:
        return None
    size = y.size * y.dtype.itemsize // itemsize
    dims = tuple(Dim(loop.size, loop.strides) for loop in merged)
    index = index_type(Space(dims, tuple(offsets[1:])), traits=traits)
    word = {4: "uint", 8: "ulong"}[itemsize]
    ordered = sorted(range(len(pieces)), key=lambda k: row.starts[k])
    found = Arguments(index)
    found.memory(word, "y_memory", read_only=False)
    for k in ordered:
        found.memory(word, f"x{k}_memory")
    if filled:
        found.scalar(word, "value", 0)
    run = run_length(size, vector, 1, traits)
    found.numbers(size=size, run=run, n=row.size, y_start=offsets[0])
    found.numbers(**{f"n{d}": loop.size for d, loop in enumerate(outer)})
    # Columns that are kept of a row, rows that are kept of a column: a diagonal moves on by one.
    along = cut is not None and order[-1] == last
    moving = "" if cut is None else "to" if cut.lower == along else "from"
    if cut is not None:
        first = cut.diagonal if along else -cut.diagonal
        most = max(y.shape) + 1
        found.numbers(cut=max(-most, min(most, first + (moving == "to"))))
    codes = []
    for k in ordered:
        bounded = tuple(
            d for d, loop in enumerate(outer) if (loop.starts[k], loop.stops[k]) != (0, loop.size)
        )
        codes.append(PieceCode(f"x{k}", lengths[k] >= vector and not cut, bounded, moving))
        ends = {"from": row.starts[k], "to": row.stops[k]}
        found.numbers(**{f"x{k}_{end}": value for end, value in ends.items() if end != moving})
        # As if its first row were the result's.
        start = offsets[1 + k] - sum(loop.starts[k] * loop.strides[k] for loop in outer)
        found.numbers(**{f"x{k}_start": start})
        found.numbers(**{f"x{k}_s{d}": loop.strides[k] for d, loop in enumerate(outer)})
        for d in bounded:
            found.numbers(**{f"x{k}_from{d}": outer[d].starts[k]})
            found.numbers(**{f"x{k}_to{d}": outer[d].stops[k]})
    read = sum(x.size for x, _ in pieces) * y.dtype.itemsize
    nbytes = read + y.size * y.dtype.itemsize
    code = PiecesCode(
        name="pieces",
        parameters=tuple(found.parameters),
        index=index,
        doubles=False,
        word=word,
        vector=vector,
        ahead=AHEAD_BYTES // itemsize if traits.asks(nbytes) else 0,
        outer=len(outer),
        pieces=tuple(codes),
        filled=filled,
        streaming=traits.streams(nbytes),
    )
    items = (-(-size // run),)
    arguments = tuple(found.arguments)
    return Plan((KernelPlan("index/pieces", code, arguments, items, (1,), nbytes, 0),))
