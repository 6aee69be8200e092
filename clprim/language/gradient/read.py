"""Runs a snippet on terms: locals, branches, loops and functions end, what is left are formulas.

A branch is run both ways, and what it changed becomes a selection; a loop is run as often as it
would be, up to `UNROLL` times; a function of a preamble is run in its caller's place. What cannot
be run this way is refused, with its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from clprim.language.gradient import ctypes
from clprim.language.gradient.calls import BUILTIN_CONSTANTS, Calls
from clprim.language.gradient.derivatives import PREAMBLE
from clprim.language.gradient.terms import Term
from clprim.language.gradient.values import Elements, Reference, Refusal, Value, Vector
from clprim.language.lookups import lookup_of
from clprim.language.names import BUILTINS
from clprim.language.node import Node, Span
from clprim.language.snippet import RANDOM
from clprim.language.tree import (
    Assign,
    Binary,
    Block,
    Braces,
    Call,
    Cast,
    Declare,
    DoWhile,
    Evaluate,
    Expr,
    For,
    Function,
    If,
    Index,
    Jump,
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
    While,
)
from clprim.language.tree import Vector as VectorLiteral

__all__ = ["UNROLL", "Run"]

#: A loop is unrolled if it ends after so many turns.
UNROLL = 128
#: Functions call each other so deeply at most: OpenCL C has no recursion.
_DEEPEST = 32

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)$")
_ENGINE = re.compile(r"(typeof_)?(x|w|y|gx|gw|gy|reduce_y|other_y)\d+$|index$|count$|reduce_item$")
_LANES = {c: n for n, c in enumerate("xyzw")} | {f"s{c:x}": c for c in range(16)}
_LANES |= {f"s{c:X}": c for c in range(10, 16)}

# Under which condition the rest of a block is not reached, by the word that leads away.
Exits = dict[str, Term]


class Run(Calls):
    """One snippet after another, with the variables that they share.

    Args:
        calls: See `Calls`.
    """

    # Statements

    def block(self, statements: Sequence[Statement | Function]) -> Exits:
        """Runs statements in a scope of their own."""
        self.scopes.append({})
        try:
            return self.statements(statements)
        finally:
            for cell in self.scopes.pop().values():
                self.cells.pop(cell, None)

    def statements(self, statements: Sequence[Statement | Function]) -> Exits:
        """Runs statements; what follows a jump is run where the jump was not taken."""
        for n, statement in enumerate(statements):
            exits = self.statement(statement)
            if not exits:
                continue
            left = self.any_of(exits.values())
            if left.value:
                return exits
            before = dict(self.cells)
            more = self.statements(statements[n + 1 :])
            self.merge(left, before, dict(self.cells))
            stayed = self.negation(left)
            for word, reached in more.items():
                left = self.both(stayed, reached)
                exits[word] = self.either(exits[word], left) if word in exits else left
            return exits
        return {}

    def statement(self, statement: Statement | Function) -> Exits:
        """Runs a statement."""
        match statement:
            case Declare(kind, variables):
                for variable in variables:
                    self.declare(kind, variable)
            case Evaluate(value):
                self.value(value, unused=True)
            case Block(body):
                return self.block(body)
            case If(condition, then, otherwise):
                return self.branch(self.condition(condition), then, otherwise)
            case For(start, condition, step, body):
                self.scopes.append({})
                if start is not None:
                    self.statement(start)
                exits = self.loop(statement, condition, step, body)
                self.scopes.pop()
                return exits
            case While(condition, body):
                return self.loop(statement, condition, None, body)
            case DoWhile(body, condition):
                return self.loop(statement, condition, None, body, first=True)
            case Jump("return", value):
                if value is not None:
                    self.cells["return"] = self.value(value)
                return {"return": self.number(1, "int")}
            case Jump(word, _):
                return {word: self.number(1, "int")}
            case Opaque(text) if text.strip() in ("", ";"):
                pass
            case _:
                what = str(statement).split("\n", 1)[0]
                raise self.refusal(statement, f"a gradient cannot be derived through {what!r}")
        return {}

    def branch(
        self, condition: Term, then: Sequence[Statement], otherwise: Sequence[Statement]
    ) -> Exits:
        """Runs both ways, and selects what each of them left."""
        if condition.value is not None:
            return self.block(then if condition.value else otherwise)
        before = dict(self.cells)
        exits = self.block(then)
        taken, self.cells = self.cells, before
        others = self.block(otherwise)
        self.merge(condition, taken, dict(self.cells))
        found = {word: self.both(condition, c) for word, c in exits.items()}
        for word, c in others.items():
            left = self.both(self.negation(condition), c)
            found[word] = self.either(found[word], left) if word in found else left
        return found

    def loop(
        self,
        statement: Node,
        condition: Expr | None,
        step: Expr | None,
        body: Sequence[Statement],
        *,
        first: bool = False,
    ) -> Exits:
        """Runs a loop turn by turn; a turn that only some elements take is selected for them."""
        if len(self.scopes) > _DEEPEST * 4:
            raise self.refusal(statement, "loops and functions nest too deep")
        left: list[tuple[Term, dict[str, Value | None]]] = []
        reached = self.number(1, "int")
        returned: Exits = {}
        for turn in range(UNROLL + 1):
            if condition is not None and not (first and turn == 0):
                going = self.condition(condition)
                if going.value == 0:
                    return self.leave(left, returned)
                if going.value is None:
                    left.append((self.negation(going), dict(self.cells)))
                    reached = self.both(reached, going)
            if turn == UNROLL:
                break
            exits = self.block(body)
            stopped = self.any_of(exits[w] for w in ("break", "return") if w in exits)
            if "return" in exits:
                taken, known = self.both(reached, exits["return"]), returned.get("return")
                returned["return"] = taken if known is None else self.either(known, taken)
            if stopped.value != 0:
                left.append((stopped, dict(self.cells)))
                if stopped.value:
                    return self.leave(left, returned)
                stayed = self.negation(stopped)
                reached = self.both(reached, stayed)
                self.cells = {c: self.known_as(stayed, v) for c, v in self.cells.items()}
            if step is not None:
                self.value(step, unused=True)
        raise self.refusal(
            statement,
            f"a gradient needs a loop that surely ends after {UNROLL} turns, a number known when "
            'it is defined; write for (int i = 0; i < 8; i++), or give gradient="…" by hand',
        )

    def leave(self, left: Sequence[tuple[Term, dict[str, Value | None]]], exits: Exits) -> Exits:
        """Ends a loop that some elements left earlier, with what they had then."""
        for condition, cells in reversed(left):
            self.merge(condition, cells, dict(self.cells))
        return exits

    def declare(self, kind: Type, variable: Variable | Opaque) -> None:
        """Runs a declaration of one name."""
        ctype = ctypes.of_words(kind.text, self.types)
        if not isinstance(variable, Variable):
            raise self.refusal(variable, f"a gradient cannot be derived through {variable}")
        if variable.pointer:
            value = None if variable.value is None else self.value(variable.value)
            self.cells[self.new_cell(variable.name, "")] = value
            return
        if ctype is None:
            raise self.refusal(
                variable, f"a gradient knows types of numbers, but not {kind.text!r}"
            )
        if variable.sizes:
            self.declare_array(variable, ctype)
            return
        value = None
        if variable.value is not None:
            value = self.converted(self.value(variable.value), ctype, variable)
            self.hint(value, variable.name)
        self.cells[self.new_cell(variable.name, ctype)] = value

    def declare_array(self, variable: Variable, ctype: str) -> None:
        """Runs ``float a[3] = {1, 2};``."""
        given: list[Value] = []
        if variable.value is not None:
            if not isinstance(variable.value, Braces):
                raise self.refusal(variable, "an array starts with values in braces")
            given = [
                self.converted(self.value(v), ctype, variable) for v in variable.value.elements
            ]
        if len(variable.sizes) != 1:
            raise self.refusal(variable, "a gradient knows arrays of one dimension")
        size: float | int | None = len(given)
        if str(variable.sizes[0]):
            size = self.term(variable.sizes[0]).value
        if size is None or not 0 < size <= 4 * UNROLL:
            raise self.refusal(
                variable, f"a gradient knows arrays of at most {4 * UNROLL} elements"
            )
        rest: Value | None = self.zero_of(ctype) if given else None
        filled = (*given, *[rest] * (int(size) - len(given)))
        self.cells[self.new_cell(variable.name, ctype)] = Elements(ctype, filled)

    def merge(
        self, condition: Term, a: Mapping[str, Value | None], b: Mapping[str, Value | None]
    ) -> None:
        """Makes every variable what it is in ``a`` where the condition holds, else as in ``b``."""
        if condition.value is not None:
            self.cells = dict(a if condition.value else b)
            return
        self.cells = {
            cell: self.either_value(condition, a.get(cell), b.get(cell))
            for cell in dict.fromkeys((*a, *b))
        }

    # Expressions

    def term(self, node: Expr) -> Term:
        """The value of an expression that is a number."""
        value = self.value(node)
        if not isinstance(value, Term):
            raise self.refusal(node, f"expected a number, got {node}")
        return value

    def condition(self, node: Expr) -> Term:
        """An expression as the condition that it is not 0."""
        return self.truth(self.term(node))

    def value(self, node: Expr, *, unused: bool = False) -> Value:
        """Runs an expression."""
        match node:
            case Number(text):
                return self.literal(text)
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
                return self.both(self.condition(a), self.condition(b))
            case Binary("||", a, b):
                return self.either(self.condition(a), self.condition(b))
            case Binary("?:", a, b):
                value = self.term(a)
                return self.selected(self.truth(value), value, self.value(b), node)
            case Binary(op, a, b):
                return self.binary(op, self.value(a), self.value(b), node)
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

    def literal(self, text: str) -> Term:
        """``2``, ``0x1Fu``, ``1.5f``."""
        whole = _INTEGER.match(text)
        if whole:
            base = 8 if text[0] == "0" and whole[1].isdigit() and len(whole[1]) > 1 else 0
            suffix = whole[2].lower()
            value = int(whole[1], base)
            ctype = ("u" if "u" in suffix else "") + ("long" if "l" in suffix else "int")
            if ctype == "int" and value >= 2**31:
                ctype = "long" if value < 2**63 else "ulong"
            return self.number(value, ctype, text)
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
                here = self.compare("==", place, self.number(n, "int"))
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
                here = self.compare("==", place, self.number(n, "int"))
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
        ctype = ctypes.of_words(function.type.text.replace("inline", ""), self.types)
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
        if self.depth > _DEEPEST:
            raise self.refusal(node, "functions call each other without an end")

    def refusal(self, node: Node, problem: str) -> Refusal:
        """Says what cannot be differentiated, and where it stands."""
        return Refusal(problem, node.span if isinstance(node.span, Span) else Span(0, 0), self.part)
