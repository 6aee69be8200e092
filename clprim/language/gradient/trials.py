"""What the steps of a reduction keep, found out by trying them on random numbers.

What a partial holds behind some elements is held to statistics of these: where it is one of them in
nearly all digits, and in every trial, it is that one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clprim.language.gradient.evaluate import Unknown, evaluate
from clprim.language.gradient.terms import Term, below

_TRIALS, _ELEMENTS, _CLOSE = 3, 7, 1e-10


@dataclass(frozen=True)
class Kept:
    """What a partial keeps."""

    kind: str
    element: tuple[Term, ...] = ()
    of: tuple[int, ...] = field(default=())


class Step(NamedTuple):
    """Partials at first, what an element makes of them, terms of the element, and the partials."""

    starts: Sequence[Term | None]
    updates: Sequence[Term]
    values: Sequence[Term]
    partials: Sequence[Term]

    def names(self, roots: Sequence[Term] = ()) -> list[str]:
        """All that it reads beside partials, and what some terms read."""
        found = {t.text for t in below([*self.updates, *self.values, *roots]) if t.op == "name"}
        return sorted(found - {p.text for p in self.partials})


def tried(step: Step) -> list[Kept | None]:
    """What partials keep, by what becomes of random numbers."""
    nothing: list[Kept | None] = [None] * len(step.partials)
    if any(start is None for start in step.starts):
        return nothing
    draw, names = random.Random(20), step.names()
    left: list[list[Kept]] | None = None
    for _ in range(_TRIALS):
        try:
            found = _trial(draw, names, step)
        except Unknown:
            return nothing
        if left is None:
            left = found
        else:
            left = [[k for k in a if k in b] for a, b in zip(left, found, strict=True)]
    assert left is not None
    return [kept[0] if kept else None for kept in left]


def _trial(draw: random.Random, names: Sequence[str], step: Step) -> list[list[Kept]]:
    """One sequence of elements: the statistics that every partial may be."""
    columns, state, _ = _run(draw, names, step)
    known = list(_statistics(step.values, columns))
    found = [
        [kept for kept, right in known if abs(value - right) <= _CLOSE * _size(right)]
        for value in state
    ]
    # What is relative to a maximum or a mean must have that partial beside it.
    return [[k for k in (_placed(k, found) for k in kept) if k is not None] for kept in found]


def _run(
    draw: random.Random, names: Sequence[str], step: Step, once: Container[str] = ()
) -> tuple[list[tuple[float, ...]], list[float], dict[str, float]]:
    """Takes random elements: what they computed, the partials then, and names that stayed.

    ``once`` are names of one value a group, as numbers ``w0`` are.
    """
    fixed = {name: draw.uniform(0.5, 2) for name in names if name[0] == "w" or name in once}
    for n in range(len(step.partials)):
        fixed |= {f"lowest_reduce_y{n}": -math.inf, f"highest_reduce_y{n}": math.inf}
    fixed |= {"FLT_MAX": 3.4e38, "MAXFLOAT": 3.4e38}
    state = evaluate([s for s in step.starts if s is not None], fixed)
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
        leaves |= {p.text: v for p, v in zip(step.partials, state, strict=True)}
        rows.append(evaluate(list(step.values), leaves))
        state = evaluate(list(step.updates), leaves)
    return list(zip(*rows, strict=True)), state, fixed


def recognised(step: Step, roots: Sequence[Term], once: Container[str]) -> dict[Term, list[Kept]]:
    """Returns the terms of a group's values that are the mean or the variance of an element's.

    They are known by trying them out, as steps are. Sums of distances from any origin, and of
    their squares, are among what they may be made of.
    """
    made = [t for t in below(roots) if t.real and t.args]
    draw, names = random.Random(21), step.names(roots)
    found: dict[Term, list[Kept]] | None = None
    for _ in range(_TRIALS if None not in step.starts else 0):
        try:
            columns, state, fixed = _run(draw, names, step, once)
            leaves = fixed | {"count": float(_ELEMENTS)}
            leaves |= {p.text: v for p, v in zip(step.partials, state, strict=True)}
            results = evaluate(made, leaves)
        except Unknown:
            return {}
        known: list[tuple[Kept, float]] = []
        for term, column in zip(step.values, columns, strict=True):
            mean = math.fsum(column) / _ELEMENTS
            square = math.fsum((a - mean) ** 2 for a in column) / _ELEMENTS
            known += [(Kept("mean", (term,)), mean), (Kept("variance", (term,)), square)]
        tried = {
            term: [k for k, right in known if abs(value - right) <= _CLOSE * _size(right)]
            for term, value in zip(made, results, strict=True)
        }
        if found is not None:
            tried = {t: [k for k in kinds if k in found[t]] for t, kinds in tried.items()}
        found = tried
    return {term: kinds for term, kinds in (found or {}).items() if kinds}


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
