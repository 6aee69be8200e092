"""Outputs of a contraction that become pixels: numbers of three digits, each with its own stride.

Where outputs are columns, they are numbered so that their last digits lie side by side, and as long
as such runs are so many elements are stored at once. Where they are rows, those that become the
pixels of one row follow each other, and their vectors are interleaved.
"""

from __future__ import annotations

import math

from clprim.plan.permutation import permute
from clprim.plan.pointwise.code import Shuffles
from clprim.plan.product.problem import Contraction, Digits, Output

# Bound: rows that are interleaved: more of them would need more vectors than there are registers.
MOST_ROWS = 4


def piece_of(what: Contraction, width: int) -> int:
    """Returns how many outputs of a vector of ``width`` always lie side by side in the result."""
    # Every array that moves with the lanes has to be in step: its elements of such a piece are
    # neighbours, or one element.
    if what.digits is None:
        return width
    piece = math.gcd(width, what.outputs, _run(what.digits, what.y.digits, 1))
    for e in what.epilogue.arrays:
        if any(e.lane):
            runs = (_run(what.digits, e.digits, step) for step in (0, 1))
            piece = max(math.gcd(piece, run) for run in runs)
    return piece


def step_of(what: Contraction, array: Output, piece: int) -> int:
    """Returns an array's step from one output of a piece to the next; 2 for none that is known."""
    assert what.digits is not None
    steps = (step for step in (1, 0) if _run(what.digits, array.digits, step) % piece == 0)
    return 2 if piece == 1 else next(steps, 2)


def _run(sizes: Digits, strides: Digits | None, step: int) -> int:
    """Outputs that follow each other in the same step wherever such a run begins."""
    assert strides is not None
    run = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size > 1:
            if stride != step * run:
                break
            run *= size
    return run


def block_of(what: Contraction, rows: int, *, transposed: bool = False) -> int:
    """Returns how many rows of a tile become the pixels of one row; 1 for other results."""
    # What moves with the lanes would have to be taken apart likewise, so nothing else may.
    digits = (0, 0, what.y.output) if transposed else what.y.digits
    if digits is None:
        return 1
    block = what.outputs if transposed or what.digits is None else what.digits[2]
    pixels = digits[2] == 1 and what.y.lane[2] == block
    pixels = pixels and rows % block == 0 and what.outputs % block == 0
    alone = not what.epilogue.beta and not any(any(e.lane) for e in what.epilogue.arrays)
    return block if pixels and alone and 1 < block <= MOST_ROWS else 1


def interleaving(rows: int, width: int) -> Shuffles:
    """Returns how vectors of rows become one row of all their elements in turn."""
    places = [divmod(n, rows)[::-1] for n in range(rows * width)]
    return permute([places[width * v : width * (v + 1)] for v in range(rows)])
