"""Reads the types and the expressions of OpenCL C into a tree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import NoReturn

from clprim.language.cursor import DEEPEST, Cursor, Fault
from clprim.language.names import BUILTINS, STORAGE, is_vector_type
from clprim.language.node import Node, Span
from clprim.language.tree import (
    ASSIGNMENT,
    CONDITIONAL,
    STRENGTH,
    Assign,
    Binary,
    Block,
    Braces,
    Call,
    Cast,
    Expr,
    Index,
    Member,
    Name,
    Number,
    Opaque,
    Parameter,
    Postfix,
    String,
    Ternary,
    Type,
    Unary,
    Variable,
    Vector,
)

_ASSIGNING = frozenset("= += -= *= /= %= &= |= ^= <<= >>=".split())
_STRENGTH = {**STRENGTH, **dict.fromkeys(_ASSIGNING, ASSIGNMENT), "?": CONDITIONAL}
_PREFIX = frozenset("+ - ! ~ * & ++ --".split())
_COMPOUND = frozenset(["struct", "union", "enum"])
_NO_TYPE = STORAGE | {"const", "volatile", "restrict", "typedef"}  # before or after one


class Expressions(Cursor, ABC):
    """Types and expressions; brackets nest by recursion, chains of operators do not."""

    @abstractmethod
    def block(self) -> Block:
        """Statements in braces: a value, where parentheses are around."""

    # Types

    def type(self) -> Type:
        """``const unsigned int``, ``struct pair``, and the like."""
        start, complete = self.at, False
        words: list[str] = []
        parts: list[Node] = []
        declares: list[str] = []
        while True:
            first = self.at
            if self.text in _COMPOUND:
                self.compound(parts, declares)
                complete = True
            elif self.take("__typeof__"):
                self.expect("(")
                parts.append(self.type_name() if self.is_type() else self.expression())
                self.expect(")", "an operator or ")
                complete = True
            elif self.text in _NO_TYPE:
                self.at += 1
            elif self.is_type() and not (complete and self.text in self.words.types):
                self.at += 1
                complete = True
            else:
                break
            words.append(self.source(first))
        if self.at == start:
            self.fail("a type")
        return Type(" ".join(words), tuple(parts), tuple(declares), span=self.span(start))

    def type_name(self) -> Type:
        """A type that stands alone, in parentheses: ``float *``."""
        start = self.at
        found = self.type()
        if self.text in (")", ","):
            return found
        declared = self.declarator(named=False)
        sizes = declared.sizes if isinstance(declared, Variable) else declared.parts
        parts = (*found.parts, *(size for size in sizes if size != Opaque("")))
        return Type(f"{found.text} {declared}", parts, found.declares, span=self.span(start))

    def compound(self, parts: list[Node], declares: list[str]) -> None:
        """``struct pair``, ``struct pair { float a, b; }``, ``enum { some, more = 3 }``."""
        enum = self.text == "enum"
        self.at += 1
        if self.is_name or self.text in self.words.types:
            self.at += 1
        if not self.take("{"):
            return
        while self.text != "}":
            if not enum:
                self.members(parts)
                continue
            declares.append(self.expect_name())
            if self.take("="):
                parts.append(self.expression(CONDITIONAL))
            if not self.take(","):
                break
        self.expect("}", "',' or " if enum else "")

    def members(self, parts: list[Node]) -> None:
        """``float a, *b;``, ``int bits : 3;``."""
        parts.extend(self.type().parts)
        while self.text != ";":
            if self.text != ":":
                declared = self.declarator()
                parts.extend(declared.sizes if isinstance(declared, Variable) else ())
            if self.take(":"):
                parts.append(self.expression(CONDITIONAL))
            if not self.take(","):
                break
        self.expect(";")

    def declarator(self, *, named: bool = True) -> Variable | Opaque:
        """What follows a type: stars, a name if there must be one, sizes, parameters."""
        self.deeper()
        start, place, name, plain = self.at, self.at, "", True
        sizes: list[Expr] = []
        while self.text == "*" or self.text in _NO_TYPE:
            self.at += 1
        pointer = self.source(start) if self.at > start else ""
        if self.text == "(" and (named or self.texts[self.at + 1] in ("*", "(", "[")):
            self.at += 1
            inner = self.declarator(named=named)
            name = inner.name if isinstance(inner, Variable) else "".join(inner.declares)
            self.expect(")")
            plain = False
        elif self.is_name:
            place, name = self.at, self.expect_name()
        elif named:
            self.fail("a name")
        while self.text in ("[", "("):
            if self.take("("):
                self.parameters()
                self.expect(")", "',' or ")
                plain = False
                continue
            self.at += 1
            while self.text in _NO_TYPE:
                self.at += 1
            sizes.append(Opaque("") if self.text == "]" else self.expression(ASSIGNMENT))
            self.expect("]", "an operator or ")
        self.depth -= 1
        if plain:
            span = self.tokens[place].span if name else self.span(start)
            space = " " if name and pointer[-1:].isalpha() else ""
            return Variable(name, tuple(sizes), None, pointer + space, span=span)
        text = self.source(start)
        return Opaque(text, tuple(sizes), (name,) if name else (), span=self.span(start))

    def parameters(self) -> tuple[Parameter, ...]:
        """``float a, float *``."""
        found: list[Parameter] = []
        while self.text != ")":
            start = self.at
            kind = self.type()
            variable = self.declarator(named=False) if self.text not in (")", ",") else Variable("")
            found.append(Parameter(kind, variable, span=self.span(start)))
            if not self.take(","):
                break
        return tuple(found)

    def initialised(self, variable: Variable | Opaque, start: int) -> Variable | Opaque:
        """A declared name with what follows ``=``."""
        if not self.take("="):
            return variable
        value = self.braces() if self.text == "{" else self.expression(ASSIGNMENT)
        if isinstance(variable, Variable):
            return replace(variable, value=value)
        parts = (*variable.parts, value)
        return Opaque(self.source(start), parts, variable.declares, span=self.span(start))

    def braces(self) -> Braces:
        """``{1, 2}``, ``{.a = 1, [3] = 2,}``."""
        self.deeper()
        first = self.at
        elements: list[Expr] = []
        self.expect("{")
        while self.text != "}":
            start = self.at
            places: list[Expr] = []
            while self.text in (".", "["):
                if self.take("."):
                    self.expect_name()
                else:
                    self.at += 1
                    places.append(self.expression(CONDITIONAL))
                    self.expect("]", "an operator or ")
            if designated := self.at > start:
                self.expect("=")
            value = self.braces() if self.text == "{" else self.expression(ASSIGNMENT)
            if designated:
                value = Opaque(self.source(start), (*places, value), span=self.span(start))
            elements.append(value)
            if not self.take(","):
                break
        self.expect("}", "an operator, ',' or ")
        self.depth -= 1
        return Braces(tuple(elements), span=self.span(first))

    # Expressions

    def expression(self, least: int = 1) -> Expr:
        """``a + b, c``; operators that bind less than ``least`` end it."""
        self.deeper()
        # Operands with the numbers of their first token and of the one behind their last.
        values: list[tuple[int, Expr, int]] = [(self.at, self.operand(), self.at)]
        waiting: list[tuple[int, str, Expr | None]] = []
        while (strength := _STRENGTH.get(self.text, 0)) >= least:
            op, middle = self.text, None
            from_the_right = strength in (ASSIGNMENT, CONDITIONAL)
            while waiting and waiting[-1][0] >= strength + from_the_right:
                self.join(values, waiting)
            self.at += 1
            if op == "?":
                if self.text != ":":  # a ?: b is a ? a : b
                    middle = self.expression()
                self.expect(":", "an operator or ")
            waiting.append((strength, op, middle))
            values.append((self.at, self.operand(), self.at))
        while waiting:
            self.join(values, waiting)
        self.depth -= 1
        return values[0][1]

    def join(
        self, values: list[tuple[int, Expr, int]], waiting: list[tuple[int, str, Expr | None]]
    ) -> None:
        """Makes one of the last two operands."""
        (start, a, _), (_, b, end) = values[-2], values.pop()
        _, op, middle = waiting.pop()
        span = Span(self.tokens[start].start, self.tokens[end - 1].end)
        found: Expr
        if op == "?":
            found = Ternary(a, middle, b, span=span) if middle else Binary("?:", a, b, span=span)
        elif op in _ASSIGNING:
            found = Assign(a, op, b, span=span)
        else:
            found = Binary(op, a, b, span=span)
        values[-1] = (start, found, end)

    def operand(self) -> Expr:
        """A value with what stands before and after it: ``-a[1]``, ``(float)f(a).x``."""
        before: list[tuple[int, str | Type]] = []
        value: Expr | None = None
        while value is None:
            if len(before) > DEEPEST:
                raise self.too_deep()
            start = self.at
            if self.text in _PREFIX:
                before.append((start, self.text))
                self.at += 1
            elif self.text == "sizeof" and not (self.texts[start + 1] == "(" and self.is_type(2)):
                before.append((start, "sizeof"))
                self.at += 1
            elif self.take("sizeof"):
                self.at += 1
                kind = self.type_name()
                self.expect(")")
                value = Unary("sizeof", kind, span=self.span(start))
            elif self.text == "(" and self.is_type(1):
                self.at += 1
                kind = self.type_name()
                self.expect(")")
                if self.text == "{":
                    braces = self.braces()
                    value = self.suffixes(start, Cast(kind, braces, span=self.span(start)))
                elif self.is_vector_of(kind):
                    value = self.vector(start, kind)
                else:
                    before.append((start, kind))
            else:
                value = self.value()
        for start, op in reversed(before):
            span = self.span(start)
            value = (
                Unary(op, value, span=span) if isinstance(op, str) else Cast(op, value, span=span)
            )
        return value

    def is_vector_of(self, kind: Type) -> bool:
        """Whether elements of a vector come; ``(float4)(int)a`` is a cast of a cast."""
        inside = self.text == "(" and self.texts[self.at + 1] != "{" and not self.is_type(1)
        return inside and is_vector_type(kind.text)

    def vector(self, start: int, kind: Type) -> Expr:
        """``(float4)(a, b, c, d)``, ``(float4)(a)``."""
        first = self.at
        elements = self.listed("")
        if len(elements) > 1:
            return self.suffixes(start, Vector(kind, elements, span=self.span(start)))
        if not elements:
            self.at -= 1
            self.fail_value()
        value = self.suffixes(first, elements[0])
        return Cast(kind, value, span=self.span(start))

    def value(self) -> Expr:
        """A name, a literal or what is in parentheses, with what follows it."""
        start, text, kind = self.at, self.text, self.kind
        found: Expr
        if text == "(" and self.texts[start + 1] == "{":  # the value of a block's last statement
            self.at += 1
            block = self.block()
            self.expect(")")
            found = Opaque(self.source(start), (block,), span=self.span(start))
        elif self.take("("):
            found = self.expression()
            self.expect(")", "an operator or ")
        elif kind == "number":
            self.at += 1
            found = Number(text, span=self.span(start))
            if self.text != "[":  # 2[p] is p[2]
                return found
        elif kind == "string":
            while self.kind == "string":
                self.at += 1
            found = String(self.source(start), span=self.span(start))
        elif self.is_name:
            self.at += 1
            opaque = text in self.words.opaque
            found = (Opaque if opaque else Name)(text, span=self.span(start))
        else:
            self.fail_value()
        return self.suffixes(start, found)

    def fail_value(self) -> NoReturn:
        """Points at what lacks its value."""
        before = self.texts[self.at - 1] if self.at else ""
        if self.is_type() and self.texts[self.at + 1] == "(":
            raise Fault(
                self.at, f"{self.text!r} is a type: values are converted by ({self.text})(…)"
            )
        if not before or before in ";{})":
            self.fail("a value")
        raise Fault(self.at - 1, f"expected a value after {before!r}")

    def suffixes(self, start: int, value: Expr) -> Expr:
        """A value with ``(a)``, ``[1]``, ``.x``, ``->x``, ``++``, ``--``."""
        while True:
            op = self.text
            if op == "(":
                function = self.texts[start] if isinstance(value, Name) else ""
                value = self.called(start, value, self.listed(function))
            elif op == "[":
                self.at += 1
                place = self.expression()
                self.expect("]", "an operator or ")
                value = Index(value, place, span=self.span(start))
            elif op in (".", "->") and self.texts[self.at + 1] != ".":  # case a ... b:
                self.at += 1
                name = self.expect_name()
                value = Member(value, op, name, span=self.span(start))
            elif op in ("++", "--"):
                self.at += 1
                value = Postfix(op, value, span=self.span(start))
            else:
                return value

    def called(self, start: int, function: Expr, args: tuple[Expr, ...]) -> Expr:
        """``f(a)``; what is called without a name, or may be anything, is opaque."""
        if isinstance(function, Name):
            return Call(function.text, args, span=self.span(start))
        parts = (*function.parts, *args) if isinstance(function, Opaque) else (function, *args)
        return Opaque(self.source(start), parts, span=self.span(start))

    def listed(self, function: str) -> tuple[Expr, ...]:
        """``(a, b)``; a helper may be called with nothing, and with a type."""
        helper = function in self.words.names
        self.at += 1
        if self.text == ")" and function in BUILTINS and not helper:
            raise Fault(self.at - 2, f"{function!r} is called with nothing")
        found: list[Expr] = []
        while self.text != ")":
            is_type = helper and self.is_type()
            found.append(self.type_name() if is_type else self.expression(ASSIGNMENT))
            if not self.take(","):
                break
            if self.text == ")":
                self.fail_value()
        self.expect(")", "an operator, ',' or ")
        return tuple(found)
