"""Whether a string is affine in some of its arrays: y = scale · x + shift, both without x."""

from __future__ import annotations

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
    Unary,
    Variable,
    flat,
)


class _Other(Exception):  # noqa: N818 — an answer, not an error
    """Something else than an affine map."""


def is_affine(snippet: Snippet, *names: str) -> bool:
    """Whether the only result is an affine map of the arrays of some names together, everywhere.

    Sums, differences, products with what does not depend on it and quotients by that are; no
    condition, jump, rounding or function of it.
    """
    known = dict.fromkeys(names, 1)
    try:
        for statement in flat(snippet.statements):
            match statement:
                case Declare(_, variables):
                    for variable in variables:
                        match variable:
                            case Variable(local, (), value, "") if value is not None:
                                known[local] = _degree(value, known)
                            case _:
                                return False
                case Evaluate(Assign(Name(target), "=", value)):
                    known[target] = _degree(value, known)
                case _:
                    return False
    except _Other:
        return False
    return known.get("y0") == 1


def _degree(value: Expr, known: dict[str, int]) -> int:
    """0 of what does not depend on the array, 1 of an affine map."""
    match value:
        case Number():
            return 0
        case Name(text):
            return known.get(text, 0)
        case Unary("-" | "+", a):
            return _degree(a, known)
        case Cast(kind, a) if kind.text.startswith("typeof_"):
            return _degree(a, known)
        case Binary("+" | "-", a, b):
            return max(_degree(a, known), _degree(b, known))
        case Binary("*", a, b):
            return _product(_degree(a, known), _degree(b, known))
        case Binary("/", a, b) if not _degree(b, known):
            return _degree(a, known)
        case Call("fma" | "mad", (a, b, c)):
            return max(_product(_degree(a, known), _degree(b, known)), _degree(c, known))
        case Call(_, args) if not any(_degree(a, known) for a in args):
            return 0
    raise _Other


def _product(a: int, b: int) -> int:
    if a + b > 1:
        raise _Other
    return a + b
