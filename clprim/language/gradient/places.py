"""Where a run reads and writes: variables, elements of local arrays, components of vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod

from clprim.language.gradient import ctypes
from clprim.language.gradient.calls import FunctionCalls
from clprim.language.gradient.terms import Term
from clprim.language.gradient.values import Elements, Reference, Refusal, Value, Vector
from clprim.language.node import Node, Span
from clprim.language.tree import Expr, Name, Unary

_LANES = {c: n for n, c in enumerate("xyzw")} | {f"s{c:x}": c for c in range(16)}
_LANES |= {f"s{c:X}": c for c in range(10, 16)}


class Places(FunctionCalls, ABC):
    """What expressions name that can be assigned."""

    @abstractmethod
    def value(self, node: Expr, *, unused: bool = False) -> Value:
        """Runs an expression."""

    def term(self, node: Expr) -> Term:
        """The value of an expression that is a number."""
        value = self.value(node)
        if not isinstance(value, Term):
            raise self.refusal(node, f"expected a number, got {node}")
        return value

    def cell_of(self, target: Expr) -> str:
        """The variable that an expression stands for."""
        match target:
            case Name(text):
                cell = self.find(text)
                if cell is not None:
                    return cell
            case Unary("*", a):
                pointer = self.value(a)
                if isinstance(pointer, Reference):
                    return pointer.cell
        raise self.refusal(
            target, f"a gradient cannot be derived through an assignment of {target}"
        )

    def read(self, cell: str, node: Node) -> Value:
        """What a variable holds."""
        value = self.cells.get(cell)
        if value is None:
            raise self.refusal(node, f"{node} is read before it is assigned")
        return value

    def element(self, a: Expr, i: Expr, node: Node) -> Value:
        """``a[i]``."""
        if isinstance(a, Name) and self.find(a.text) is None and a.text in self.constants:
            place = self.term(i)  # a table of the preamble
            table = self.terms.leaf(a.text, "int")
            return self.terms.make("index", (table, place), self.constants[a.text])
        held = self.value(a)
        if not isinstance(held, Elements):
            raise self.refusal(node, f"{a} is no local array")
        place = self.term(i)
        if place.value is None:
            found: Value | None = None
            for n, element in enumerate(held.elements):
                if element is None:
                    raise self.refusal(node, f"{a}[{n}] is read before it is assigned")
                here = self.algebra.compare("==", place, self.number(n, "int"))
                found = element if found is None else self.selected(here, element, found, node)
            assert found is not None
            return found
        n = int(place.value)
        if not 0 <= n < len(held.elements):
            raise self.refusal(node, f"{a} has {len(held.elements)} elements, none at {n}")
        element = held.elements[n]
        if element is None:
            raise self.refusal(node, f"{node} is read before it is assigned")
        return element

    def assign_element(self, a: Expr, i: Expr, value: Value, node: Node) -> Value:
        """``a[i] = value``."""
        cell = self.cell_of(a)
        held, place = self.cells.get(cell), self.term(i)
        if not isinstance(held, Elements):
            raise self.refusal(node, f"{a} is no local array")
        value = self.converted(value, held.ctype, node)
        elements = list(held.elements)
        if place.value is not None:
            if not 0 <= place.value < len(elements):
                raise self.refusal(node, f"{a} has {len(elements)} elements, none at {place.value}")
            elements[int(place.value)] = value
        else:
            for n, old in enumerate(elements):
                here = self.algebra.compare("==", place, self.number(n, "int"))
                elements[n] = value if old is None else self.selected(here, value, old, node)
        self.cells[cell] = Elements(held.ctype, tuple(elements))
        return value

    def lanes(self, name: str, count: int, node: Node) -> list[int]:
        """The components that a suffix of a vector names."""
        half = (count + 1) // 2
        whole = {
            "lo": range(half),
            "hi": range(half, 2 * half),
            "even": range(0, count, 2),
            "odd": range(1, count + 1, 2),
        }
        if name in whole:
            found = list(whole[name])
        elif name[0] in "sS" and len(name) > 1:
            found = [_LANES.get(f"s{c}", 99) for c in name[1:]]
        else:
            found = [_LANES.get(c, 99) for c in name]
        if any(n >= count for n in found):
            raise self.refusal(node, f"no component {name!r} of {count}")
        return found

    def member(self, held: Value, name: str, node: Node) -> Value:
        """``v.x``, ``v.lo``."""
        if not isinstance(held, Vector):
            raise self.refusal(node, f"a gradient cannot be derived through {node}")
        lanes = self.lanes(name, len(held.components), node)
        parts = tuple(held.components[n] for n in lanes)
        return parts[0] if len(parts) == 1 else Vector(held.ctype, parts)

    def assign_member(self, a: Expr, name: str, value: Value, node: Node) -> Value:
        """``v.x = value``, ``v.lo = value``."""
        cell = self.cell_of(a)
        base, count = ctypes.split_vector(self.cell_types.get(cell, ""))
        held = self.cells.get(cell)
        if count == 1 or not (held is None or isinstance(held, Vector)):
            raise self.refusal(node, f"a gradient cannot be derived through {a}.{name}")
        parts: list[Term | None] = [None] * count if held is None else list(held.components)
        lanes = self.lanes(name, count, node)
        given = value.components if isinstance(value, Vector) else (value,) * len(lanes)
        for lane, part in zip(lanes, given, strict=True):
            assert isinstance(part, Term)
            parts[lane] = self.cast(part, base)
        zero = self.number(0, base)
        self.cells[cell] = Vector(base, tuple(zero if p is None else p for p in parts))
        return value

    def refusal(self, node: Node, problem: str) -> Refusal:
        """Says what cannot be differentiated, and where it stands."""
        return Refusal(problem, node.span if isinstance(node.span, Span) else Span(0, 0), self.part)
