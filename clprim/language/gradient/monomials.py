"""Sums of products with whole powers: the form in which what belongs to a group comes apart.

The gradient of a normalisation is a sum over a group times something of the group, times something
of the element. In reverse mode's terms these are mixed, and some cancel: with the reciprocal of a
sum at hand, the sum itself is that to the power of -1. Products are taken apart here, and put
together again; sums inside of them stay as they are, as what is left of two close numbers must.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from clprim.language.gradient.simplify import Algebra
from clprim.language.gradient.terms import Term, below

#: Higher powers take fewer products by themselves.
_ONE_BY_ONE = 3
# Powers of a factor in the order in which it came up.
Powers = tuple[tuple[Term, int], ...]


@dataclass(frozen=True)
class Monomial:
    """A number times powers of terms."""

    factor: float
    powers: Powers = ()

    def times(self, other: Monomial, sign: int = 1) -> Monomial:
        """The product with another one, or with its reciprocal (``sign`` of -1)."""
        powers = dict(self.powers)
        for term, exponent in other.powers:
            powers[term] = powers.get(term, 0) + sign * exponent
        factor = self.factor * other.factor if sign > 0 else self.factor / other.factor
        return Monomial(factor, tuple((t, e) for t, e in powers.items() if e))

    def to(self, exponent: int) -> Monomial:
        """A whole power of it."""
        powers = tuple((t, e * exponent) for t, e in self.powers)
        return Monomial(float(self.factor) ** exponent, powers)


class Monomials:
    """Takes terms apart, and puts them together."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.same: dict[Term, Monomial] = {}  # factors that are powers of what is at hand

    def sum(self, term: Term, *, whole: bool = False) -> list[Monomial]:
        """A term as a sum; equal products are one, and what cancels is left out.

        A gradient is a sum of products with one gradient each: sums of them are multiplied out,
        those of other terms where ``whole`` says so.
        """
        found: dict[frozenset[tuple[Term, int]], Monomial] = {}
        for sign, part in self.summands(term):
            for m in self._multiplied(self.product(part), whole):
                key = frozenset(m.powers)
                old = found.get(key, Monomial(0.0, m.powers))
                found[key] = Monomial(old.factor + sign * m.factor, old.powers)
        return [m for m in found.values() if m.factor != 0]

    def _multiplied(self, monomial: Monomial, whole: bool) -> list[Monomial]:
        """A product with its sums multiplied out."""
        parts = [Monomial(monomial.factor)]
        for factor, exponent in monomial.powers:
            inner = [Monomial(1.0, ((factor, exponent),))]
            if exponent == 1 and factor.op in ("+", "-") and (whole or self._is_gradient(factor)):
                inner = self.sum(factor, whole=whole)
            parts = [p.times(i) for p in parts for i in inner]
        return parts

    @staticmethod
    def _is_gradient(term: Term) -> bool:
        return any(t.op == "name" and t.text.startswith(("gy", "sum")) for t in below([term]))

    def summands(self, term: Term) -> list[tuple[int, Term]]:
        """What a term is a sum of, with signs."""
        match term.op:
            case "+" if term.real:
                return [*self.summands(term.args[0]), *self.summands(term.args[1])]
            case "-" if term.real:
                return [
                    *self.summands(term.args[0]),
                    *((-sign, part) for sign, part in self.summands(term.args[1])),
                ]
            case "neg" if term.real:
                return [(-sign, part) for sign, part in self.summands(term.args[0])]
        return [] if term.value == 0 else [(1, term)]

    def product(self, term: Term) -> Monomial:
        """A term as one product; a sum is a factor of it."""
        if term in self.same:
            return self.same[term]
        if term.value is not None and term.real and term.value == term.value:
            return Monomial(float(term.value))
        if term.real:
            match term.op:
                case "*" if all(a.real for a in term.args):
                    return self.product(term.args[0]).times(self.product(term.args[1]))
                case "/" if all(a.real for a in term.args):
                    below = self.product(term.args[1])
                    if below.factor:
                        return self.product(term.args[0]).times(below, -1)
                case "neg":
                    return Monomial(-1.0).times(self.product(term.args[0]))
        return Monomial(1.0, ((term, 1),))

    def split(
        self, monomials: Iterable[Monomial], of_group: Callable[[Term], bool]
    ) -> list[tuple[list[Monomial], Monomial]]:
        """Gathers a sum by what an element has to do with it."""
        found: dict[frozenset[tuple[Term, int]], tuple[list[Monomial], Monomial]] = {}
        for m in monomials:
            own = Monomial(1.0, tuple((t, e) for t, e in m.powers if not of_group(t)))
            shared = Monomial(m.factor, tuple((t, e) for t, e in m.powers if of_group(t)))
            found.setdefault(frozenset(own.powers), ([], own))[0].append(shared)
        return list(found.values())

    def term(self, monomials: Sequence[Monomial]) -> Term:
        """A sum as a term."""
        algebra, found = self.algebra, self.algebra.zero
        for m in monomials:
            found = algebra.add(found, self.term_of(m))
        return found

    def term_of(self, monomial: Monomial) -> Term:
        """A product as a term: what is above the line, over what is below."""
        algebra = self.algebra
        above, below = algebra.number(monomial.factor), algebra.one
        # Cubes last, and one by one: what they are multiplied with is often small where they are
        # large, as the sum is beside the reciprocal of a deviation.
        for term, exponent in sorted(monomial.powers, key=lambda p: abs(p[1]) > 1):
            times, power = abs(exponent), term
            if times > _ONE_BY_ONE:
                times, power = 1, self._power(term, times)
            for _ in range(times):
                if exponent > 0:
                    above = algebra.mul(above, power)
                else:
                    below = algebra.mul(below, power)
        return above if below is algebra.one else algebra.div(above, below)

    def _power(self, term: Term, exponent: int) -> Term:
        found = self.algebra.power(term, exponent)
        if found is None:
            found = self.algebra.one
            for _ in range(exponent):
                found = self.algebra.mul(found, term)
        return found


def hoisted(
    algebra: Algebra, term: Term, shared: Callable[[Term], bool], leaf: Callable[[Term], Term]
) -> Term:
    """Returns a term with leaves in place of the largest terms that are ``shared``."""
    instead: dict[Term, Term] = {}
    ahead = [term]
    while ahead:
        t = ahead.pop()
        if t in instead or t.value is not None:
            continue
        if t.real and shared(t):
            instead[t] = leaf(t)
        else:
            ahead.extend(t.args)
    return exchanged(algebra, term, instead)


def exchanged(algebra: Algebra, term: Term, instead: Mapping[Term, Term]) -> Term:
    """Returns a term with some of the terms below it exchanged."""
    done: dict[Term, Term] = dict(instead)
    ahead = [(term, False)]
    while ahead:
        t, ready = ahead.pop()
        if t in done:
            continue
        if not ready:
            ahead.append((t, True))
            ahead.extend((a, False) for a in t.args if a not in done)
            continue
        args = tuple(done[a] for a in t.args)
        if args == t.args:
            done[t] = t
        else:
            done[t] = algebra.terms.make(t.op, args, t.ctype, t.text)
            done[t].hint = t.hint
    return done[term]
