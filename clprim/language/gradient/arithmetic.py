"""C's operators on the values of a run: conversions, arithmetic, conditions, selections.

Whole numbers and conditions that are known are computed; real arithmetic is kept as it was written,
as its rounding is the user's.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from clprim.language.gradient import ctypes
from clprim.language.gradient.simplify import Algebra
from clprim.language.gradient.terms import Term, Terms
from clprim.language.gradient.values import Elements, Reference, Refusal, Value, Vector
from clprim.language.node import Node
from clprim.language.operands import is_engine_name
from clprim.language.tree import Expr, Function

COMPARISONS = frozenset("< > <= >= == !=".split())
LOGIC = frozenset(["&&", "||", "!"])
_LOCAL = re.compile(r"[A-Za-z_]\w*$")

Macro = tuple[tuple[str, ...] | None, Expr]


class Arithmetic:
    """What a run knows, and C's operators on values."""

    def __init__(
        self,
        terms: Terms,
        types: dict[str, str],
        leaves: Mapping[str, Value],
        functions: Mapping[str, Function] | None = None,
        macros: Mapping[str, Macro] | None = None,
        constants: Mapping[str, str] | None = None,
        preamble_names: Iterable[str] = (),
    ) -> None:
        self.terms = terms
        self.algebra = Algebra(terms)
        self.types = types
        self.leaves = dict(leaves)
        self.functions = functions or {}
        self.macros = macros or {}
        self.constants = constants or {}
        self.preamble_names = frozenset(preamble_names)
        self.cells: dict[str, Value | None] = {}
        self.cell_types: dict[str, str] = {}
        self.scopes: list[dict[str, str]] = [{}]
        self.depth = 0
        self.part = "expr"
        self.lenient = False  # whether real operands may turn out to be whole numbers
        self.reasons: dict[Term, Refusal] = {}

    # Variables

    def new_cell(self, name: str, ctype: str) -> str:
        """Declares a name in the innermost scope; without a type it takes values as they are."""
        cell = f"{name}#{len(self.cell_types)}"
        self.scopes[-1][name] = cell
        self.cell_types[cell] = ctype
        self.cells[cell] = None
        return cell

    def target(self, name: str, ctype: str) -> str:
        """Declares a name of the engine's that a snippet assigns."""
        self.scopes[0][name] = name
        self.cell_types[name] = ctype
        self.cells.setdefault(name, None)
        return name

    def find(self, name: str) -> str | None:
        """The variable that a name means here."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def hint(self, value: Value, name: str) -> None:
        """Remembers what the user called a value."""
        if not isinstance(value, Term) or not value.args or value.hint or is_engine_name(name):
            return
        if _LOCAL.match(name):
            value.hint = name

    # Numbers

    def number(self, value: float | int, ctype: str, text: str = "") -> Term:
        """A literal."""
        return self.terms.number(value, ctype, text)

    def zero_of(self, ctype: str) -> Value:
        """0 of a plain or a vector type."""
        base, count = ctypes.split_vector(ctype)
        zero = self.number(0, base)
        return zero if count == 1 else Vector(base, (zero,) * count)

    def cast(self, term: Term, ctype: str) -> Term:
        """A plain value as another type."""
        if term.ctype == ctype or not ctype:
            return term
        if term.value is not None:
            if ctypes.is_real(ctype):
                if ctype == "float" and ctypes.is_real(term.ctype):
                    exact = struct.unpack("f", struct.pack("f", term.value))[0]
                    if exact != term.value:
                        return self.terms.make("cast", (term,), ctype)
                return self.number(term.value, ctype)
            if ctype == "bool":
                return self.number(int(term.value != 0), ctype)
            if float(term.value).is_integer() and 0 <= term.value < 128:
                return self.number(int(term.value), ctype)
        if ctype == "bool":
            return self.truth(term)
        if term.op == "?:" and ctypes.is_real(ctype) and not term.real:
            condition, a, b = term.args
            if a.value is not None and b.value is not None:  # vectors have it, too
                return self.terms.make(
                    "?:", (condition, self.cast(a, ctype), self.cast(b, ctype)), ctype
                )
        return self.terms.make("cast", (term,), ctype)

    def converted(self, value: Value, ctype: str, node: Node) -> Value:
        """A value as a variable of a type holds it."""
        if not ctype or isinstance(value, Reference | Elements):
            return value
        base, count = ctypes.split_vector(ctype)
        if isinstance(value, Term):
            part = self.cast(value, base)
            return part if count == 1 else Vector(base, (part,) * count)
        if len(value.components) != count:
            self.fail(node, f"a vector of {len(value.components)} components is no {ctype}")
        return Vector(base, tuple(self.cast(c, base) for c in value.components))

    def vector(self, text: str, elements: Sequence[Value], node: Node) -> Value:
        """``(float4)(a, b, c, d)``."""
        ctype = ctypes.of_words(text, self.types)
        if ctype is None:
            self.fail(node, f"a gradient cannot be derived through ({text})")
        base, count = ctypes.split_vector(ctype)
        parts: list[Term] = []
        for element in elements:
            if isinstance(element, Vector):
                parts += element.components
            elif isinstance(element, Term):
                parts.append(element)
        if len(parts) != count:
            self.fail(node, f"{ctype} of {len(parts)} components")
        return Vector(base, tuple(self.cast(p, base) for p in parts))

    # Operators

    def unary(self, op: str, a: Value, node: Node) -> Value:
        """``-a``, ``!a``, ``~a``, ``+a``."""
        if isinstance(a, Vector):
            parts = tuple(self._unary(op, c, node) for c in a.components)
            return Vector(a.ctype, parts)
        if not isinstance(a, Term):
            self.fail(node, f"a gradient cannot be derived through {node}")
        return self._unary(op, a, node)

    def _unary(self, op: str, a: Term, node: Node) -> Term:
        if op == "!":
            return self.negation(self.truth(a))
        ctype = ctypes.promoted(a.ctype)
        if op == "+":
            return a
        if op == "-":
            if a.value is not None:
                return self.number(-a.value, ctype)
            return self.terms.make("neg", (a,), ctype)
        if op != "~" or (a.real and not self.lenient):
            self.fail(node, f"a gradient cannot be derived through {node}")
        return self.terms.make("~", (a,), "long" if a.real else ctype)

    def binary(self, op: str, a: Value, b: Value, node: Node) -> Value:
        """``a op b``, on vectors component by component."""
        if isinstance(a, Term) and isinstance(b, Term):
            return self.operate(op, a, b, node)
        counts = {len(v.components) for v in (a, b) if isinstance(v, Vector)}
        if len(counts) != 1 or not all(isinstance(v, Term | Vector) for v in (a, b)):
            self.fail(node, f"a gradient cannot be derived through {node}")
        if op in COMPARISONS:
            self.fail(node, "a gradient knows no comparison of vectors")
        base = ctypes.common(*(v.ctype for v in (a, b) if isinstance(v, Term | Vector)))
        left, right = (spread(v, next(iter(counts))) for v in (a, b))
        pairs = zip(left, right, strict=True)
        return Vector(base, tuple(self.operate(op, p, q, node) for p, q in pairs))

    def operate(self, op: str, a: Term, b: Term, node: Node) -> Term:
        """``a op b`` of plain values."""
        if op in COMPARISONS:
            return self.algebra.compare(op, a, b)
        shift = op in ("<<", ">>")
        ctype = ctypes.promoted(a.ctype) if shift else ctypes.common(a.ctype, b.ctype)
        if ctypes.is_real(ctype):
            if op not in ("+", "-", "*", "/"):
                if not self.lenient:
                    self.fail(node, f"{op!r} is for whole numbers, in {node}")
                return self.terms.make(op, (a, b), "long")
            if a.value is not None and b.value is not None:
                folded = self.algebra.constant(op, a.value, b.value)
                if folded is not None:
                    return self.number(folded, ctype)
            a, b = self._as_real(a), self._as_real(b)
            # What a loop starts with leaves no trace.
            if op == "+" and a.value == 0 and b.real:
                return b
            if op in ("+", "-") and b.value == 0 and a.real:
                return a
            if op == "*" and a.value == 1 and b.real:
                return b
            if op in ("*", "/") and b.value == 1 and a.real:
                return a
        elif a.value is not None and b.value is not None:
            known = _whole(op, int(a.value), int(b.value))
            if known is not None and -(2**31) <= known < 2**31:
                return self.number(known, ctype)
        return self.terms.make(op, (a, b), ctype)

    def _as_real(self, term: Term) -> Term:
        """A whole literal beside a real number, as C converts it."""
        small = term.value is not None and abs(term.value) < 2**24
        return self.number(term.value or 0, self.terms.real) if small else term

    # Conditions

    def truth(self, term: Term) -> Term:
        """Whether a value is not 0."""
        if term.value is not None:
            return self.number(int(term.value != 0), "int")
        if term.op in COMPARISONS or term.op in LOGIC:
            return term
        if term.op == "cast" and not term.args[0].real and not term.real:
            return self.truth(term.args[0])
        return self.algebra.compare("!=", term, self.number(0, "int"))

    def negation(self, condition: Term) -> Term:
        """``!condition``."""
        if condition.value is not None:
            return self.number(int(not condition.value), "int")
        if condition.op == "!":
            return condition.args[0]
        return self.terms.make("!", (condition,), "int")

    def any_of(self, conditions: Iterable[Term]) -> Term:
        """Whether one of them holds."""
        found = self.number(0, "int")
        for condition in conditions:
            found = self.algebra.either(found, condition)
        return found

    def selected(self, condition: Term, a: Value, b: Value, node: Node) -> Value:
        """``condition ? a : b``."""
        found = self.either_value(condition, a, b)
        if found is None:
            self.fail(node, f"a gradient cannot be derived through {node}")
        return found

    def either_value(self, condition: Term, a: Value | None, b: Value | None) -> Value | None:
        """What a variable holds behind a branch; what only one way gave it is that."""
        if condition.value is not None:
            return a if condition.value else b
        if a is b or a is None or b is None or a == b:
            return b if a is None else a
        if isinstance(a, Term) and isinstance(b, Term):
            ctype = a.ctype if a.ctype == b.ctype else ctypes.common(a.ctype, b.ctype)
            if condition.op == "!":
                condition, a, b = condition.args[0], b, a
            return self.terms.make("?:", (condition, a, b), ctype)
        if isinstance(a, Vector | Term) and isinstance(b, Vector | Term):
            count = max(len(v.components) for v in (a, b) if isinstance(v, Vector))
            pairs = zip(spread(a, count), spread(b, count), strict=True)
            parts = [self.either_value(condition, p, q) for p, q in pairs]
            return Vector(
                ctypes.common(a.ctype, b.ctype), tuple(p for p in parts if isinstance(p, Term))
            )
        if isinstance(a, Elements) and isinstance(b, Elements):
            both = zip(a.elements, b.elements, strict=True)
            return Elements(a.ctype, tuple(self.either_value(condition, p, q) for p, q in both))
        return None

    def known_as(self, condition: Term, value: Value | None) -> Value | None:
        """What a value is where a condition is known to hold."""
        if isinstance(value, Term) and value.op == "?:":
            if value.args[0] is condition:
                return value.args[1]
            if condition.op == "!" and value.args[0] is condition.args[0]:
                return value.args[2]
        return value

    def fail(self, node: Node, problem: str) -> NoReturn:
        """Refuses a part of the snippet."""
        raise Refusal(problem, node.span, self.part)


def spread(value: Value, count: int) -> tuple[Term, ...]:
    """The components of a value; a plain one is each of them."""
    if isinstance(value, Vector):
        return value.components
    assert isinstance(value, Term)
    return (value,) * count


def _whole(op: str, a: int, b: int) -> int | None:
    """What C computes of whole numbers."""
    if op in ("/", "%"):
        if b == 0:
            return None
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if op == "/" else a - b * quotient
    if op in ("<<", ">>"):
        return None if not 0 <= b < 32 else a << b if op == "<<" else a >> b
    return {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}.get(op)
