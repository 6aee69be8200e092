"""Products of 8 bits as products of words of four, for devices that sum four products at once.

Where both operands have four steps of k side by side, aligned, a contraction of bytes is one of
32-bit words over a quarter of the depth, whose product is the sum of four
(`cl_khr_integer_dot_product`). Nothing else of a plan changes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clprim.plan.product.problem import Contraction, Digits
from clprim.traits import DeviceTraits

#: Bound: bytes of a word.
WORD = 4
_INT32 = np.dtype(np.int32)
_SIGNS = {np.dtype(np.int8): "s", np.dtype(np.uint8): "u"}


def sign_of(what: Contraction) -> tuple[str, str]:
    """Returns ``s`` or ``u``, of the gathered and of the packed operand's bytes."""
    return _SIGNS[what.gathered.dtype], _SIGNS[what.packed.dtype]


def in_words(what: Contraction, traits: DeviceTraits) -> Contraction | None:
    """Returns the contraction of words, or None where operands are not made of them."""
    x, w = what.gathered, what.packed
    bytes_ = {x.dtype, w.dtype} <= _SIGNS.keys() and what.value == _INT32
    if not traits.integer_dots or not bytes_:
        return None
    digit = next((d for d in (2, 1, 0) if x.depth[d] == 1 == w.depth[d]), None)
    if digit is None or what.depths[digit] % WORD or _moves(what, digit):
        return None
    others = [d for d in range(3) if d != digit and what.depths[d] > 1]
    steps = [x.start, x.size, w.start]
    steps += [x.group, w.group] if what.groups > 1 else []
    steps += [side.depth[d] for side in (x, w) for d in others]
    steps += [step for step, size in zip(x.lane, what.lanes, strict=True) if size > 1]
    steps += [w.output] if w.digits is None else w.digits
    if any(step % WORD for step in steps):
        return None

    return replace(
        what,
        depths=_replaced(what.depths, digit, what.depths[digit] // WORD),
        gathered=replace(
            x,
            dtype=_INT32,
            start=x.start // WORD,
            group=x.group // WORD,
            lane=_quarters(x.lane),
            depth=_replaced(_quarters(x.depth), digit, 1),
            size=x.size // WORD,
        ),
        packed=replace(
            w,
            dtype=_INT32,
            start=w.start // WORD,
            group=w.group // WORD,
            output=w.output // WORD,
            digits=None if w.digits is None else _quarters(w.digits),
            depth=_replaced(_quarters(w.depth), digit, 1),
        ),
    )


def _moves(what: Contraction, digit: int) -> bool:
    """Whether a digit of depth walks the plane that windows may leave."""
    bounds = what.gathered.bounds
    if bounds is None:
        return False
    return bool((*bounds.row_depth, 0)[digit] or (0, *bounds.column_depth)[digit])


def _quarters(steps: Digits) -> Digits:
    return steps[0] // WORD, steps[1] // WORD, steps[2] // WORD


def _replaced(sizes: Digits, digit: int, size: int) -> Digits:
    first, second, third = (size if d == digit else s for d, s in enumerate(sizes))
    return first, second, third
