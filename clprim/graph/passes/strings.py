"""Snippets of several nodes as one: each keeps its own lines, in braces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clprim.language.composed import Composed, Piece
from clprim.language.rename import renamed
from clprim.language.snippet import Snippet


def fresh(texts: Sequence[str]) -> str:
    """Returns the name of a local that none of some texts has."""
    n = 0
    while any(f"fused_{n}" in text for text in texts):
        n += 1
    return f"fused_{n}"


def block(snippet: Snippet, names: Mapping[str, str], kinds: Mapping[str, str]) -> Composed:
    """Returns a snippet in braces, with other names for operands.

    Args:
        snippet: Which.
        names: New names by old ones.
        kinds: What stands for ``typeof_`` of those that are locals now.
    """
    text = renamed(snippet, names)
    found = str(text)
    for name, kind in kinds.items():
        found = found.replace(f"typeof_{name}", kind)
    return joined(["{\n", Composed(found, text.pieces), "\n}\n"])


def joined(parts: Sequence[str]) -> Composed:
    """Returns texts one after another, whose lines are still those of their snippets."""
    text, pieces = "", list[Piece]()
    for part in parts:
        line = text.count("\n")
        for piece in part.pieces if isinstance(part, Composed) else ():
            name = piece.part if not pieces else f"{piece.part.split(' ')[0]} {len(pieces) + 1}"
            pieces.append(Piece(line + piece.line, name, piece.text))
        text += part
    return Composed(text, tuple(pieces))
