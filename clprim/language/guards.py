"""Where C leaves open what comes of an integer that a snippet computes, NumPy's answer is printed.

By zero comes 0, of quotients and of remainders, and the least number by -1 is itself with a
remainder of 0. Devices do what they like there, and processors end the process. A division of
integers whose divisor may be 0 or -1 is printed as ``cp_divide((a), (b))`` or
``cp_modulo((a), (b))``.

A real number that its integer cannot hold wraps as docs/language.md says; vectors of some devices
hold its ends instead, and what is left of a row does not. So where a real number becomes an
integer ``cp_convert_uchar(…)`` is printed, and so on, in the place of its conversion.

Templates define these; all else stays as the user wrote it. So do preambles, and what has a type
that only they know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from clprim.language import names
from clprim.language.gradient import ctypes
from clprim.language.lookups import lookup_of
from clprim.language.node import Node, fold, walk
from clprim.language.operands import PER_DIMENSION, POSITIONS, without_prefix
from clprim.language.snippet import Snippet
from clprim.language.tree import (
    Assign,
    Binary,
    Call,
    Case,
    Cast,
    Declare,
    Expr,
    Index,
    Member,
    Name,
    Number,
    Postfix,
    String,
    Ternary,
    Type,
    Unary,
    Variable,
    Vector,
    children,
    rewrite,
)

#: What a type of operands is known by: an operand or its family.
Types = tuple[tuple[str, str], ...]

DIVISIONS = {"/": "cp_divide", "%": "cp_modulo"}
# Without one of these, or an operand of integers, there is nothing to be guarded.
_TELLING = frozenset(["/", "%", "/=", "%=", *ctypes.OF_INTEGERS])
_DECIMAL = re.compile(r"\d*\.\d|\d+\.|\d+[eE]|\d+[fF]$")
_ANSWERS = frozenset("< > <= >= == != && ||".split())
# Functions of integers as of floats, whose result has the type in which the arguments meet.
_ALIKE = frozenset(
    "max min clamp abs abs_diff add_sat sub_sat hadd rhadd mul24 mad24 mad_hi mul_hi mad_sat "
    "rotate popcount clz ctz select bitselect".split()
)
_COUNTS = frozenset(
    "ilogb isequal isnotequal isgreater isgreaterequal isless islessequal islessgreater isfinite "
    "isinf isnan isnormal isordered isunordered signbit any all".split()
)
_WHOLE = re.compile(
    r"(CHAR|SCHAR|UCHAR|SHRT|USHRT|INT|UINT|LONG|ULONG)_(BIT|MAX|MIN)$|true$|false$"
)
# Divisors up to which a type, of any width or of 32 bits, makes no other number of them.
_NARROW, _WIDE = 127, 2**31 - 1


@lru_cache(maxsize=1024)
def guarded(snippet: Snippet, types: Types) -> tuple[str, tuple[str, ...]]:
    """Returns what is printed of a snippet, and what that needs, as `KernelCode.guards`."""
    if not any(ctypes.is_whole(kind) for _, kind in types) and not any(
        t.text in _TELLING or ctypes.is_whole(ctypes.convert_target(t.text) or t.text)
        for t in snippet.tokens
    ):
        return snippet.body, ()
    reader = Reader(snippet, dict(types))
    edits, guards = reader.edits()
    if not guards:
        return snippet.body, ()
    return snippet.edited(edits), tuple(sorted(guards))


class Reader:
    """The types of a snippet's expressions, as far as they are known without its preamble."""

    def __init__(self, snippet: Snippet, types: dict[str, str]) -> None:
        self.snippet = snippet
        self.operands = types
        self.arrays: set[str] = set()
        self.locals = self._locals()

    def _locals(self) -> dict[str, str | None]:
        """Types of locals, of arrays those of elements; None of a name that several have."""
        found: dict[str, str | None] = {}
        for node in walk(self.snippet.tree):
            if isinstance(node, Declare):
                kind = self.of_words(node.type.text)
                for v in node.variables:
                    if isinstance(v, Variable):
                        own = None if v.pointer else kind
                        self.arrays |= {v.name} if v.sizes else set()
                        found[v.name] = own if found.get(v.name, own) == own else None
        return found

    def operand(self, name: str) -> str | None:
        """The type of an operand."""
        return self.operands.get(name) or self.operands.get(name.rstrip("0123456789"))

    def of_words(self, text: str) -> str | None:
        """The type that words stand for."""
        known = {}
        for word in text.split():
            if word.startswith("typeof_"):
                operand = word.removeprefix("typeof_")
                known[operand] = self.operand(operand) or ""
        return ctypes.of_words(text, known) or None

    def edits(self) -> tuple[list[tuple[int, int, str]], set[str]]:
        """Returns (start, end, text) to be put in the places of the snippet's, and the guards."""
        begins: list[tuple[int, int, str]] = []
        ends: list[tuple[int, int, str]] = []
        guards: set[str] = set()
        for node in self.computed():
            match node:
                case Binary("/" | "%" as op, a, b) if kind := self.divided(a, b):
                    parts = f"{DIVISIONS[op]}((", "), (", "))"
                case Assign(a, "/=" | "%=" as op, b) if kind := self.divided(a, b):
                    parts = self.assigned(a, f"{DIVISIONS[op[0]]}(", ",")
                case Assign(a, "+=" | "-=" | "*=" | "/=" as op, b) if kind := self.converted(
                    self.kind(a), b
                ):
                    parts = self.assigned(a, f"cp_{kind}(", f" {op[0]}")
                case Call(function, (b,)) if self.converted(ctypes.convert_target(function), b):
                    guards.add(function)
                    begins.append((node.span.start, node.span.start, "cp_"))
                    continue
                case _:
                    for of, b in self.given(node):
                        if kind := self.converted(of, b):
                            guards.add(kind)
                            start, end = self.snippet.operand(b.span)
                            begins.append((start, start, f"cp_{kind}("))
                            ends.append((end, end, ")"))
                    continue
            guards.add(kind)
            start, before, after, end = self.snippet.operands(a.span, op, b.span)
            begins += [(start, start, parts[0]), (before, after, parts[1])]
            ends.append((end, end, parts[2]))
        # What begins last ends first.
        return begins + ends[::-1], guards

    def computed(self) -> Iterator[Node]:
        """Yields what is computed while a kernel runs: no sizes of arrays, no labels."""
        ahead: list[Node] = [self.snippet.tree]
        while ahead:
            node = ahead.pop()
            yield node
            below = children(node)
            if isinstance(node, Case | Type):
                below = []
            elif isinstance(node, Variable):
                below = [] if node.value is None else [node.value]
            ahead.extend(reversed(below))

    def given(self, node: Node) -> list[tuple[str | None, Expr]]:
        """The values that become others of a type where they are computed, with that type."""
        match node:
            case Assign(a, "=", b):
                return [(self.kind(a), b)]
            case Cast(Type(text), b):
                return [(self.of_words(text), b)]
            case Vector(Type(text), elements):
                return [(self.of_words(text), b) for b in elements]
            case Declare(Type(text), variables):
                of = self.of_words(text)
                found = [v for v in variables if isinstance(v, Variable) and not v.pointer]
                return [(of, v.value) for v in found if v.value is not None]
        return []

    def converted(self, to: str | None, value: Expr) -> str | None:
        """The function that makes a type's integers of a value; None where it is not real."""
        kind = self.kind(value) if to and ctypes.is_whole(to) else None
        if to is None or kind is None:
            return None
        base, width = ctypes.split_vector(kind)
        whole = ctypes.split_vector(to)[0]
        return f"convert_{whole}{width if width > 1 else ''}" if ctypes.is_real(base) else None

    def assigned(self, target: Expr, function: str, op: str) -> tuple[str, str, str]:
        """What stands before a target, for ``/=`` and behind the value."""
        if any(isinstance(n, Assign | Postfix | Call | Cast) or _changes(n) for n in walk(target)):
            begin = "({ __auto_type cp_to = &("  # what is changed on the way is changed once
            return begin, f"); *cp_to = {function}(*cp_to){op} (", ")); })"
        again = str(rewrite(target, self.called))
        return "", f" = {function}({again}){op} (", "))"

    def called(self, node: Node) -> Node:
        """A node with its own division as a call."""
        match node:
            case Binary("/" | "%" as op, a, b) if self.divided(a, b):
                return Call(DIVISIONS[op], (a, b))
        return node

    def divided(self, a: Expr, b: Expr) -> str | None:
        """The type in which one is divided by the other; None where nothing can go wrong."""
        kind = _met([self.kind(a), self.kind(b)])
        if kind is None or ctypes.is_real(ctypes.split_vector(kind)[0]):
            return None
        narrow = ctypes.split_vector(kind)[0].lstrip("u") in ("char", "short")
        return None if _is_harmless(b, _NARROW if narrow else _WIDE) else kind

    def kind(self, value: Expr) -> str | None:
        """The type of an expression; None where it is not known here."""
        return fold(value, self.kind_of)

    def kind_of(self, node: Node, given: Sequence[str | None]) -> str | None:
        """Likewise, of a node whose operands have these types."""
        match node:
            case Number(text):
                return _of_number(text)
            case String():
                return "int"
            case Name(text):
                return self.name(text)
            case Type(text):
                return self.of_words(text)
            case Unary("!" | "sizeof"):
                return "int" if node.op == "!" else "ulong"
            case Unary("++" | "--") | Postfix():
                return given[0]
            case Unary("-" | "+" | "~"):
                return _met(given)
            case Binary(",", _, _):
                return given[1]
            case Binary("<<" | ">>"):
                return _met(given[:1])
            case Binary(op):
                together = _met(given)
                return _answer(together) if op in _ANSWERS else together
            case Index(Name(text)) if text in self.arrays:
                return given[0]
            case Index():
                return None if given[0] is None else ctypes.split_vector(given[0])[0]
            case Assign():
                return given[0]
            case Member(_, ".", name):
                return _of_member(given[0], name)
            case Ternary():
                return _met(given[1:])
            case Cast() | Vector():
                return given[0]
            case Call(function):
                return self.call(function, given)
        return None

    def name(self, text: str) -> str | None:
        """The type of a variable or a constant."""
        if text in self.locals:
            return self.locals[text]
        if text in POSITIONS:
            return self.operands.get(text, "long")
        if text in names.BUILTINS and text not in self.snippet.preamble.names:
            return "long" if _WHOLE.match(text) else "float"
        return self.operand(without_prefix(text))

    def call(self, function: str, given: Sequence[str | None]) -> str | None:
        """The type of what a function returns."""
        lookup = lookup_of(function)
        if lookup is not None:
            return self.operand(f"x{lookup[1]}") if lookup[0] == "at" else "long"
        own = self.snippet.preamble.functions.get(function)
        if own is not None:
            return self.of_words(own.type.text)
        if function in self.snippet.preamble.names:
            return None
        if function in PER_DIMENSION or function == "randint":
            return "long"
        if function in ("rand", "randn"):
            return "float"
        if function.startswith("as_"):
            return self.of_words(function.removeprefix("as_"))
        converted = ctypes.convert_target(function)
        if converted is not None:
            return converted
        together = _met(given)
        if function in _ALIKE:
            return together
        if function in _COUNTS:
            return _answer(together)
        return "float" if function in names.FUNCTIONS else None


