"""The expressions of the tree of OpenCL C, and how they are printed; see `clprim.language.tree`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clprim.language.node import Node, Piece

#: How strongly operators of two operands bind; a cast or a sign binds more strongly, then suffixes.
STRENGTH = {
    ",": 1,
    "?:": 3,
    "||": 4,
    "&&": 5,
    "|": 6,
    "^": 7,
    "&": 8,
    **dict.fromkeys(("==", "!="), 9),
    **dict.fromkeys(("<", ">", "<=", ">="), 10),
    **dict.fromkeys(("<<", ">>"), 11),
    **dict.fromkeys(("+", "-"), 12),
    **dict.fromkeys(("*", "/", "%"), 13),
}
ASSIGNMENT = 2
CONDITIONAL = 3
UNARY = 14
SUFFIX = 15
VALUE = 16


@dataclass(frozen=True, eq=False, repr=False)
class Expression(Node):
    """An expression."""

    def _printed(self) -> tuple[int, Sequence[Piece]]:
        return _printed(self)


@dataclass(frozen=True, eq=False, repr=False)
class Number(Expression):
    """A literal without a sign, as written: ``2``, ``1.5f``, ``0x1F``."""

    text: str


@dataclass(frozen=True, eq=False, repr=False)
class String(Expression):
    """A literal in quotes, as written: ``"a" "b"``, ``'c'``."""

    text: str


@dataclass(frozen=True, eq=False, repr=False)
class Name(Expression):
    """A variable or a constant."""

    text: str


@dataclass(frozen=True, eq=False, repr=False)
class Type(Expression):
    """A type: ``const float``, ``typeof_y0``, ``struct pair``; an argument of ``sizeof``."""

    text: str
    parts: tuple[Node, ...] = ()
    declares: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Unary(Expression):
    """``op a``, where op is one of ``+ - ! ~ * & ++ -- sizeof``."""

    op: str
    a: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Postfix(Expression):
    """``a++`` or ``a--``."""

    op: str
    a: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Binary(Expression):
    """``a op b``; op may be a comma, or ``?:`` as compilers have it: ``a ?: b``."""

    op: str
    a: Expr
    b: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Assign(Expression):
    """``target op value`` where op is ``=``, ``+=``, …."""

    target: Expr
    op: str
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Ternary(Expression):
    """``condition ? a : b``."""

    condition: Expr
    a: Expr
    b: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Call(Expression):
    """``function(args...)``, where the function is named."""

    function: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Cast(Expression):
    """``(type)a``, and ``(type){…}`` where a is `Braces`."""

    type: Type
    a: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Vector(Expression):
    """``(float4)(a, b, c, d)``: a vector of several values; of one it is a `Cast`."""

    type: Type
    elements: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Braces(Expression):
    """``{a, b}``, what an array or a structure starts with."""

    elements: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Index(Expression):
    """``a[i]``."""

    a: Expr
    i: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Member(Expression):
    """``a.name`` or ``a->name``; of a vector its components: ``v.xy``, ``v.s0``, ``v.lo``."""

    a: Expr
    op: str
    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Opaque(Expression):
    """What is kept as it was written: macros, rare declarations, what no compiler knows.

    It may stand for an expression, a statement or a declaration. Nobody may conclude anything of
    it but that it uses, assigns and declares what it says.
    """

    text: str
    parts: tuple[Node, ...] = ()
    declares: tuple[str, ...] = ()


Expr = (
    Number
    | String
    | Name
    | Type
    | Unary
    | Postfix
    | Binary
    | Assign
    | Ternary
    | Call
    | Cast
    | Vector
    | Braces
    | Index
    | Member
    | Opaque
)


def listed(nodes: Sequence[Node]) -> Sequence[Piece]:
    """``a, b, c``."""
    found: list[Piece] = []
    for node in nodes:
        found += (", ", (node, ASSIGNMENT))
    return found[1:]


def _printed(node: Node) -> tuple[int, Sequence[Piece]]:
    """How strongly a node binds, and what is printed of it: see `Node`."""
    match node:
        case Number(text) | String(text) | Name(text) | Type(text) | Opaque(text):
            return VALUE, (text,)
        case Unary(op, Type(text)):
            return UNARY, (op, "(", text, ")")
        case Unary(op, a):  # `- -a` and `& &a` must not become one operator
            apart = op.isalpha() or (isinstance(a, Unary) and a.op[0] == op[-1])
            least = SUFFIX if op == "sizeof" else UNARY  # of (float)a it is sizeof((float)a)
            return UNARY, (op, " " if apart else "", (a, least))
        case Postfix(op, a):
            return SUFFIX, ((a, SUFFIX), op)
        case Binary("?:", a, b):
            return CONDITIONAL, ((a, CONDITIONAL + 1), " ?: ", (b, CONDITIONAL))
        case Binary(op, a, b):
            own = STRENGTH[op]
            return own, ((a, own), f"{'' if op == ',' else ' '}{op} ", (b, own + 1))
        case Assign(target, op, value):
            return ASSIGNMENT, ((target, UNARY), f" {op} ", (value, ASSIGNMENT))
        case Ternary(condition, a, b):
            head = (condition, CONDITIONAL + 1)
            return CONDITIONAL, (head, " ? ", (a, ASSIGNMENT), " : ", (b, CONDITIONAL))
        case Call(function, args):
            return SUFFIX, (function, "(", *listed(args), ")")
        # `(float2)(a + b).x` is a vector's x to compilers, `(float2)((a + b).x)` a cast.
        case Cast(Type(text), Member(of) as a) if not isinstance(of, Name):
            return UNARY, ("(", text, ")(", (a, 0), ")")
        case Cast(Type(text), a):
            return UNARY, ("(", text, ")", (a, UNARY))
        case Vector(Type(text), elements):
            return UNARY, ("(", text, ")(", *listed(elements), ")")
        case Braces(elements):
            return VALUE, ("{", *listed(elements), "}")
        case Index(a, i):
            return SUFFIX, ((a, SUFFIX), "[", (i, 0), "]")
        case Member(a, op, name):  # 1.x would be no number
            return SUFFIX, ((a, VALUE + isinstance(a, Number)), op, name)
    raise TypeError(f"{type(node).__name__} is no expression of C")
