"""A place in a snippet's tokens, from which a recogniser of C walks on or says what is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from clprim.language.names import KEYWORDS, QUALIFIERS, TYPES
from clprim.language.preamble import Preamble
from clprim.language.tokens import Token

__all__ = ["NO_VALUE", "Cursor", "Fault"]

#: Words that are neither a variable nor a function.
NO_VALUE = TYPES | QUALIFIERS | (KEYWORDS - {"sizeof"})


class Fault(Exception):  # noqa: N818 — an answer, not an error
    """What stands here is not C.

    Attributes:
        at: Number of the token.
        problem: What is wrong there.
    """

    def __init__(self, at: int, problem: str) -> None:
        super().__init__(problem)
        self.at = at
        self.problem = problem


class Cursor:
    """The next token, and what may come.

    Args:
        text: The snippet.
        tokens: Its tokens; brackets are balanced.
        preamble: Whose names may be types.
    """

    def __init__(self, text: str, tokens: tuple[Token, ...], preamble: Preamble) -> None:
        self.whole = text
        self.tokens = tokens
        self.texts = [*(token.text for token in tokens), "", ""]  # as far as anybody looks ahead
        self.at = 0
        self.helpers = preamble.names
        self.maybe_types = preamble.names - NO_VALUE - {"sizeof"}
        if "typedef" in self.texts:
            self.maybe_types |= {t.text for t in tokens if t.kind == "name"} - NO_VALUE

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
        return self.kind == "name" and self.text not in NO_VALUE and not self.is_type()

    def is_type(self, ahead: int = 0) -> bool:
        """Whether a type begins here, beyond doubt."""
        text = self.texts[self.at + ahead]
        return (
            text in TYPES
            or text in QUALIFIERS
            or text == "__typeof__"
            or text.startswith("typeof_")
        )

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

    def expect_name(self) -> None:
        """Takes a name."""
        if not self.is_name:
            self.fail("a name")
        self.at += 1

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

    def either(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        """Takes what fits; where nothing does, the fault that lies further on."""
        start = self.at
        try:
            first()
        except Fault as fault:
            self.at = start
            try:
                second()
            except Fault as other:
                raise max(fault, other, key=lambda f: f.at) from None
