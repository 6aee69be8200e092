"""What the templates of contractions on CPUs print.

product/panels.cl.jinja, product/in_place.cl.jinja, product/dots.cl.jinja and
fused/inverted_residual.cl.jinja share it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from clprim.plan.kernel import (
    Argument,
    OperandCode,
    Parameter,
    mask_type,
)
from clprim.plan.parameters import Arguments
from clprim.plan.permutation import transpose
from clprim.plan.pointwise.code import Shuffles
from clprim.plan.product.pixels import block_of, interleaving, piece_of, step_of
from clprim.plan.product.problem import (
    Contraction,
    Output,
    index_of,
    moved_bytes,
)
from clprim.plan.product.prologue import PrologueCode, add_prologue
from clprim.plan.product.shape import Shape
from clprim.plan.store import StoredCode, StoringCode, add_store, storing, vectors_alike
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class Prefetch:
    """Memory that is prefetched while strips are passed, before it is needed."""

    # ``strip``, the next one, ``lanes``, those of the next tile, or ``rows``, what the next
    # work-item copies
    what: str
    passes: int  # All of it is prefetched in so many passes, a piece in each; 0: until it ends
    lines: int  # Of a cache, that are prefetched every ``unit`` steps of k
    line: int
    share: int = 0  # Elements of the next strip, or rows, that a pass prefetches in every step of k


@dataclass(frozen=True)
class ContractionCode(StoringCode):
    """What product/panels.cl.jinja, …_in_place.cl.jinja and …_finish.cl.jinja print."""

    gathered: str  # What the gathered operand's lanes are: ``rows`` or ``columns`` of the result
    vectors: int  # A tile is ``rows`` × ``vectors`` vectors of ``width`` columns
    rows: int
    along: str  # What lies side by side in the gathered operand: ``depth``, ``lanes`` or ``none``
    unit: int  # Steps of k that lie side by side in the panel
    bounds: bool  # Whether windows leave the plane
    panel: int
    most_tiles: int  # Gathered tiles that a work-item holds at most
    partial: bool  # Whether sums are kept outside of registers between blocks of depth
    split: bool  # Whether another kernel adds up and stores what the splits give
    x: OperandCode
    w: OperandCode | None = None  # The other one, where it is read where it lies along its depth
    passed_in_place: bool = False  # Whether the other one is read where it lies as well
    # Whether rows are copied to local memory first (product/in_place.cl.jinja)
    row_buffer: bool = False
    dense: bool = False  # Whether pixels of a row follow each other without a gap
    # Whether lanes are rows, although they are what lies side by side in memory: the result is
    # transposed
    planar: bool = False
    # Elements from a lane to the next one in the row buffer; 0 where an argument says it
    step: int = 1
    prefetch: Prefetch | None = None  # What is prefetched while strips are passed
    taps_inside: bool = False  # Whether the taps of a row follow each other faster than channels
    neighbours: bool = False  # Whether they do in the gathered operand
    # Whether lanes are columns, although neighbours in memory are channels: the row buffer is
    # transposed as it is filled
    transposed: bool = False
    # Whether a line of the row buffer has its even pixels first and then the odd ones
    alternate: bool = False
    shuffles: Shuffles | None = None  # How a square of vectors is transposed in registers
    ahead: int = 0  # Steps of k that lanes side by side are prefetched before they are read; 0: not
    # Whether the memory that the next lanes are stored to is prefetched while a tile is summed up
    prefetch_stores: bool = False
    # Vectors of it that are prefetched every ``unit`` steps of k; 0: all of them before the first
    prefetch_a_step: int = 0
    # Rows of taps, taps and neighbours of a tap, where kernels are made for them
    fixed: tuple[int, int, int] | None = None
    digits: bool = False  # Whether outputs are numbers of three digits
    piece: int = 1  # Elements that are stored at once where columns end
    block: int = 1  # Rows that become the pixels of one
    interleave: Shuffles | None = None  # How vectors of such rows become vectors of that one
    noted: int = 1  # Packed tiles whose outputs' places are known at a time
    prologue: PrologueCode | None = None  # What becomes of elements on their way to the row buffer

    @property
    def mask(self) -> str:
        """Type of a lane of what `select` takes beside vectors of sums."""
        return mask_type(self.value)

    @property
    def widths(self) -> list[int]:
        """Elements that are read or stored at once."""
        pieces = self.pieces(self.block * self.rows) if self.planar else []
        ends = self.planar or self.gathered == "columns"
        parts = self.parts if ends and self.vector_store else []
        return sorted({1, self.piece, self.width, *(width for _, width in pieces), *parts})

    @property
    def parts(self) -> list[int]:
        """Lengths that elements which fill no vector are taken by, the least first."""
        return [1 << n for n in range(self.width.bit_length() - 1)]

    @property
    def prefetched(self) -> list[StoredCode]:
        """The arrays of the store that caches bring memory of every lane of."""
        near = self.extras if self.streaming else self.outputs
        return [o for o in near if o.moves and o.load != "place"]

    def pieces(self, count: int) -> list[tuple[int, int]]:
        """So many elements as vectors: where each begins, and its length."""
        pieces, at = [], 0
        while at < count:
            length = min(self.width, 1 << (count - at).bit_length() - 1)
            pieces.append((at, length))
            at += length
        return pieces

    @property
    def snippet_vectors(self) -> list[str]:
        """Vectors that snippets may run on."""
        widths = {w for w in self.widths if w > 1} if self.vector_epilogue else set[int]()
        if self.prologue is not None and self.prologue.vectors:
            widths.add(self.width)
        return [f"{self.value}{w}" for w in sorted(widths)]

    @property
    def lanes(self) -> int:
        """Gathered lanes of a tile."""
        return self.rows if self.gathered == "rows" else self.vectors * self.width

    @property
    def packed_lanes(self) -> int:
        """Outputs of a tile."""
        return self.vectors * self.width if self.gathered == "rows" else self.rows

    @property
    def lane_vectors(self) -> int:
        """Vectors that a tile's lanes fill."""
        return -(-self.lanes // self.width)

    @property
    def slack(self) -> int:
        """Elements behind a tile in the panel, for vectors of lanes that end past it."""
        return self.width if self.along == "lanes" and self.lanes % self.width else 0


def contraction_code(
    what: Contraction,
    shape: Shape,
    traits: DeviceTraits,
    *,
    along: str,
    unit: int = 1,
    planar: bool = False,
    streaming: bool = False,
    most_tiles: int = 1,
) -> ContractionCode:
    """Returns what the templates print, but for parameters and how depth is cut."""
    width, gathered_rows = shape.width, shape.lanes_are_rows
    along_outputs = gathered_rows and not planar
    piece = piece_of(what, width) if along_outputs else width
    stores = storing(
        what,
        width,
        lambda array: _output(what, array, gathered_rows, along_outputs, piece),
        traits,
        streaming=streaming and (not planar or shape.rows % width == 0),
    )
    everything = (stores["y"], *stores["extras"])
    vectors = stores["vector_store"]
    stores["vector_store"] = vectors and piece == width
    if along_outputs and what.digits is None and what.outputs % (shape.vectors * width):
        piece = math.gcd(what.outputs, width)  # where the last strip ends before its vectors do
    lines = shape.vectors * width if planar else shape.rows  # outputs of a tile
    block = (
        block_of(what, lines, transposed=shape.transposed)
        if vectors_alike(what, everything) and not along_outputs
        else 1
    )
    return ContractionCode(
        **stores,
        parameters=(),
        index=index_of(what),
        vectors=shape.vectors,
        rows=shape.rows,
        gathered=shape.gathered,
        along=along,
        unit=unit,
        bounds=what.gathered.bounds is not None,
        panel=shape.panel,
        most_tiles=most_tiles,
        partial=False,
        split=False,
        x=OperandCode.of("x", what.gathered.dtype, what.value, 0),
        digits=what.digits is not None,
        piece=piece if vectors and piece < width else 1,
        block=block,
        interleave=interleaving(block, width) if block > 1 else None,
        planar=planar,
        transposed=shape.transposed,
        shuffles=transpose(width) if planar or shape.transposed else None,
    )


def streaming_stores(
    what: Contraction, width: int, traits: DeviceTraits, *, along_outputs: bool
) -> bool:
    """Returns whether stores should be streaming: results are large, and whole lines of memory."""
    y = what.y
    outputs = (y.group, y.output) if y.digits is None else y.digits
    steps, run = list(y.lane), 1
    if not along_outputs:
        while steps and steps[-1] == run:  # lanes that follow each other, from line to line
            run *= what.lanes[len(steps) - 1]
            steps.pop()
    places = [y.start, *(step for step in (*outputs, *steps) if step != 1)]
    if not along_outputs:
        places.append(run)
    whole = all(place % width == 0 for place in places)
    there = what.epilogue.beta or what.epilogue.in_place
    return whole and not there and traits.streams(moved_bytes(what))


def _output(
    what: Contraction, array: Output, gathered_rows: bool, along_outputs: bool, piece: int
) -> StoredCode:
    """How a tile meets an array; ``inner`` is the step between neighbours in the result."""
    moves = any(array.lane)
    kept = gathered_rows and not moves and what.digits is not None
    if kept:
        inner = int(along_outputs)
    elif along_outputs:
        inner = array.output if what.digits is None else step_of(what, array, piece)
    elif not moves:
        inner = 0
    else:  # lanes are neighbours wherever those of the result are
        inner = 1 if array.lane[2] == 1 else 2
    return StoredCode.at(array.name, array.dtype, what.value, inner, moves=moves, kept=kept)


def parameters_of(
    code: ContractionCode, numbers: dict[str, int], what: Contraction, *, finish: bool = False
) -> tuple[tuple[Parameter, ...], tuple[Argument, ...]]:
    """Returns a kernel's parameters: memory, beta, the numbers given, and places of results."""
    found = Arguments(code.index)
    if not finish:
        found.memory(code.x.storage, "x_memory", what.gathered.buffer)
        if code.w is not None:
            found.memory(code.w.storage, "w_memory", what.packed.buffer)
        elif code.passed_in_place:
            found.memory(code.value, "packed", what.packed.buffer)
        else:
            found.memory(code.value, "packed")
    if code.partial:
        found.memory(code.value, "partial", read_only=finish)
    # What another kernel stores needs no numbers here.
    stores = replace(code, beta=False, scalars=(), sizes=()) if code.split else code
    add_store(found, what, stores)
    named = dict(numbers)
    if what.digits is not None:
        named.update(output_1=what.digits[1], output_2=what.digits[2])
    for o, place in zip(code.outputs, what.stored, strict=True):
        named[f"{o.name}_start"] = place.start
        if place.digits is None:
            named[f"{o.name}_group"] = place.group
            named[f"{o.name}_channel"] = place.output
        else:
            named.update({f"{o.name}_output_{d}": s for d, s in enumerate(place.digits)})
        if o.moves:
            named.update({f"{o.name}_{d}": stride for d, stride in enumerate(place.lane)})
    found.numbers(**named)
    add_prologue(found, what, code)
    return tuple(found.parameters), tuple(found.arguments)
