"""What the snippets of a `Grouped` compute, as terms, and what of it is one value a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clprim.language.gradient.monomials import Monomial, Monomials, exchanged
from clprim.language.gradient.steps import Accumulated
from clprim.language.gradient.terms import Term, below
from clprim.language.gradient.trials import recognised
from clprim.language.grouped_definition import GroupedDefinition


class GroupTerms(Accumulated):
    """The terms of a `Grouped`: partials, values of the group, results."""

    def __init__(
        self,
        definition: GroupedDefinition,
        real: str,
        ctypes: Mapping[str, str],
        saves: Sequence[str],
        once: Iterable[str],
        lenient: bool,
    ) -> None:
        self.definition, self.saves = definition, saves
        self.grads: Sequence[str] = ()
        self.before = False
        elements = [f"y{n}" for n in range(definition.results)]
        values = [f"group_y{n}" for n in range(definition.group_values)]
        leaves = [*ctypes.items(), ("count", real), *((f"g{name}", real) for name in elements)]
        leaves += [(v, real) for v in values]
        self.once = {f"x{n}" for n in definition.finalized} | {*once}
        inputs = [x for n in range(definition.inputs) if (x := f"x{n}") not in self.once]
        types = {**ctypes, **dict.fromkeys([*elements, *values], real)}
        positions = definition.reduction.definition.positions
        given = definition.taken, positions, types, leaves, inputs
        super().__init__(*given, real=real, lenient=lenient)
        self.monomials = Monomials(self.algebra)
        self.count = self.run.leaf("count")
        self.values = [self.run.leaf(name) for name in values]
        whole = [t for t in self.ran(definition.finalize, values) if t is not None]
        self.finalized = [_plain(t) for t in whole]
        # Means and variances are known as such, whatever they are computed from.
        self.statistics: dict[Term, tuple[str, Term, Term]] = {}
        self.defined: dict[Term, Term] = {}
        self.recognise(recognised(self.step, self.finalized, self.once))
        standing = {term: leaf for leaf, term in self.defined.items()}
        for leaf, term in zip(self.values, whole, strict=True):
            self.defined[leaf] = exchanged(self.algebra, term, standing)
        self.run.cells.update(zip(values, self.values, strict=True))
        self.results = self.ran(definition.each, elements)
        self.sums: dict[Term, Term] = {}
        self.parts: dict[Term, Term] = {}
        self.instead: dict[Term, Term] = {}
        self.logarithms: dict[Term, Monomial] = {}
        for leaf, term in zip(self.values, self.finalized, strict=True):
            self.stands_for(leaf, term)
        same = self.monomials.same
        same |= {exchanged(self.algebra, t, self.instead): m for t, m in same.items()}

    def recognise(self, found: Mapping[Term, Sequence[Any]]) -> None:
        """Gives leaves to a mean and a variance that values of the group are computed from.

        Nothing is gained where there is a mean alone: that is a sum.
        """
        inside = below(self.finalized)
        means = {k.element[0]: t for t in inside for k in found.get(t, ()) if k.kind == "mean"}
        spread = [
            (t, k.element[0])
            for t in inside
            for k in found.get(t, ())
            if k.kind == "variance" and k.element[0] in means
        ]
        if not spread:
            return
        # The element whose mean is a value of the group, if there is one; the last term of equals.
        variance, element = max(
            spread, key=lambda pair: (means[pair[1]] in self.finalized, inside.index(pair[0]))
        )
        make = self.run.terms.leaf
        leaves = {means[element]: make("mean0", self.run.terms.real)}
        leaves[variance] = make("variance0", self.run.terms.real)
        for term, leaf in leaves.items():
            self.defined[leaf] = term
            self.statistics[leaf] = (leaf.text[:-1], element, leaves[means[element]])
        self.finalized = [exchanged(self.algebra, term, leaves) for term in self.finalized]

    def stands_for(self, leaf: Term, term: Term) -> None:
        """Lets a value of the group stand for what it is a power or a logarithm of."""
        if term.op == "call" and term.text in ("log", "native_log"):
            self.logarithms[leaf] = self.monomials.product(term.args[0])
        m = self.monomials.product(term)
        if len(m.powers) != 1 or abs(m.powers[0][1]) != 1 or not m.factor:
            return
        (factor, exponent) = m.powers[0]
        if factor in self.monomials.same or factor is leaf:
            return
        own = Monomial(1.0, ((leaf, 1),)).times(Monomial(m.factor), -1).to(exponent)
        self.monomials.same[factor] = own
        if m.factor == 1 and exponent == 1:
            self.instead[factor] = leaf

    # What belongs to a group

    def of_group(self, term: Term) -> bool:
        """Whether a term is one value a group."""
        return not any(self.varies(t) for t in below([term]))

    def varies(self, term: Term) -> bool:
        """Whether a leaf differs from element to element."""
        if term.op == "call" and term.text.startswith(("at_", "inside_")):
            return True
        if term.op != "name":
            return False
        text = term.text
        if text.startswith("gy"):
            return self.grads[int(text[2:])] == "array"
        if text[0] == "x" and text[1:].isdigit():
            return text not in self.once
        return (text[0] == "y" and text[1:].isdigit()) or text in _PLACES or "(" in text


def _plain(term: Term) -> Term:
    """A value without ``+ (a - a)``, which is 0, or NaN as the value at hand is then."""
    if term.op == "+" and term.real:
        for one, other in (term.args, term.args[::-1]):
            if other.op == "-" and other.args[0] is other.args[1]:
                return _plain(one)
    return term


_PLACES = frozenset(["index", "reduce_item"])
