"""A place in the tokens of a snippet, from which the parser walks on or says what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from clprim.language.names import KEYWORDS, QUALIFIERS, STORAGE, TYPES
from clprim.language.node import Node, Span
from clprim.language.tokens import Token

#: Words that are neither a variable nor a function.
_NO_VALUE = TYPES | QUALIFIERS | STORAGE | (KEYWORDS - {"sizeof"})
_TYPES = TYPES | QUALIFIERS | STORAGE | {"__typeof__"}

#: How deep brackets and statements may nest; C promises 63 for brackets and 127 for blocks.
DEEPEST = 128


@dataclass(frozen=True)
class Words:
    """What is known of the names that a preamble gives to snippets."""

    names: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    opaque: frozenset[str] = frozenset()


class Fault(Exception):  # noqa: N818 — an answer, not an error
    """What stands here is not C."""

    def __init__(self, at: int, problem: str) -> None:
        super().__init__(problem)
        self.at = at
        self.problem = problem
        self.before: tuple[Node, ...] = ()


class Cursor:
    """The next token, and what may come."""

    def __init__(self, text: str, tokens: tuple[Token, ...], words: Words) -> None:
        self.whole = text
        self.tokens = tokens
        self.texts = [*(token.text for token in tokens), "", ""]  # as far as anybody looks ahead
        self.at = 0
        self.words = words
        self.types = _TYPES | words.types
        self.depth = 0

    @property
    def text(self) -> str:
        """The next token; empty at the end."""
        return self.texts[self.at]

    @property
    def kind(self) -> str:
        """Of the next token."""
        return self.tokens[self.at].kind if self.at < len(self.tokens) else ""

    @property
    def is_name(self) -> bool:
        """Whether a variable, a function, or a name of the user's own comes."""
        return self.kind == "name" and self.text not in _NO_VALUE and not self.is_type()

    def is_type(self, ahead: int = 0) -> bool:
        """Whether a type begins here."""
        text = self.texts[self.at + ahead]
        return text in self.types or text.startswith("typeof_")

    def take(self, wanted: str) -> bool:
        """Takes the next token if it is this one."""
        if self.text != wanted:
            return False
        self.at += 1
        return True

    def expect(self, wanted: str, or_else: str = "") -> None:
        """Takes the next token, which must be this one; ``or_else`` could come as well."""
        if not self.take(wanted):
            self.fail(f"{or_else}{wanted!r}")

    def expect_name(self) -> str:
        """Takes a name."""
        if not self.is_name:
            self.fail("a name")
        self.at += 1
        return self.texts[self.at - 1]

    def span(self, first: int) -> Span:
        """Where the tokens from ``first`` to the last one taken stand."""
        if self.at <= first:
            return Span(0, 0)
        return Span(self.tokens[first].start, self.tokens[self.at - 1].end)

    def source(self, first: int) -> str:
        """The text of the tokens from ``first`` to the last one taken."""
        return self.whole[slice(*self.span(first))]

    def deeper(self) -> None:
        """Goes one bracket or statement further in."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.too_deep()

    def too_deep(self) -> Fault:
        """What to say of brackets in brackets in brackets."""
        return Fault(
            min(self.at, len(self.tokens) - 1),
            f"brackets and statements nest more than {DEEPEST} deep; name a part of it by a local",
        )

    def fail(self, wanted: str) -> NoReturn:
        """Points at what stands where something else is wanted, or at what it had to follow."""
        before = self.texts[self.at - 1] if self.at else ""
        if not self.text:
            raise Fault(self.at - 1, f"expected {wanted} after {before!r}, where the snippet ends")
        if before and self.is_on_a_new_line():
            raise Fault(self.at - 1, f"expected {wanted} after {before!r}")
        raise Fault(self.at, f"expected {wanted} before {self.text!r}")

    def is_on_a_new_line(self) -> bool:
        """Whether the next token stands further down than the one before."""
        return "\n" in self.whole[self.tokens[self.at - 1].start : self.tokens[self.at].start]