def _changes(node: Node) -> bool:
    return isinstance(node, Unary) and node.op in ("++", "--")


def _is_harmless(divisor: Expr, most: int) -> bool:
    """Whether a divisor is a constant but 0 and -1, in whatever type."""
    match divisor:
        case Cast(Type(), a):
            return _is_harmless(a, _NARROW)
        case Unary("+", a):
            return _is_harmless(a, most)
        case Unary("-", Number(text)):
            return 1 < _number(text) <= most
        case Number(text):
            return 0 < _number(text) <= most
    return False


def _number(text: str) -> int:
    """The value of an integer's literal; 0 of others, and where a type may make another of it."""
    digits = text.rstrip("uUlL")
    try:
        value = int(digits, 16 if digits[:2] in ("0x", "0X") else 10)
    except ValueError:
        return 0
    return value if value <= _WIDE else 0


def _of_number(text: str) -> str:
    hexadecimal = text[:2] in ("0x", "0X")
    if "p" in text or "P" in text or (not hexadecimal and _DECIMAL.search(text)):
        return "float"
    unsigned, long = "u" in text.lower(), "l" in text.lower()
    value = int(text.rstrip("uUlL"), 16) if hexadecimal else _number(text)
    wide = long or value >= 1 << 31 or (not hexadecimal and len(text.rstrip("uUlL")) > 9)
    return ("u" if unsigned else "") + ("long" if wide else "int")


def _met(given: Sequence[str | None]) -> str | None:
    """The type in which operands meet: that of a vector, if there is one."""
    known = [kind for kind in given if kind]
    if not known or len(known) < len(given):
        # Beside a real number it is no division of integers, whatever the others are.
        return next((k for k in known if ctypes.is_real(ctypes.split_vector(k)[0])), None)
    vectors = [kind for kind in known if ctypes.split_vector(kind)[1] > 1]
    return vectors[0] if vectors else ctypes.common(*known)


def _answer(kind: str | None) -> str | None:
    """The type of a comparison: integers as wide as what is compared, of vectors."""
    if kind is None:
        return None
    base, width = ctypes.split_vector(kind)
    whole = {"float": "int", "double": "long", "half": "short"}.get(base, base.removeprefix("u"))
    return f"{whole}{width}" if width > 1 else "int"


def _of_member(kind: str | None, name: str) -> str | None:
    """The type of components of a vector."""
    base, width = ctypes.split_vector(kind or "")
    if width == 1:
        return None
    if name in ("lo", "hi", "even", "odd"):
        part = 4 if width == 3 else width
        return base if part == 2 else f"{base}{part // 2}"
    number = len(name) - (name[0] in "sS")
    return base if number == 1 else f"{base}{number}"
