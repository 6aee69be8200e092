"""Runs a snippet on terms: locals, branches, loops and functions end, what is left are formulas.

A branch is run both ways, and what it changed becomes a selection; a loop is run as often as it
would be, up to `UNROLL` times; a function of a preamble is run in its caller's place. What cannot
be run this way is refused, with its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clprim.language.gradient import ctypes
from clprim.language.gradient.bounds import surely_false
from clprim.language.gradient.run_expressions import DEEPEST, Expressions
from clprim.language.gradient.terms import Term
from clprim.language.gradient.values import Elements, Value
from clprim.language.node import Node
from clprim.language.tree import (
    Block,
    Braces,
    Declare,
    DoWhile,
    Evaluate,
    Expr,
    For,
    Function,
    If,
    Jump,
    Opaque,
    Statement,
    Type,
    Variable,
    While,
)

#: A loop is unrolled if it ends after so many turns.
UNROLL = 128

# Under which condition the rest of a block is not reached, by the word that leads away.
Exits = dict[str, Term]


class Run(Expressions):
    """One snippet after another, with the variables that they share."""

    def leaf(self, name: str) -> Term:
        """The term of an operand, or of another number that the engine gives."""
        found = self.leaves[name]
        assert isinstance(found, Term)
        return found

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
                left = self.algebra.both(stayed, reached)
                exits[word] = self.algebra.either(exits[word], left) if word in exits else left
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
        found = {word: self.algebra.both(condition, c) for word, c in exits.items()}
        for word, c in others.items():
            left = self.algebra.both(self.negation(condition), c)
            found[word] = self.algebra.either(found[word], left) if word in found else left
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
        if len(self.scopes) > DEEPEST * 4:
            raise self.refusal(statement, "loops and functions nest too deep")
        left: list[tuple[Term, dict[str, Value | None]]] = []
        reached = self.number(1, "int")
        returned: Exits = {}
        for turn in range(UNROLL + 1):
            if condition is not None and not (first and turn == 0):
                going = self.condition(condition)
                if going.value == 0 or (left and surely_false(going)):
                    return self.leave(left, returned)
                if going.value is None:
                    left.append((self.negation(going), dict(self.cells)))
                    reached = self.algebra.both(reached, going)
            if turn == UNROLL:
                break
            exits = self.block(body)
            stopped = self.any_of(exits[w] for w in ("break", "return") if w in exits)
            if "return" in exits:
                taken, known = self.algebra.both(reached, exits["return"]), returned.get("return")
                returned["return"] = taken if known is None else self.algebra.either(known, taken)
            if stopped.value != 0:
                left.append((stopped, dict(self.cells)))
                if stopped.value:
                    return self.leave(left, returned)
                stayed = self.negation(stopped)
                reached = self.algebra.both(reached, stayed)
                self.cells = {c: self.known_as(stayed, v) for c, v in self.cells.items()}
            if step is not None:
                self.value(step, unused=True)
        raise self.refusal(
            statement,
            f"a gradient needs a loop that surely ends after {UNROLL} turns, as i < 8 or "
            'i < min(n, 8) says when it is defined; or give gradient="…" by hand',
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
