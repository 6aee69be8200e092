"""Whether a string is affine in some of its arrays: y = scale · x + shift, both without x.

Or is that where a condition without x holds, and a number elsewhere, as masks of scores are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from clprim.language.snippet import Snippet
from clprim.language.tree import (
    Assign,
    Binary,
    Call,
    Cast,
    Declare,
    Evaluate,
    Expr,
    Name,
    Number,
    Ternary,
    Unary,
    Variable,
    flat,
    names_in,
)

# What a value is: without x, affine, that or a number, and an array that conditions alone read.
_FREE, _AFFINE, _MASKED, _CHOICE = range(4)
# Numbers that are less than any score: what is added to these is lost.
_LOWEST = -1e30


class _Other(Exception):  # noqa: N818 — an answer, not an error
    """Something else than an affine map."""


def is_affine(snippet: Snippet, *names: str) -> bool:
    """Whether the only result is an affine map of the arrays of some names together, everywhere.

    Sums, differences, products with what does not depend on it and quotients by that are; no
    condition, jump, rounding or function of it.
    """
    return _kind(snippet, dict.fromkeys(names, _AFFINE), ()) == _AFFINE


def is_masked(
    snippet: Snippet, names: Collection[str], choices: Collection[str], numbers: Sequence[Any]
) -> bool:
    """Whether the only result is an affine map of arrays, or where conditions say so -∞."""
    known = dict.fromkeys(names, _AFFINE) | dict.fromkeys(choices, _CHOICE)
    return _kind(snippet, known, numbers) in (_AFFINE, _MASKED)


def _kind(snippet: Snippet, known: dict[str, int], numbers: Sequence[Any]) -> int | None:
    """What ``y0`` is in the end; None where it is something else."""
    try:
        for statement in flat(snippet.statements):
            match statement:
                case Declare(_, variables):
                    for variable in variables:
                        match variable:
                            case Variable(local, (), value, "") if value is not None:
                                known[local] = _degree(value, known, numbers)
                            case _:
                                return None
                case Evaluate(Assign(Name(target), "=", value)):
                    known[target] = _degree(value, known, numbers)
                case _:
                    return None
    except _Other:
        return None
    return known.get("y0")


def _degree(value: Expr, known: dict[str, int], numbers: Sequence[Any]) -> int:
    """What an expression is."""

    def of(part: Expr) -> int:
        return _degree(part, known, numbers)

    match value:
        case Number():
            return _FREE
        case Name(text):
            if (kind := known.get(text, _FREE)) != _CHOICE:
                return kind
        case Cast(kind, a) if kind.text.startswith("typeof_"):
            return of(a)
        case Ternary(condition, a, b):
            if all(known.get(n, _FREE) in (_FREE, _CHOICE) for n in names_in(condition)):
                for one, other in ((a, b), (b, a)):
                    if of(one) in (_AFFINE, _MASKED) and _is_lowest(other, numbers):
                        return _MASKED
        case Binary("+" | "-", a, b) if of(a) == _MASKED and of(b) == _FREE:
            return _MASKED
        case Unary("-" | "+", a):
            return _plain(of(a))
        case Binary("+" | "-", a, b):
            return max(_plain(of(a)), _plain(of(b)))
        case Binary("*", a, b):
            return _product(of(a), of(b))
        case Binary("/", a, b) if of(b) == _FREE:
            return _plain(of(a))
        case Call("fma" | "mad", (a, b, c)):
            return max(_product(of(a), of(b)), _plain(of(c)))
        case Call(_, args) if not any(of(a) for a in args):
            return _FREE
    raise _Other


def _plain(kind: int) -> int:
    if kind > _AFFINE:
        raise _Other
    return kind


def _product(a: int, b: int) -> int:
    return _plain(a + b)


def _is_lowest(value: Expr, numbers: Sequence[Any]) -> bool:
    """Whether an expression is -∞, or a number that scores are nothing beside."""
    match value:
        case Cast(_, a):
            return _is_lowest(a, numbers)
        case Unary("-", Name("INFINITY")):
            return True
        case Name(text) if text[0] == "w" and text[1:].isdecimal():
            number = numbers[int(text[1:])] if int(text[1:]) < len(numbers) else math.nan
            return bool(number <= _LOWEST)
    return False
