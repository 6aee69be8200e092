"""A result that is put together from pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from clprim.arrays.memory import memory_relation
from clprim.call.forms import register_form
from clprim.call.primitive import NoPlanError, Primitive, Request, Target, planned_by, run
from clprim.dtypes import NO_ARRAY
from clprim.plan.index.family import PIECES
from clprim.plan.index.pieces import MOST_PIECES, Diagonal, Pieces
from clprim.plan.kernel import Plan
from clprim.plan.strides import Operand
from clprim.traits import DeviceTraits


class _Options(NamedTuple):
    """What a call is told beside its arrays."""

    starts: tuple[tuple[int, ...], ...]
    filled: bool
    cut: Diagonal | None


class _Problem(NamedTuple):
    """What a call computes: a result, and pieces at their places."""

    results: tuple[Operand, ...]
    pieces: tuple[Operand, ...]
    options: _Options


class PiecesPrimitive(Primitive):
    """Writes pieces to their places."""

    complex_numbers = True

    def problem(self, request: Request, target: Target) -> _Problem:
        """See `Primitive.problem`."""
        del target
        return _Problem(request.outs, request.operands, request.options)

    def plan(self, problem: _Problem, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        (y,), pieces, (starts, filled, cut) = problem
        parts = [*zip(pieces, starts, strict=True)]
        return planned_by(PIECES, Pieces(y, parts, filled, cut), traits)

    def names(self, problem: _Problem) -> Sequence[str]:
        """The result, then the pieces."""
        return "y", *(f"x{k}" for k in range(len(problem.pieces)))


_pieces = PiecesPrimitive("pieces")
register_form("pieces", lambda: _pieces, _Options, Diagonal)


def put_together(
    what: str,
    y: Any,
    pieces: Sequence[tuple[Any, Sequence[int]]],
    value: Any = None,
    cut: Diagonal | None = None,
) -> bool:
    """Writes pieces to their places in ``y``; see `plan_pieces`."""
    given = [(x, tuple(start)) for x, start in pieces if x.size]
    if not 0 < len(given) <= MOST_PIECES or any(x.dtype != y.dtype for x, _ in given):
        return False
    if y.dtype.itemsize > 8:  # words are smaller
        return False
    word = None if value is None else _word(value, y.dtype)
    if value is not None and word is None:
        return False
    arrays = [x for x, _ in given]
    if any(memory_relation(y.base_data, x.base_data) for x in arrays):
        return False  # what is written is read later
    options = _Options(tuple(start for _, start in given), value is not None, cut)
    try:
        run(_pieces, arrays, () if word is None else (word,), (y,), options)
    except NoPlanError:
        return False
    return True


def _word(value: Any, dtype: Any) -> int | None:
    """The bits of a number, as often as 4 bytes have room; None where the dtype has none for it."""
    if dtype.kind not in "biuf":
        return 0 if not value and not np.signbit(value) else None
    try:
        one = dtype.type(value)
    except NO_ARRAY:
        return None
    words = np.full(max(1, 4 // dtype.itemsize), one, dtype)
    return int(words.view(f"u{max(4, dtype.itemsize)}")[0])
