"""Runs the kernel that puts a result together from pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.arrays.memory import memory_relation, operand_of
from clprim.call.call import Call, bind
from clprim.call.signature import Calls
from clprim.dtypes import NO_ARRAY
from clprim.plan.index.pieces import MOST_PIECES, Cut, plan_pieces
from clprim.runtime.device import current_device

# The call, or that there is none.
_calls: Calls[tuple[Call | None]] = Calls()


def put_together(
    what: str,
    y: Any,
    pieces: Sequence[tuple[Any, Sequence[int]]],
    value: Any = None,
    cut: Cut | None = None,
) -> bool:
    """Writes pieces to their places in ``y``; see `plan_pieces`.

    Args:
        what: The operator, for messages.
        y: The result.
        pieces: Arrays, and where each of them begins in it. They lie apart.
        value: What is between them; None where there is nothing.
        cut: A diagonal, on one side of which the only piece is kept.

    Returns:
        Whether it did; if not, nothing was written.
    """
    given = [(x, tuple(start)) for x, start in pieces if x.size]
    if not 0 < len(given) <= MOST_PIECES or any(x.dtype != y.dtype for x, _ in given):
        return False
    word = None if value is None else _word(value, y.dtype)
    if value is not None and word is None:
        return False
    arrays = [x for x, _ in given]
    if any(memory_relation(y.base_data, x.base_data) for x in arrays):
        return False  # what is written is read later
    device = current_device()
    starts = tuple(start for _, start in given)
    found, signature = _calls.look_up(device, arrays, (y,), (), (what, starts, value is None, cut))
    if signature is None:
        return False  # an array of another context, say: others check what they are given
    if found is None:
        parts = [(operand_of(x), start) for x, start in given]
        filled = value is not None
        plan = plan_pieces(operand_of(y), parts, device.traits, filled=filled, cut=cut)
        names = ("y", *(f"x{k}" for k in range(len(arrays))))
        found = (bind(device, what, plan, names) if plan else None,)
        _calls.remember(signature, found)
    if found[0] is None:
        return False
    found[0].run(device, (y, *arrays), () if word is None else (word,))
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
