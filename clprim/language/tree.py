"""The tree of OpenCL C that every analysis of a snippet reads, and how it is walked and printed.

Nodes are frozen and compare by what they say, not by where they stand, so trees are made, matched
(``case Binary("+", a, b)``) and compared freely. A chain of operators is as deep as it is long, so
nothing here recurses: neither comparing, hashing and printing nor `walk`, `fold` and `rewrite`,
which analyses use instead of recursing themselves.

Example:
    >>> product = Binary("*", Binary("+", Name("x0"), Number("1")), Name("w0"))
    >>> print(product)
    (x0 + 1) * w0
    >>> [node.text for node in walk(product) if isinstance(node, Name)]
    ['x0', 'w0']
    >>> print(rewrite(product, lambda n: Name("t") if n == Name("x0") else n))
    (t + 1) * w0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clprim.language.node import Mark, Node, Piece, Span, children, fold, rewrite, walk

__all__ = [
    "ASSIGNMENT",
    "CONDITIONAL",
    "STRENGTH",
    "Assign",
    "Binary",
    "Block",
    "Braces",
    "Call",
    "Case",
    "Cast",
    "Declare",
    "DoWhile",
    "Evaluate",
    "Expr",
    "For",
    "Function",
    "If",
    "Index",
    "Jump",
    "Member",
    "Name",
    "Node",
    "Number",
    "Opaque",
    "Parameter",
    "Postfix",
    "Span",
    "Statement",
    "String",
    "Switch",
    "Ternary",
    "Tree",
    "Type",
    "Unary",
    "Variable",
    "Vector",
    "While",
    "children",
    "flat",
    "fold",
    "names_in",
    "rewrite",
    "walk",
]

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
_UNARY = 14
_SUFFIX = 15
_VALUE = 16


@dataclass(frozen=True, eq=False, repr=False)
class Written(Node):
    """What is written in C."""

    def _printed(self) -> tuple[int, Sequence[Piece]]:
        return _printed(self)


# Expressions


@dataclass(frozen=True, eq=False, repr=False)
class Number(Written):
    """A literal without a sign, as written: ``2``, ``1.5f``, ``0x1F``."""

    text: str


@dataclass(frozen=True, eq=False, repr=False)
class String(Written):
    """A literal in quotes, as written: ``"a" "b"``, ``'c'``."""

    text: str


@dataclass(frozen=True, eq=False, repr=False)
class Name(Written):
    """A variable or a constant."""

    text: str


@dataclass(frozen=True, eq=False, repr=False)
class Type(Written):
    """A type: ``const float``, ``typeof_y0``, ``struct pair``; an argument of ``sizeof``.

    Attributes:
        text: Its words, and stars where it stands alone.
        parts: Expressions in it, as in ``__typeof__(x0 + 1)``.
        declares: Names that it gives to its surroundings, as ``enum`` does.
    """

    text: str
    parts: tuple[Node, ...] = ()
    declares: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Unary(Written):
    """``op a``, where op is one of ``+ - ! ~ * & ++ -- sizeof``."""

    op: str
    a: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Postfix(Written):
    """``a++`` or ``a--``."""

    op: str
    a: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Binary(Written):
    """``a op b``; op may be a comma, or ``?:`` as compilers have it: ``a ?: b``."""

    op: str
    a: Expr
    b: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Assign(Written):
    """``target op value`` where op is ``=``, ``+=``, …."""

    target: Expr
    op: str
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Ternary(Written):
    """``condition ? a : b``."""

    condition: Expr
    a: Expr
    b: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Call(Written):
    """``function(args...)``, where the function is named."""

    function: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Cast(Written):
    """``(type)a``, and ``(type){…}`` where a is `Braces`."""

    type: Type
    a: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Vector(Written):
    """``(float4)(a, b, c, d)``: a vector of several values; of one it is a `Cast`."""

    type: Type
    elements: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Braces(Written):
    """``{a, b}``, what an array or a structure starts with."""

    elements: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Index(Written):
    """``a[i]``."""

    a: Expr
    i: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Member(Written):
    """``a.name`` or ``a->name``; of a vector its components: ``v.xy``, ``v.s0``, ``v.lo``."""

    a: Expr
    op: str
    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Opaque(Written):
    """What is kept as it was written: macros, rare declarations, what no compiler knows.

    It may stand for an expression, a statement or a declaration. Nobody may conclude anything of
    it but that it uses, assigns and declares what it says.

    Attributes:
        text: The characters of the snippet.
        parts: Expressions and statements that were understood in it.
        declares: Names that it gives to its surroundings.
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

