"""Reads a preamble as far as its snippets need: its names, and which of them may be anything."""

from __future__ import annotations

import re
from dataclasses import dataclass

from clprim.errors import DefinitionError
from clprim.language.tokens import tokenize

__all__ = ["Preamble", "read_preamble"]

_NAME = re.compile(r"[A-Za-z_]\w*")
_MACRO = re.compile(r"#\s*define\s+(?P<name>[A-Za-z_]\w*)(?P<body>.*)", re.DOTALL)
_NUMBER = re.compile(r"\s+\(?[-+]?\.?\d[\w.]*\)?\s*(//.*|/\*.*\*/\s*)?")
_IMPLEMENTATION = re.compile(r"_[_A-Z]")


@dataclass(frozen=True)
class Preamble:
    """What is known of a preamble.

    Attributes:
        names: Every name in it, all of which its operator's snippets may use.
        opaque: Those that may stand for any part of a statement: macros, but for numbers, and what
            belongs to the compiler, such as ``__attribute__``.
    """

    names: frozenset[str] = frozenset()
    opaque: frozenset[str] = frozenset()


def read_preamble(owner: str, text: object) -> Preamble:
    """Returns what a preamble gives to snippets.

    Args:
        owner: The kind of operator, for messages.
        text: OpenCL C to be put before a kernel.

    Raises:
        DefinitionError: No string, unbalanced brackets or characters that C does not know.
    """
    if not isinstance(text, str):
        raise DefinitionError(
            f"{owner} preamble: expected a string of OpenCL C, got {type(text).__name__}"
        )
    names: set[str] = set()
    opaque: set[str] = set()
    for token in tokenize(owner, "preamble", text):
        if token.kind == "name":
            names.add(token.text)
        elif token.kind == "directive":
            names.update(_NAME.findall(token.text))
            macro = _MACRO.match(token.text)
            if macro and not _NUMBER.fullmatch(macro["body"]):
                opaque.add(macro["name"])
    opaque.update(name for name in names if _IMPLEMENTATION.match(name))
    return Preamble(frozenset(names), frozenset(opaque))
