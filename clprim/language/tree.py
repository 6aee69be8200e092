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
from clprim.language.tree_expressions import (
    ASSIGNMENT,
    CONDITIONAL,
    STRENGTH,
    VALUE,
    Assign,
    Binary,
    Braces,
    Call,
    Cast,
    Expr,
    Index,
    Member,
    Name,
    Number,
    Opaque,
    Postfix,
    String,
    Ternary,
    Type,
    Unary,
    Vector,
    listed,
)

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


@dataclass(frozen=True, eq=False, repr=False)
class Part(Node):
    """A statement, or a part of one that is no expression."""

    def _printed(self) -> tuple[int, Sequence[Piece]]:
        return _printed(self)


@dataclass(frozen=True, eq=False, repr=False)
class Variable(Part):
    """One of the names of a declaration: ``*name[size] = value``."""

    name: str
    sizes: tuple[Expr, ...] = ()
    value: Expr | None = None
    pointer: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Declare(Part):
    """``type a = 1, b;``; an unusual variable, such as a pointer to a function, is opaque."""

    type: Type
    variables: tuple[Variable | Opaque, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Evaluate(Part):
    """An expression and a semicolon: an assignment, a call."""

    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Block(Part):
    """Statements in braces, with locals of their own."""

    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class If(Part):
    """``if (condition) { then… } else { otherwise… }``; ``else if`` is an If alone in otherwise."""

    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class For(Part):
    """``for (start; condition; step) { body… }``."""

    start: Declare | Evaluate | Opaque | None
    condition: Expr | None
    step: Expr | None
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class While(Part):
    """``while (condition) { body… }``."""

    condition: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class DoWhile(Part):
    """``do { body… } while (condition);``."""

    body: tuple[Statement, ...]
    condition: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Switch(Part):
    """``switch (value) { body… }``; among the body stand `Case`."""

    value: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Case(Part):
    """``case value:``, ``case value ... last:`` or, without a value, ``default:``."""

    value: Expr | None = None
    last: Expr | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Jump(Part):
    """``break;``, ``continue;`` and, in functions of a preamble, ``return value;``."""

    word: str
    value: Expr | None = None


Statement = Declare | Evaluate | Block | If | For | While | DoWhile | Switch | Case | Jump | Opaque

# What a preamble holds beside declarations, and the whole


@dataclass(frozen=True, eq=False, repr=False)
class Parameter(Part):
    """``type name``, ``type *name``: what a function is given."""

    type: Type
    variable: Variable | Opaque


@dataclass(frozen=True, eq=False, repr=False)
class Function(Part):
    """``type name(parameters) { body… }``, of a preamble."""

    type: Type
    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Tree(Part):
    """A whole snippet or preamble."""

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
        case Variable(name, sizes, value, pointer):
            array = [piece for size in sizes for piece in ("[", (size, ASSIGNMENT), "]")]
            return VALUE, (pointer, name, *array, *_after(" = ", value, ASSIGNMENT))
        case Declare(Type(text), variables):
            return VALUE, (text, " " if variables else "", *listed(variables), ";")
        case Parameter(Type(text), variable):
            return VALUE, (text, " " if str(variable) else "", (variable, 0))
        case Evaluate(value):
            return VALUE, ((value, 0), ";")
        case Jump(word, value):
            return VALUE, (word, *_after(" ", value), ";")
        case Case(None):
            return VALUE, ("default:;",)
        case Case(value, last):
            return VALUE, (*_after("case ", value), *_after(" ... ", last), ":;")
        case Block(body):
            return VALUE, _braced(body)
        case If(condition, then, ()):
            return VALUE, ("if (", (condition, 0), ") ", *_braced(then))
        case If(condition, then, otherwise):
            chain = len(otherwise) == 1 and isinstance(otherwise[0], If)
            more = _after("", otherwise[0]) if chain else _braced(otherwise)
            return VALUE, ("if (", (condition, 0), ") ", *_braced(then), " else ", *more)
        case For(start, condition, step, body):
            begin = (";",) if start is None else _after("", start)
            rest = (*_after(" ", condition), ";", *_after(" ", step))
            return VALUE, ("for (", *begin, *rest, ") ", *_braced(body))
        case While(condition, body):
            return VALUE, ("while (", (condition, 0), ") ", *_braced(body))
        case DoWhile(body, condition):
            return VALUE, ("do ", *_braced(body), " while (", (condition, 0), ");")
        case Switch(value, body):
            return VALUE, ("switch (", (value, 0), ") ", *_braced(body))
        case Function(Type(text), name, parameters, body):
            return VALUE, (text, " ", name, "(", *listed(parameters), ") ", *_braced(body))
        case Tree(body):
            return VALUE, _lines(body)[1:]
    raise TypeError(f"{type(node).__name__} is no node of C")


def _after(text: str, node: Node | None, least: int = 0) -> Sequence[Piece]:
    """A node that may be missing, and what stands before it."""
    return () if node is None else (text, (node, least))


def _lines(nodes: Sequence[Node]) -> Sequence[Piece]:
    """Statements, each on a line of its own."""
    found: list[Piece] = []
    for node in nodes:
        found += (Mark.LINE, (node, 0))
    return found


def _braced(body: Sequence[Node]) -> Sequence[Piece]:
    """The statements of a block."""
    return ("{", Mark.IN, *_lines(body), Mark.OUT, Mark.LINE, "}") if body else ("{ }",)
