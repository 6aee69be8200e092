"""Checks one snippet when it is defined: every name known, every result assigned, no device."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from functools import cached_property

from clprim.errors import DefinitionError
from clprim.language import names
from clprim.language.grammar import syntax_fault
from clprim.language.jumps import stray_jump
from clprim.language.preamble import Preamble
from clprim.language.syntax import Statement, parse
from clprim.language.tokens import Token, caret_message, tokenize

__all__ = ["Rules", "Snippet", "check", "is_engine_name", "operand_number"]

_OPERAND = re.compile(r"(x|w|y|reduce_y|other_y)(\d+)$")
_TYPE_OF = re.compile(r"typeof_(x|w|y|reduce_y)(\d+)$")
_BOUND_OF = re.compile(r"(?:lowest|highest)_(reduce_y)(\d+)$")
_POSITIONS = ("index", "reduce_item", "count")
_PER_DIMENSION = ("coord", "size")
_ASSIGNING = frozenset("= += -= *= /= %= &= |= ^= <<= >>= ++ --".split())


@dataclass(frozen=True)
class Rules:
    """What one part of an operator may read and write.

    Attributes:
        owner: ``Pointwise`` or ``Reduction``, for messages.
        part: ``expr``, ``init``, ``step``, ``combine`` or ``finalize``.
        reads: Operand families (``x``, ``w``, ``y``, ``reduce_y``, ``other_y``) and positions
            (``index``, ``coord``, ``size``, ``reduce_item``, ``count``) that may be read.
        writes: Operand families that may be assigned; these may be read as well.
    """

    owner: str
    part: str
    reads: frozenset[str]
    writes: frozenset[str]


@dataclass(frozen=True)
class Snippet:
    """A checked snippet.

    Attributes:
        rules: What it was checked against.
        text: As the user wrote it.
        tokens: Its tokens, with their places.
        used: Names of operands and positions that occur (``x0``, ``index``, …).
        assigned: Names of operands that are given a value.
        dims: Dimensions asked of ``coord`` and ``size``, as (function, dimension).
    """

    rules: Rules
    text: str
    tokens: tuple[Token, ...] = field(repr=False)
    used: frozenset[str]
    assigned: frozenset[str]
    dims: frozenset[tuple[str, int]]

    @cached_property
    def statements(self) -> tuple[Statement, ...] | None:
        """The syntax tree, or None where the snippet uses more of C than the tree knows."""
        return parse(self.tokens)

    @cached_property
    def body(self) -> str:
        """The text with the last semicolon in place, for pasting between braces."""
        if not self.tokens or self.tokens[-1].text in (";", "}"):
            return self.text
        end = self.tokens[-1].start + len(self.tokens[-1].text)
        return self.text[:end] + ";" + self.text[end:]

    def numbers(self, family: str) -> frozenset[int]:
        """The numbers N for which ``{family}N`` occurs, by name or inside ``typeof_``."""
        found = (operand_number(name, family) for name in self.used)
        return frozenset(n for n in found if n is not None)

    def assigned_numbers(self, family: str) -> frozenset[int]:
        """The numbers N for which ``{family}N`` is assigned."""
        found = (operand_number(name, family) for name in self.assigned)
        return frozenset(n for n in found if n is not None)

    def error(self, name: str, problem: str) -> DefinitionError:
        """An error with a caret under the first occurrence of ``name``."""
        start, length = 0, 1
        for token in self.tokens:
            if token.text == name:
                start, length = token.start, len(token.text)
                break
        owner, part = self.rules.owner, self.rules.part
        return DefinitionError(caret_message(owner, part, self.text, start, length, problem))

    @cached_property
    def flops(self) -> int:
        """Arithmetic operations one execution takes (a call counts once, fma and mad twice)."""
        total = 0
        previous = ""
        for token, following in zip(self.tokens, (*self.tokens[1:], None), strict=False):
            is_operand = previous.isidentifier() or previous[:1].isdigit() or previous in (")", "]")
            if token.text in ("+=", "-=", "*=", "/=", "*", "/", "%") or (
                token.text in ("+", "-") and is_operand
            ):
                total += 1
            elif token.text in names.BUILTINS and following is not None and following.text == "(":
                total += 2 if token.text in ("fma", "mad") else 1
            previous = token.text
        return total


def is_engine_name(name: str) -> bool:
    """Whether the engine gives this name to snippets: an operand, its type, or a position."""
    patterns = (_OPERAND, _TYPE_OF, _BOUND_OF)
    return name in (*_POSITIONS, *_PER_DIMENSION) or any(p.match(name) for p in patterns)


def operand_number(name: str, family: str) -> int | None:
    """Returns N where ``name`` is ``{family}N`` (or its ``typeof_``), else None."""
    match = _OPERAND.match(name) or _TYPE_OF.match(name) or _BOUND_OF.match(name)
    return int(match[2]) if match and match[1] == family else None


def check(rules: Rules, text: object, preamble: Preamble | None = None) -> Snippet:
    """Checks ``text`` against ``rules`` and returns it with what it uses and assigns.

    Args:
        rules: What this part of the operator may read and write.
        text: The snippet.
        preamble: Of the operator.

    Raises:
        DefinitionError: With the snippet's line and a caret under the first thing wrong.
    """
    if not isinstance(text, str):
        raise DefinitionError(
            f"{rules.owner} {rules.part}: expected a string of OpenCL C, got {type(text).__name__}"
        )
    return _Checker(rules, text, preamble or Preamble()).run()


class _Checker:
    """One pass over the tokens; knows the locals declared so far."""

    def __init__(self, rules: Rules, text: str, preamble: Preamble) -> None:
        self.rules = rules
        self.text = text
        self.preamble = preamble
        self.helpers = preamble.names
        self.tokens = tokenize(rules.owner, rules.part, text)
        self.locals: set[str] = set()
        self.used: set[str] = set()
        self.assigned: set[str] = set()
        self.dims: set[tuple[str, int]] = set()
        self.declaring_at: int | None = None  # bracket depth of the declaration we are in

    def fail(self, token: Token, problem: str) -> DefinitionError:
        return DefinitionError(
            caret_message(
                self.rules.owner,
                self.rules.part,
                self.text,
                token.start,
                len(token.text),
                problem,
            )
        )

    def text_at(self, position: int) -> str:
        return self.tokens[position].text if 0 <= position < len(self.tokens) else ""

    def run(self) -> Snippet:
        depth = 0
        for at, token in enumerate(self.tokens):
            if token.kind == "directive":
                raise self.fail(token, "preprocessor lines belong into preamble=")
            if token.text in "([{" and token.kind == "op":
                depth += 1
            elif token.text in ")]}" and token.kind == "op":
                depth -= 1
            if self.declaring_at is not None and (token.text == ";" or depth < self.declaring_at):
                self.declaring_at = None
            if token.kind == "name" and self.text_at(at - 1) not in (".", "->"):
                self.name(at, token, depth)
        fault = syntax_fault(self.text, self.tokens, self.preamble)
        if fault is not None:
            raise self.fail(*fault)
        jump = stray_jump(self.tokens)
        if jump is not None:
            raise self.fail(jump, f"{jump.text!r} outside a loop would leave the engine's own loop")
        return Snippet(
            rules=self.rules,
            text=self.text,
            tokens=self.tokens,
            used=frozenset(self.used),
            assigned=frozenset(self.assigned),
            dims=frozenset(self.dims),
        )

    def name(self, at: int, token: Token, depth: int) -> None:
        text = token.text
        if text in names.RESERVED:
            raise self.fail(token, f"{text!r} is reserved: {names.RESERVED[text]}")
        if text.startswith("cp_"):
            raise self.fail(token, f"{text!r} is reserved: names with cp_ belong to the engine")
        if text in names.KEYWORDS:
            return
        if text in names.TYPES or text in names.QUALIFIERS:
            return
        if _TYPE_OF.match(text) or _BOUND_OF.match(text):
            self.operand(token, text.partition("_")[2])
            self.used.add(text)
            return
        declared = self.is_declared_here(at, depth)
        if _OPERAND.match(text) or text in _POSITIONS or text in _PER_DIMENSION:
            if declared:
                raise self.fail(token, f"{text!r} is reserved: the engine declares it")
            self.engine_name(at, token)
        elif declared:
            self.locals.add(text)
            self.declaring_at = depth
        elif not (text in self.locals or text in names.BUILTINS or text in self.helpers):
            raise self.fail(token, f"unknown name {text!r}{self.suggestion(text)}")

    def is_declared_here(self, at: int, depth: int) -> bool:
        """Whether the name at this position is being declared.

        It then follows a type (or ``type *``), or a comma of a declaration that has begun.
        """
        before = at - 1
        while self.text_at(before) == "*":
            before -= 1
        previous = self.text_at(before)
        if previous == ",":
            return self.declaring_at == depth
        if not previous or self.tokens[before].kind != "name":
            return False
        is_type = (
            previous in names.TYPES
            or previous in names.QUALIFIERS
            or _TYPE_OF.match(previous) is not None
        )
        # A name straight after a helper's name can only be a declaration: `pair p = …`.
        return is_type or (before == at - 1 and previous in self.helpers)

    def engine_name(self, at: int, token: Token) -> None:
        text = token.text
        if text in _PER_DIMENSION:
            self.operand(token, text)
            self.dims.add((text, self.dimension(at, token)))
            return
        family = self.operand(token, text)
        if not self.is_assigned(at):
            return
        if family not in self.rules.writes:
            kind = "an input" if family in ("x", "w") else "not assigned here"
            allowed = ", ".join(f"{f}N" for f in sorted(self.rules.writes))
            raise self.fail(
                token, f"{text!r} is {kind}; {self.rules.part} assigns {allowed} and its own locals"
            )
        self.assigned.add(text)

    def operand(self, token: Token, name: str) -> str:
        """Records a use of an engine's name, after checking that this part may use it."""
        match = _OPERAND.match(name)
        family = match[1] if match else name
        if family not in self.rules.reads | self.rules.writes:
            available = sorted(
                f + "N" if f in ("x", "w", "y", "reduce_y", "other_y") else f
                for f in self.rules.reads | self.rules.writes
            )
            raise self.fail(
                token,
                f"{name!r} is not available in {self.rules.part} of a {self.rules.owner}, "
                f"which knows {', '.join(available)}",
            )
        if match and match[2] != str(int(match[2])):
            raise self.fail(token, f"unknown name {name!r}: operands are numbered without zeros")
        self.used.add(name)
        return family

    def is_assigned(self, at: int) -> bool:
        before, after = self.text_at(at - 1), self.text_at(at + 1)
        # `&y1` hands the address to a function that assigns it, unless it is a bitwise and.
        address = before == "&" and (
            self.text_at(at - 2) in ("(", ",", "=", "") or self.text_at(at - 2) in _ASSIGNING
        )
        return after in _ASSIGNING or before in ("++", "--") or address

    def dimension(self, at: int, token: Token) -> int:
        negative = self.text_at(at + 2) == "-"
        number = self.text_at(at + 2 + negative)
        closed = self.text_at(at + 3 + negative) == ")"
        if self.text_at(at + 1) != "(" or not number.isdecimal() or not closed:
            raise self.fail(token, f"{token.text} takes one literal dimension: {token.text}(0)")
        return -int(number) if negative else int(number)

    def suggestion(self, text: str) -> str:
        rules = self.rules
        known = [*self.locals, *self.helpers, *names.BUILTINS]
        for family in rules.reads | rules.writes:
            numbered = family in ("x", "w", "y", "reduce_y", "other_y")
            known.extend(f"{family}{n}" for n in range(4)) if numbered else known.append(family)
        close = difflib.get_close_matches(text, known, n=1, cutoff=0.6)
        if close:
            return f"; did you mean {close[0]!r}?"
        return "; arrays are x0, x1, …, scalars w0, …, results y0, …, helpers go to preamble="
