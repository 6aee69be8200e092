"""Names that the engine gives to snippets: operands, positions and functions of its own."""

from __future__ import annotations

import re

from clprim.language.lookups import LOOKUPS

#: Families of operands, whose names end in a number.
NUMBERED = ("x", "w", "y", "reduce_y", "scan_y", "other_y", "group_y", *LOOKUPS)
POSITIONS = ("index", "reduce_item", "scan_item", "count")
PER_DIMENSION = ("coord", "size")
#: Functions that draw random numbers, and how many arguments they take.
RANDOM = {"rand": 0, "randn": 0, "randint": 2}

_OPERAND = re.compile(rf"({'|'.join(NUMBERED)})([0-9]{{1,4}})$")
_PREFIXED = re.compile(r"(?:typeof_(?=x|w|y|r|s|g)|(?:lowest|highest)_(?=reduce_y|scan_y))(.*)")


def without_prefix(name: str) -> str:
    """Returns the operand that ``typeof_x0`` or ``lowest_reduce_y0`` tells of, else the name."""
    match = _PREFIXED.match(name)
    return match[1] if match and _OPERAND.match(match[1]) else name


def is_engine_name(name: str) -> bool:
    """Whether the engine gives this name to snippets: an operand, its type, or a position."""
    return name in (*POSITIONS, *PER_DIMENSION, *RANDOM) or bool(
        _OPERAND.match(without_prefix(name))
    )


def operand_number(name: str, family: str) -> int | None:
    """Returns N where ``name`` is ``{family}N`` (or its ``typeof_``), else None."""
    match = _OPERAND.match(without_prefix(name))
    return int(match[2]) if match and match[1] == family else None
