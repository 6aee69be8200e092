"""Finds ``break`` and ``continue`` that would leave the engine's loop instead of the snippet's."""

from __future__ import annotations

from clprim.language.tokens import Token

__all__ = ["stray_jump"]


def stray_jump(tokens: tuple[Token, ...]) -> Token | None:
    """Returns the first jump that no loop (or, for ``break``, no switch) of the snippet encloses.

    Args:
        tokens: Of a snippet whose brackets are balanced.
    """
    walk = _Walk(tokens)
    while walk.at < len(tokens) and walk.stray is None:
        walk.statement(frozenset())
    return walk.stray


class _Walk:
    """Walks over statements; ``allowed`` says which jumps stay inside the snippet."""

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self.tokens = tokens
        self.at = 0
        self.stray: Token | None = None

    def text(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def statement(self, allowed: frozenset[str]) -> None:
        keyword = self.text()
        if keyword == "{":
            self.at += 1
            while self.text() not in ("}", ""):
                self.statement(allowed)
            self.at += 1
        elif keyword in ("for", "while", "do", "switch", "if"):
            self.at += 1
            self.brackets()
            inside = {"switch": allowed | {"break"}, "if": allowed}
            self.statement(inside.get(keyword, frozenset(["break", "continue"])))
            if keyword == "do":
                self.simple(allowed)  # while (…);
            elif keyword == "if" and self.text() == "else":
                self.at += 1
                self.statement(allowed)
        else:
            self.simple(allowed)

    def brackets(self) -> None:
        """Skips one pair of parentheses, if that is what comes."""
        depth = 0
        while self.at < len(self.tokens) and (depth or self.text() == "("):
            depth += {"(": 1, ")": -1}.get(self.text(), 0)
            self.at += 1
            if not depth:
                return

    def simple(self, allowed: frozenset[str]) -> None:
        """Skips to the end of a statement, or of a ``case`` label."""
        depth = 0
        label = self.text() in ("case", "default")
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.text in ("break", "continue") and token.text not in allowed:
                self.stray = self.stray or token
            if depth == 0 and token.text == "}":
                return
            depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(token.text, 0)
            self.at += 1
            if depth == 0 and (token.text == ";" or (label and token.text == ":")):
                return
