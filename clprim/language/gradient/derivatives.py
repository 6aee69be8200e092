"""The table of rules: what the functions of OpenCL C have for derivatives.

A rule is C in the arguments ``a``, ``b``, ``c`` and the result ``y``; an argument's gradient is the
result's, times its rule. At ties and kinks the rules are PyTorch's: a maximum of equals gives
each a half, `clamp` passes a gradient at its bounds, the absolute value has slope 0 at 0.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """What a function's arguments do to it."""

    partials: tuple[str, ...]
    note: str = ""
    zero: tuple[str, ...] = ()


def _same(names: str, *partials: str, note: str = "") -> dict[str, Rule]:
    return dict.fromkeys(names.split(), Rule(partials, note))


_BOTH_ZERO = ("a == 0 && b == 0",) * 2
_TIE = "a tie gives each a half"
_GREATER = ("a < b ? 0 : a == b ? 0.5 : 1", "a > b ? 0 : a == b ? 0.5 : 1")
_LESS = ("a > b ? 0 : a == b ? 0.5 : 1", "a < b ? 0 : a == b ? 0.5 : 1")

#: The rules, by the name of the function.
RULES: dict[str, Rule] = {
    **_same("exp native_exp half_exp", "y"),
    **_same("exp2 native_exp2 half_exp2", "y * M_LN2"),
    **_same("exp10 native_exp10 half_exp10", "y * M_LN10"),
    **_same("expm1", "exp(a)"),
    **_same("log native_log half_log", "1 / a"),
    **_same("log2 native_log2 half_log2", "M_LOG2E / a"),
    **_same("log10 native_log10 half_log10", "M_LOG10E / a"),
    **_same("log1p", "1 / (1 + a)"),
    **_same("sqrt native_sqrt half_sqrt", "0.5 / y"),
    **_same("rsqrt native_rsqrt half_rsqrt", "-0.5 * (y * y * y)"),
    **_same("cbrt", "1 / (3 * (y * y))"),
    **_same("native_recip half_recip", "-(y * y)"),
    **_same("sin", "cos(a)"),
    **_same("cos", "-sin(a)"),
    **_same("tan half_tan native_tan tanpi", "1 + y * y"),
    **_same("native_sin", "native_cos(a)"),
    **_same("native_cos", "-native_sin(a)"),
    **_same("half_sin", "half_cos(a)"),
    **_same("half_cos", "-half_sin(a)"),
    **_same("sinpi", "M_PI * cospi(a)"),
    **_same("cospi", "-M_PI * sinpi(a)"),
    **_same("tanpi", "M_PI * (1 + y * y)"),
    **_same("asin", "rsqrt((1 - a) * (1 + a))"),
    **_same("acos", "-rsqrt((1 - a) * (1 + a))"),
    **_same("atan", "1 / (1 + a * a)"),
    **_same("asinpi", "M_1_PI * rsqrt((1 - a) * (1 + a))"),
    **_same("acospi", "-M_1_PI * rsqrt((1 - a) * (1 + a))"),
    **_same("atanpi", "M_1_PI / (1 + a * a)"),
    **_same("sinh", "cosh(a)"),
    **_same("cosh", "sinh(a)"),
    **_same("tanh", "1 - y * y"),
    **_same("asinh", "1 / hypot(a, (typeof_y)1)"),
    **_same("acosh", "rsqrt(a - 1) * rsqrt(a + 1)"),
    **_same("atanh", "1 / ((1 - a) * (1 + a))"),
    **_same("erf", "M_2_SQRTPI * exp(-(a * a))"),
    **_same("erfc", "-M_2_SQRTPI * exp(-(a * a))"),
    **_same("lgamma", "digamma(a)"),
    **_same("tgamma", "y * digamma(a)"),
    **_same("digamma", "trigamma(a)"),
    **_same("degrees", "57.29577951308232"),
    **_same("radians", "0.017453292519943295"),
    "fabs": Rule(("sign(a)",), "0 at 0; where the snippet compares its argument with 0, that side"),
    **_same("floor ceil round rint trunc sign logb", "0", note="steps"),
    **_same("step", "0", "0", note="steps"),
    "max": Rule(_GREATER, _TIE),
    "min": Rule(_LESS, _TIE),
    "fmax": Rule(
        ("a >= b || b != b ? 1 : 0", "a >= b || b != b ? 0 : 1"), "a tie goes to the first"
    ),
    "fmin": Rule(
        ("a <= b || b != b ? 1 : 0", "a <= b || b != b ? 0 : 1"), "a tie goes to the first"
    ),
    "maxmag": Rule(
        (
            "fabs(a) > fabs(b) ? 1 : fabs(a) < fabs(b) ? 0 : a < b ? 0 : a == b ? 0.5 : 1",
            "fabs(a) > fabs(b) ? 0 : fabs(a) < fabs(b) ? 1 : a > b ? 0 : a == b ? 0.5 : 1",
        ),
        _TIE,
    ),
    "minmag": Rule(
        (
            "fabs(a) < fabs(b) ? 1 : fabs(a) > fabs(b) ? 0 : a > b ? 0 : a == b ? 0.5 : 1",
            "fabs(a) < fabs(b) ? 0 : fabs(a) > fabs(b) ? 1 : a < b ? 0 : a == b ? 0.5 : 1",
        ),
        _TIE,
    ),
    "clamp": Rule(
        ("a >= b && a <= c ? 1 : 0", "a < b ? b < c ? 1 : 0 : 0", "a > c ? 1 : c < b ? 1 : 0"),
        "1 at the bounds, 0 of NaN",
    ),
    "pow": Rule(
        ("b * pow(a, b - 1)", "y * log(a)"),
        "0 in a where b is 0; 0 in b where a is 0 and b is not below 0",
        ("b == 0", "a == 0 && b >= 0"),
    ),
    **_same("powr half_powr native_powr", "b * powr(a, b - 1)", "y * log(a)"),
    "pown": Rule(("b * pown(a, b - 1)", "0"), "0 where b is 0", ("b == 0", "")),
    "rootn": Rule(("y / (b * a)", "0")),
    **_same("half_divide native_divide", "1 / b", "-y / b"),
    "atan2": Rule(
        ("b / hypot(a, b) / hypot(a, b)", "-a / hypot(a, b) / hypot(a, b)"),
        "0 where both are 0",
        _BOTH_ZERO,
    ),
    "atan2pi": Rule(
        ("M_1_PI * b / hypot(a, b) / hypot(a, b)", "-M_1_PI * a / hypot(a, b) / hypot(a, b)"),
        "0 where both are 0",
        _BOTH_ZERO,
    ),
    "hypot": Rule(("a / y", "b / y")),
    "fmod": Rule(("1", "-trunc(a / b)")),
    "remainder": Rule(("1", "-rint(a / b)")),
    "fdim": Rule(("a > b ? 1 : 0", "a > b ? -1 : 0"), "0 at a tie"),
    "copysign": Rule(("a == 0 ? 0 : y / a", "0"), "0 at 0"),
    "ldexp": Rule(("ldexp((typeof_y)1, b)", "0")),
    **_same("fma mad", "b", "a", "1"),
    "mix": Rule(("1 - c", "c", "b - a")),
    "smoothstep": Rule(
        (
            "c <= a || c >= b ? 0 : "
            "6 * ((c - a) / (b - a)) * (1 - (c - a) / (b - a)) * ((c - b) / ((b - a) * (b - a)))",
            "c <= a || c >= b ? 0 : "
            "-6 * ((c - a) / (b - a)) * (1 - (c - a) / (b - a)) * ((c - a) / ((b - a) * (b - a)))",
            "c <= a || c >= b ? 0 : 6 * ((c - a) / (b - a)) * (1 - (c - a) / (b - a)) / (b - a)",
        ),
        "0 at and outside of the edges",
    ),
}

