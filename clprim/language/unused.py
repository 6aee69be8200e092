"""Leaves out of a snippet what it computes for nothing: locals that no result depends on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from clprim.language.composed import Composed
from clprim.language.operands import operand_number
from clprim.language.rename import prefix_of, renamed
from clprim.language.snippet import Snippet
from clprim.language.tree import (
    Assign,
    Call,
    Declare,
    Evaluate,
    Expr,
    For,
    Name,
    Node,
    Opaque,
    Postfix,
    Unary,
    Variable,
    children,
    names_in,
    walk,
)

_Value = tuple[str, Node, tuple[Expr, ...]]


class Left(NamedTuple):
    """What is left of a snippet."""

    text: Composed
    arrays: tuple[int, ...]
    numbers: tuple[int, ...]


def without_unused(snippet: Snippet) -> Left:
    """Leaves out assignments to locals that nothing depends on, and what only these read.

    Names count wherever they stand: two locals of one name are needed or not together. What may do
    anything else than give a local its value stays.
    """
    found: list[_Value] = []
    needed: set[str] = set()
    _look(snippet, found, needed)
    depends = [(target, _words(*values)) for target, _, values in found]
    size = -1
    while size < len(needed):
        size = len(needed)
        needed.update(*(names for target, names in depends if target in needed))
    text, tokens = snippet.text, [*snippet.tokens]
    for target, node, _ in found:
        start, end = node.span
        if target not in needed:
            blank = "".join("\n" if c == "\n" else " " for c in text[start:end])
            text = text[:start] + blank + text[end:]
            tokens = [t for t in tokens if not start <= t.start < end]
    words = {token.text for token in tokens if token.kind == "name"}
    arrays, numbers = (tuple(sorted(_operands(words, family))) for family in "xw")
    names = {f"x{n}": f"x{m}" for m, n in enumerate(arrays)}
    names |= {f"w{n}": f"w{m}" for m, n in enumerate(numbers)}
    rest = replace(snippet, text=text, tokens=tuple(tokens))
    return Left(renamed(rest, names), arrays, numbers)


def _look(snippet: Snippet, found: list[_Value], needed: set[str]) -> None:
    """Finds statements that give a local its value, and the names in all others."""
    ahead: list[Node] = [snippet.tree]
    while ahead:
        node = ahead.pop()
        match node:
            case Declare(_, (Variable(name, (), value, ""),)) if _plain(value):
                found.append((name, node, () if value is None else (value,)))
            case Evaluate(Assign(Name(name), _, value)) if _plain(value):
                if operand_number(name, "y") is None and not name.startswith("reduce_y"):
                    found.append((name, node, (value,)))
                else:
                    needed.update(_words(node))
            case For(start, condition, step, body):
                needed.update(_words(start, condition, step))
                needed.update(v.name for v in walk(start) if isinstance(v, Variable))
                ahead.extend(body)
            case Opaque():
                needed.update(word for word in snippet.words)
            case _ if isinstance(node, Expr):
                needed.update(_words(node))
            case _:
                needed.update(v.name for v in [node] if isinstance(v, Variable))
                ahead.extend(children(node))


def _operands(words: Iterable[str], family: str) -> set[int]:
    """The numbers of operands of a family that words name or ask something of."""
    bare = (word[len(prefix_of(word)) :] for word in words)
    return {n for word in bare if (n := operand_number(word, family)) is not None}


def _words(*nodes: Node | None) -> frozenset[str]:
    """Names of variables and of functions below these nodes."""
    called = (node.function for node in walk(*nodes) if isinstance(node, Call))
    return names_in(*nodes).union(called)


def _plain(value: Expr | None) -> bool:
    """Whether an expression does nothing but have a value."""
    return not any(
        isinstance(node, Assign | Opaque | Postfix)
        or (isinstance(node, Unary) and node.op in ("&", "*", "++", "--"))
        or (isinstance(node, Call) and node.function.startswith("rand"))
        for node in walk(value)
    )
