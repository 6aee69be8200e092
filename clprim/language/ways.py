"""Whether a string sends work-items that share vectors different ways through loops and reads.

Some vectorisers take a value for one of all work-items because it is one on each way that leads to
it: where there is a loop for either answer to a condition, or a compiler copied one, as it does for
conditions that no iteration changes. And they read, behind a condition that holds for nobody, what
all work-items would read, wherever that is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from clprim.language.node import Node, walk
from clprim.language.parser import parse_snippet
from clprim.language.tokens import scan
from clprim.language.tree import (
    Assign,
    Binary,
    Call,
    DoWhile,
    Expr,
    For,
    If,
    Index,
    Member,
    Name,
    Postfix,
    Ternary,
    Tree,
    Unary,
    Variable,
    While,
    names_in,
)

_LOOPS = (For, While, DoWhile)
_READ = re.compile(r"at_[xw]\d+$")
_CHOICES, _COMPARISONS = ("&&", "||"), ("<", ">", "<=", ">=", "==", "!=")


def mixes_ways(text: str, own: frozenset[str], *, logic: bool = False) -> bool:
    """Whether a result may depend on what other work-items of a vector do."""
    tree = parse_snippet(text, scan("", "", text))
    ways = _Ways(tree, set(own), {*_CHOICES, *(_COMPARISONS if logic else ())})
    return ways.are_lost() or ways.read_on()


@dataclass
class _Ways:
    """A string, and what in it differs between work-items whichever way they go."""

    tree: Tree
    own: set[str]
    choices: set[str]

    def __post_init__(self) -> None:
        self._spread(self.own, self.differs)
        self.kept = {name for name, value in _assigned(self.tree) if self.differs(_chosen(value))}

    def _spread(self, names: set[str], holds: Callable[[Expr | None], object]) -> None:
        """Adds names to which a value is assigned that ``holds``, until there are no more."""
        before = -1
        while before < len(names):
            before = len(names)
            names |= {name for name, value in _assigned(self.tree) if holds(value)}

    def differs(self, value: Node | None) -> bool:
        """Whether a value may differ between work-items."""
        return any(
            str(node) in self.own or (isinstance(node, Call) and node.function.startswith("rand"))
            for node in walk(value)
            if isinstance(node, Name | Call)
        )

    def are_lost(self) -> bool:
        """Whether loops that there are, or may be, twice leave values of all work-items."""
        for node in walk(self.tree):
            if isinstance(node, If):
                inside: tuple[Node, ...] = (*node.then, *node.otherwise)
                twice = self.differs(node.condition) and all(
                    any(isinstance(n, _LOOPS) for n in walk(*side))
                    for side in (node.then, node.otherwise)
                )
            elif isinstance(node, _LOOPS):
                inside = (node,)
                changed = {name for name, _ in _assigned(node)} | _declared(node)
                conditions = (c for n in walk(node) for c in self._conditions(n))
                twice = any(self.differs(c) and not names_in(c) & changed for c in conditions)
            else:
                continue
            if twice and {name for name, _ in _assigned(*inside)} - _declared(*inside) - self.kept:
                return True
        return False

    def read_on(self) -> bool:
        """Whether some read where all work-items' reads say, behind a condition of their own."""
        shared: set[str] = set()
        self._spread(shared, lambda value: self._reads(value) or names_in(value) & shared)
        places = [place for call in _reads_of(self.tree) for place in call.args]
        return any(self._reads(place) or names_in(place) & shared for place in places) and any(
            self.differs(c) for node in walk(self.tree) for c in self._conditions(node)
        )

    def _conditions(self, node: Node) -> tuple[Expr, ...]:
        if isinstance(node, If | Ternary):
            return (node.condition,)
        return (node.a, node.b) if isinstance(node, Binary) and node.op in self.choices else ()

    def _reads(self, value: Node | None) -> bool:
        """Whether a value is of what all work-items read at one place."""
        return any(not any(map(self.differs, call.args)) for call in _reads_of(value))


def _reads_of(node: Node | None) -> Iterator[Call]:
    return (n for n in walk(node) if isinstance(n, Call) and _READ.match(n.function))


def _assigned(*nodes: Node | None) -> Iterator[tuple[str, Expr | None]]:
    """Yields names to which is assigned, and what."""
    for node in walk(*nodes):
        if isinstance(node, Variable) and node.value is not None:
            yield node.name, node.value
        elif isinstance(node, Assign):
            yield _target(node.target), node.value
        elif isinstance(node, Unary | Postfix) and node.op in ("++", "--"):
            yield _target(node.a), None


def _target(node: Expr) -> str:
    while isinstance(node, Index | Member):
        node = node.a
    return node.text if isinstance(node, Name) else ""


def _declared(*nodes: Node) -> set[str]:
    return {node.name for node in walk(*nodes) if isinstance(node, Variable)}


def _chosen(value: Node | None) -> Node | None:
    """A value, or those of which it is one: a compiler may branch instead."""
    if not isinstance(value, Ternary):
        return value
    return Binary("+", _chosen(value.a), _chosen(value.b))  # type: ignore[arg-type]
