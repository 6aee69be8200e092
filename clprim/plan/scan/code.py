"""What the scan templates print: results, partials, snippets and the shape of the loops."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.plan.reduction.code import FoldCode


@dataclass(frozen=True)
class ScanCode(FoldCode):
    """What scan/*.cl.jinja print."""

    vector: int  # Elements side by side: of a line, or of neighbouring lines
    lanes: int  # Work-items of a group that share a line
    each: int  # Neighbouring elements of a line that a work-item of such a group takes
    block: int  # Elements after which a partial result begins anew, so that errors stay small
    exclusive: bool  # Whether an element's result is what came before it
    # Whether this is the first of two stages, which stores only what a piece sums up to
    totals: bool
    pieces: bool  # Whether lines are cut in pieces, so that a piece starts from those before it
