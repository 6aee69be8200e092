"""Sums of a group by the sums of its parts, and what every part has in common.

Of a group normalisation, a channel of an image is a part of a group: weights are one value a
channel, and their gradients are sums a channel. Both they and the sums of the group are sums of
what a channel adds up to, times something of the channel, so that the elements are read once:

    inner     sums along the part's axes, of what differs within a part
    tables    what is of the part alone, computed once for each
    sums      of the group, and gradients of weights, in these
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from clprim.language.gradient.groups import Grouping
from clprim.language.gradient.monomials import Monomials, hoisted
from clprim.language.gradient.simplify import Algebra
from clprim.language.gradient.terms import Term, below


@dataclass
class PartsOfGroups:
    """The gradients of a `Grouped` whose groups have parts."""

    inner: dict[str, Term] = field(default_factory=dict)
    early: dict[str, Term] = field(default_factory=dict)
    sums: dict[str, Term] = field(default_factory=dict)
    late: dict[str, Term] = field(default_factory=dict)
    elements: dict[str, Term] = field(default_factory=dict)
    summed: dict[str, Term] = field(default_factory=dict)


def split_groups(
    grouping: Grouping,
    sums: Sequence[str],
    elements: Sequence[str],
    summed: Sequence[str],
    constant: Callable[[str], bool],
) -> PartsOfGroups | None:
    """Takes sums apart."""
    made = _Split(grouping, constant)
    for n, term in enumerate(grouping.sums):
        if f"sum{n}" in sums:
            made.found.sums[f"sum{n}"] = made.summed(term)
    for name in summed:
        made.found.summed[name] = made.summed(grouping.elements[name])
    if made.refused:
        return None
    for name in elements:
        made.found.elements[name] = made.element(grouping.elements[name])
    return made.found


class _Split:
    def __init__(self, grouping: Grouping, constant: Callable[[str], bool]) -> None:
        self.terms = grouping.terms
        self.algebra = Algebra(grouping.terms)
        self.monomials = Monomials(self.algebra)
        self.constant = constant
        self.found = PartsOfGroups()
        self.leaves: dict[Term, Term] = {}
        self.refused = False

    def of_part(self, term: Term) -> bool:
        """Whether a term is one value a part."""
        for t in below([term]):
            if t.op == "call" and t.text.startswith(("at_", "inside_")):
                return False
            if t.op == "name" and not self.constant(t.text):
                return False
        return True

    def summed(self, term: Term) -> Term:
        """What adds up to a term's sum, of parts."""
        total = self.algebra.zero
        for shared, own in self.monomials.split(self.monomials.sum(term), self.of_part):
            if not own.powers:
                self.refused = True
            element = self.hoisted(self.monomials.term_of(own), self.found.early)
            leaf = self.leaf("inner", element, self.found.inner)
            total = self.algebra.add(total, self.algebra.mul(self.monomials.term(shared), leaf))
        return total

    def element(self, term: Term) -> Term:
        """A gradient of an element, in what is computed once a part."""
        total = self.algebra.zero
        for shared, own in self.monomials.split(self.monomials.sum(term), self.of_part):
            factor = self.hoisted(self.monomials.term(shared), self.found.late)
            element = self.hoisted(self.monomials.term_of(own), self.found.late)
            total = self.algebra.add(total, self.algebra.mul(element, factor))
        return total

    def hoisted(self, term: Term, tables: dict[str, Term]) -> Term:
        """A term in which what is of the part alone is read from a table."""

        def read(t: Term) -> Term:
            made = any(n.op == "name" and n.text[0] != "w" for n in below([t]))
            return self.leaf("table", t, tables) if made else t

        return hoisted(self.algebra, term, self.of_part, read)

    def leaf(self, kind: str, term: Term, into: dict[str, Term]) -> Term:
        """The name of a term, the same one for equal terms."""
        known = self.leaves.get(term)
        if known is None:
            count = sum(leaf.text.startswith(kind) for leaf in self.leaves.values())
            known = self.leaves[term] = self.terms.leaf(f"{kind}{count}", self.terms.real)
            into[known.text] = term
        return known
