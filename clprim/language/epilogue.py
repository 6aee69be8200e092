"""Epilogues: a snippet on ``y0`` that runs where an operator's result is stored."""

from __future__ import annotations

from functools import lru_cache

from clprim.language.check import check
from clprim.language.snippet import Rules, Snippet

__all__ = ["define_epilogue"]


@lru_cache(maxsize=256)
def define_epilogue(owner: str, text: str, reads: frozenset[str] = frozenset(["x"])) -> Snippet:
    """Checks an epilogue, which changes ``y0``.

    Args:
        owner: The operator, for messages.
        text: The snippet.
        reads: What it may read: arrays ``x0``, ``x1``, …, and in some operators more.

    Raises:
        DefinitionError: With the snippet's line and a caret.
    """
    snippet = check(Rules(owner, "epilogue", reads, frozenset(["y"])), text)
    others = sorted(snippet.numbers("y") - {0})
    if others:
        name = f"y{others[0]}"
        raise snippet.error(name, f"{name!r} is unknown: an epilogue has one result, y0")
    if not snippet.assigned_numbers("y"):
        raise snippet.error("", "y0 is never assigned")
    return snippet
