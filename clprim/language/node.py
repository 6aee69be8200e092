"""What all nodes of a tree have in common: comparing, walking, rewriting and printing.

A chain of operators is as deep as it is long, so nothing here recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Span(NamedTuple):
    """Where something stands in a snippet: characters ``start`` to ``end``, the last excluded."""

    start: int
    end: int


class Mark(Enum):
    """Where a printed line ends, and what is set in from there."""

    LINE = "the next piece begins a line"
    IN = "lines are set in by one step more"
    OUT = "lines are set in by one step less"


@dataclass(frozen=True, eq=False, repr=False)
class Node:
    """A part of a tree; equal to another that says the same, wherever the two stand."""

    span: Span = field(default=Span(0, 0), kw_only=True)

    def _printed(self) -> tuple[int, Sequence[Piece]]:
        """How strongly it binds, and what is printed of it.

        Pieces are text, nodes with the least strength that needs no parentheses, and marks.
        """
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Node) or hash(self) != hash(other):
            return False
        pairs: list[tuple[Node, Node]] = [(self, other)]
        while pairs:
            a, b = pairs.pop()
            if a is b:
                continue
            if _says(a) != _says(b):
                return False
            pairs.extend(zip(children(a), children(b), strict=True))
        return True

    def __hash__(self) -> int:
        found: int | None = vars(self).get("_hash")
        return fold(self, _keep_hash) if found is None else found

    def __str__(self) -> str:
        printed: list[str] = []
        depth = 0
        ahead: list[Piece] = [(self, 0)]
        while ahead:
            piece = ahead.pop()
            if isinstance(piece, str):
                printed.append(piece)
            elif isinstance(piece, Mark):
                depth += {Mark.IN: 1, Mark.OUT: -1, Mark.LINE: 0}[piece]
                if piece is Mark.LINE:
                    printed.append("\n" + "    " * depth)
            else:
                strength, pieces = piece[0]._printed()
                ahead.extend(reversed(pieces if strength >= piece[1] else ("(", *pieces, ")")))
        return "".join(printed)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self)!r}>"


Piece = str | Mark | tuple[Node, int]


def children(node: Node) -> list[Node]:
    """Returns the nodes right below a node, in the order of the text."""
    found: list[Node] = []
    for name in _fields(node):
        value = getattr(node, name)
        if isinstance(value, Node):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(part for part in value if isinstance(part, Node))
    return found


def walk(*nodes: Node | None) -> Iterator[Node]:
    """Yields nodes and all below them, each before what is below it, in the order of the text."""
    ahead = [node for node in reversed(nodes) if node is not None]
    while ahead:
        node = ahead.pop()
        yield node
        ahead.extend(reversed(children(node)))


def fold(node: Node, visit: Callable[[Node, list[T]], T]) -> T:
    """Computes something of a tree from below: ``visit(node, what its children gave)``."""
    # Each frame: a node, its children that are not visited yet (last first), and what others gave.
    frames: list[tuple[Node, list[Node], list[T]]] = [(node, children(node)[::-1], [])]
    while True:
        node, waiting, given = frames[-1]
        if waiting:
            below = waiting.pop()
            frames.append((below, children(below)[::-1], []))
            continue
        frames.pop()
        result = visit(node, given)
        if not frames:
            return result
        frames[-1][2].append(result)


def rewrite(node: Node, change: Callable[[Node], Node]) -> Node:
    """Returns a tree with every node replaced by ``change(node)``, from below.

    Nodes that do not change are shared with the old tree.
    """

    def rebuilt(node: Node, given: list[Node]) -> Node:
        if any(a is not b for a, b in zip(children(node), given, strict=True)):
            node = with_children(node, given)
        return change(node)

    return fold(node, rebuilt)


def _fields(node: Node) -> tuple[str, ...]:
    """What a node consists of, but for where it stands."""
    found: tuple[str, ...] = type(node).__match_args__
    return found


def with_children(node: Node, given: Iterable[Node]) -> Node:
    """Returns the node with other children in the places of its own."""
    following = iter(given)
    changed: dict[str, Any] = {}
    for name in _fields(node):
        value = getattr(node, name)
        if isinstance(value, Node):
            changed[name] = next(following)
        elif isinstance(value, tuple):
            changed[name] = tuple(next(following) if isinstance(p, Node) else p for p in value)
    return replace(node, **changed)


def _says(node: Node) -> tuple[Any, ...]:
    """What a node says by itself, with None in the places of its children."""
    found: list[Any] = [type(node)]
    for name in _fields(node):
        value = getattr(node, name)
        if isinstance(value, tuple):
            found.append(tuple(None if isinstance(part, Node) else part for part in value))
        else:
            found.append(Node if isinstance(value, Node) else value)
    return tuple(found)


def _keep_hash(node: Node, given: list[int]) -> int:
    found: int | None = vars(node).get("_hash")
    if found is None:
        found = hash((_says(node), *given))
        object.__setattr__(node, "_hash", found)
    return found
