"""The strings of operators of two numbers whose corner cases C leaves open, or settles otherwise.

Operands are called ``a`` and ``b`` and have the result's type. Kinds are NumPy's: ``f`` of floats
(bfloat16 included), ``i`` of signed and ``u`` of unsigned integers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from clprim.dtypes import AnyDType

# What integers by zero give, and the least number by -1, is the language's: NumPy's answer.


def _remainder(kind: str, bits: int) -> str:
    if kind == "f":
        # That of C takes the dividend's sign, that of Python the divisor's.
        return (
            "typeof_y0 r = fmod(a, b); if (r != 0 && (r < 0) != (b < 0)) r += b; "
            "y0 = r == 0 ? copysign((typeof_y0)0, b) : r;"
        )
    wrapped = " if (r != 0 && (r < 0) != (b < 0)) r += b;" if kind == "i" else ""
    return f"typeof_y0 r = a % b;{wrapped} y0 = r;"


def _fmod(kind: str, bits: int) -> str:
    return "y0 = fmod(a, b);" if kind == "f" else "y0 = a % b;"


def _floor_divide(kind: str, bits: int) -> str:
    if kind == "f":
        # Whole but for rounding; a zero has the quotient's sign.
        return (
            "const typeof_y0 r = fmod(a, b); typeof_y0 q = (a - r) / b; "
            "if (r != 0 && (r < 0) != (b < 0)) q -= 1; "
            "y0 = b == 0 ? a / b : q == 0 ? copysign((typeof_y0)0, a / b) : rint(q);"
        )
    if kind == "u":
        return "y0 = a / b;"
    return "typeof_y0 q = a / b; if (b != 0 && (a < 0) != (b < 0) && q * b != a) q -= 1; y0 = q;"


def _trunc_divide(kind: str, bits: int) -> str:
    return "y0 = trunc(a / b);" if kind == "f" else "y0 = a / b;"


def _power(kind: str, bits: int) -> str:
    if kind == "f":
        return "y0 = pow(a, b);"
    # Whole parts of fractions: 0 but for powers of 1 and -1, and of 0 as in PyTorch.
    negative = (
        "if (e < 0) p = base == 1 ? 1 : base == -1 ? (e & 1 ? -1 : 1) : 0; else "
        if kind == "i"
        else ""
    )
    return (
        "typeof_y0 base = a, e = b, p = 1; "
        f"{negative}for (; e > 0; e >>= 1) {{ if (e & 1) p *= base; base *= base; }} y0 = p;"
    )


def _left_shift(kind: str, bits: int) -> str:
    # C knows shifts by fewer bits than there are only.
    inside = f"b >= 0 && b < {bits}" if kind == "i" else f"b < {bits}"
    return f"y0 = {inside} ? a << b : (typeof_y0)0;"


def _right_shift(kind: str, bits: int) -> str:
    if kind == "u":
        return f"y0 = b < {bits} ? a >> b : (typeof_y0)0;"
    return f"y0 = b >= 0 && b < {bits} ? a >> b : a >> {bits - 1};"


_STATEMENTS: dict[str, Callable[[str, int], str]] = {
    "floor_divide": _floor_divide,
    "fmod": _fmod,
    "left_shift": _left_shift,
    "power": _power,
    "remainder": _remainder,
    "right_shift": _right_shift,
    "trunc_divide": _trunc_divide,
}


def kind_of(dtype: AnyDType) -> str:
    """Returns the kind of a dtype: ``f``, ``i``, ``u`` or ``b``."""
    return dtype.kind if dtype.kind in "biu" else "f"


def statements(name: str, dtype: AnyDType) -> str | None:
    """Returns statements that assign ``y0`` from ``a`` and ``b``; None for other operators."""
    found = _STATEMENTS.get(name)
    return None if found is None else found(kind_of(dtype), 8 * dtype.itemsize)


#: Gradients by hand, in `x0` and `x1`: at multiples, whose sign is set, and beside quotients that
#: round to whole numbers, what derives takes no step for a slope.
GRADIENTS = dict.fromkeys(("remainder", "fmod"), "gx0 = gy0; gx1 = -gy0 * rint((x0 - y0) / x1);")


def renamed(text: str | None, a: str, b: str) -> str | None:
    """Returns C in ``x0`` and ``x1``, gradients too, with other names of the two."""
    names = {"x0": a, "x1": b}
    return text and re.sub(r"(?<![a-fh-z])x[01]\b", lambda found: names[found[0]], text)


#: Of operators that are one of C's, by NumPy's names.
SIGNS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
}
#: Of operators whose results are truth values: C's sign between two numbers, or two truth values.
TRUTHS = {
    "logical_and": "&&",
    "logical_or": "||",
    "logical_xor": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
}
#: What compares b with a as these compare a with b.
MIRRORED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}


def comparison(name: str, left: str, right: str, a: AnyDType, b: AnyDType, fp64: bool) -> str:
    """Returns an expression that compares two numbers as the numbers that they are."""
    kinds = kind_of(a) + kind_of(b)
    if "uint64" in (a.name, b.name) and kinds in ("ui", "iu"):
        # C compares both as unsigned numbers, in which -1 is the greatest.
        if kinds == "iu":
            return comparison(MIRRORED.get(name, name), right, left, b, a, fp64)
        compared = f"{left} {TRUTHS[name]} (ulong){right}"
        if name in ("greater", "greater_equal", "not_equal"):
            return f"{right} < 0 || {compared}"
        return f"{right} >= 0 && {compared}"
    if fp64 and "f" in kinds and any(d.kind in "iu" and d.itemsize > 2 for d in (a, b)):
        # C compares both as floats, in which neighbours among large integers are one.
        return f"(double){left} {TRUTHS[name]} (double){right}"
    return f"{left} {TRUTHS[name]} {right}"
