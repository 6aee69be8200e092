"""Snippets that a program made of snippets, which remember the lines that a user wrote."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    """Lines of a text that were written elsewhere."""

    line: int
    part: str
    text: str


class Composed(str):
    """The text of a snippet, and whose lines it is made of.

    Names of operands may differ from what was written, lines may not.
    """

    pieces: tuple[Piece, ...]

    def __new__(cls, text: str, pieces: tuple[Piece, ...]) -> Composed:
        """Makes one of a text whose lines end in newlines."""
        found = super().__new__(cls, text)
        found.pieces = pieces
        return found

    def __add__(self, more: str) -> Composed:
        """Returns the text with more behind it."""
        return Composed(str(self) + more, self.pieces)
