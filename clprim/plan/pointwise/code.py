"""What the pointwise templates print: operands, the snippet and the shape of the loops."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.plan.kernel import KernelCode, LookupCode, OperandCode, PositionCode, ScalarCode


@dataclass(frozen=True)
class PointwiseCode(KernelCode):
    """What every pointwise template prints.

    Attributes:
        part: What the snippet is called in messages.
        expr: The snippet.
        results, inputs: The array operands.
        lookups: The arrays that are read at coordinates.
        scalars: The run-time scalars.
        positions: ``index`` and ``coord_D`` where the snippet uses them.
        coords, sizes: (dimension as written, axis) of every ``coord(d)`` and ``size(d)``.
        outer: Dimensions outside the innermost one.
        vector: Elements a work-item takes at a time.
        patterns: Vectors after which operands that repeat along memory start again; 1 without such.
        chunk: Elements that are computed one by one, and then streamed together; 0 where
            they are stored one by one.
        peeled: Whether rows begin with elements that are no whole vector of memory.
        streaming: Whether stores are streaming (non-temporal): results would displace what the
            cache holds.
        random: Whether the snippet draws random numbers.
        walks: Whether a work-item takes several rows, one after another.
        prefetched: Inputs that are prefetched before they are read, and how many elements before.
    """

    part: str
    expr: str
    results: tuple[OperandCode, ...]
    inputs: tuple[OperandCode, ...]
    lookups: tuple[LookupCode, ...]
    scalars: tuple[ScalarCode, ...]
    positions: tuple[PositionCode, ...]
    coords: tuple[tuple[int, int], ...]
    sizes: tuple[tuple[int, int], ...]
    outer: int
    vector: int
    patterns: int
    chunk: int
    peeled: bool
    streaming: bool
    random: bool
    walks: bool
    prefetched: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Shuffles:
    """How vectors in the order of one array become vectors in the order of another.

    Each step takes lanes of two vectors. Vectors are numbered: the ones that come in first, then
    the results of the steps.

    Attributes:
        picks: Lanes that a step takes: (whether of the second vector, which lane), each lane.
        steps: (result, pick, first vector, second vector) in order.
        outputs: The vectors that come out.
    """

    picks: tuple[tuple[tuple[int, int], ...], ...]
    steps: tuple[tuple[int, int, int, int], ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class TileCode(PointwiseCode):
    """What pointwise/rows.cl.jinja and pointwise/transpose.cl.jinja print.

    Attributes:
        middle: Loops around the tiles that a work-item walks through.
        tile: Iterations of the long loop that are in the cache at a time; in a transposition,
            columns and lines of its tile.
        result_step, input_step: Neighbouring elements that belong to one iteration of the long
            loop, of results and of the inputs that lie otherwise.
        result_rows, input_rows: Iterations of the short loops that are rows of their own there: an
            index of every such loop, each row.
        shuffles: From the inputs' order to the results'.
        whole: Whether the tile of a transposition has the results' whole rows, one after the other;
            ``tile`` is then how many elements it has room for.
        ahead: How far ahead inputs are prefetched: elements, or in a transposition columns.
    """

    middle: int
    tile: tuple[int, ...]
    result_step: int
    input_step: int
    result_rows: tuple[tuple[int, ...], ...]
    input_rows: tuple[tuple[int, ...], ...]
    shuffles: Shuffles
    whole: bool
    ahead: int
