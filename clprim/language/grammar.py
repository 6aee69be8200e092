"""Finds what no compiler of C would take, as soon as a snippet is defined.

A recogniser of the statements of OpenCL C: it says where a snippet stops being C, and nothing of
what it means. Types, arguments and places that can be assigned are the compiler's to judge.

A name of the preamble may be a type or a value, so both are tried; one that the preprocessor
replaces may be anything at all, and a snippet with such a name is not judged.
"""

from __future__ import annotations

from collections.abc import Callable

from clprim.language.cursor import Fault
from clprim.language.expressions import Expressions
from clprim.language.preamble import Preamble
from clprim.language.tokens import Token

__all__ = ["syntax_fault"]


def syntax_fault(
    text: str, tokens: tuple[Token, ...], preamble: Preamble
) -> tuple[Token, str] | None:
    """Returns the token where a snippet stops being C, and what is wrong there; None if it is C.

    Args:
        text: The snippet.
        tokens: Its tokens; brackets are balanced.
        preamble: Whose names may be types, or stand for anything.
    """
    if any(token.text in preamble.opaque for token in tokens):
        return None
    try:
        _Statements(text, tokens, preamble).snippet()
    except Fault as fault:
        return tokens[fault.at], fault.problem
    return None


class _Statements(Expressions):
    """Walks over statements, as far as they are C."""

    def snippet(self) -> None:
        while self.text:
            self.statement()

    def statement(self) -> None:
        keyword = self.text
        match keyword:
            case "{":
                self.block()
            case ";":
                self.at += 1
            case "if":
                self.head(self.expression)
                self.statement()
                if self.take("else"):
                    self.statement()
            case "while" | "switch":
                self.head(self.expression)
                self.statement()
            case "do":
                self.at += 1
                self.statement()
                if self.text != "while":
                    self.fail("'while'")
                self.head(self.expression)
                self.end()
            case "for":
                self.head(self.loop)
                self.statement()
            case "case":
                self.at += 1
                self.conditional()
                if self.text == ".":  # case 1 ... 3:
                    for _ in range(3):
                        self.expect(".")
                    self.conditional()
                self.label()
            case "default":
                self.at += 1
                self.label()
            case "break" | "continue":
                self.at += 1
                self.end()
            case "else":
                raise Fault(self.at, "this 'else' follows no 'if'")
            case "":
                self.fail("a statement")
            case _:
                self.simple()

    def block(self) -> None:
        self.expect("{")
        while self.text not in ("}", ""):
            self.statement()
        self.expect("}")

    def head(self, inside: Callable[[], None]) -> None:
        """A keyword, and what follows it in parentheses."""
        self.at += 1
        self.expect("(")
        inside()
        self.expect(")", "an operator or ")

    def loop(self) -> None:
        if not self.take(";"):
            self.declaration_or_expression(lambda: self.expect(";", "an operator or "))
        if self.text != ";":
            self.expression()
        self.expect(";", "an operator or ")
        if self.text != ")":
            self.expression()

    def label(self) -> None:
        self.expect(":")
        if self.text not in ("}", ""):
            self.statement()

    def simple(self) -> None:
        if self.is_name and self.texts[self.at + 1] == ":":
            self.at += 1
            self.label()
            return
        self.declaration_or_expression(self.end)

    def end(self) -> None:
        # The last semicolon of a snippet may be left out, where none of its statements ends by '}'.
        if not self.take(";") and (self.text or self.texts[self.at - 1] == "}"):
            self.fail("an operator or ';'")

    def declaration_or_expression(self, end: Callable[[], None]) -> None:
        def declaration() -> None:
            self.declaration()
            end()

        def expression() -> None:
            self.expression()
            end()

        if self.is_type() or self.text == "typedef":
            declaration()
        elif self.text in self.maybe_types:
            self.either(declaration, expression)
        else:
            expression()

    def declaration(self) -> None:
        self.type_names()
        if self.text in (";", ""):  # struct pair { float a, b; };
            return
        while True:
            self.declarator()
            if self.take("="):
                self.initialiser()
            if not self.take(","):
                return
