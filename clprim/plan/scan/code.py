"""What the scan templates print: results, partials, snippets and the shape of the loops."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.plan.reduction.code import FoldCode


@dataclass(frozen=True)
class ScanCode(FoldCode):
    """What scan/*.cl.jinja print.

    Attributes:
        vector: Elements side by side: of a line, or of neighbouring lines.
        lanes: Work-items of a group that share a line.
        each: Neighbouring elements of a line that a work-item of such a group takes.
        block: Elements after which a partial result begins anew, so that errors stay small.
        exclusive: Whether an element's result is what came before it.
        totals: Whether this is the first of two stages, which stores only what a piece sums up to.
        pieces: Whether lines are cut in pieces, so that a piece starts from those before it.
    """

    vector: int
    lanes: int
    each: int
    block: int
    exclusive: bool
    totals: bool
    pieces: bool
