"""Leaves out of a snippet what it computes for nothing: locals that no result depends on."""

from __future__ import annotations

from clprim.language.operands import operand_number
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

_Left = tuple[str, Node, tuple[Expr, ...]]


def without_unused(snippet: Snippet) -> str:
    """Returns the text without assignments to locals that nothing depends on, on as many lines.

    Names count wherever they stand: two locals of one name are needed or not together. What may do
    anything else than give a local its value stays, and so does all where an operand would not be
    read any more.

    Example:
        >>> from clprim.language.definition import define_pointwise
        >>> text = "float t = 2 * x0; float u = t + 1; u += x0; y0 = t;"
        >>> without_unused(define_pointwise(text, name="f", preamble="").expr).split()
        ['float', 't', '=', '2', '*', 'x0;', ';', ';', 'y0', '=', 't;']
    """
    found: list[_Left] = []
    needed: set[str] = set()
    _look(snippet, found, needed)
    depends = [(target, _words(*values)) for target, _, values in found]
    size = -1
    while size < len(needed):
        size = len(needed)
        needed.update(*(names for target, names in depends if target in needed))
    read = {n for word in needed for family in ("x", "at_x", "w") if (n := _operand(word, family))}
    if {
        n for word in snippet.used for family in ("x", "w") if (n := _operand(word, family))
    } - read:
        return snippet.text
    text = snippet.text
    for target, node, _ in found:
        start, end = node.span
        if target not in needed:
            blank = "".join("\n" if c == "\n" else " " for c in text[start:end])
            text = text[:start] + blank + text[end:]
    return text


def _look(snippet: Snippet, found: list[_Left], needed: set[str]) -> None:
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


def _operand(word: str, family: str) -> str:
    """The operand that a word reads, of a family: ``at_x0`` reads x0; nothing of other words."""
    number = operand_number(word, family)
    return "" if number is None else f"{family[-1]}{number}"


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
