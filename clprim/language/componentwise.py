"""Decides whether a snippet means the same on a whole vector as on each of its components.

``y0 = x0 * w0 + x1;`` does: with ``float16`` operands OpenCL C computes sixteen elements with the
same text, and every compiler makes good code of it. ``if (x0 > 0) …`` does not. Only what is known
to agree is accepted; a snippet that is refused runs element by element, which is always right.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

from clprim.language.names import BUILTINS, COMPONENTWISE, INTEGER_FORMS, PREDICATES
from clprim.language.operands import operand_number
from clprim.language.snippet import Snippet
from clprim.language.tree import (
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    Declare,
    Evaluate,
    Expr,
    Name,
    Node,
    Number,
    Ternary,
    Tree,
    Type,
    Unary,
    Variable,
    flat,
    fold,
    walk,
)

COMPARISONS = frozenset("< > <= >= == !=".split())
_LOGIC = frozenset(["&&", "||"])
_PAIR_ASSIGNMENTS = frozenset(["=", "+=", "-=", "*=", "/="])
# Functions of complex numbers that vectors compute.
PAIR_FUNCTIONS = frozenset("real imag conj abs complex reciprocal".split())
_ARITHMETIC = frozenset("+ - * / & | ^".split())
_FLOAT_CONSTANTS = re.compile(r"(INFINITY|NAN|MAXFLOAT|FLT_(MAX|MIN|EPSILON)|M_\w+_F)$")
_PLAIN_INTEGER = re.compile(r"\d+$")
_PLAIN_FLOAT = re.compile(r"(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?f?$")


class _Kind(Enum):
    VECTOR = "one value a component"
    SCALAR = "one value for all components"
    MASK = "a comparison: 1 for a scalar, -1 in a vector, so only a condition may hold it"


class Differs(Exception):  # noqa: N818 — an answer, not an error
    """A vector would compute something else than its components."""


@lru_cache(maxsize=1024)
def is_componentwise(*snippets: Snippet) -> bool:
    """Whether all snippets compute the same on vectors as on each component of them.

    Operands have to have one element type of at least 32 bits, which the plan checks.
    """
    try:
        for snippet in snippets:
            local: set[str] = set()
            require(not snippet.dims)
            own = snippet.preamble.names & BUILTINS  # the preamble may have a max of its own
            require(not any(token.text in own for token in snippet.tokens))
            for statement in flat(snippet.statements):
                match statement:
                    case Declare(Type(text), variables) if _is_operands(text):
                        for variable in variables:
                            local.add(_declared(variable, local))
                    case Evaluate(Assign(Name(), op, value)) if op not in ("<<=", ">>=", "%="):
                        require(_kind(value, local) is not _Kind.MASK)
                    case _:
                        return False
    except Differs:
        return False
    return True


@lru_cache(maxsize=1024)
def is_pairs_componentwise(snippet: Snippet) -> bool:
    """Whether a snippet computes the same on vectors of complex numbers as on each of them.

    These are pairs of vectors: only arithmetic and what takes numbers apart is known to agree.
    """
    if snippet.dims or snippet.lookups or snippet.used & {"index"} or snippet.draws:
        return False
    if snippet.words & snippet.preamble.names:
        return False
    for statement in flat(snippet.statements):
        match statement:
            case Declare(Type(text), variables) if _is_operands(text):
                if not all(isinstance(v, Variable) and v.value and not v.sizes for v in variables):
                    return False
            case Evaluate(Assign(Name(), op)) if op in _PAIR_ASSIGNMENTS:
                pass
            case _:
                return False
    return all(map(_is_of_pairs, walk(snippet.tree)))


def _is_of_pairs(node: Node) -> bool:
    match node:
        case Call(function):
            return function in PAIR_FUNCTIONS
        case Binary(op):
            return op in "+-*/"
        case Unary(op):
            return op in "+-"
        case Type(text):
            return _is_operands(text) and "*" not in text
    kinds = Number | Name | Assign | Declare | Variable | Evaluate | Tree | Cast | Block
    return isinstance(node, kinds)


def _declared(variable: Node, local: set[str]) -> str:
    match variable:
        case Variable(name, (), value, "") if value is not None:
            require(_kind(value, local) is not _Kind.MASK)
            return name
    raise Differs


def _is_operands(type_name: str) -> bool:
    type_name = type_name.removeprefix("const ")
    return type_name.startswith("typeof_") and not type_name.startswith("typeof_w")


def needs_float(*snippets: Snippet) -> bool:
    """Whether a literal, a constant or a function needs the element type to be a floating one."""
    return any(
        (token.kind == "number" and not _PLAIN_INTEGER.match(token.text))
        or (token.kind == "name" and _FLOAT_CONSTANTS.match(token.text) is not None)
        or (token.text in COMPONENTWISE | PREDICATES and token.text not in INTEGER_FORMS)
        for snippet in snippets
        for token in snippet.tokens
    )


def require(condition: bool) -> None:
    """Refuses a snippet that is not known to agree."""
    if not condition:
        raise Differs


def _kind(value: Expr, local: set[str]) -> _Kind:
    return fold(value, lambda node, given: _kind_of(node, given, local))


def _kind_of(node: Node, given: list[_Kind], local: set[str]) -> _Kind:
    """The kind of a node whose operands are of these kinds."""
    kinds = {*given}
    match node:
        case Number(text):
            require(bool(_PLAIN_INTEGER.match(text) or _PLAIN_FLOAT.match(text)))
            return _Kind.SCALAR
        case Name(text):
            if operand_number(text, "w") is not None or _FLOAT_CONSTANTS.match(text):
                return _Kind.SCALAR
            vectors = ("x", "y", "reduce_y", "scan_y", "other_y", "group_y")
            require(text in local or any(operand_number(text, f) is not None for f in vectors))
            return _Kind.VECTOR
        case Type(text):
            # (float16)w0 repeats a scalar in every component, as (float)w0 would.
            require(_is_operands(text))
            return _Kind.VECTOR
        case Unary("!"):
            require(kinds == {_Kind.MASK})
            return _Kind.MASK
        case Binary(op) if op in _LOGIC:
            require(kinds == {_Kind.MASK})
            return _Kind.MASK
        case Ternary():
            condition, *arms = given
            require(condition is _Kind.MASK and _Kind.MASK not in arms and _Kind.VECTOR in arms)
            return _Kind.VECTOR
    require(_Kind.MASK not in kinds)
    match node:
        case Unary("+" | "-"):
            return given[0]
        case Binary(op) if op in COMPARISONS:
            require(_Kind.VECTOR in kinds)
            return _Kind.MASK
        case Binary(op) if op in _ARITHMETIC:
            return _Kind.VECTOR if _Kind.VECTOR in kinds else _Kind.SCALAR
        case Call(function) if function in COMPONENTWISE:
            require(_Kind.VECTOR in kinds)
            return _Kind.VECTOR
        case Call(function) if function in PREDICATES:
            require(given == [_Kind.VECTOR])
            return _Kind.MASK
        case Cast():
            return _Kind.VECTOR
    raise Differs