#: Functions whose result is a whole number: they pass no gradient, as a cast to int passes none.
WHOLE = frozenset(
    "isequal isnotequal isgreater isgreaterequal isless islessequal islessgreater isfinite isinf "
    "isnan isnormal isordered isunordered signbit any all ilogb abs abs_diff add_sat sub_sat hadd "
    "rhadd mul24 mad24 mad_hi mul_hi mad_sat rotate popcount clz ctz upsample".split()
)

#: Functions through which nothing is derived, and why.
REFUSED = {
    "nextafter": "it walks over floating numbers",
    "bitselect": "it mixes bits",
    "frexp": "it takes a number apart by bits; write ldexp and ilogb",
    "remquo": "write remainder",
    "lgamma_r": "write lgamma",
    "vload_half": "it reads memory",
    "trigamma": "its derivative is not known here",
    "nan": "it makes a NaN",
}

#: Functions that rules use and OpenCL C lacks: recurrence up to 6, then Stirling's series
#: (Abramowitz and Stegun 6.3.18, 6.4.12), and reflection below 0.
PREAMBLE = {
    "digamma": """\
static inline {T} digamma({T} x)
{{
    {T} below = 0;
    if (x <= 0) {{
        if (x == floor(x)) return x == 0 ? copysign(({T})INFINITY, -x) : ({T})NAN;
        below = -M_PI{F} / tanpi(x);
        x = 1 - x;
    }}
    for (; x < {N}; x += 1) below -= 1 / x;
    const {T} q = 1 / (x * x);
    const {T} tail = q * (1 / ({T})12 - q * (1 / ({T})120 - q * (1 / ({T})252
        - q * (1 / ({T})240 - q * (1 / ({T})132 - q * (691 / ({T})32760 - q / 12))))));
    return below + log(x) - 1 / (2 * x) - tail;
}}
""",
    "trigamma": """\
static inline {T} trigamma({T} x)
{{
    {T} sum = 0, sign = 1;
    if (x <= 0) {{
        const {T} s = sinpi(x);
        sum = -M_PI{F} * M_PI{F} / (s * s);
        sign = -1;
        x = 1 - x;
    }}
    {T} above = 0;
    for (; x < {N}; x += 1) above += 1 / (x * x);
    const {T} q = 1 / (x * x);
    above += 1 / x + q / 2 + q / x * (1 / ({T})6 - q * (1 / ({T})30 - q * (1 / ({T})42
        - q * (1 / ({T})30 - q * (5 / ({T})66 - q * (691 / ({T})2730 - q * 7 / 6))))));
    return sign * (sum + above);
}}
""",
}


def helper(name: str, real: str) -> str:
    """Returns a function of `PREAMBLE` in the type of real operands, ``float`` or ``double``."""
    narrow = real == "float"
    return PREAMBLE[name].format(T=real, F="_F" if narrow else "", N=6 if narrow else 10)


def rules_table() -> str:
    """Returns the rules as a table in Markdown."""
    found: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for name, rule in RULES.items():
        found.setdefault((rule.partials, rule.note), []).append(name)
    rows = ["| function | in a | in b | in c | at kinks |", "|---|---|---|---|---|"]
    for (partials, note), names in found.items():
        cells = [f"`{p}`".replace("|", "\\|") for p in partials]
        cells += [""] * (3 - len(cells))
        rows.append(f"| {', '.join(f'`{n}`' for n in names)} | {' | '.join(cells)} | {note} |")
    return "\n".join(rows) + "\n"
