"""A checked snippet: what it says, what it uses and what it assigns."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

from clprim.errors import DefinitionError
from clprim.language import names
from clprim.language.composed import Piece
from clprim.language.lookups import Lookup
from clprim.language.node import Span
from clprim.language.operands import RANDOM, operand_number
from clprim.language.preamble import Preamble
from clprim.language.tokens import Token, caret_message
from clprim.language.tree import Assign, Binary, Call, Statement, Tree, walk

_COUNTED = frozenset("+ - * / % += -= *= /=".split())


@dataclass(frozen=True)
class Rules:
    """What one part of an operator may read and write."""

    owner: str
    part: str
    reads: frozenset[str]
    writes: frozenset[str]


@dataclass(frozen=True)
class Snippet:
    """A checked snippet."""

    rules: Rules
    text: str
    tokens: tuple[Token, ...] = field(repr=False, compare=False)
    tree: Tree = field(repr=False, compare=False)
    preamble: Preamble = field(repr=False)
    used: frozenset[str]
    assigned: frozenset[str]
    dims: frozenset[tuple[str, int]]
    lookups: frozenset[Lookup]
    pieces: tuple[Piece, ...] = ()

    @property
    def statements(self) -> tuple[Statement, ...]:
        """What it does, one after another."""
        return self.tree.statements

    @cached_property
    def words(self) -> frozenset[str]:
        """All names in it, those of functions and types too."""
        return frozenset(token.text for token in self.tokens if token.kind == "name")

    def operands(self, a: Span, op: str, b: Span) -> tuple[int, int, int, int]:
        """Where ``a`` begins and ends and ``b`` begins and ends, with the brackets around them."""
        tokens = self.tokens
        at = bisect_left(tokens, a.end, key=attrgetter("start"))
        while tokens[at].text != op:
            at += 1
        first = bisect_left(tokens, a.start, key=attrgetter("start"))
        last = bisect_left(tokens, b.end, key=attrgetter("start")) - 1
        first -= _open(tokens[first:at], ")")
        last += _open(tokens[at + 1 : last + 1], "(")
        return (
            tokens[first].start,
            tokens[at - 1].span.end,
            tokens[at + 1].start,
            tokens[last].span.end,
        )

    def operand(self, at: Span) -> Span:
        """Where an operand stands, with the brackets around it."""
        tokens = self.tokens
        first = bisect_left(tokens, at.start, key=attrgetter("start"))
        last = bisect_left(tokens, at.end, key=attrgetter("start")) - 1
        while tokens[first - 1].text == "(" and tokens[last + 1].text == ")":
            first, last = first - 1, last + 1
        return Span(tokens[first].start, tokens[last].span.end)

    @cached_property
    def body(self) -> str:
        """What is pasted between braces: with marks where lines of other snippets begin."""
        return self.edited(())

    def edited(self, edits: Iterable[tuple[int, int, str]]) -> str:
        """Returns the body with some parts written otherwise, on as many lines."""
        text, shift = self.finished, 0
        for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
            text = text[: start + shift] + new + text[end + shift :]
            shift += len(new) - (end - start)
        lines = text.split("\n")
        for piece in reversed(self.pieces):
            if piece.line > 1 or piece.part != self.rules.part:
                lines.insert(piece.line - 1, f'#line 1 "snippet:{piece.part}"')
        return "\n".join(lines)

    @cached_property
    def finished(self) -> str:
        """The text with the last semicolon in place."""
        if not self.tokens or self.tokens[-1].text in (";", "}"):
            return self.text
        end = self.tokens[-1].start + len(self.tokens[-1].text)
        return self.text[:end] + ";" + self.text[end:]

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers."""
        return not self.used.isdisjoint(RANDOM)

    def numbers(self, family: str) -> frozenset[int]:
        """The numbers N for which ``{family}N`` occurs, by name or inside ``typeof_``."""
        found = [operand_number(name, family) for name in self.used]
        return frozenset(n for n in found if n is not None)

    def assigned_numbers(self, family: str) -> frozenset[int]:
        """The numbers N for which ``{family}N`` is assigned."""
        found = (operand_number(name, family) for name in self.assigned)
        return frozenset(n for n in found if n is not None)

    def error(self, name: str, problem: str) -> DefinitionError:
        """An error with a caret under the first occurrence of ``name``."""
        start, length = 0, 1
        for token in self.tokens:
            if token.text == name:
                start, length = token.start, len(token.text)
                break
        owner, part = self.rules.owner, self.rules.part
        return DefinitionError(caret_message(owner, part, self.text, start, length, problem))

    def require(self, family: str, known: Container[int], problem: str) -> None:
        """Refuses operands of a family but known ones; ``{n}`` in the problem is their number."""
        for n in sorted(self.numbers(family)):
            if n not in known:
                raise self.error(f"{family}{n}", problem.format(n=n))

    @cached_property
    def looked_up(self) -> frozenset[int]:
        """Numbers of the arrays that are read at coordinates and nowhere by their own names.

        They take no part in broadcasting.
        """
        named = {token.text for token in self.tokens if token.kind == "name"}
        return frozenset(n for n in (k.array for k in self.lookups) if f"x{n}" not in named)

    @cached_property
    def flops(self) -> int:
        """Arithmetic operations one execution takes (a call counts once, fma and mad twice)."""
        total = 0
        for node in walk(self.tree):
            match node:
                case Binary(op) | Assign(_, op) if op in _COUNTED:
                    total += 1
                case Call(function) if function in names.BUILTINS:
                    total += 2 if function in ("fma", "mad") else 1
        return total


def _open(tokens: Sequence[Token], bracket: str) -> int:
    """How many brackets of a kind have no partner among tokens."""
    texts = [token.text for token in tokens]
    partner = {"(": ")", ")": "("}[bracket]
    return texts.count(bracket) - texts.count(partner)
