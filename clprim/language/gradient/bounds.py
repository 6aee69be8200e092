"""Which values a term may have: whether a loop that depends on operands surely ends.

Intervals, of what bounds a count as people write it: ``min(n, 16)``, ``n < 16 ? n : 16``,
``n & 15``, ``n % 16``, ``clamp(n, 0, 16)``, the type of ``n``. A comparison with NaN is false, as
one beyond a bound is, so only that it is false is ever concluded.
"""

from __future__ import annotations

import math

from clprim.language.gradient.terms import Term, below

Interval = tuple[float, float]

_ALL: Interval = (-math.inf, math.inf)
_OF_TYPES: dict[str, Interval] = {
    "bool": (0, 1),
    "char": (-128, 127),
    "uchar": (0, 255),
    "short": (-(2**15), 2**15 - 1),
    "ushort": (0, 2**16 - 1),
}
_LEAST = frozenset(["min", "fmin"])
_GREATEST = frozenset(["max", "fmax"])
_STEPS = frozenset("floor ceil trunc rint round".split())


def surely_false(condition: Term) -> bool:
    """Whether a condition holds for no operands."""
    args = condition.args
    match condition.op:
        case "&&":
            return any(surely_false(a) for a in args)
        case "||":
            return all(surely_false(a) for a in args)
        case "<" | "<=" | ">" | ">=" as op:
            known = _intervals(condition)
            (low, high), (least, greatest) = known[args[0]], known[args[1]]
            if op in ("<", "<="):
                return low > greatest or (op == "<" and low == greatest)
            return high < least or (op == ">" and high == least)
    return condition.value == 0


def _intervals(root: Term) -> dict[Term, Interval]:
    found: dict[Term, Interval] = {}
    for term in below([root]):
        low, high = _interval(term, found)
        least, greatest = _OF_TYPES.get(term.ctype, _ALL)
        found[term] = (max(low, least), min(high, greatest))
    return found


def _interval(term: Term, known: dict[Term, Interval]) -> Interval:
    """Of a term, from those of its arguments."""
    if term.value is not None:
        return (-math.inf, math.inf) if term.value != term.value else (term.value, term.value)
    args = [known[a] for a in term.args]
    match term.op:
        case "cast":
            low, high = args[0]
            if term.real or not term.args[0].real:
                return (low, high) if term.real or term.ctype in ("int", "long") else _ALL
            # To a whole number: cut off, so that it may come nearer to 0.
            return (min(0.0, low), max(0.0, high)) if term.ctype in ("int", "long") else _ALL
        case "neg":
            return (-args[0][1], -args[0][0])
        case "+":
            return (args[0][0] + args[1][0], args[0][1] + args[1][1])
        case "-":
            return (args[0][0] - args[1][1], args[0][1] - args[1][0])
        case "&" if min(a[0] for a in args) >= 0 or any(_is_mask(a) for a in term.args):
            masks = [high for (low, high) in args if low >= 0]
            return (0, min(masks))
        case "%" if term.args[1].value is not None and term.args[1].value > 0:
            most = term.args[1].value - 1
            return (0 if args[0][0] >= 0 else -most, most)
        case "*" | "/" if (factor := term.args[1].value) is not None and factor > 0:
            low, high = (a * factor if term.op == "*" else a / factor for a in args[0])
            return (_below(low), _above(high))
        case "?:":
            return _selection(term, args[1], args[2])
        case "<" | "<=" | ">" | ">=" | "==" | "!=" | "&&" | "||" | "!":
            return (0, 1)
        case "call" if term.text in _LEAST:
            return (min(a[0] for a in args), min(a[1] for a in args))
        case "call" if term.text in _GREATEST:
            return (max(a[0] for a in args), max(a[1] for a in args))
        case "call" if term.text == "clamp":
            value, least, greatest = args
            return (
                max(least[0], min(value[0], greatest[0])),
                min(greatest[1], max(value[1], least[1])),
            )
        case "call" if term.text in _STEPS:
            return (_below(args[0][0]), _above(args[0][1]))
    return _ALL


def _is_mask(term: Term) -> bool:
    return term.value is not None and term.value >= 0


def _below(value: float) -> float:
    """The whole number at or below, of infinities themselves."""
    return value if math.isinf(value) else math.floor(value)


def _above(value: float) -> float:
    return value if math.isinf(value) else math.ceil(value)


def _uncast(term: Term) -> Term:
    """What a number is before it is cut off, which a bound that is whole outlives."""
    while term.op == "cast":
        term = term.args[0]
    return term


def _selection(term: Term, a: Interval, b: Interval) -> Interval:
    """``n < 16 ? n : 16`` is a minimum: the condition bounds the arm that it compares."""
    condition, first, second = term.args[0], *map(_uncast, term.args[1:])
    low, high = min(a[0], b[0]), max(a[1], b[1])
    if condition.op in ("<", "<=", ">", ">="):
        left, right = map(_uncast, condition.args)
        if condition.op in (">", ">="):
            left, right = right, left  # left < right
        if left is first and right is second:
            return (low, _above(min(a[1], b[1])))
        if left is second and right is first:
            return (_below(max(a[0], b[0])), high)
    return (low, high)
