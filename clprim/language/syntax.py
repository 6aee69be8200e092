"""A syntax tree for the plain subset of C that most snippets are written in.

Assignments, declarations, ``if`` and expressions are read; loops, pointers, members and whatever
else C has are not, and `parse` then returns None. The tree serves analyses that may say "I do not
know": deriving ``combine`` from ``step``, and whether a snippet can run on whole vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clprim.language.names import QUALIFIERS, TYPES
from clprim.language.tokens import Token

__all__ = [
    "Assign",
    "Binary",
    "Call",
    "Cast",
    "Declare",
    "Expr",
    "If",
    "Name",
    "Number",
    "Statement",
    "Ternary",
    "Unary",
    "names_in",
    "parse",
]


@dataclass(frozen=True)
class Number:
    """A literal, as written."""

    text: str


@dataclass(frozen=True)
class Name:
    """A variable or a constant."""

    text: str


@dataclass(frozen=True)
class Unary:
    """``op a``."""

    op: str
    a: Expr


@dataclass(frozen=True)
class Binary:
    """``a op b``."""

    op: str
    a: Expr
    b: Expr


@dataclass(frozen=True)
class Ternary:
    """``condition ? a : b``."""

    condition: Expr
    a: Expr
    b: Expr


@dataclass(frozen=True)
class Call:
    """``function(args...)``."""

    function: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Cast:
    """``(type)a``."""

    type: str
    a: Expr


Expr = Number | Name | Unary | Binary | Ternary | Call | Cast


@dataclass(frozen=True)
class Assign:
    """The statement ``target op value;`` where op is ``=``, ``+=``, …."""

    target: str
    op: str
    value: Expr


@dataclass(frozen=True)
class Declare:
    """The statement ``type name = value;``."""

    type: str
    name: str
    value: Expr


@dataclass(frozen=True)
class If:
    """The statement ``if (condition) then… else otherwise…``."""

    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


Statement = Assign | Declare | If

_PRECEDENCE = {
    **dict.fromkeys(("*", "/", "%"), 10),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("<<", ">>"), 8),
    **dict.fromkeys(("<", ">", "<=", ">="), 7),
    **dict.fromkeys(("==", "!="), 6),
    "&": 5,
    "^": 4,
    "|": 3,
    "&&": 2,
    "||": 1,
}
_ASSIGNMENTS = frozenset("= += -= *= /= %= &= |= ^= <<= >>=".split())


class _Unsupported(Exception):  # noqa: N818 — not an error: "this is not in the subset"
    """The snippet uses a part of C that the tree has no node for."""


def _is_type(text: str) -> bool:
    return text in TYPES or text in QUALIFIERS or text.startswith("typeof_")


class _Parser:
    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self.tokens = tokens
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        position = self.at + ahead
        return self.tokens[position].text if position < len(self.tokens) else ""

    def kind(self, ahead: int = 0) -> str:
        position = self.at + ahead
        return self.tokens[position].kind if position < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        text = self.peek()
        if not text or (expected is not None and text != expected):
            raise _Unsupported
        self.at += 1
        return text

    def statements(self, closing: str = "") -> tuple[Statement, ...]:
        found: list[Statement] = []
        while self.peek() != closing:
            found.extend(self.statement())
        return tuple(found)

    def statement(self) -> list[Statement]:
        text = self.peek()
        if text == ";":
            self.take()
            return []
        if text == "{":
            self.take()
            inner = self.statements("}")
            self.take("}")
            return list(inner)
        if text == "if":
            self.take()
            self.take("(")
            condition = self.expression()
            self.take(")")
            then = tuple(self.statement())
            otherwise: tuple[Statement, ...] = ()
            if self.peek() == "else":
                self.take()
                otherwise = tuple(self.statement())
            return [If(condition, then, otherwise)]
        if _is_type(text):
            return list(self.declaration())
        if self.kind() != "name":
            raise _Unsupported
        target = self.take()
        op = self.take()
        if op not in _ASSIGNMENTS:
            raise _Unsupported
        value = self.expression()
        self.end()
        return [Assign(target, op, value)]

    def declaration(self) -> Iterator[Statement]:
        type_name = " ".join(self.qualified_type())
        while True:
            if self.kind() != "name":
                raise _Unsupported
            name = self.take()
            self.take("=")
            yield Declare(type_name, name, self.expression())
            if self.peek() != ",":
                break
            self.take(",")
        self.end()

    def qualified_type(self) -> Iterator[str]:
        while _is_type(self.peek()):
            yield self.take()

    def end(self) -> None:
        # The last semicolon of a snippet may be left out.
        if self.peek():
            self.take(";")

    def expression(self) -> Expr:
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        self.take("?")
        a = self.expression()
        self.take(":")
        return Ternary(condition, a, self.expression())

    def binary(self, least: int) -> Expr:
        left = self.unary()
        while _PRECEDENCE.get(self.peek(), 0) > least:
            op = self.take()
            left = Binary(op, left, self.binary(_PRECEDENCE[op]))
        return left

    def unary(self) -> Expr:
        if self.peek() in ("-", "+", "!", "~"):
            op = self.take()
            return Unary(op, self.unary())
        if self.peek() == "(" and _is_type(self.peek(1)):
            self.take()
            type_name = " ".join(self.qualified_type())
            self.take(")")
            return Cast(type_name, self.unary())
        if self.peek() == "(":
            self.take()
            inner = self.expression()
            self.take(")")
            return inner
        if self.kind() == "number":
            return Number(self.take())
        if self.kind() != "name" or _is_type(self.peek()):
            raise _Unsupported
        name = self.take()
        if self.peek() in (".", "->", "[", "++", "--"):
            raise _Unsupported
        if self.peek() != "(":
            return Name(name)
        self.take()
        args: list[Expr] = []
        while self.peek() != ")":
            args.append(self.expression())
            if self.peek() == ",":
                self.take()
        self.take(")")
        return Call(name, tuple(args))


def parse(tokens: tuple[Token, ...]) -> tuple[Statement, ...] | None:
    """Returns the statements of a snippet, or None where it uses more of C than the tree knows."""
    try:
        return _Parser(tokens).statements()
    except _Unsupported:
        return None


def names_in(node: Expr) -> frozenset[str]:
    """Returns the variables and constants that an expression reads."""
    match node:
        case Name(text):
            return frozenset([text])
        case Unary(_, a) | Cast(_, a):
            return names_in(a)
        case Binary(_, a, b):
            return names_in(a) | names_in(b)
        case Ternary(condition, a, b):
            return names_in(condition) | names_in(a) | names_in(b)
        case Call(_, args):
            return frozenset().union(*map(names_in, args))
        case _:
            return frozenset()
