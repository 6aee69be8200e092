"""Recognises the types and the expressions of C.

Precedence does not matter where nothing is computed: an expression is operands with operators
between them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from clprim.language.cursor import Cursor, Fault
from clprim.language.names import BUILTINS

__all__ = ["Expressions"]

_ASSIGNING = frozenset("= += -= *= /= %= &= |= ^= <<= >>=".split())
_BINARY = frozenset("* / % + - << >> < > <= >= == != & ^ | && ||".split())
_PREFIX = frozenset("+ - ! ~ * & ++ --".split())
_COMPOUND = frozenset(["struct", "union", "enum"])
_NO_TYPE = frozenset(["const", "volatile", "restrict", "typedef"])  # before or after one


class Expressions(Cursor, ABC):
    """Walks over types and expressions, as far as they are C."""

    @abstractmethod
    def block(self) -> None:
        """Statements in braces: a value, where parentheses are around."""

    # Types

    def type_names(self) -> None:
        """``const unsigned int``, ``struct pair``, and the like."""
        start, complete = self.at, False
        while True:
            if self.text in _COMPOUND:
                self.compound()
                complete = True
            elif self.take("__typeof__"):
                self.expect("(")
                self.type_or(self.expression)
                self.expect(")", "an operator or ")
                complete = True
            elif self.text in _NO_TYPE:
                self.at += 1
            elif self.is_type() or (not complete and self.text in self.maybe_types):
                self.at += 1
                complete = True
            else:
                break
        if self.at == start:
            self.fail("a type")

    def compound(self) -> None:
        """``struct pair``, ``struct pair { float a, b; }``, ``enum { some, more = 3 }``."""
        enum = self.text == "enum"
        self.at += 1
        if self.is_name:
            self.at += 1
        if not self.take("{"):
            return
        while self.text != "}":
            if enum:
                self.expect_name()
                if self.take("="):
                    self.conditional()
                if not self.take(","):
                    break
            else:
                self.members()
        self.expect("}", "',' or " if enum else "")

    def members(self) -> None:
        """``float a, *b;``, ``int bits : 3;``."""
        self.type_names()
        while self.text != ";":
            if self.text != ":":
                self.declarator()
            if self.take(":"):
                self.conditional()
            if not self.take(","):
                break
        self.expect(";")

    def declarator(self, *, named: bool = True) -> None:
        """What follows a type: stars, a name if there must be one, sizes, parameters."""
        while self.text == "*" or self.text in _NO_TYPE:
            self.at += 1
        if self.text == "(" and (named or self.texts[self.at + 1] in ("*", "(", "[")):
            self.at += 1
            self.declarator(named=named)
            self.expect(")")
        elif self.is_name:
            self.at += 1
        elif named:
            self.fail("a name")
        while self.text in ("[", "("):
            if self.take("("):
                self.parameters()
                self.expect(")", "',' or ")
                continue
            self.at += 1
            while self.text in _NO_TYPE:
                self.at += 1
            if self.text != "]":
                self.assignment()
            self.expect("]", "an operator or ")

    def parameters(self) -> None:
        """``float a, float *``."""
        while self.text != ")":
            self.type_names()
            self.declarator(named=False)
            if not self.take(","):
                return

    def initialiser(self) -> None:
        """What follows ``=`` in a declaration."""
        if self.text == "{":
            self.braces()
        else:
            self.assignment()

    def braces(self) -> None:
        """``{1, 2}``, ``{.a = 1, [3] = 2,}``."""
        self.expect("{")
        while self.text != "}":
            designated = self.text in (".", "[")
            while self.text in (".", "["):
                if self.take("."):
                    self.expect_name()
                else:
                    self.at += 1
                    self.conditional()
                    self.expect("]", "an operator or ")
            if designated:
                self.expect("=")
            self.initialiser()
            if not self.take(","):
                break
        self.expect("}", "an operator, ',' or ")

    # Expressions

    def expression(self) -> None:
        """``a, b``."""
        self.assignment()
        while self.take(","):
            self.assignment()

    def assignment(self) -> None:
        """``a = b``, or what could be assigned."""
        self.conditional()
        while self.text in _ASSIGNING:
            self.at += 1
            self.conditional()

    def conditional(self) -> None:
        """``a ? b : c``, or a condition."""
        self.operands()
        while self.take("?"):
            if self.text != ":":  # a ?: b is a ? a : b
                self.expression()
            self.expect(":", "an operator or ")
            self.operands()

    def operands(self) -> None:
        """``a + b * c``."""
        self.operand()
        while self.text in _BINARY:
            self.at += 1
            self.operand()

    def operand(self) -> None:
        """A value with what stands before and after it: ``-a[1]``, ``(float)f(a).x``."""
        while self.text in _PREFIX:
            self.at += 1
        if self.take("sizeof"):
            size_of_a_type = partial(self.cast, then=lambda: None)
            if self.text == "(" and self.is_type(1):
                size_of_a_type()
            else:
                self.either(self.operand, size_of_a_type)
        elif self.text == "(":
            self.parenthesised()
        elif self.kind == "number":
            self.at += 1
            if self.text == "[":  # 2[p] is p[2]
                self.suffixes()
        elif self.kind == "string":
            while self.kind == "string":
                self.at += 1
            self.suffixes()
        elif self.is_name:
            self.at += 1
            self.suffixes()
        else:
            self.fail_value()

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

    def parenthesised(self) -> None:
        """``(a)``, or a cast with its operand."""
        if self.texts[self.at + 1] == "{":  # the value of a block's last statement
            self.at += 1
            self.block()
            self.expect(")")
            self.suffixes()
        elif self.is_type(1):
            self.cast(then=self.operand)
        elif self.texts[self.at + 1] in self.maybe_types:
            self.either(lambda: self.cast(then=self.operand), self.group)
        else:
            self.group()

    def group(self) -> None:
        """``(a)``."""
        self.expect("(")
        self.expression()
        self.expect(")", "an operator or ")
        self.suffixes()

    def cast(self, *, then: Callable[[], None]) -> None:
        """``(type)`` and its operand, or the braces of a value of that type."""
        self.expect("(")
        self.type_names()
        self.declarator(named=False)
        self.expect(")")
        if self.text == "{":
            self.braces()
            self.suffixes()
        else:
            then()

    def suffixes(self) -> None:
        """``(a)``, ``[1]``, ``.x``, ``->x``, ``++``, ``--``."""
        while True:
            match self.text:
                case "(":
                    self.arguments(self.texts[self.at - 1])
                case "[":
                    self.at += 1
                    self.expression()
                    self.expect("]", "an operator or ")
                case "." | "->":
                    self.at += 1
                    self.expect_name()
                case "++" | "--":
                    self.at += 1
                case _:
                    return

    def arguments(self, function: str) -> None:
        """``(a, b)``; a helper may be called with nothing, and with a type."""
        self.at += 1
        helper = function in self.helpers
        if self.text == ")" and function in BUILTINS and not helper:
            raise Fault(self.at - 2, f"{function!r} is called with nothing")
        while self.text != ")":
            if helper:
                self.type_or(self.assignment)
            else:
                self.assignment()
            if not self.take(","):
                break
            if self.text == ")":
                self.fail_value()
        self.expect(")", "an operator, ',' or ")

    def type_or(self, other: Callable[[], None]) -> None:
        """A type, or something else."""

        def a_type() -> None:
            self.type_names()
            self.declarator(named=False)

        if self.is_type():
            a_type()
        elif self.text in self.maybe_types:
            self.either(other, a_type)
        else:
            other()
