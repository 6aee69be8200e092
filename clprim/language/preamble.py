"""Reads a preamble: its names, which of them are types or macros, and its functions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from clprim.errors import DefinitionError
from clprim.language.cursor import Words
from clprim.language.parser import parse_preamble, parse_value
from clprim.language.tokens import scan, with_newlines
from clprim.language.tree import Function, Node, Opaque, Tree, Type, names_in

__all__ = ["Preamble", "read_preamble"]

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MACRO = re.compile(
    r"#\s*define\s+(?P<name>[A-Za-z_]\w*)(?:\([^)]*\))?(?P<body>.*)", re.DOTALL | re.ASCII
)
_CONDITION = re.compile(r"#\s*(if|undef)")
_INCLUDE = re.compile(r"#\s*include")
_IMPLEMENTATION = re.compile(r"_[_A-Z]")


@dataclass(frozen=True)
class Preamble(Words):
    """What is known of a preamble.

    Attributes:
        text: OpenCL C to be put before a kernel.
        tree: What stands in it.
        includes: Whether it takes in files, whose names nobody knows here.
    """

    text: str = ""
    tree: Tree = field(default=Tree(()), repr=False, compare=False)
    includes: bool = False

    @cached_property
    def functions(self) -> dict[str, Function]:
        """Its functions that are surely what they look like: no conditions, no macros around."""
        directives = [part.text for part in self.tree.body if isinstance(part, Opaque)]
        if any(_CONDITION.match(text) for text in directives):
            return {}
        return {part.name: part for part in self.tree.body if isinstance(part, Function)}


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
    if not text:
        return Preamble()
    text = with_newlines(text)
    tokens = scan(owner, "preamble", text)
    directives = [token.text for token in tokens if token.kind == "directive"]
    names = {token.text for token in tokens if token.kind == "name"}
    names.update(name for directive in directives for name in _NAME.findall(directive))
    macros: dict[str, Node | None] = {}
    for directive in directives:
        macro = _MACRO.match(directive)
        if macro is not None:
            macros[macro["name"]] = _meaning(macro["body"])
    types = {name for name, meaning in macros.items() if isinstance(meaning, Type)}
    opaque = {name for name in names if _IMPLEMENTATION.match(name)}
    opaque |= {name for name, meaning in macros.items() if meaning is None}
    while found := {n for n, m in macros.items() if names_in(m) & opaque} - opaque:
        opaque |= found  # a macro of a macro
    words = Words(frozenset(names), frozenset(types), frozenset(opaque - types))
    tree, words = parse_preamble(text, tokens, words)
    includes = any(_INCLUDE.match(directive) for directive in directives)
    return Preamble(words.names, words.types, words.opaque, text, tree, includes)


def _meaning(body: str) -> Node | None:
    """What a macro stands for: a type, an operand, or None where it is neither or unknown."""
    body = re.sub(r"\\[ \t]*\n", " ", body)
    try:
        return parse_value(body, scan("", "", body))
    except DefinitionError:
        return None
