"""Rewrites the engine's names in a checked snippet, and nothing else of its text."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from clprim.language.composed import Composed, Piece
from clprim.language.lookups import LOOKUPS
from clprim.language.operands import PER_DIMENSION
from clprim.language.snippet import Snippet

# Of what is asked of an operand by its name.
_PREFIXES = ("typeof_", "lowest_", "highest_", *(function[:-1] for function in LOOKUPS))

_NOWHERE: Mapping[tuple[str, int], str] = {}


def prefix_of(word: str) -> str:
    """Returns what stands before an operand's name in a word that asks for something of it."""
    return next((p for p in _PREFIXES if word.startswith(p)), "")


def renamed(
    snippet: Snippet, names: Mapping[str, str], places: Mapping[tuple[str, int], str] = _NOWHERE
) -> Composed:
    """Returns the snippet's text, its last semicolon in place, with other names for operands.

    Complaints about it will quote the snippet.

    ``typeof_x0``, ``at_x0``, ``inside_x0`` and ``size_x0`` follow ``x0``, ``lowest_reduce_y0`` and
    ``highest_reduce_y0`` the partial. ``coord(d)`` and ``size(d)`` become what is said of them in
    ``places``. Lines stay what they are.
    """
    text, end = [], 0
    for n, token in enumerate(snippet.tokens):
        if places and token.text in PER_DIMENSION:
            _, *dimension, last = takewhile(lambda t: t.text != ")", snippet.tokens[n:])
            d = int("".join(t.text for t in (*dimension[1:], last)))
            text += [snippet.text[end : token.start], places[token.text, d]]
            end = snippet.text.index(")", last.start) + 1
        prefix = prefix_of(token.text)
        name = names.get(token.text[len(prefix) :]) if token.kind == "name" else None
        if name is not None:
            text += [snippet.text[end : token.start], prefix, name]
            end = token.start + len(token.text)
    pieces = snippet.pieces or (Piece(1, snippet.rules.part, snippet.text),)
    return Composed("".join(text) + snippet.finished[end:], pieces)
