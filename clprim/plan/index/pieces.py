"""Plans a result that is put together from pieces, on a CPU: whole lines of it, in order, once.

A copy for each piece writes the lines in which pieces meet several times, and waits for those that
a cache has to fetch for it. Here a work-item walks along the result, whatever comes next:

    row      |ff|--- piece 0 ---|- piece 1 -|ff|--- piece 0 ---|- piece 1 -|ff|     f: the value
    lines    |===|===|===|===|===|===|===|===|===|===|===|===|===|===|===|

Lines of one piece are copied from it, those in which pieces meet are put together before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clprim.plan.kernel import KernelCode, KernelPlan, Plan
from clprim.plan.machine import AHEAD, LOOPS
from clprim.plan.parameters import Arguments
from clprim.plan.pointwise.schedule import run_length
from clprim.plan.snippets import index_type
from clprim.plan.strides import Dim, Operand, Space, memory_order
from clprim.traits import DeviceTraits

# Bound: pieces that a kernel has text for.
MOST_PIECES = 8


@dataclass(frozen=True)
class Diagonal:
    """A diagonal of the last two dimensions: of all pieces only what is on one side of it."""

    diagonal: int  # The last one that is kept; 0 is the main one, 1 the one above
    lower: bool  # Whether what is below is kept, else what is above


@dataclass(frozen=True)
class PieceCode:
    """A piece."""

    name: str
    wide: bool  # Whether its rows are no shorter than a vector
    bounded: tuple[int, ...]  # Loops that it has not all iterations of
    cut: str  # Whether it ends (``to``) or begins (``from``) an element later in every row; else ""


@dataclass(frozen=True)
class PiecesCode(KernelCode):
    """What index/pieces.cl.jinja prints."""

    word: str
    vector: int  # Elements of a line, or of what is stored at once
    ahead: int  # Words that are prefetched ahead; 0 where none are
    outer: int
    pieces: tuple[PieceCode, ...]  # In the order in which they begin in a row
    filled: bool  # Whether there are elements between them
    streaming: bool  # Whether the result is written by streaming stores


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


@dataclass(frozen=True)
class _WordRows:
    """The result as rows of words, none of which is divided between pieces."""

    outer: tuple[_Loop, ...]
    row: _Loop
    offsets: tuple[int, ...]  # Where the result and each piece begin, in words
    itemsize: int

    @property
    def loops(self) -> tuple[_Loop, ...]:
        """All of them, outermost first."""
        return (*self.outer, self.row)

    @property
    def lengths(self) -> list[int]:
        """Words of a row that each piece has."""
        return [stop - start for start, stop in zip(self.row.starts, self.row.stops, strict=True)]


@dataclass(frozen=True)
class _Side:
    """Which end of a row's part moves on by a word from row to row, and where it begins."""

    end: str = ""  # ``to`` or ``from``; "" where nothing is cut off
    first: int = 0


@dataclass(frozen=True)
class Pieces:
    """A result of pieces at their places; arrays are named ``y``, ``x0``, ``x1`` and so on."""

    y: Operand
    pieces: Sequence[tuple[Operand, Sequence[int]]]
    filled: bool = False  # Whether a number is between them
    cut: Diagonal | None = None


def plan_pieces(what: Pieces, traits: DeviceTraits) -> Plan | None:
    """Plans the kernel."""
    y, pieces, cut = what.y, what.pieces, what.cut
    # None where it does not suit: on a GPU, many pieces, rows of few elements a piece,
    # a result with gaps, neighbours that are not such in a piece, words below 4 bytes.
    if not (traits.is_cpu and 0 < len(pieces) <= MOST_PIECES and y.size):
        return None
    order = memory_order(y.shape, [y.strides])
    last = len(y.shape) - 1
    if cut and ({*order[-2:]} != {last - 1, last} or y.dtype.itemsize < 4):
        return None
    loops = _loops(y, pieces, order, apart=2 if cut else 0)
    rows = None if loops is None else _in_words(loops, y, [x for x, _ in pieces])
    if rows is None or not _pays(rows, traits, cut=cut is not None):
        return None
    side = _Side() if cut is None else _side(cut, y.shape, along=order[-1] == last)
    nbytes = (sum(x.size for x, _ in pieces) + y.size) * y.dtype.itemsize
    return Plan((_kernel(rows, side, nbytes, traits, filled=what.filled),))


def _loops(
    y: Operand, pieces: Sequence[tuple[Operand, Sequence[int]]], order: Sequence[int], *, apart: int
) -> list[_Loop] | None:
    """The dimensions as few loops, the innermost ``apart`` ones as they are; None with gaps."""
    step = 1
    for d in reversed(order):
        if y.shape[d] > 1 and y.in_elements(y.strides[d]) != step:
            return None
        step *= y.shape[d]
    merged: list[_Loop] = []
    for n, d in enumerate(order):
        loop = _Loop(
            y.shape[d],
            tuple(start[d] for _, start in pieces),
            tuple(start[d] + x.shape[d] for x, start in pieces),
            tuple(x.in_elements(x.strides[d]) for x, _ in pieces),
        )
        if n >= len(order) - apart:
            merged.append(loop)
        elif not merged or merged[-1].size == 1:
            merged[-1:] = [loop]
        elif loop.size > 1:
            joined = merged[-1].around(loop)
            merged[-1:] = [joined] if joined else [merged[-1], loop]
    return merged


