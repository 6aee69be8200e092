"""Runs expressions on terms: operators, literals, names, calls of functions and macros."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from clprim.errors import shorten
from clprim.language.gradient import ctypes
from clprim.language.gradient.calls import BUILTIN_CONSTANTS
from clprim.language.gradient.derivatives import PREAMBLE
from clprim.language.gradient.places import Places
from clprim.language.gradient.terms import Term
from clprim.language.gradient.values import Reference, Refusal, Value, Vector
from clprim.language.lookups import lookup_of
from clprim.language.names import BUILTINS
from clprim.language.node import Node
from clprim.language.operands import RANDOM
from clprim.language.tree import (
    Assign,
    Binary,
    Call,
    Cast,
    Expr,
    Function,
    Index,
    Member,
    Name,
    Number,
    Opaque,
    Postfix,
    Statement,
    Ternary,
    Type,
    Unary,
    Variable,
)
from clprim.language.tree import Vector as VectorLiteral

#: Functions call each other so deeply at most: OpenCL C has no recursion.
DEEPEST = 32

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)$")


class Expressions(Places):
    """Expressions, with the variables that they share."""

    @abstractmethod
    def statements(self, statements: Sequence[Statement | Function]) -> Any:
        """Runs statements, those of a function."""

    def condition(self, node: Expr) -> Term:
        """An expression as the condition that it is not 0."""
        return self.truth(self.term(node))

    def value(self, node: Expr, *, unused: bool = False) -> Value:
        """Runs an expression."""
        match node:
            case Number(text):
                return self.literal(text, node)
            case Name(text):
                return self.name(text, node)
            case Unary("&", a):
                return Reference(self.cell_of(a))
            case Unary("*", a):
                pointer = self.value(a)
                if not isinstance(pointer, Reference):
                    raise self.refusal(node, f"{a} is no pointer to a local")
                return self.read(pointer.cell, node)
            case Unary("++" | "--" as op, a):
                return self.assign(a, op[0] + "=", self.number(1, "int"), node)
            case Postfix(op, a):
                old = self.value(a)
                self.assign(a, op[0] + "=", self.number(1, "int"), node)
                return old
            case Unary(op, a):
                return self.unary(op, self.value(a), node)
            case Binary(",", a, b):
                self.value(a, unused=True)
                return self.value(b)
            case Binary("&&", a, b):
                return self.algebra.both(self.condition(a), self.condition(b))
            case Binary("||", a, b):
                return self.algebra.either(self.condition(a), self.condition(b))
            case Binary("?:", a, b):
                value = self.term(a)
                return self.selected(self.truth(value), value, self.value(b), node)
            case Binary():
                return self.chain(node)
            case Ternary(condition, a, b):
                chosen = self.value(condition)
                if isinstance(chosen, Vector):
                    raise self.refusal(node, "a gradient knows no selection between components")
                assert isinstance(chosen, Term)
                return self.selected(self.truth(chosen), self.value(a), self.value(b), node)
            case Assign(target, op, value):
                return self.assign(target, op, self.value(value), node)
            case Cast(Type(text), a):
                if unused and text.split() == ["void"]:
                    return self.zero_of("int")
                ctype = ctypes.of_words(text, self.types)
                if ctype is None:
                    raise self.refusal(node, f"a gradient cannot be derived through ({text})")
                return self.converted(self.value(a), ctype, node)
            case VectorLiteral(Type(text), elements):
                return self.vector(text, [self.value(e) for e in elements], node)
            case Index(a, i):
                return self.element(a, i, node)
            case Member(a, ".", name):
                return self.member(self.value(a), name, node)
            case Call(function, args):
                return self.call(function, args, node)
        raise self.refusal(node, f"a gradient cannot be derived through {node}")

    def chain(self, node: Binary) -> Value:
        """Runs ``a + b - c + …``: as many operators as a machine writes are no calls of calls."""
        steps: list[Binary] = []
        inner: Expr = node
        while isinstance(inner, Binary) and inner.op not in (",", "&&", "||", "?:"):
            steps.append(inner)
            inner = inner.a
        value = self.value(inner)
        for step in reversed(steps):
            value = self.binary(step.op, value, self.value(step.b), step)
        return value

    def literal(self, text: str, node: Node) -> Term:
        """``2``, ``0x1Fu``, ``1.5f``."""
        whole = _INTEGER.match(text)
        if whole:
            base = 8 if text[0] == "0" and whole[1].isdigit() and len(whole[1]) > 1 else 0
            suffix = whole[2].lower()
            try:
                value = int(whole[1], base)
                float(value)
            except (ValueError, OverflowError):  # 08, or more digits than any type has
                raise self.refusal(node, f"{shorten(text)} is no number") from None
            ctype = ("u" if "u" in suffix else "") + ("long" if "l" in suffix else "int")
            if ctype == "int" and value >= 2**31:
                ctype = "long" if value < 2**63 else "ulong"
            return self.number(value, ctype, text)
        if text.endswith("i"):
            raise self.refusal(node, f"no gradient is derived of complex numbers such as {text}")
        digits = text.rstrip("fFhHlL")
        real = float.fromhex(digits) if "x" in digits.lower() else float(digits)
        if text[-1] in "fFhH" and self.terms.real == "double":
            return self.terms.make("name", (), "float", text)
        return self.number(real, self.terms.real, text)

    def name(self, text: str, node: Node) -> Value:
        """A variable, or a constant of OpenCL C or of the preamble."""
        cell = self.find(text)
        if cell is not None:
            return self.read(cell, node)
        if text in self.leaves:
            return self.leaves[text]
        if text in BUILTIN_CONSTANTS and text not in self.preamble_names:
            value, narrow = BUILTIN_CONSTANTS[text]
            if narrow and self.terms.real == "double":
                return self.terms.leaf(text, "float")
            return self.number(value, self.terms.real, text)
        if text in self.macros:
            return self.macro(text, None, node)
        ctype = self.constants.get(text)
        if ctype is None and text in BUILTINS:
            ctype = "int" if text.endswith(("_DIG", "_EXP", "_BIT")) or "INT_" in text else ""
            ctype = ctype or ("float" if text[:3] in ("FLT", "MAX", "HUG") else "")
            ctype = ctype or {"DBL": "double", "true": "int", "false": "int"}.get(text[:5], "")
        if text in ("true", "false"):
            return self.number(int(text == "true"), "int")
        if not ctype:
            raise self.refusal(node, f"a gradient knows nothing of {text!r}")
        return self.terms.leaf(text, ctype)

    def assign(self, target: Expr, op: str, value: Value, node: Node) -> Value:
        """``target op value``."""
        if op != "=":
            value = self.binary(op[:-1], self.value(target), value, node)
        match target:
            case Index(a, i):
                return self.assign_element(a, i, value, node)
            case Member(a, ".", name):
                return self.assign_member(a, name, value, node)
        cell = self.cell_of(target)
        value = self.converted(value, self.cell_types.get(cell, ""), node)
        if isinstance(target, Name):
            self.hint(value, target.text)
        self.cells[cell] = value
        return value

    def call(self, function: str, args: tuple[Expr, ...], node: Node) -> Value:
        """A function of the preamble, of OpenCL C, or ``coord(d)``."""
        if function in ("coord", "size"):
            return self.terms.leaf(f"{function}({args[0]})", "long")
        lookup = lookup_of(function)
        if lookup is not None:
            array = self.leaves[f"x{lookup[1]}"]
            assert isinstance(array, Term)
            ctype = {"at": array.ctype, "inside": "int", "size": "long"}[lookup[0]]
            found = self.terms.make("call", (array, *map(self.term, args)), ctype, function)
            self.reasons[found] = self.refusal(
                node,
                f"no gradient passes {function!r}: it reads {array.text} anywhere; "
                f"leave {array.text} out of wrt=",
            )
            return found
        if function in self.macros:
            return self.macro(function, [self.value(a) for a in args], node)
        if function in PREAMBLE:
            return self.builtin(function, [self.value(a) for a in args], node)
        if function in self.functions:
            return self.helper(self.functions[function], [self.value(a) for a in args], node)
        if function in self.preamble_names and function not in BUILTINS:
            raise self.refusal(
                node,
                f"a gradient cannot look into {function!r} of the preamble; "
                'give gradient="…" by hand',
            )
        if function in RANDOM:
            raise self.refusal(
                node,
                f"a gradient cannot draw the numbers of {function!r} again; draw them into an "
                "array first, and hand that over",
            )
        if function == "printf":
            return self.number(0, "int")
        return self.builtin(function, [self.value(a) for a in args], node)

    def macro(self, name: str, args: Sequence[Value] | None, node: Node) -> Value:
        """What a macro stands for, with its arguments in place."""
        names, body = self.macros[name]
        if (args is None) != (names is None) or len(args or ()) != len(names or ()):
            raise self.refusal(node, f"{name!r} is called with other arguments than it is defined")
        self.deeper(node)
        self.scopes.append({})
        for parameter, value in zip(names or (), args or (), strict=True):
            self.cells[self.new_cell(parameter, "")] = value
        found = self.value(body)
        self.scopes.pop()
        self.depth -= 1
        return found

    def helper(self, function: Function, args: Sequence[Value], node: Node) -> Value:
        """Runs a function of the preamble; what cannot be run is called as it is."""
        before, scopes, part = dict(self.cells), self.scopes, self.part
        if len(args) != len(function.parameters):
            raise self.refusal(
                node, f"{function.name!r} takes {len(function.parameters)} arguments"
            )
        self.deeper(node)
        ctype = ctypes.of_words(function.type.text, self.types)
        try:
            self.scopes, self.part = [{}], "preamble"
            for parameter, value in zip(function.parameters, args, strict=True):
                self.bind(parameter.type, parameter.variable, value)
            self.cells.pop("return", None)
            self.statements(function.body)
            found = self.cells.pop("return", None)
            if found is None:
                if function.type.text.split()[-1] != "void":
                    raise self.refusal(function, f"{function.name!r} returns nothing")
                found = self.number(0, "int")
            else:
                found = self.converted(found, ctype or "", node)
        except Refusal as refusal:
            plain = [value for value in args if isinstance(value, Term)]
            if ctype is None or len(plain) < len(args):
                raise
            self.cells = before
            found = self.terms.make("call", tuple(plain), ctype, function.name)
            self.reasons.setdefault(found, refusal)
        finally:
            self.scopes, self.part = scopes, part
            self.depth -= 1
        if "return" in before:
            self.cells["return"] = before["return"]
        return found

    def bind(self, kind: Type, variable: Variable | Opaque, value: Value) -> None:
        """Gives a parameter its value."""
        if not isinstance(variable, Variable) or variable.sizes:
            raise self.refusal(variable, f"a gradient cannot be derived through {variable}")
        if variable.pointer:
            self.cells[self.new_cell(variable.name, "")] = value
            return
        ctype = ctypes.of_words(kind.text, self.types)
        if ctype is None:
            raise self.refusal(kind, f"a gradient knows types of numbers, but not {kind.text!r}")
        self.cells[self.new_cell(variable.name, ctype)] = self.converted(value, ctype, variable)

    def deeper(self, node: Node) -> None:
        """Goes into a function or a macro."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.refusal(node, "functions call each other without an end")
