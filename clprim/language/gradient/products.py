"""Products of which a quotient and what it is multiplied by are computed beside the rest.

Reverse mode multiplies a gradient by one slope after the other: behind a quotient stands a chain of
products, each of which waits for the one before. ``x * t * t * e`` with ``t = 1 / (1 + e)`` becomes
``x * t * (t * e)``, both halves of which are computed at once, and in which ``t * t`` does not
underflow: on a Zen 3 this gains mish, silu and focal loss 2 to 6 %. What the user multiplied stays
as it is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Container, Mapping, Sequence

from clprim.language.gradient.terms import Term, Terms, below

#: How long a result is waited for, in products.
_LATENCY = {"/": 3, "call": 10}
#: So many factors, from the end, are looked through for a quotient.
_FACTORS = 8


def shorten_products(
    terms: Terms, roots: Sequence[Term], changed: Mapping[Term, Term], known: Container[Term]
) -> list[Term]:
    """Returns terms of the same values in which products begin anew at a quotient."""
    written = terms.written or 0
    theirs = {new for old, new in changed.items() if old.number < written}

    def of_gradient(term: Term) -> bool:
        ours = term.number >= written and term not in theirs and term not in known
        return ours and term.op == "*" and term.real

    for one in (_with_one_number, _cut):
        order = [term for term in below(roots) if term not in known]
        uses: dict[Term, int] = {}
        for term in order:
            for a in term.args:
                uses[a] = uses.get(a, 0) + 1
        found = one(terms, order, uses, of_gradient)
        roots = [found.get(root, root) for root in roots]
    return list(roots)


def _with_one_number(
    terms: Terms, order: Sequence[Term], uses: Mapping[Term, int], ours: Callable[[Term], bool]
) -> dict[Term, Term]:
    """A power of two times a product that begins with a number as one with another number."""
    found: dict[Term, Term] = {}

    def scaled(term: Term, factor: float) -> Term | None:
        if term.value is not None:
            return terms.number(factor * term.value, term.ctype)
        if not ours(term) or uses[term] > 1:
            return None
        first = scaled(term.args[0], factor)
        second = found.get(term.args[1], term.args[1])
        return first and terms.make("*", (first, second), term.ctype)

    for term in order:
        args = tuple(found.get(a, a) for a in term.args)
        new = term if args == term.args else _made(terms, term, args)
        value = term.args[0].value if ours(term) else None
        if value and math.frexp(value)[0] in (0.5, -0.5):
            new = scaled(term.args[1], value) or new
        if new is not term:
            found[term] = new
    return found


def _cut(
    terms: Terms, order: Sequence[Term], uses: Mapping[Term, int], ours: Callable[[Term], bool]
) -> dict[Term, Term]:
    """Products that begin anew at a quotient where they are then there earlier."""
    found: dict[Term, Term] = {}
    ready: dict[Term, int] = {}

    def product(a: Term, b: Term) -> Term:
        new = terms.make("*", (a, b), a.ctype)
        ready[new] = 1 + max(ready.get(a, 0), ready.get(b, 0))
        return new

    for term in order:
        if not term.args:
            continue
        args = tuple(found.get(a, a) for a in term.args)
        new = term if args == term.args else _made(terms, term, args)
        ready[new] = max(ready.get(a, 0) for a in args) + _LATENCY.get(term.op, 1)
        behind: list[Term] = []
        rest = term
        while len(behind) < _FACTORS and ours(rest):
            last = found.get(rest.args[1], rest.args[1])
            if {last.ctype, rest.args[0].ctype} != {term.ctype}:
                break
            rest = rest.args[0]
            if last.op == "/" and behind:
                own, left = behind[::-1], found.get(rest, rest)
                if uses[rest] == 1 and ours(rest) and rest.args[1].op == "/":
                    # Each of the two quotients gets some of what is behind them.
                    moved = own[(len(own) + 1) // 2 :]
                    own = own[: len(own) - len(moved)]
                    front, divided = (found.get(a, a) for a in rest.args)
                    left = functools.reduce(product, [front, *moved, divided])
                whole = product(left, functools.reduce(product, [last, *own]))
                if ready[whole] < ready[new]:
                    new = whole
            if uses[rest] > 1:
                break
            behind.append(last)
        if new is not term:
            found[term] = new
    return found


def _made(terms: Terms, term: Term, args: tuple[Term, ...]) -> Term:
    """A term of other arguments, which the user called the same."""
    new = terms.make(term.op, args, term.ctype, term.text)
    new.hint = new.hint or term.hint
    return new
