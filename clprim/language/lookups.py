"""Arrays that a snippet reads where it likes: ``at_x1(i, j)``, ``inside_x1``, ``size_x1``."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Functions of an array, with the family of operands; a number follows.
LOOKUPS = ("at_x", "inside_x", "size_x")

_LOOKUP = re.compile(r"(at|inside|size)_x([0-9]{1,4})$")


@dataclass(frozen=True, order=True)
class Lookup:
    """One way in which a snippet asks an array."""

    function: str
    array: int
    number: int


def lookup_of(name: str) -> tuple[str, int] | None:
    """Returns ("at", 1) for ``at_x1``, likewise for the other functions, else None."""
    match = _LOOKUP.match(name)
    return (match[1], int(match[2])) if match else None
