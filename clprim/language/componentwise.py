"""Decides whether a snippet means the same on a whole vector as on each of its components.

``y0 = x0 * w0 + x1;`` does: with ``float16`` operands OpenCL C computes sixteen elements with the
same text, and every compiler makes good code of it. ``if (x0 > 0) …`` does not. Only what is known
to agree is accepted; a snippet that is refused runs element by element, which is always right.
"""

from __future__ import annotations

import re
from enum import Enum

from clprim.language.names import COMPONENTWISE
from clprim.language.snippet import Snippet, operand_number
from clprim.language.syntax import (
    Assign,
    Binary,
    Call,
    Cast,
    Declare,
    Expr,
    Name,
    Number,
    Ternary,
    Unary,
)

__all__ = ["is_componentwise", "needs_float"]

_COMPARISONS = frozenset("< > <= >= == !=".split())
_LOGIC = frozenset(["&&", "||"])
_ARITHMETIC = frozenset("+ - * / & | ^".split())
_FLOAT_CONSTANTS = re.compile(r"(INFINITY|NAN|MAXFLOAT|FLT_(MAX|MIN|EPSILON)|M_\w+_F)$")
_PLAIN_INTEGER = re.compile(r"\d+$")
_PLAIN_FLOAT = re.compile(r"(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?f?$")


class _Kind(Enum):
    VECTOR = "one value a component"
    SCALAR = "one value for all components"
    MASK = "a comparison: 1 for a scalar, -1 in a vector, so only a condition may hold it"


class _Differs(Exception):  # noqa: N818 — an answer, not an error
    """A vector would compute something else than its components."""


def is_componentwise(*snippets: Snippet) -> bool:
    """Whether all snippets compute the same on vectors as on each component of them.

    This holds for operands that all have one element type of at least 32 bits; the plan checks
    that, as dtypes are not known here.
    """
    try:
        for snippet in snippets:
            if snippet.statements is None or snippet.dims:
                return False
            local: set[str] = set()
            for statement in snippet.statements:
                match statement:
                    case Declare(type_name, name, value) if type_name.startswith("typeof_"):
                        _require(_kind(value, local) is not _Kind.MASK)
                        local.add(name)
                    case Assign(_, op, value) if op not in ("<<=", ">>=", "%="):
                        _require(_kind(value, local) is not _Kind.MASK)
                    case _:
                        return False
    except _Differs:
        return False
    return True


def needs_float(*snippets: Snippet) -> bool:
    """Whether a literal or a constant needs the element type to be a floating one."""
    return any(
        (token.kind == "number" and not _PLAIN_INTEGER.match(token.text))
        or (token.kind == "name" and _FLOAT_CONSTANTS.match(token.text) is not None)
        for snippet in snippets
        for token in snippet.tokens
    )


def _require(condition: bool) -> None:
    if not condition:
        raise _Differs


def _kind(node: Expr, local: set[str]) -> _Kind:
    match node:
        case Number(text):
            _require(bool(_PLAIN_INTEGER.match(text) or _PLAIN_FLOAT.match(text)))
            return _Kind.SCALAR
        case Name(text):
            if operand_number(text, "w") is not None or _FLOAT_CONSTANTS.match(text):
                return _Kind.SCALAR
            vectors = ("x", "y", "reduce_y", "other_y")
            _require(text in local or any(operand_number(text, f) is not None for f in vectors))
            return _Kind.VECTOR
        case Unary(op, a):
            kind = _kind(a, local)
            _require(kind is _Kind.MASK if op == "!" else kind is not _Kind.MASK and op != "~")
            return kind
        case Binary(op, a, b):
            kinds = {_kind(a, local), _kind(b, local)}
            if op in _LOGIC:
                _require(kinds == {_Kind.MASK})
                return _Kind.MASK
            _require(_Kind.MASK not in kinds)
            if op in _COMPARISONS:
                _require(_Kind.VECTOR in kinds)
                return _Kind.MASK
            _require(op in _ARITHMETIC)
            return _Kind.VECTOR if _Kind.VECTOR in kinds else _Kind.SCALAR
        case Ternary(condition, a, b):
            _require(_kind(condition, local) is _Kind.MASK)
            arms = {_kind(a, local), _kind(b, local)}
            _require(_Kind.MASK not in arms and _Kind.VECTOR in arms)
            return _Kind.VECTOR
        case Call(function, args):
            kinds = {_kind(a, local) for a in args}
            _require(function in COMPONENTWISE and _Kind.MASK not in kinds)
            _require(_Kind.VECTOR in kinds)
            return _Kind.VECTOR
        case Cast(type_name, a):
            # (float16)w0 repeats a scalar in every component, as (float)w0 would.
            _require(type_name.startswith("typeof_") and _kind(a, local) is not _Kind.MASK)
            _require(not type_name.startswith("typeof_w"))
            return _Kind.VECTOR
    raise _Differs
