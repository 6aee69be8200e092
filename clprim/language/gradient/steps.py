"""What the steps of a reduction keep, and what each element of it does to that.

Three forms are read off the step itself: partials that add something up, that multiply it, and
that keep the greatest or least of it (with what the winner brings). A step of another form, such as
Welford's, is *tried out* on random numbers, in any order that it is given: if what it keeps is a
mean, a sum of squared deviations, or a sum of exponentials beside their maximum, to the last digits
and in every trial, its derivative is that statistic's. Everything else is refused.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from clprim.language.gradient.evaluate import Unknown, evaluate
from clprim.language.gradient.simplify import Algebra
from clprim.language.gradient.terms import Term, Terms, below

__all__ = ["Kept", "classify"]

_TRIALS, _ELEMENTS, _CLOSE = 3, 7, 1e-10


@dataclass(frozen=True)
class Kept:
    """What a partial keeps.

    Attributes:
        kind: ``sum``, ``product``, ``max``, ``min``, ``winner`` (what the element that won another
            partial brought), ``position``, ``count``, ``mean``, ``deviations`` (a sum of squares
            around a mean, or of products around two), ``exponentials`` (a sum relative to a
            maximum, each times a weight or not); ``unknown``.
        element: What it takes of an element; of deviations and exponentials two.
        of: The partial that decides: whose winner, whose mean, whose maximum.
    """

    kind: str
    element: tuple[Term, ...] = ()
    of: tuple[int, ...] = field(default=())


def classify(
    terms: Terms,
    starts: Sequence[Term | None],
    updates: Sequence[Term],
    values: Sequence[Term],
    partials: Sequence[Term],
) -> list[Kept]:
    """Returns what every partial keeps.

    Args:
        terms: Where terms are kept.
        starts: What every partial starts with, where that is known.
        updates: What a step makes of it.
        values: What the expression computes of an element, and the elements themselves.
        partials: The names of the partials, as terms.
    """
    forms = _Forms(terms, partials)
    found = [forms.kept(update, partial) for update, partial in zip(updates, partials, strict=True)]
    forms.winners(updates, found)
    for n, (update, kept) in enumerate(zip(updates, found, strict=True)):
        if kept.kind == "unknown" and _counts(update, partials[n]):
            found[n] = Kept("count")
    if any(kept.kind == "unknown" for kept in found):
        tried = _tried(starts, updates, values, partials)
        found = [
            t if k.kind == "unknown" and t is not None else k
            for k, t in zip(found, tried, strict=True)
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


def _tried(
    starts: Sequence[Term | None],
    updates: Sequence[Term],
    values: Sequence[Term],
    partials: Sequence[Term],
) -> list[Kept | None]:
    """What partials keep, by what becomes of random numbers."""
    nothing: list[Kept | None] = [None] * len(partials)
    if any(start is None for start in starts):
        return nothing
    draw = random.Random(20)
    names = sorted(
        {t.text for t in below([*updates, *values]) if t.op == "name" and t not in partials}
    )
    left: list[list[Kept]] | None = None
    for _ in range(_TRIALS):
        try:
            found = _trial(draw, names, starts, updates, values, partials)
        except Unknown:
            return nothing
        if left is None:
            left = found
        else:
            left = [[k for k in a if k in b] for a, b in zip(left, found, strict=True)]
    assert left is not None
    return [kept[0] if kept else None for kept in left]


def _trial(
    draw: random.Random,
    names: Sequence[str],
    starts: Sequence[Term | None],
    updates: Sequence[Term],
    values: Sequence[Term],
    partials: Sequence[Term],
) -> list[list[Kept]]:
    """One sequence of elements: the statistics that every partial may be."""
    fixed = {name: draw.uniform(0.5, 2) for name in names if name[0] == "w"}
    for n in range(len(partials)):
        fixed |= {f"lowest_reduce_y{n}": -math.inf, f"highest_reduce_y{n}": math.inf}
    fixed |= {"FLT_MAX": 3.4e38, "MAXFLOAT": 3.4e38}
    state = evaluate([s for s in starts if s is not None], fixed)
    rows: list[list[float]] = []
    for item in range(_ELEMENTS):
        leaves = {
            name: fixed[name]
            if name in fixed
            else float(item)
            if name == "reduce_item"
            else draw.uniform(-2, 2)
            for name in names
        }
        if any("(" in name for name in leaves):  # coord(0)
            raise Unknown
        leaves |= {p.text: v for p, v in zip(partials, state, strict=True)}
        rows.append(evaluate(list(values), leaves))
        state = evaluate(list(updates), leaves)
    columns = list(zip(*rows, strict=True))
    known = list(_statistics(values, columns))
    found = [
        [kept for kept, right in known if abs(value - right) <= _CLOSE * _size(right)]
        for value in state
    ]
    # What is relative to a maximum or a mean must have that partial beside it.
    return [[k for k in (_placed(k, found) for k in kept) if k is not None] for kept in found]


def _size(value: float) -> float:
    return 1 + abs(value)


def _placed(kept: Kept, found: Sequence[Sequence[Kept]]) -> Kept | None:
    """A statistic with the partials that it is relative to."""
    wanted = {"deviations": "mean", "exponentials": "max"}.get(kept.kind)
    if wanted is None:
        return kept
    of: list[int] = []
    for element in kept.element if kept.kind == "deviations" else kept.element[-1:]:
        places = [n for n, ks in enumerate(found) if Kept(wanted, (element,)) in ks]
        if not places:
            return None
        of.append(places[0])
    return Kept(kept.kind, kept.element, tuple(of))


def _statistics(
    values: Sequence[Term], columns: Sequence[Sequence[float]]
) -> list[tuple[Kept, float]]:
    """All statistics that are known, of some elements."""
    count = len(columns[0])
    found: list[tuple[Kept, float]] = [(Kept("count"), float(count)), (Kept("count"), 0.0)]
    means = [math.fsum(c) / count for c in columns]
    for n, a in enumerate(columns):
        found.append((Kept("sum", (values[n],)), math.fsum(a)))
        found.append((Kept("mean", (values[n],)), means[n]))
        found.append((Kept("max", (values[n],)), max(a)))
        found.append((Kept("min", (values[n],)), min(a)))
        top = max(a)
        powers = [math.exp(v - top) for v in a]
        found.append((Kept("exponentials", (values[n],)), math.fsum(powers)))
        for m, b in enumerate(columns):
            around = math.fsum((p - means[n]) * (q - means[m]) for p, q in zip(a, b, strict=True))
            if m <= n:
                found.append((Kept("deviations", (values[n], values[m])), around))
            weighted = math.fsum(q * p for p, q in zip(powers, b, strict=True))
            found.append((Kept("exponentials", (values[m], values[n])), weighted))
    return found
