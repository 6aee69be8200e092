"""C's types of numbers: which are real, which type operands meet in, what words mean."""

from __future__ import annotations

import re

_RANK = {
    name: rank
    for rank, name in enumerate(
        "bool char uchar short ushort int uint long ulong half float double".split()
    )
}
_REAL = frozenset(["half", "float", "double"])
_IGNORED = frozenset("const volatile restrict private __private static inline".split())
_SYNONYMS = {
    ("unsigned",): "uint",
    ("signed",): "int",
    ("size_t",): "ulong",
    ("ptrdiff_t",): "long",
    ("intptr_t",): "long",
    ("uintptr_t",): "ulong",
    ("index_t",): "long",
}
#: Words but those of `is_whole` that stand for integers.
OF_INTEGERS = frozenset(word for words in _SYNONYMS for word in words)
_VECTOR = re.compile(
    r"(char|uchar|short|ushort|int|uint|long|ulong|half|float|double)(2|3|4|8|16)$"
)
_CONVERT = re.compile(r"convert_([a-z]+?)(2|3|4|8|16)?(_sat)?(_rt[ezpn])?$")


def is_real(ctype: str) -> bool:
    """Whether a type holds real numbers, so that values of it may have a gradient."""
    return ctype in _REAL


def is_whole(ctype: str) -> bool:
    """Whether a type, or the components of a vector, are integers; bool is none."""
    base = split_vector(ctype)[0]
    return base in _RANK and base not in _REAL and base != "bool"


def promoted(ctype: str) -> str:
    """Returns what a value of a type becomes in arithmetic."""
    return "int" if _RANK[ctype] < _RANK["int"] else "float" if ctype == "half" else ctype


def common(*ctypes: str) -> str:
    """Returns the type in which operands of these types meet (C99 6.3.1.8)."""
    return max((promoted(c) for c in ctypes), key=_RANK.__getitem__)


def of_words(text: str, types: dict[str, str]) -> str | None:
    """Returns the plain or vector type that words stand for, or None where they are no number's."""
    words = tuple(w for w in text.split() if w not in _IGNORED)
    if words in _SYNONYMS:
        return _SYNONYMS[words]
    if len(words) == 1:
        word = words[0]
        if word.startswith("typeof_"):
            return types.get(word.removeprefix("typeof_"))
        return word if word in _RANK or _VECTOR.match(word) else None
    if words and words[0] in ("unsigned", "signed"):
        rest = [w for w in words[1:] if w != "int"] or ["int"]
        base = rest[0] if rest[0] in ("char", "short", "int", "long") else None
        return None if base is None else ("u" if words[0] == "unsigned" else "") + base
    if words in (("long", "int"), ("short", "int")):
        return words[0]
    return None


def split_vector(ctype: str) -> tuple[str, int]:
    """Returns the type of a component and how many there are; 1 for a plain type."""
    found = _VECTOR.match(ctype)
    return (found[1], int(found[2])) if found else (ctype, 1)


def convert_target(function: str) -> str | None:
    """Returns the type that ``convert_T…`` converts to, or None for another function."""
    found = _CONVERT.match(function)
    if not found or found[1] not in _RANK:
        return None
    return found[1] + (found[2] or "")