def _in_words(loops: list[_Loop], y: Operand, pieces: Sequence[Operand]) -> _WordRows | None:
    """The same in words of at least 4 bytes, or None where some begin or end within a word."""
    offsets, itemsize = [a.in_elements(a.offset) for a in (y, *pieces)], y.dtype.itemsize
    while itemsize < 4:
        paired = [loop.in_pairs(row=n == len(loops) - 1) for n, loop in enumerate(loops)]
        if any(loop is None for loop in paired) or any(o % 2 for o in offsets):
            return None
        loops = [loop for loop in paired if loop is not None]
        offsets, itemsize = [o // 2 for o in offsets], 2 * itemsize
    *outer, row = loops
    return _WordRows(tuple(outer), row, tuple(offsets), itemsize)


def _pays(rows: _WordRows, traits: DeviceTraits, *, cut: bool) -> bool:
    """Whether the kernel has so many loops, and rows are long and without gaps in each piece."""
    row, lengths, vector = rows.row, rows.lengths, traits.lanes(rows.itemsize)
    gaps = any(s != 1 and n > 1 for s, n in zip(row.strides, lengths, strict=True))
    if len(rows.loops) > LOOPS or gaps or vector < 2:
        return False
    # Lines in which parts meet take longer, most of all those that elements are put together in.
    parts = len({*row.starts, *row.stops, 0, row.size}) - 1
    wide = min(lengths) >= vector and not cut
    return row.size >= (parts * vector // 2 if wide else 2 * parts * vector)


def _side(cut: Diagonal, shape: tuple[int, ...], *, along: bool) -> _Side:
    """Which end of rows, or of columns, moves on."""
    end = "to" if cut.lower == along else "from"
    first = (cut.diagonal if along else -cut.diagonal) + (end == "to")
    most = max(shape) + 1
    return _Side(end, max(-most, min(most, first)))


def _kernel(
    rows: _WordRows, side: _Side, nbytes: int, traits: DeviceTraits, *, filled: bool
) -> KernelPlan:
    """The kernel, which moves so many bytes."""
    outer, row, offsets = rows.outer, rows.row, rows.offsets
    vector = traits.lanes(rows.itemsize)
    dims = tuple(Dim(loop.size, loop.strides) for loop in rows.loops)
    index = index_type(Space(dims, offsets[1:]))
    word = {4: "uint", 8: "ulong"}[rows.itemsize]
    ordered = sorted(range(len(row.starts)), key=lambda k: row.starts[k])
    found = Arguments(index)
    found.memory(word, "y_memory", read_only=False)
    for k in ordered:
        found.memory(word, f"x{k}_memory")
    if filled:
        found.scalar(word, "value", 0)
    size = math.prod(loop.size for loop in rows.loops)
    run = run_length(size, vector, 1, traits)
    found.numbers(size=size, run=run, n=row.size, y_start=offsets[0])
    found.numbers(**{f"n{d}": loop.size for d, loop in enumerate(outer)})
    if side.end:
        found.numbers(cut=side.first)
    codes = []
    for k in ordered:
        bounded = tuple(
            d for d, loop in enumerate(outer) if (loop.starts[k], loop.stops[k]) != (0, loop.size)
        )
        wide = rows.lengths[k] >= vector and not side.end
        codes.append(PieceCode(f"x{k}", wide, bounded, side.end))
        found.numbers(**_piece_numbers(rows, k, bounded, side.end))
    code = PiecesCode(
        name="pieces",
        parameters=tuple(found.parameters),
        index=index,
        doubles=False,
        word=word,
        vector=vector,
        ahead=AHEAD // rows.itemsize if traits.prefetches(nbytes) else 0,
        outer=len(outer),
        pieces=tuple(codes),
        filled=filled,
        streaming=traits.streams(nbytes),
    )
    items = (-(-size // run),)
    return KernelPlan("index/pieces", code, tuple(found.arguments), items, (1,), nbytes, 0)


def _piece_numbers(rows: _WordRows, k: int, bounded: Sequence[int], moving: str) -> dict[str, int]:
    """Where a piece begins, ends and lies, by name, but for the end that moves."""
    outer, row = rows.outer, rows.row
    ends = {"from": row.starts[k], "to": row.stops[k]}
    found = {f"x{k}_{end}": value for end, value in ends.items() if end != moving}
    # As if its first row were the result's.
    before = sum(loop.starts[k] * loop.strides[k] for loop in outer)
    found[f"x{k}_start"] = rows.offsets[1 + k] - before
    found |= {f"x{k}_s{d}": loop.strides[k] for d, loop in enumerate(outer)}
    for d in bounded:
        found[f"x{k}_from{d}"] = outer[d].starts[k]
        found[f"x{k}_to{d}"] = outer[d].stops[k]
    return found
