"""In what order the nodes of a snippet are checked, and where blocks begin, end and declare."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.language import names
from clprim.language.node import Span, children
from clprim.language.tree import (
    Block,
    Declare,
    DoWhile,
    For,
    If,
    Node,
    Opaque,
    Switch,
    Type,
    Variable,
    While,
)

# What may be said of loops alone.
LOOP = frozenset(["break", "continue"])


@dataclass(frozen=True)
class Enter:
    """A block begins, in which these jumps may stand beside those outside of it."""

    jumps: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Known:
    """A local is declared: from here on its name is known."""

    name: str
    span: Span
    pointer: bool = True


LEAVE = "leave"
Step = Node | Enter | Known | str


def steps_below(node: Node) -> list[Step]:
    """What to check below a node, and where blocks begin and end there."""
    match node:
        case Block(body):
            return [Enter(), *body, LEAVE]
        case If(condition, then, otherwise):
            return [condition, Enter(), *then, LEAVE, Enter(), *otherwise, LEAVE]
        case For() | While() | DoWhile():
            return [Enter(LOOP), *children(node), LEAVE]
        case Switch(value, body):
            return [value, Enter(frozenset(["break"])), *body, LEAVE]
        case Declare(kind, variables):
            steps: list[Step] = [kind]
            plain = kind.text in names.TYPES or kind.text.startswith("typeof_")
            for v in variables:
                if isinstance(v, Variable):
                    may_be_pointer = bool(v.pointer or v.sizes) or not plain
                    steps += [*v.sizes, Known(v.name, v.span, may_be_pointer)]
                    steps += [] if v.value is None else [v.value]
                else:
                    steps += [v]
            return steps
        case Type(_, parts, declares):
            return [*parts, *(Known(name, node.span) for name in declares)]
        case Opaque(_, parts, declares):
            return [*(Known(name, node.span) for name in declares), *parts]
    return [*children(node)]
