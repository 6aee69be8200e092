"""What the steps of a reduction keep, and what each element of it does to that.

Three forms are read off the step itself: partials that add something up, that multiply it, and
that keep the greatest or least of it (with what the winner brings). A step of another form, such as
Welford's, is *tried out* on random numbers, in any order that it is given: if what it keeps is a
mean, a sum of squared deviations, or a sum of exponentials beside their maximum, to the last digits
and in every trial, its derivative is that statistic's. Everything else is refused.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from clprim.language.definition import Accumulation, ReductionDefinition
from clprim.language.gradient.complex_run import flat_of, start_pairs
from clprim.language.gradient.derive import start, terms_of
from clprim.language.gradient.simplify import Algebra
from clprim.language.gradient.terms import Term, Terms, below
from clprim.language.gradient.trials import Kept, Step, tried
from clprim.language.gradient.values import Vector


class Accumulated:
    """The snippets that take elements into partials, run on terms, and what partials keep."""

    def __init__(
        self,
        taken: Accumulation | ReductionDefinition,
        positions: Container[int],
        types: Mapping[str, str],
        leaves: Sequence[tuple[str, str]],
        inputs: Iterable[str],
        *,
        real: str,
        lenient: bool,
        pairs: Container[str] | None = None,
    ) -> None:
        kinds = {f"reduce_y{n}": "long" if n in positions else real for n in range(taken.partials)}
        kinds |= {name: f"{real}2" for name in kinds if pairs and name in pairs}
        elements = [f"y{n}" for n in range(taken.values)]
        ends = [(f"{end}_{n}", kind) for n, kind in kinds.items() for end in _ENDS]
        first = [("index", "long"), ("reduce_item", "long")]
        self.types = {**dict.fromkeys(elements, real), **types, **kinds}
        every = [*first, *ends, *leaves, *kinds.items()]
        begun = start if pairs is None else start_pairs
        self.run = begun(taken.expr.preamble, real, self.types, every)
        self.run.lenient = lenient
        self.algebra, self.names = Algebra(self.run.terms), list(kinds)
        self.labels = self.flat(self.names)
        self.partials = [self.run.leaf(name) for name in self.labels]
        starts = self.ran(taken.init, self.names)
        self.taken = [t for t in self.ran(taken.expr, elements) if t is not None]
        self.begin()
        updates = [t for t in self.ran(taken.step, self.names, fresh=False) if t is not None]
        known = [t for t in self.taken if t.real]
        known += [self.run.leaf(name) for name in self.flat(inputs)]
        known = list(dict.fromkeys([*known, *_elements_in(updates, self.partials)]))
        self.step = Step(starts, updates, known, self.partials)
        self.kept = _classified(self.run.terms, self.step)
        self.begin()

    def begin(self) -> None:
        """Lets partials be what they are named."""
        self.run.cells.update((name, self.run.leaves[name]) for name in self.names)

    def flat(self, names: Iterable[str]) -> list[str]:
        """Names, those of parts in place of complex ones."""
        return [part for name in names for part in flat_of(name, self.types[name])]

    def ran(self, snippet: Any, names: Sequence[str], *, fresh: bool = True) -> list[Term | None]:
        """Runs a snippet; returns what it assigned to these names."""
        for name in names:
            self.run.target(name, self.types[name])
            if fresh:
                self.run.cells[name] = None
        terms_of(self.run, snippet)
        cells = [self.run.cells[name] for name in names]
        parts = [c.components if isinstance(c, Vector) else (c,) for c in cells]
        return [term if isinstance(term, Term) else None for each in parts for term in each]


_ENDS = ("lowest", "highest")


def _classified(terms: Terms, step: Step) -> list[Kept]:
    """Returns what every partial keeps."""
    updates, partials = step.updates, step.partials
    forms = _Forms(terms, partials)
    found = [forms.kept(update, partial) for update, partial in zip(updates, partials, strict=True)]
    forms.winners(updates, found)
    for n, (update, kept) in enumerate(zip(updates, found, strict=True)):
        if kept.kind == "unknown" and _counts(update, partials[n]):
            found[n] = Kept("count")
    if any(kept.kind == "unknown" for kept in found):
        found = [
            t if k.kind == "unknown" and t is not None else k
            for k, t in zip(found, tried(step), strict=True)
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
        for kind, sign in (("sum", "+"), ("product", "*")):
            element = self.beside(update, own, sign)
            if element is not None:
                return Kept(kind, (element,))
        return self.extreme(update, own) or Kept("unknown")

    def beside(self, update: Term, own: Term, sign: str) -> Term | None:
        """E of ``own + E`` or of ``own * E``."""
        algebra, adds = self.algebra, sign == "+"
        if update is own:
            return algebra.zero if adds else algebra.one
        join, part = (algebra.add, algebra.sub) if adds else (algebra.mul, algebra.div)
        match update.op:
            case op if op == sign:
                a, b = update.args
                for one, other in ((a, b), (b, a)):
                    if self.free(other):
                        rest = self.beside(one, own, sign)
                        return None if rest is None else join(rest, other)
            case "-" | "/" as op if adds == (op == "-") and self.free(update.args[1]):
                rest = self.beside(update.args[0], own, sign)
                return None if rest is None else part(rest, update.args[1])
            case "?:" if self.free(update.args[0]):
                a_, b_ = (self.beside(arm, own, sign) for arm in update.args[1:])
                if a_ is not None and b_ is not None:
                    return algebra.select(update.args[0], a_, b_)
            case "call" if adds and update.text in ("fma", "mad"):
                a, b, c = update.args
                rest = self.beside(c, own, sign) if self.free(a) and self.free(b) else None
                return None if rest is None else algebra.add(rest, algebra.mul(a, b))
            case "cast" if adds and update.real:
                return self.beside(update.args[0], own, sign)
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


def _elements_in(updates: Sequence[Term], partials: Sequence[Term]) -> list[Term]:
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
