"""Reverse mode on terms: from the gradients of results to those of what they are computed from.

Every term is visited once, behind all that take it, and hands its gradient on, times a rule. Where
a rule divides by 0 in an arm of a selection that was not taken, the selection keeps it out: its
factor stays inside (see ``simplify``), so that the gradient of ``x > 0 ? log(x) : 0`` is 0 at 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache

from clprim.language.gradient.arithmetic import COMPARISONS, LOGIC
from clprim.language.gradient.calls import BUILTIN_CONSTANTS
from clprim.language.gradient.derivatives import REFUSED, RULES, WHOLE
from clprim.language.gradient.simplify import Algebra
from clprim.language.gradient.terms import Term, Terms, below
from clprim.language.gradient.values import Refusal
from clprim.language.parser import parse_value
from clprim.language.tokens import scan
from clprim.language.tree import Binary, Call, Cast, Expr, Name, Number, Ternary, Type, Unary

_SIDES = frozenset("< <= > >=".split())
_WITH_WHOLE = frozenset(["ldexp", "pown", "rootn"])
_CLIPS = frozenset(["fmax", "fmin", "clamp"])


def _depending(order: Iterable[Term], wrt: Iterable[Term], *, smoothly: bool) -> frozenset[Term]:
    """Returns the terms that depend on ``wrt``: smoothly, or in any way, by whole numbers too."""
    found = set(wrt)
    for term in order:
        if (term.real or not smoothly) and any(a in found for a in term.args):
            found.add(term)
    return frozenset(found)


class Reverse:
    """Gradients of some terms in others."""

    def __init__(self, terms: Terms, reasons: Mapping[Term, Refusal] | None = None) -> None:
        terms.end_of_snippets()
        self.terms = terms
        self.algebra = Algebra(terms)
        self.reasons = reasons or {}
        self.sides: dict[Term, Term] = {}
        self.repeated: dict[Term, list[int]] = {}

    def gradients(
        self, results: Sequence[tuple[Term, Term]], wrt: Sequence[Term]
    ) -> dict[Term, Term]:
        """Returns the gradient of each of ``wrt``."""
        roots = [term for term, _ in results]
        order = below(roots)
        live, touched = (_depending(order, wrt, smoothly=way) for way in (True, False))
        self.sides = self._sides(order)
        self.repeated = self._repeated(order, {*roots, *wrt}, live)
        given: dict[Term, Term] = {}

        def take(term: Term, gradient: Term) -> None:
            if gradient.value != 0:
                old = given.get(term)
                given[term] = gradient if old is None else self.algebra.add(old, gradient)

        for term, gradient in results:
            if term in live or term in touched:
                take(term, gradient)
        stops = frozenset(wrt)
        for term in reversed(order):
            own = given.get(term)
            if own is None or (term in stops and not term.args):
                continue
            if term not in live:
                self._require_none(term, touched)
                continue
            for argument in term.args[1:] if term.op == "?:" else term.args:
                if argument not in live:
                    self._require_none(argument, touched)
            for argument, part in self.parts(term, own, live):
                take(argument, part)
        zero = self.algebra.zero
        return {term: given.get(term, zero) for term in wrt}

    def parts(self, term: Term, g: Term, live: frozenset[Term]) -> list[tuple[Term, Term]]:
        """What a term hands on to those of its arguments that take a gradient."""
        algebra, args = self.algebra, term.args
        match term.op:
            case "+":
                parts = [g, g]
            case "-":
                parts = [g, algebra.neg(g)]
            case "neg":
                parts = [algebra.neg(g)]
            case "*":
                counts = self.repeated.get(term, (1, 1))
                pairs = zip(args, args[::-1], counts, strict=True)
                return [(a, self._times(g, b, n)) for a, b, n in pairs if n and a in live]
            case "/":
                b = args[1]
                parts = [algebra.div(g, b)]
                if b in live:
                    parts.append(algebra.neg(algebra.div(algebra.mul(g, term), b)))
            case "cast":
                parts = [g]
            case "?:":
                c = args[0]
                zero = algebra.zero
                parts = [zero, algebra.select(c, g, zero), algebra.select(c, zero, g)]
            case "call":
                return self._call(term, g, live)
            case _:
                parts = []
        return [(a, part) for a, part in zip(args, parts, strict=False) if a in live]

    def _times(self, g: Term, factor: Term, count: int = 1) -> Term:
        """A product with a factor, of which a comparison makes a selection, times a count."""
        if factor.op in COMPARISONS or factor.op in LOGIC:
            found = self.algebra.select(factor, g, self.algebra.zero)
        else:
            found = self.algebra.mul(g, factor)
        return found if count == 1 else self.algebra.mul(self.algebra.number(count), found)

    def _call(self, term: Term, g: Term, live: frozenset[Term]) -> list[tuple[Term, Term]]:
        algebra = self.algebra
        if term.text == "fabs" and term.args[0] in self.sides:
            return [(term.args[0], algebra.mul(g, self.sides[term.args[0]]))]
        rule = RULES.get(term.text)
        if rule is None or len(rule.partials) != len(term.args):
            raise self._refusal(term)
        names = dict(zip("abc", term.args, strict=False)) | {"y": term}
        found: list[tuple[Term, Term]] = []
        for n, (argument, text) in enumerate(zip(term.args, rule.partials, strict=True)):
            if argument not in live:
                continue
            part = None
            exponent = term.args[-1].value
            if n == 0 and term.text in ("pow", "powr", "pown") and exponent is not None:
                power = algebra.power(argument, exponent - 1)
                if power is not None:
                    part = algebra.mul(g, algebra.mul(algebra.number(exponent), power))
            if part is None:
                part = algebra.mul(g, self._instance(_parsed(text), names))
            if rule.zero and rule.zero[n]:
                condition = self._instance(_parsed(rule.zero[n]), names)
                part = algebra.select(condition, algebra.zero, part)
            found.append((argument, part))
        return found

    def _instance(self, node: Expr, names: Mapping[str, Term]) -> Term:
        """A rule with terms in place of its names."""
        algebra = self.algebra
        match node:
            case Number(text):
                return algebra.number(float(text))
            case Name(text):
                return names[text] if text in names else algebra.number(BUILTIN_CONSTANTS[text][0])
            case Unary("-", a):
                return algebra.neg(self._instance(a, names))
            case Cast(Type(_), a):
                return self._instance(a, names)
            case Ternary(condition, a, b):
                chosen = self._instance(condition, names)
                return algebra.select(chosen, self._instance(a, names), self._instance(b, names))
            case Call(function, args):
                terms = tuple(self._instance(a, names) for a in args)
                if function == "pow" and terms[1].value is not None:
                    power = algebra.power(terms[0], terms[1].value)
                    if power is not None:
                        return power
                if function not in _WITH_WHOLE:
                    terms = tuple(self._as_real(t) for t in terms)
                return self.terms.make("call", terms, self.terms.real, function)
            case Binary("+" | "-" | "*" | "/" as op, a, b):
                left, right = self._instance(a, names), self._instance(b, names)
                make = {"+": algebra.add, "-": algebra.sub, "*": algebra.mul, "/": algebra.div}
                return make[op](left, right)
            case Binary("&&" | "||" as op, a, b):
                left, right = self._instance(a, names), self._instance(b, names)
                return algebra.both(left, right) if op == "&&" else algebra.either(left, right)
            case Binary(op, a, b):
                return algebra.compare(op, self._instance(a, names), self._instance(b, names))
        raise TypeError(f"no rule has {node}")

    def _as_real(self, term: Term) -> Term:
        """A whole number as a real one, which functions of OpenCL C want."""
        if term.real:
            return term
        if term.value is not None:
            return self.algebra.number(term.value)
        return self.terms.make("cast", (term,), self.terms.real)

    def _sides(self, order: Iterable[Term]) -> dict[Term, Term]:
        """For terms that are compared with 0, their sign as that comparison has it at 0.

        ``(x < 0 ? e : 1) / (1 + e)`` with ``e = exp(-fabs(x))`` is smooth at 0, where fabs is not:
        one side of both must be taken together.
        """
        up, down = self.algebra.one, self.algebra.number(-1.0)
        found: dict[Term, Term] = {}
        for term in order:
            a, positive, condition = None, True, term
            if term.op in _SIDES:
                left, right = term.args
                if right.value == 0:
                    a, positive = left, term.op in (">", ">=")
                elif left.value == 0:
                    a, positive = right, term.op in ("<", "<=")
            elif term.op == "call" and term.text in _CLIPS and term.args[1].value == 0:
                a, positive = term.args[0], term.text != "fmin"
                op = ">=" if positive else "<="
                condition = self.algebra.compare(op, a, term.args[1])
            if a is not None and a.real and a not in found:
                arms = (up, down) if positive else (down, up)
                found[a] = self.algebra.select(condition, *arms)
        return found

    def _repeated(
        self, order: Sequence[Term], ends: Container[Term], live: Container[Term]
    ) -> dict[Term, list[int]]:
        """For products in which a factor is there n times, how often each argument takes its part.

        The last one takes it n times, the others never: a sum of n parts would be searched for
        common factors again and again. Factors are those of a product and of the products in it
        that nothing else takes.
        """
        taken = Counter(a for term in order for a in term.args)
        found: dict[Term, list[int]] = {}
        inner: set[Term] = set()
        for term in reversed(order):
            if term.op != "*" or term not in live or term in inner:
                continue
            places: dict[Term, list[tuple[Term, int]]] = {}
            ahead = [term]
            while ahead:
                product = ahead.pop()
                for n in (1, 0):
                    factor = product.args[n]
                    if factor.op != "*" or taken[factor] > 1 or factor in ends:
                        places.setdefault(factor, []).append((product, n))
                    elif factor in live:
                        ahead.append(factor)
                        inner.add(factor)
            for here in places.values():
                for k, (product, n) in enumerate(here):
                    found.setdefault(product, [1, 1])[n] = 0 if k else len(here)
        return found

    def _require_none(self, term: Term, touched: frozenset[Term]) -> None:
        """Refuses a number made of another one's bits, which is no step and has no gradient 0."""
        ahead, seen = [term], set[Term]()
        while ahead:
            t = ahead.pop()
            if t in seen or not t.real or t not in touched:
                continue
            seen.add(t)
            if t.op == "call" and t.text not in RULES:
                raise self._refusal(t)
            ahead.extend(t.args[1:] if t.op == "?:" else t.args)

    def _refusal(self, term: Term) -> Refusal:
        known = self.reasons.get(term)
        if known is not None and known.problem:
            return known
        if term.text in REFUSED:
            why = REFUSED[term.text]
        elif term.text.startswith("as_"):
            why = "it takes bits for a number"
        elif term.text in WHOLE:
            why = "it is for whole numbers"
        else:
            why = "no rule is known"
        problem = f'no gradient passes {term.text!r}: {why}; give gradient="…" by hand'
        if known is None:
            return Refusal(problem)
        return Refusal(problem, known.span, known.part)


@cache
def _parsed(text: str) -> Expr:
    found = parse_value(text := f"({text})", scan("", "", text))
    assert found is not None and not isinstance(found, Type)
    return found
