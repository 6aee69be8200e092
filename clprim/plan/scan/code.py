"""What the scan templates print: results, partials, snippets and the shape of the loops."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.plan.kernel import KernelCode, OperandCode, PositionCode, ScalarCode
from clprim.plan.reduction.code import PartialCode


@dataclass(frozen=True)
class ScanCode(KernelCode):
    """What scan/*.cl.jinja print.

    Attributes:
        expr, init, step, combine, finalize: The snippets; finalize is "" where there is none.
        results, inputs: The array operands.
        partials: The partial results.
        values: (name, OpenCL C type) of what ``expr`` assigns.
        scalars: The run-time scalars.
        positions, coords, sizes: As in `PointwiseCode`.
        kept: Loops outside of a line, and of the innermost loop across lines.
        vector: Elements side by side: of a line, or of neighbouring lines.
        lanes: Work-items of a group that share a line.
        each: Neighbouring elements of a line that a work-item of such a group takes.
        block: Elements after which a partial result begins anew, so that errors stay small.
        exclusive: Whether an element's result is what came before it.
        totals: Whether this is the first of two stages, which stores only what a piece sums up to.
        pieces: Whether lines are cut in pieces, so that a piece starts from those before it.
        random: Whether the snippets draw random numbers.
        ahead: Nothing is prefetched: always 0.
    """

    expr: str
    init: str
    step: str
    combine: str
    finalize: str
    results: tuple[OperandCode, ...]
    inputs: tuple[OperandCode, ...]
    partials: tuple[PartialCode, ...]
    values: tuple[tuple[str, str], ...]
    scalars: tuple[ScalarCode, ...]
    positions: tuple[PositionCode, ...]
    coords: tuple[tuple[int, int], ...]
    sizes: tuple[tuple[int, int], ...]
    kept: int
    vector: int
    lanes: int
    each: int
    block: int
    exclusive: bool
    totals: bool
    pieces: bool
    random: bool
    ahead: int = 0
