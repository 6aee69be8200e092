"""Reads a preamble: its names, which of them are types or macros, and its functions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from clprim.errors import DefinitionError, shorten
from clprim.language import names as c
from clprim.language.cursor import Words
from clprim.language.operands import is_engine_name
from clprim.language.parser import parse_preamble, parse_value
from clprim.language.tokens import Token, caret_message, scan, with_newlines
from clprim.language.tree import Function, Node, Opaque, Tree, Type, names_in

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MACRO = re.compile(
    r"#\s*define\s+(?P<name>[A-Za-z_]\w*)(?:\([^)]*\))?(?P<body>.*)", re.DOTALL | re.ASCII
)
_RENAMED = re.compile(r"#\s*(?:define|undef)\s+([A-Za-z_]\w*)", re.ASCII)
# Words of the language, and what kernels call or take of vectors beside the functions in `c`.
_LANGUAGE = c.TYPES | c.KEYWORDS | c.QUALIFIERS | {*c.RESERVED} | (c.FUNCTIONS - c.COMPLEX)
_OF_KERNELS = re.compile(r"(v(load|store)|get_|CLK_|cp_|__)\w+$|s[0-9a-fA-F]$|lo$|hi$")
_CONDITION = re.compile(r"#\s*(if|undef)")
_INCLUDE = re.compile(r"#\s*include")
_DEPTHS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_SIGNS = frozenset("! ~ - + -- ++ & *".split())
_DEEPEST = 255  # Clang's own limit, but not where it evaluates constants
_IMPLEMENTATION = re.compile(r"_[_A-Z]")


@dataclass(frozen=True)
class Preamble(Words):
    """What is known of a preamble."""

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
    """Returns what a preamble gives to snippets."""
    if not isinstance(text, str):
        raise DefinitionError(
            f"{owner} preamble: expected a string of OpenCL C, got {type(text).__name__}"
        )
    if not text:
        return Preamble()
    text = _with_static(owner, with_newlines(text))
    tokens = scan(owner, "preamble", text)
    depth = signs = 0
    for token in tokens:
        _refuse_macro(owner, text, token)
        depth += _DEPTHS.get(token.text, 0)
        signs = signs + 1 if token.text in _SIGNS else 0
        if max(depth, signs) > _DEEPEST:
            problem = f"brackets and signs nest more than {_DEEPEST} deep: compilers crash of them"
            raise DefinitionError(caret_message(owner, "preamble", text, token.start, 1, problem))
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


def _with_static(owner: str, text: str) -> str:
    """Makes ``inline`` functions static: of others C99 has no definition outside of calls.

    Compilers that do not inline one leave a symbol that nothing defines.
    """
    tokens = [token for token in scan(owner, "preamble", text) if token.kind != "directive"]
    words = ["", *(token.text for token in tokens), ""]
    for n in reversed(range(len(tokens))):
        near = {words[n], words[n + 2]}
        if tokens[n].text == "inline" and not near & {"static", "extern"}:
            text = f"{text[: tokens[n].start]}static {text[tokens[n].start :]}"
    return text


def _refuse_macro(owner: str, text: str, token: Token) -> None:
    """Refuses a macro that would change the kernel around the snippets."""
    found = _RENAMED.match(token.text) if token.kind == "directive" else None
    if found is None:
        return
    name = found[1]
    if is_engine_name(name):
        whose = "the engine declares it"
    elif name in _LANGUAGE or _OF_KERNELS.match(name):
        whose = "the kernel around a snippet uses it"
    else:
        return
    at, problem = token.start + found.start(1), f"no macro may be called {shorten(name)!r}: {whose}"
    raise DefinitionError(caret_message(owner, "preamble", text, at, len(name), problem))


def _meaning(body: str) -> Node | None:
    """What a macro stands for: a type, an operand, or None where it is neither or unknown."""
    body = re.sub(r"\\[ \t]*\n", " ", body)
    try:
        return parse_value(body, scan("", "", body))
    except DefinitionError:
        return None