# Statements


@dataclass(frozen=True, eq=False, repr=False)
class Variable(Written):
    """One of the names of a declaration: ``*name[size] = value``.

    Attributes:
        name: Empty for a parameter without one.
        sizes: Of an array; an `Opaque` without text where a size is left out.
        value: What it starts with, if anything.
        pointer: ``*`` and qualifiers before the name.
    """

    name: str
    sizes: tuple[Expr, ...] = ()
    value: Expr | None = None
    pointer: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Declare(Written):
    """``type a = 1, b;``; an unusual variable, such as a pointer to a function, is opaque."""

    type: Type
    variables: tuple[Variable | Opaque, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Evaluate(Written):
    """An expression and a semicolon: an assignment, a call."""

    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Block(Written):
    """Statements in braces, with locals of their own."""

    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class If(Written):
    """``if (condition) { then… } else { otherwise… }``; ``else if`` is an If alone in otherwise."""

    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class For(Written):
    """``for (start; condition; step) { body… }``."""

    start: Declare | Evaluate | Opaque | None
    condition: Expr | None
    step: Expr | None
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class While(Written):
    """``while (condition) { body… }``."""

    condition: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class DoWhile(Written):
    """``do { body… } while (condition);``."""

    body: tuple[Statement, ...]
    condition: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Switch(Written):
    """``switch (value) { body… }``; among the body stand `Case`."""

    value: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Case(Written):
    """``case value:``, ``case value ... last:`` or, without a value, ``default:``."""

    value: Expr | None = None
    last: Expr | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Jump(Written):
    """``break;``, ``continue;`` and, in functions of a preamble, ``return value;``."""

    word: str
    value: Expr | None = None


Statement = Declare | Evaluate | Block | If | For | While | DoWhile | Switch | Case | Jump | Opaque

# What a preamble holds beside declarations, and the whole


@dataclass(frozen=True, eq=False, repr=False)
class Parameter(Written):
    """``type name``, ``type *name``: what a function is given."""

    type: Type
    variable: Variable | Opaque


@dataclass(frozen=True, eq=False, repr=False)
class Function(Written):
    """``type name(parameters) { body… }``, of a preamble."""

    type: Type
    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Tree(Written):
    """A whole snippet or preamble.

    Attributes:
        body: Its statements; of a preamble its functions and declarations.
        comments: Where its comments stand.
    """

    body: tuple[Statement | Function, ...]
    comments: tuple[Span, ...] = field(default=(), kw_only=True)

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Without functions."""
        return tuple(part for part in self.body if not isinstance(part, Function))


def flat(statements: Sequence[Statement]) -> list[Statement]:
    """Returns statements one after another, out of the blocks they stand in."""
    found: list[Statement] = []
    ahead = [*reversed(statements)]
    while ahead:
        statement = ahead.pop()
        if isinstance(statement, Block):
            ahead.extend(reversed(statement.body))
        else:
            found.append(statement)
    return found


def names_in(*nodes: Node | None) -> frozenset[str]:
    """Returns the variables and constants below these nodes."""
    return frozenset(node.text for node in walk(*nodes) if isinstance(node, Name))


def _printed(node: Node) -> tuple[int, Sequence[Piece]]:
    """How strongly a node binds, and what is printed of it: see `Node`."""
    match node:
        case Number(text) | String(text) | Name(text) | Type(text) | Opaque(text):
            return _VALUE, (text,)
        case Unary(op, Type(text)):
            return _UNARY, (op, "(", text, ")")
        case Unary(op, a):  # `- -a` and `& &a` must not become one operator
            apart = op.isalpha() or (isinstance(a, Unary) and a.op[0] == op[-1])
            least = _SUFFIX if op == "sizeof" else _UNARY  # of (float)a it is sizeof((float)a)
            return _UNARY, (op, " " if apart else "", (a, least))
        case Postfix(op, a):
            return _SUFFIX, ((a, _SUFFIX), op)
        case Binary("?:", a, b):
            return CONDITIONAL, ((a, CONDITIONAL + 1), " ?: ", (b, CONDITIONAL))
        case Binary(op, a, b):
            own = STRENGTH[op]
            return own, ((a, own), f"{'' if op == ',' else ' '}{op} ", (b, own + 1))
        case Assign(target, op, value):
            return ASSIGNMENT, ((target, _UNARY), f" {op} ", (value, ASSIGNMENT))
        case Ternary(condition, a, b):
            head = (condition, CONDITIONAL + 1)
            return CONDITIONAL, (head, " ? ", (a, ASSIGNMENT), " : ", (b, CONDITIONAL))
        case Call(function, args):
            return _SUFFIX, (function, "(", *_listed(args), ")")
        case Cast(Type(text), a):
            return _UNARY, ("(", text, ")", (a, _UNARY))
        case Vector(Type(text), elements):
            return _UNARY, ("(", text, ")(", *_listed(elements), ")")
        case Braces(elements):
            return _VALUE, ("{", *_listed(elements), "}")
        case Index(a, i):
            return _SUFFIX, ((a, _SUFFIX), "[", (i, 0), "]")
        case Member(a, op, name):  # 1.x would be no number
            return _SUFFIX, ((a, _VALUE + isinstance(a, Number)), op, name)
        case Variable(name, sizes, value, pointer):
            array = [piece for size in sizes for piece in ("[", (size, ASSIGNMENT), "]")]
            return _VALUE, (pointer, name, *array, *_after(" = ", value, ASSIGNMENT))
        case Declare(Type(text), variables):
            return _VALUE, (text, " " if variables else "", *_listed(variables), ";")
        case Parameter(Type(text), variable):
            return _VALUE, (text, " " if str(variable) else "", (variable, 0))
        case Evaluate(value):
            return _VALUE, ((value, 0), ";")
        case Jump(word, value):
            return _VALUE, (word, *_after(" ", value), ";")
        case Case(None):
            return _VALUE, ("default:;",)
        case Case(value, last):
            return _VALUE, (*_after("case ", value), *_after(" ... ", last), ":;")
        case Block(body):
            return _VALUE, _braced(body)
        case If(condition, then, ()):
            return _VALUE, ("if (", (condition, 0), ") ", *_braced(then))
        case If(condition, then, otherwise):
            chain = len(otherwise) == 1 and isinstance(otherwise[0], If)
            more = _after("", otherwise[0]) if chain else _braced(otherwise)
            return _VALUE, ("if (", (condition, 0), ") ", *_braced(then), " else ", *more)
        case For(start, condition, step, body):
            begin = (";",) if start is None else _after("", start)
            rest = (*_after(" ", condition), ";", *_after(" ", step))
            return _VALUE, ("for (", *begin, *rest, ") ", *_braced(body))
        case While(condition, body):
            return _VALUE, ("while (", (condition, 0), ") ", *_braced(body))
        case DoWhile(body, condition):
            return _VALUE, ("do ", *_braced(body), " while (", (condition, 0), ");")
        case Switch(value, body):
            return _VALUE, ("switch (", (value, 0), ") ", *_braced(body))
        case Function(Type(text), name, parameters, body):
            return _VALUE, (text, " ", name, "(", *_listed(parameters), ") ", *_braced(body))
        case Tree(body):
            return _VALUE, _lines(body)[1:]
    raise TypeError(f"{type(node).__name__} is no node of C")


def _after(text: str, node: Node | None, least: int = 0) -> Sequence[Piece]:
    """A node that may be missing, and what stands before it."""
    return () if node is None else (text, (node, least))


def _listed(nodes: Sequence[Node]) -> Sequence[Piece]:
    """``a, b, c``."""
    found: list[Piece] = []
    for node in nodes:
        found += (", ", (node, ASSIGNMENT))
    return found[1:]


def _lines(nodes: Sequence[Node]) -> Sequence[Piece]:
    """Statements, each on a line of its own."""
    found: list[Piece] = []
    for node in nodes:
        found += (Mark.LINE, (node, 0))
    return found


def _braced(body: Sequence[Node]) -> Sequence[Piece]:
    """The statements of a block."""
    return ("{", Mark.IN, *_lines(body), Mark.OUT, Mark.LINE, "}") if body else ("{ }",)
