"""Epilogues: a snippet on ``y0`` that runs where an operator's result is stored."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from clprim.errors import DefinitionError, quoted
from clprim.language.check_snippet import check
from clprim.language.composed import Composed, Piece
from clprim.language.rename import renamed
from clprim.language.snippet import Rules, Snippet

# What it may read: arrays x0, x1, …, numbers w0, w1, …, and where in the result it is.
_READS = frozenset(["x", "w", "index", "coord", "size"])


def one(part: str) -> str:
    """Returns ``an epilogue``, ``a score``."""
    return f"{'an' if part[0] in 'aeiou' else 'a'} {part}"


def define_epilogue(owner: str, text: str, results: int = 1, part: str = "epilogue") -> Snippet:
    """Checks an epilogue, which changes ``y0``."""
    if not isinstance(text, str):
        raise DefinitionError(f"{owner}: {part}={quoted(text)}: expected a string of OpenCL C")
    return _defined(owner, text, results, part)


@lru_cache(maxsize=256)
def _defined(owner: str, text: str, results: int, part: str) -> Snippet:
    snippet = check(Rules(owner, part, _READS, frozenset(["y"])), text)
    others = sorted(snippet.numbers("y") - {*range(results)})
    if others:
        name, known = f"y{others[0]}", "one result, y0" if results == 1 else f"{results} results"
        raise snippet.error(name, f"{name!r} is unknown: {one(part)} has {known}")
    wanted = {0} if results == 1 else {*range(1, results)}
    missing = sorted(wanted - snippet.assigned_numbers("y"))
    if missing:
        raise snippet.error("", f"y{missing[0]} is never assigned")
    return snippet


def appended(
    first: str,
    epilogue: Snippet,
    arrays: int,
    numbers: int,
    places: Mapping[tuple[str, int], str] | None = None,
) -> Composed:
    """Returns a snippet with an epilogue behind it, which reads other operands than the snippet.

    The epilogue's ``x0`` becomes the operand that follows those of the snippet, and so on; of
    ``places`` see `renamed`.
    """
    names = {f"x{n}": f"x{n + arrays}" for n in epilogue.numbers("x")}
    names |= {f"w{n}": f"w{n + numbers}" for n in epilogue.numbers("w")}
    text = renamed(epilogue, names, places or {})
    before = first.pieces if isinstance(first, Composed) else ()
    line = first.count("\n") + 2
    shifted = tuple(
        Piece(line + p.line, _part(p.part, len(before) + n), p.text)
        for n, p in enumerate(text.pieces)
    )
    # In braces: both may declare locals of one name.
    return Composed(f"{first}\n{{\n{text}\n}}", (*before, *shifted))


def _part(name: str, number: int) -> str:
    """A name for messages: of several epilogues each has its own."""
    return name if not number else f"{name.split(' ', maxsplit=1)[0]} {number + 1}"
