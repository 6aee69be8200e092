"""Quotients by one divisor share its reciprocal: a division costs as much as many products.

Reverse mode divides by what the snippet divided by, once or twice more. Where only the gradient
depends on such quotients, they become products with one reciprocal, which is within a rounding of
them. What a condition or a step like ``floor`` looks at stays a quotient: there a rounding is a
jump.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from clprim.language.gradient.arithmetic import COMPARISONS, LOGIC
from clprim.language.gradient.derivatives import RULES
from clprim.language.gradient.terms import Term, Terms, below

_SMOOTH = frozenset("+ - * / neg ?: cast".split())


def share_divisors(
    terms: Terms, roots: Sequence[Term], known: Container[Term]
) -> tuple[list[Term], dict[Term, Term]]:
    """Returns terms of the same values in which divisors that are shared are inverted once.

    Also what stands for which term now.
    """
    order = [term for term in below(roots) if term not in known]
    exact = _exact(order)
    quotients: dict[Term, list[Term]] = {}
    for term in order:
        if term.op == "/" and term.real and term.args[1].value is None and term not in exact:
            quotients.setdefault(term.args[1], []).append(term)
    shared = {q for same in quotients.values() if len(same) > 1 for q in same}
    if not shared:
        return list(roots), {}
    found: dict[Term, Term] = {}
    for term in order:
        args = tuple(found.get(a, a) for a in term.args)
        if term in shared:
            inverse = terms.make("/", (terms.number(1.0, term.ctype), args[1]), term.ctype)
            whole = term.args[0].value == 1
            new = inverse if whole else terms.make("*", (args[0], inverse), term.ctype)
        elif args != term.args:
            new = terms.make(term.op, args, term.ctype, term.text)
        else:
            continue
        new.hint = new.hint or term.hint
        found[term] = new
    return [found.get(root, root) for root in roots], found


def _exact(order: Sequence[Term]) -> frozenset[Term]:
    """The terms that conditions, whole numbers and steps are made of."""
    roots: list[Term] = []
    for term in order:
        match term.op:
            case "?:":
                roots.append(term.args[0])
            case "call":
                rule = RULES.get(term.text)
                if rule is None or "0" in rule.partials or "?" in "".join(rule.partials):
                    roots += term.args
            case op if op in COMPARISONS or op in LOGIC or op not in _SMOOTH:
                roots += term.args
            case _ if not term.real:
                roots += term.args
    return frozenset(below(roots))
