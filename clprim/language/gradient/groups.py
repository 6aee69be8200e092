"""The gradient of a `Grouped`: sums over a group, what they hand on, and what an element gets.

An element reaches the results by its own map, and through the values of its group:

    gy · ∂y/∂x                        of the element alone
    Σ gy · ∂y/∂value                  sums over the group, one for each factor of elements
    … · ∂value/∂partial               once a group
    … · ∂partial/∂x                   of the element again

So a gradient needs a reduction and a map, as its operator did. What is of the group alone leaves
the sums and the map: a product is computed once a group. Values of the group, and results, that are
at hand stand for what they were computed from: the reciprocal of a sum for the sum, a result for
the exponential in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clprim.language.gradient.derive import refused
from clprim.language.gradient.fold import shares
from clprim.language.gradient.group_terms import GroupTerms
from clprim.language.gradient.monomials import Monomial, exchanged, hoisted
from clprim.language.gradient.reverse import Reverse
from clprim.language.gradient.simplify import Algebra
from clprim.language.gradient.terms import Term, Terms, below
from clprim.language.gradient.values import Refusal
from clprim.language.grouped_definition import GroupedDefinition
from clprim.language.preamble import Preamble


@dataclass(eq=False)
class Grouping:
    """Gradients of a `Grouped`."""

    terms: Terms
    preamble: Preamble
    types: Mapping[str, str]
    sums: list[Term]
    parts: dict[str, Term]
    elements: dict[str, Term]
    groups: dict[str, Term]
    values: dict[Term, Term]
    taken: list[Term]
    ahead: bool

    @property
    def real(self) -> str:
        """The type of real operands."""
        return self.terms.real

    def of_partials(self, term: Term) -> Term:
        """A term of a group with partials in place of values and statistics."""
        algebra = Algebra(self.terms)
        while any(t in self.values for t in below([term])):
            term = exchanged(algebra, term, self.values)
        return term


def derive_groups(
    definition: GroupedDefinition,
    real: str,
    ctypes: Mapping[str, str],
    grads: Sequence[str],
    wrt: Sequence[str],
    saves: Sequence[str],
    ahead: bool = False,
    once: Iterable[str] = (),
    *,
    lenient: bool = False,
) -> Grouping:
    """Derives gradients of a `Grouped`."""
    made = _Groups(definition, real, ctypes, saves, once, lenient)
    made.before = ahead
    try:
        return made.gradients(grads, wrt)
    except Refusal as refusal:
        raise refused(refusal, definition.snippets) from None


class _Groups(GroupTerms):
    def solve(self, name: str, result: Term) -> None:
        """Lets a result that is at hand stand for the one part of it that differs in a group."""
        saved = self.run.terms.leaf(name, self.run.terms.real)
        own = Monomial(1.0, ((saved, 1),))
        parts = self.monomials.split(self.monomials.sum(result), self.of_group)
        varying = [(shared, m) for shared, m in parts if m.powers]
        self.instead[result] = saved
        if len(varying) != 1 or len(varying[0][1].powers) != 1 or len(varying[0][0]) != 1:
            return
        shared, (factor, exponent) = varying[0][0][0], varying[0][1].powers[0]
        if len(parts) == 1 and abs(exponent) == 1:
            self.monomials.same[factor] = own.times(shared, -1).to(exponent)
        elif exponent == 1 and not shared.powers and abs(shared.factor) == 1 and not factor.args:
            rest = [m for ms, e in parts if not e.powers for m in ms]
            term = self.algebra.sub(saved, self.monomials.term(rest))
            self.instead[factor] = term if shared.factor == 1 else self.algebra.neg(term)

    def simplest(self, term: Term) -> Term:
        """A term with what is at hand in place of what it is computed from."""
        term = exchanged(self.algebra, term, self.instead)
        if not self.logarithms:
            return term
        done: dict[Term, Term] = {}
        for t in below([term]):
            new = exchanged(self.algebra, t, done) if t.args else t
            if new.op == "call" and new.text in ("exp", "native_exp") and self.solved:
                new = self.exponential(new)
            if new is not t:
                done[t] = new
        return done.get(term, term)

    def exponential(self, term: Term) -> Term:
        """exp(a + log b) as b · exp(a)."""
        rest, outside = [], Monomial(1.0)
        for m in self.monomials.sum(term.args[0]):
            leaf = m.powers[0][0] if len(m.powers) == 1 and m.powers[0][1] == 1 else None
            if leaf in self.logarithms and abs(m.factor) == 1:
                outside = outside.times(self.logarithms[leaf], int(m.factor))
            else:
                rest.append(m)
        make = self.run.terms.make
        inner = make("call", (self.monomials.term(rest),), term.ctype, term.text)
        return self.algebra.mul(self.monomials.term_of(outside), inner)

    def normal(self, term: Term) -> list[Monomial]:
        """A gradient as a sum of products."""
        return [n for m in self.monomials.sum(self.simplest(term)) for n in self.chosen(m)]

    def chosen(self, monomial: Monomial) -> list[Monomial]:
        """A product with a selection that the whole group makes, which is made once.

        The element's part of it must be finite where it is left out, as its operands are.
        """
        for n, (term, exponent) in enumerate(monomial.powers):
            if term.op != "?:" or exponent != 1 or not self.of_group(term.args[0]):
                continue
            condition, a, b = term.args
            if self.of_group(term) or (a.value != 0 and b.value != 0):
                continue
            others = monomial.powers[:n] + monomial.powers[n + 1 :]
            rest = Monomial(monomial.factor, others)
            inner = self.normal(b if a.value == 0 else a)
            found = []
            for m in inner:
                own = Monomial(1.0, tuple((t, e) for t, e in m.powers if not self.of_group(t)))
                if any(t.op not in _FINITE for t in below([self.monomials.term_of(own)])):
                    break
                shared = self.monomials.term_of(m.times(own, -1))
                zero = self.algebra.zero
                arms = (zero, shared) if a.value == 0 else (shared, zero)
                choice = self.run.terms.make("?:", (condition, *arms), shared.ctype)
                found.append(rest.times(own).times(Monomial(1.0, ((choice, 1),))))
            else:
                return found
        return [monomial]

    def summed(self, term: Term) -> Term:
        """The sum of an element's term over its group."""
        found = self.algebra.zero
        for shared, own in self.monomials.split(self.normal(term), self.of_group):
            element = self.monomials.term_of(own)
            if own.powers:
                leaf = self.sums.get(element)
                if leaf is None:
                    name = f"sum{len(self.sums)}"
                    leaf = self.sums[element] = self.run.terms.leaf(name, self.run.terms.real)
            else:
                leaf = self.count
            factor = self.monomials.term(shared)
            found = self.algebra.add(found, self.algebra.mul(factor, leaf))
        return found

    # The gradients

    def gradients(self, grads: Sequence[str], wrt: Sequence[str]) -> Grouping:
        """All of it."""
        self.grads = grads
        self.solved = any(name.startswith("y") for name in self.saves)
        for name in self.saves:
            result = self.results[int(name[1:])] if name[0] == "y" else None
            if result is not None:
                self.solve(name, result)
        given = [
            (result, self.run.leaf(f"gy{n}"))
            for n, (result, kind) in enumerate(zip(self.results, grads, strict=True))
            if kind != "none" and result is not None
        ]
        reverse = Reverse(self.run.terms, self.run.reasons)
        numbers = [self.run.leaf(n) for n in wrt if n[0] == "w" or n in self.once]
        arrays = [self.run.leaf(n) for n in wrt if n[0] == "x" and n not in self.once]
        direct = reverse.gradients(given, [*self.values, *numbers])
        back = [
            (term, self.summed(direct[leaf]))
            for leaf, term in zip(self.values, self.finalized, strict=True)
        ]
        handed = reverse.gradients(back, [*self.partials, *self.statistics, *numbers])
        parts = self.handed({t: self.once_a_group(g) for t, g in handed.items()})
        own = [*given, *parts]
        found = reverse.gradients(own, [*arrays, *numbers])
        groups = {}
        for leaf in numbers:
            # What elements have of it, beside what the results have of it in `direct`.
            whole = self.algebra.add(self.summed(found[leaf]), handed[leaf])
            groups[f"g{leaf.text}"] = self.once_a_group(whole)
        elements = {f"g{leaf.text}": self.element(found[leaf]) for leaf in arrays}
        return self.grouping(elements, groups)

    def once_a_group(self, term: Term) -> Term:
        """A term of a group, in its simplest form."""
        found = self.normal(term)
        expanded = self.monomials.sum(self.simplest(term), whole=True)
        return self.monomials.term(expanded if len(expanded) < min(2, len(found)) else found)

    def handed(self, given: Mapping[Term, Term]) -> list[tuple[Term, Term]]:
        """What partials and statistics hand to the terms that they take of an element."""
        algebra = self.algebra
        found: list[tuple[Term, Term]] = []
        gradients = [given[p] for p in self.partials]
        for leaf, (kind, element, mean) in self.statistics.items():
            g = algebra.div(given[leaf], self.count)
            if kind == "variance":
                distance = algebra.sub(element, mean)
                g = algebra.mul(algebra.mul(algebra.number(2.0), g), distance)
            found.append((element, g))
        # Sums of exponentials depend on their maximum, which takes its share before it hands on.
        order = sorted(range(len(gradients)), key=lambda n: self.kept[n].kind in ("max", "min"))
        for n in order:
            kept, g, own = self.kept[n], gradients[n], self.partials[n]
            if g.value == 0 or kept.kind in ("count", "position"):
                continue
            match kept.kind:
                case "sum" | "deviations":
                    found += shares(algebra, kept, self.partials, own, g)
                case "mean":
                    found.append((kept.element[0], algebra.div(g, self.count)))
                case "exponentials":
                    found += shares(algebra, kept, self.partials, own, g)
                    top = kept.of[0]
                    moved = algebra.sub(gradients[top], algebra.mul(g, own))
                    gradients[top] = self.once_a_group(moved)
                case "max" | "min":
                    won = self.run.terms.make("==", (kept.element[0], own), "int")
                    alike = algebra.select(won, algebra.one, algebra.zero)
                    share = algebra.div(g, self.summed(alike))
                    found.append((kept.element[0], algebra.select(won, share, algebra.zero)))
                case _:
                    name = own.text
                    raise self.definition.taken.step.error(
                        name,
                        f"what {name} keeps has no gradient that is known: it is no sum, no "
                        "greatest or least element, no mean, variance or sum of exponentials "
                        "beside its maximum",
                    )
        return found

    def element(self, term: Term) -> Term:
        """The gradient of an element, in what is computed once a group."""
        found = self.algebra.zero
        for shared, own in self.monomials.split(self.normal(term), self.of_group):
            factor = self.part(self.monomials.term(shared))
            element = self.hoisted(self.monomials.term_of(own))
            found = self.algebra.add(found, self.algebra.mul(element, factor))
        return found

    def part(self, term: Term) -> Term:
        """What is computed once a group; what is at hand, and numbers, are not."""
        if term.value is not None or (not term.args and self.at_hand(term)):
            return term
        leaf = self.parts.get(term)
        if leaf is None:
            name = f"part{len(self.parts)}"
            leaf = self.parts[term] = self.run.terms.leaf(name, self.run.terms.real)
        return leaf

    def hoisted(self, term: Term) -> Term:
        """An element's term in which what is of the group alone is computed once a group."""
        return hoisted(self.algebra, term, self.is_computed_once, self.part)

    def is_computed_once(self, term: Term) -> bool:
        """Whether a term is of the group alone, and no size."""
        return self.of_group(term) and not term.text.startswith("size(")

    def at_hand(self, leaf: Term) -> bool:
        """Whether a kernel is given the value of a leaf."""
        text = leaf.text
        if text in self.saves or text.startswith("part"):
            return True
        if text.startswith(("sum", "count")):
            return False
        return self.ahead() or not text.startswith(_COMPUTED)

    def ahead(self) -> bool:
        """Whether values of groups that are not at hand are computed before the sums."""
        return self.before or self.computes(self.sums)

    def computes(self, roots: Iterable[Term]) -> bool:
        """Whether terms need partials, or what is computed from them, that are not at hand."""
        names = {t.text for t in below(roots) if t.op == "name"}
        return any(n.startswith(_COMPUTED) and n not in self.saves for n in names)

    def grouping(self, elements: dict[str, Term], groups: dict[str, Term]) -> Grouping:
        parts = {leaf.text: term for term, leaf in self.parts.items()}
        everything = [*self.sums, *self.parts, *elements.values(), *groups.values()]
        return Grouping(
            self.run.terms,
            self.definition.taken.expr.preamble,
            self.types,
            list(self.sums),
            parts,
            elements,
            groups,
            self.defined,
            self.taken,
            self.ahead() and self.computes(everything),
        )


_FINITE = frozenset("name number + - * neg".split())
#: What is computed from partials, and these.
_COMPUTED = ("reduce_y", "group_y", "mean0", "variance0")
