"""What the pointwise templates print: operands, the snippet and the shape of the loops."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.plan.kernel import KernelCode, LookupCode, OperandCode, PositionCode, ScalarCode


@dataclass(frozen=True)
class PointwiseCode(KernelCode):
    """What every pointwise template prints."""

    part: str  # What the snippet is called in messages
    expr: str
    results: tuple[OperandCode, ...]
    inputs: tuple[OperandCode, ...]
    lookups: tuple[LookupCode, ...]  # The arrays that are read at coordinates
    scalars: tuple[ScalarCode, ...]
    positions: tuple[PositionCode, ...]  # ``index`` and ``coord_D`` where the snippet uses them
    # (dimension as written, axis) of every ``coord(d)`` and ``size(d)``
    coords: tuple[tuple[int, int], ...]
    sizes: tuple[tuple[int, int], ...]
    outer: int  # Dimensions outside the innermost one
    vector: int  # Elements a work-item takes at a time
    # Vectors after which operands that repeat along memory start again; 1 without such
    patterns: int
    # Elements that are computed one by one, and then streamed together; 0 where they are stored one
    # by one
    chunk: int
    peeled: bool  # Whether rows begin with elements that are no whole vector of memory
    # Whether stores are streaming (non-temporal): results would displace what the cache holds
    streaming: bool
    random: bool  # Whether the snippet draws random numbers
    walks: bool  # Whether a work-item takes several rows, one after another
    # Inputs that are prefetched before they are read, and how many elements before
    prefetched: tuple[tuple[str, int], ...]
    # The type of complex numbers that vectors are computed of: the real parts first, then the
    # imaginary ones
    pair: str


@dataclass(frozen=True)
class Shuffles:
    """How vectors in the order of one array become vectors in the order of another."""

    # Each step takes lanes of two vectors. Vectors are numbered: the ones that come in first, then
    # the results of the steps.

    # Lanes that a step takes: (whether of the second vector, which lane), each lane
    picks: tuple[tuple[tuple[int, int], ...], ...]
    # (result, pick, first vector, second vector) in order
    steps: tuple[tuple[int, int, int, int], ...]
    outputs: tuple[int, ...]  # The vectors that come out


@dataclass(frozen=True)
class TileCode(PointwiseCode):
    """What pointwise/rows.cl.jinja and pointwise/transpose.cl.jinja print."""

    middle: int  # Loops around the tiles that a work-item walks through
    # Iterations of the long loop that are in the cache at a time; in a transposition, columns and
    # lines of its tile
    tile: tuple[int, ...]
    # Neighbouring elements that belong to one iteration of the long loop, of results and of the
    # inputs that lie otherwise
    result_step: int
    input_step: int
    # Iterations of the short loops that are rows of their own there: an index of every such loop,
    # each row
    result_rows: tuple[tuple[int, ...], ...]
    input_rows: tuple[tuple[int, ...], ...]
    shuffles: Shuffles  # From the inputs' order to the results'
    # Whether the tile of a transposition has the results' whole rows, one after the other; ``tile``
    # is then how many elements it has room for
    whole: bool
    ahead: int  # How far ahead inputs are prefetched: elements, or in a transposition columns
