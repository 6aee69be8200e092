"""What the steps of a reduction keep, and what each element of it does to that.

Three forms are read off the step itself: partials that add something up, that multiply it, and
that keep the greatest or least of it (with what the winner brings). A step of another form, such as
Welford's, is *tried out* on random numbers, in any order that it is given: if what it keeps is a
mean, a sum of squared deviations, or a sum of exponentials beside their maximum, to the last digits
and in every trial, its derivative is that statistic's. Everything else is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from clprim.language.gradient.simplify import Algebra
from clprim.language.gradient.terms import Term, Terms, below
from clprim.language.gradient.trials import Kept, tried


def classify(
    terms: Terms,
    starts: Sequence[Term | None],
    updates: Sequence[Term],
    values: Sequence[Term],
    partials: Sequence[Term],
) -> list[Kept]:
    """Returns what every partial keeps."""
    forms = _Forms(terms, partials)
    found = [forms.kept(update, partial) for update, partial in zip(updates, partials, strict=True)]
    forms.winners(updates, found)
    for n, (update, kept) in enumerate(zip(updates, found, strict=True)):
        if kept.kind == "unknown" and _counts(update, partials[n]):
            found[n] = Kept("count")
    if any(kept.kind == "unknown" for kept in found):
        statistics = tried(starts, updates, values, partials)
        found = [
            t if k.kind == "unknown" and t is not None else k
            for k, t in zip(found, statistics, strict=True)
        ]
    return found


class _Forms:
    """Reads steps off their form."""

    def __init__(self, terms: Terms, partials: Sequence[Term]) -> None:
        self.algebra = Algebra(terms)
        self.partials = frozenset(partials)

    def free(self, term: Term) -> bool:
        """Whether a term is of the element alone."""
        return not any(t in self.partials for t in below([term]))

    def kept(self, update: Term, own: Term) -> Kept:
        """What one partial keeps, by itself."""
        element = self.added(update, own)
        if element is not None:
            return Kept("sum", (element,))
        element = self.multiplied(update, own)
        if element is not None:
            return Kept("product", (element,))
        return self.extreme(update, own) or Kept("unknown")

    def added(self, update: Term, own: Term) -> Term | None:
        """E of ``own + E``."""
        algebra = self.algebra
        if update is own:
            return algebra.zero
        match update.op:
            case "+":
                a, b = update.args
                for one, other in ((a, b), (b, a)):
                    if self.free(other):
                        rest = self.added(one, own)
                        return None if rest is None else algebra.add(rest, other)
            case "-" if self.free(update.args[1]):
                rest = self.added(update.args[0], own)
                return None if rest is None else algebra.sub(rest, update.args[1])
            case "?:" if self.free(update.args[0]):
                a_, b_ = (self.added(arm, own) for arm in update.args[1:])
                if a_ is not None and b_ is not None:
                    return algebra.select(update.args[0], a_, b_)
            case "call" if update.text in ("fma", "mad"):
                a, b, c = update.args
                rest = self.added(c, own) if self.free(a) and self.free(b) else None
                return None if rest is None else algebra.add(rest, algebra.mul(a, b))
            case "cast" if update.real:
                return self.added(update.args[0], own)
        return None

    def multiplied(self, update: Term, own: Term) -> Term | None:
        """E of ``own * E``."""
        algebra = self.algebra
        if update is own:
            return algebra.one
        match update.op:
            case "*":
                a, b = update.args
                for one, other in ((a, b), (b, a)):
                    if self.free(other):
                        rest = self.multiplied(one, own)
                        return None if rest is None else algebra.mul(rest, other)
            case "/" if self.free(update.args[1]):
                rest = self.multiplied(update.args[0], own)
                return None if rest is None else algebra.div(rest, update.args[1])
            case "?:" if self.free(update.args[0]):
                a_, b_ = (self.multiplied(arm, own) for arm in update.args[1:])
                if a_ is not None and b_ is not None:
                    return algebra.select(update.args[0], a_, b_)
        return None

    def extreme(self, update: Term, own: Term) -> Kept | None:
        """E of ``max(own, E)``, ``E > own ? E : own`` and the like."""
        if update.op == "call" and update.text in ("max", "min", "fmax", "fmin"):
            a, b = update.args
            for one, other in ((a, b), (b, a)):
                if one is own and self.free(other):
                    return Kept(update.text[-3:], (other,))
        if update.op == "?:":
            found = self.decision(update.args[0], own)
            if found is not None:
                element, greater = found
                a, b = update.args[1:]
                if (a, b) == (element, own):
                    return Kept("max" if greater else "min", (element,))
                if (a, b) == (own, element):
                    return Kept("min" if greater else "max", (element,))
        return None

    def decision(self, condition: Term, own: Term) -> tuple[Term, bool] | None:
        """E of ``E > own``, and whether greater values win."""
        if condition.op in ("<", "<=", ">", ">="):
            a, b = condition.args
            if b is own and self.free(a):
                return a, condition.op[0] == ">"
            if a is own and self.free(b):
                return b, condition.op[0] == "<"
        return None

    def winners(self, updates: Sequence[Term], found: list[Kept]) -> None:
        """Partials that are taken where another is: ``if (E > r0) { r0 = E; r1 = F; }``."""
        deciding = {
            update.args[0]: n
            for n, (update, kept) in enumerate(zip(updates, found, strict=True))
            if kept.kind in ("max", "min") and update.op == "?:"
        }
        for n, (update, kept) in enumerate(zip(updates, found, strict=True)):
            if kept.kind != "unknown" or update.op != "?:" or update.args[0] not in deciding:
                continue
            decider = deciding[update.args[0]]
            taken = updates[decider].args[1] is found[decider].element[0]
            mine, old = update.args[1:] if taken else update.args[:0:-1]
            if old in self.partials and self.free(mine):
                plain = mine
                while plain.op == "cast":
                    plain = plain.args[0]
                position = plain.op == "name" and plain.text in ("reduce_item", "index")
                kind = "position" if position else "winner"
                found[n] = Kept(kind, (plain if position else mine,), (decider,))


def elements_in(updates: Sequence[Term], partials: Sequence[Term]) -> list[Term]:
    """Returns the longest terms of an element alone that steps are made of."""
    own = frozenset(partials)
    free: dict[Term, bool] = {}
    for term in below(updates):
        free[term] = term not in own and all(free[a] for a in term.args)
    inside = [a for term in free if not free[term] for a in term.args]
    found = [t for t in dict.fromkeys(inside) if free[t] and t.real and t.args]
    return [t for t in found if any(n.text[:1] == "x" for n in below([t]))]


def _counts(update: Term, own: Term) -> bool:
    """Whether elements only decide what becomes of a partial, so that it has no gradient in them.

    No gradient passes conditions and whole numbers.
    """
    seen: set[Term] = set()
    ahead = [update]
    while ahead:
        term = ahead.pop()
        if term in seen or not term.real or term is own:
            continue
        if term.op == "name":
            return False
        seen.add(term)
        ahead.extend(term.args[1:] if term.op == "?:" else term.args)
    return True
