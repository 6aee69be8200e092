"""Arithmetic on terms that leaves out what needs no computing.

A few rules where a term is made, instead of an e-graph or SymPy, which take longer than a compiler
needs for the kernel. They do what a person would do by hand who writes a gradient down: products
with 0 and 1 go, signs move outwards, equal summands become one, and a factor moves *into* a
selection of which one arm is 0. The last is more than a matter of taste: where
``x > 0 ? log(x) : 0`` is not log, the gradient is 0, and not 0 · ∞.

Nothing that the user wrote is reordered: only sums and products that reverse mode adds pass here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from clprim.language.gradient.ctypes import common
from clprim.language.gradient.terms import Term, Terms

#: The highest power that is written as products.
MOST = 8
#: Products are searched for common factors down to this depth.
_FACTORS = 5


_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne,
}  # fmt: skip


class Algebra:
    """Sums, products and selections of real terms, in their simplest form."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.zero = terms.number(0.0)
        self.one = terms.number(1.0)

    def number(self, value: float) -> Term:
        """A real literal."""
        return self.terms.number(value)

    def constant(self, op: str, a: float, b: float) -> float | None:
        """What an operator makes of two numbers, or None where that is no number."""
        if op == "/" and b == 0:
            return None
        value = a / b if op == "/" else {"+": a + b, "-": a - b, "*": a * b}[op]
        return value if math.isfinite(value) else None

    def add(self, a: Term, b: Term) -> Term:
        """``a + b``."""
        if _is(a, 0):
            return b
        if _is(b, 0):
            return a
        if a.value is not None and b.value is not None:
            return self.number(a.value + b.value)
        if a is b:
            return self.mul(self.number(2.0), a)
        merged = self._merge(a, b)
        if merged is not None:
            return merged
        if b.op == "neg":
            return self.sub(a, b.args[0])
        if a.op == "neg":
            return self.sub(b, a.args[0])
        if a.op == b.op == "/" and a.args[1] is b.args[1] and a.real:
            return self.div(self.add(a.args[0], b.args[0]), a.args[1])
        if _is_negative(b):
            return self.sub(a, self.neg(b))
        if _is_negative(a):
            return self.sub(b, self.neg(a))
        gathered = self._gather(a, b)
        if gathered is not None:
            return gathered
        factored = self._factored(a, b)
        if factored is not None:
            common, p, q = factored
            return self.mul(common, self.add(p, q))
        for one, other in ((a, b), (b, a)):
            value, scaled = one.value, other.op == "*" and other.real
            exact = value and value != 1 and math.frexp(value)[0] in (0.5, -0.5)
            if exact and scaled and other.args[0].value == value:
                return self.mul(one, self.add(self.one, other.args[1]))
        return self._commuting("+", a, b)

    def sub(self, a: Term, b: Term) -> Term:
        """``a - b``."""
        if a is b and a.value is not None:
            return self.zero
        if _is(a, 0):
            return self.neg(b)
        if _is(b, 0):
            return a
        if a.value is not None and b.value is not None:
            return self.number(a.value - b.value)
        if b.op == "neg":
            return self.add(a, b.args[0])
        if _is_negative(b):
            return self.add(a, self.neg(b))
        if a.op == b.op == "/" and a.args[1] is b.args[1] and a.real:
            return self.div(self.sub(a.args[0], b.args[0]), a.args[1])
        if _is(a, 1) and b.op == "/" and b.real and b.args[1].op == "+":
            n, d = b.args
            if n in d.args:  # 1 - n / (n + c) is c / (n + c), which does not cancel
                return self.div(d.args[d.args[0] is n], d)
        if a.op == "-" and a.args[1] is b and b.real:
            return self.sub(a.args[0], self.mul(self.number(2.0), b))
        if (
            a.op == b.op == "?:"
            and a.args[0] is b.args[0]
            and (_has_zero_arm(a) or _has_zero_arm(b))
        ):
            condition, p, q = a.args
            return self.select(condition, self.sub(p, b.args[1]), self.sub(q, b.args[2]))
        factored = self._factored(a, b)
        if factored is not None:
            common, left, right = factored
            return self.mul(common, self.sub(left, right))
        return self._make("-", a, b)

    def neg(self, a: Term) -> Term:
        """``-a``."""
        if a.value is not None:
            return self.number(-a.value) if a.value else self.zero
        if _is_negative(a):
            return self._make(a.op, self.neg(a.args[0]), a.args[1])
        if a.op == "neg":
            return a.args[0]
        if a.op in ("*", "/") and a.args[0].value is not None:
            factor = self.number(-a.args[0].value)
            return self._make(a.op, factor, a.args[1])
        if a.op == "-" and a.real:
            return self._make("-", a.args[1], a.args[0])
        if a.op == "?:" and (_has_plain_arm(a) or any(arm.op == "neg" for arm in a.args[1:])):
            return self.select(a.args[0], self.neg(a.args[1]), self.neg(a.args[2]))
        return self.terms.make("neg", (a,), common(a.ctype))

    def mul(self, a: Term, b: Term) -> Term:
        """``a * b``."""
        if b.value is not None and a.value is None:
            a, b = b, a
        if _is(a, 0) or _is(b, 0):
            return self.zero  # before numbers, of which NaN would pass a branch not taken
        if a.value is not None and b.value is not None:
            return self.number(a.value * b.value)
        if _is(a, 1):
            return b
        if _is(a, -1):
            return self.neg(b)
        for one, other in ((a, b), (b, a)):
            if one.op == "neg":
                return self.neg(self.mul(one.args[0], other))
            if one.op == "?:" and _has_plain_arm(one):
                c, p, q = one.args
                return self.select(c, self.mul(other, p), self.mul(other, q))
        if a.value is not None and b.op in ("*", "/") and b.args[0].value is not None:
            factor = self.number(a.value * b.args[0].value)
            return self.mul(factor, b.args[1]) if b.op == "*" else self.div(factor, b.args[1])
        for one, other in ((a, b), (b, a)):
            if one.op == "/" and one.real and one.args[0].value is not None:
                # g * (1 / a) is g / a, and g * (0.5 / a) is 0.5 * g / a
                return self.div(self.mul(one.args[0], other), one.args[1])
        if b.op == "*" and b.args[0].value is not None and b.real:  # numbers to the front
            return self.mul(b.args[0], self.mul(a, b.args[1]))
        if a.op == "*" and a.args[0].value is not None and a.real:
            return self.mul(a.args[0], self.mul(a.args[1], b))
        return self._commuting("*", a, b)

    def div(self, a: Term, b: Term) -> Term:
        """``a / b``, of real numbers."""
        if _is(a, 0):
            return self.zero
        if b.value is not None:
            if _is(b, 1):
                return a
            if b.value and a.value is not None:
                return self.number(a.value / b.value)
            if b.value and math.frexp(b.value)[0] in (0.5, -0.5):
                return self.mul(self.number(1 / b.value), a)  # exact
        if a.op == "neg":
            return self.neg(self.div(a.args[0], b))
        if b.op == "neg":
            return self.neg(self.div(a, b.args[0]))
        if a.op == "?:" and _has_zero_arm(a):
            return self.select(a.args[0], self.div(a.args[1], b), self.div(a.args[2], b))
        if not (a.real or b.real):
            a = self.terms.make("cast", (a,), self.terms.real)
        return self._make("/", a, b)

    def select(self, condition: Term, a: Term, b: Term) -> Term:
        """``condition ? a : b``."""
        if condition.value is not None:
            return a if condition.value else b
        if a is b:
            return a
        if condition.op == "!":
            return self.select(condition.args[0], b, a)
        if condition.op in ("==", "!=") and _is(condition.args[1], 0):
            inner = condition.args[0]
            if inner.op in ("<", ">", "<=", ">=", "!"):  # (a < b) != 0
                return self.select(inner, *((a, b) if condition.op == "!=" else (b, a)))
        # Arms know how the condition turned out.
        if a.op == "?:" and a.args[0] is condition:
            a = a.args[1]
        if b.op == "?:" and b.args[0] is condition:
            b = b.args[2]
        if a is b:
            return a
        if a.op == "neg" and b.op == "neg":
            return self.neg(self.select(condition, a.args[0], b.args[0]))
        return self.terms.make("?:", (condition, a, b), common(a.ctype, b.ctype))

    def compare(self, op: str, a: Term, b: Term) -> Term:
        """``a < b`` and the like."""
        if a.value is not None and b.value is not None:
            return self.terms.number(int(_COMPARED[op](a.value, b.value)), "int")
        return self.terms.make(op, (a, b), "int")

    def both(self, a: Term, b: Term) -> Term:
        """``a && b``."""
        return self._joined("&&", a, b)

    def either(self, a: Term, b: Term) -> Term:
        """``a || b``."""
        return self._joined("||", a, b)

    def _joined(self, op: str, a: Term, b: Term) -> Term:
        for one, other in ((a, b), (b, a)):
            if one.value is not None:
                return other if bool(one.value) == (op == "&&") else one
        return a if a is b else self.terms.make(op, (a, b), "int")

    def power(self, a: Term, exponent: float) -> Term | None:
        """``a`` to a small whole or half power without a call of pow, or None."""
        if exponent == 0:
            return self.one
        if exponent < 0:
            inverse = self.power(a, -exponent)
            return None if inverse is None else self.div(self.one, inverse)
        if exponent == 0.5:
            return self.terms.make("call", (a,), a.ctype, "sqrt")
        if exponent != int(exponent) or exponent > MOST:
            return None
        if exponent == 1:
            return a
        if exponent % 2 == 0:
            half = self.power(a, exponent / 2)
            assert half is not None
            return self._commuting("*", half, half)
        rest = self.power(a, exponent - 1)
        assert rest is not None
        return self._commuting("*", rest, a)

    def _merge(self, a: Term, b: Term) -> Term | None:
        """The sum of two selections by one condition, of which one has an arm of 0."""
        if a.op != "?:" or b.op != "?:" or a.args[0] is not b.args[0]:
            return None
        if not (_has_zero_arm(a) or _has_zero_arm(b)):
            return None
        condition, p, q = a.args
        return self.select(condition, self.add(p, b.args[1]), self.add(q, b.args[2]))

    def _gather(self, a: Term, b: Term) -> Term | None:
        """Joins a summand with an equal one, or a selection that it fits, further down in a."""
        if a.op == "+" and a.real:
            p, q = a.args
            for one, other in ((q, p), (p, q)):
                if one is b or (one.op == b.op == "?:" and self._merge(one, b) is not None):
                    return self.add(other, self.add(one, b))
        if a.op == b.op == "*" and a.args[1] is b.args[1]:
            x, y = a.args[0].value, b.args[0].value
            if x is not None and y is not None:
                return self.mul(self.number(x + y), a.args[1])
        if a.op == "*" and a.args[0].value is not None and a.args[1] is b:
            return self.mul(self.number(a.args[0].value + 1), b)
        if b.op == "*" and b.args[0].value is not None and b.args[1] is a:
            return self.mul(self.number(b.args[0].value + 1), a)
        return None

    def _factored(self, a: Term, b: Term) -> tuple[Term, Term, Term] | None:
        """The factors that two summands share, and what is left of each; None without any."""
        if not (a.real and b.real):
            return None
        common: Term | None = None
        for factor in _factors(a):
            p, q = self._without(a, factor), self._without(b, factor)
            if p is not None and q is not None:
                a, b = p, q
                common = factor if common is None else self.mul(common, factor)
        return None if common is None else (common, a, b)

    def _without(self, term: Term, factor: Term, depth: int = 0) -> Term | None:
        """A product or a quotient without a factor, else as it is; None if it has no such."""
        if term is factor:
            return self.one
        if depth == _FACTORS or not term.real:
            return None
        for n in range({"*": 2, "/": 1}.get(term.op, 0)):
            rest = self._without(term.args[n], factor, depth + 1)
            if rest is not None:
                other = term.args[1 - n]
                return self.div(rest, other) if term.op == "/" else self.mul(rest, other)
        return None

    def _make(self, op: str, a: Term, b: Term) -> Term:
        return self.terms.make(op, (a, b), common(a.ctype, b.ctype))

    def _commuting(self, op: str, a: Term, b: Term) -> Term:
        ctype = common(a.ctype, b.ctype)
        found = self.terms.known(op, (b, a), ctype)
        return self.terms.make(op, (a, b), ctype) if found is None else found


def _factors(term: Term, depth: int = 0) -> list[Term]:
    """What a product is a product of, larger parts first; of a quotient, what is above."""
    if term.value is not None:
        return []
    found = [term]
    if term.op in ("*", "/") and term.real and depth < _FACTORS:
        above = term.args if term.op == "*" else term.args[:1]
        found += [f for a in above for f in _factors(a, depth + 1)]
    return found


def _is(term: Term, value: float) -> bool:
    return term.value is not None and term.value == value


def _is_negative(term: Term) -> bool:
    """Whether a product or a quotient begins with a negative number."""
    first = None if term.first is None else term.first.value
    return first is not None and first < 0


def _has_zero_arm(term: Term) -> bool:
    return any(_is(arm, 0) for arm in term.args[1:])


def _has_plain_arm(term: Term) -> bool:
    """Whether a factor is better off inside: one arm is 0, or both are numbers."""
    return _has_zero_arm(term) or all(arm.value is not None for arm in term.args[1:])
