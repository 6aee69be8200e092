"""Computes terms in Python: what a step does to numbers shows which statistic it keeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from clprim.language.gradient.terms import Term, below


class Unknown(Exception):  # noqa: N818 — an answer, not an error
    """A term has a function that is not known here."""


_FUNCTIONS: dict[str, Callable[..., float]] = {
    **{
        name: getattr(math, name)
        for name in "exp log log1p log2 log10 expm1 sqrt sin cos tanh erf floor".split()
    },
    "fabs": abs,
    "exp2": lambda a: 2.0**a,
    "rsqrt": lambda a: 1 / math.sqrt(a),
    "native_exp": math.exp,
    "native_log": math.log,
    "max": max,
    "min": min,
    "fmax": max,
    "fmin": min,
    "pow": math.pow,
    "fma": lambda a, b, c: a * b + c,
    "mad": lambda a, b, c: a * b + c,
    "mix": lambda a, b, c: a + (b - a) * c,
    "isinf": math.isinf,
    "isnan": math.isnan,
}
_OPERATORS: dict[str, Callable[..., float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&&": lambda a, b: bool(a and b),
    "||": lambda a, b: bool(a or b),
    "!": lambda a: not a,
    "neg": lambda a: -a,
}


def evaluate(roots: list[Term], leaves: Mapping[str, float]) -> list[float]:
    """Returns what terms are where names have these values."""
    found: dict[Term, float] = {}
    for term in below(roots):
        args = [found[a] for a in term.args]
        try:
            found[term] = _value(term, args, leaves)
        except (ArithmeticError, ValueError, KeyError):
            found[term] = math.nan  # in the arm of a selection that is not taken, most often
    return [found[root] for root in roots]


def _value(term: Term, args: list[float], leaves: Mapping[str, float]) -> float:
    match term.op:
        case "number":
            assert term.value is not None
            return term.value
        case "name":
            if term.text not in leaves:
                raise Unknown
            return leaves[term.text]
        case "cast":
            return args[0] if term.real else float(math.trunc(args[0]))
        case "?:":
            return args[1] if args[0] else args[2]
        case "/":
            return args[0] / args[1] if term.real else float(int(args[0] / args[1]))
        case "call" if term.text in _FUNCTIONS:
            return _FUNCTIONS[term.text](*args)
        case op if op in _OPERATORS:
            return _OPERATORS[op](*args)
    raise Unknown
