"""The longer strings of elementwise operators."""

from __future__ import annotations

import math

from clprim.dtypes import AnyDType


def sigmoid_of(x: str, name: str = "s") -> str:
    """Returns statements that declare the sigmoid of an expression.

    exp of what is not positive cannot overflow, and 1 + e has no cancellation.
    """
    return (
        f"typeof_y0 {name}_x = {x}; typeof_y0 {name}_e = exp(-fabs({name}_x)); "
        f"typeof_y0 {name} = ({name}_x < 0 ? {name}_e : 1) / (1 + {name}_e);"
    )


def log1p_exp(x: str) -> str:
    """Returns C for log(1 + exp(-|x|)), which cannot overflow."""
    return f"log1p(exp(-fabs({x})))"


def _angles(p: str, q: str, re: str, im: str) -> str:
    """Returns a formula of Kahan's of two roots (Branch Cuts for Complex Elementary Functions)."""
    return f"typeof_y0 p = sqrt({p}), q = sqrt({q}); y0 = complex({re}, {im});"


_BELOW, _ABOVE = "complex(1 - real(x0), -imag(x0))", "complex(1 + real(x0), imag(x0))"
_LEFT, _RIGHT = "complex(1 + imag(x0), -real(x0))", "complex(1 - imag(x0), real(x0))"
_LOG = "copysign(log1p(4 * fabs({a}) / ((1 - fabs({a})) * (1 - fabs({a})) + {b} * {b})), {a}) / 4"
_TURN = "atan2(2 * {b}, (1 - {a}) * (1 + {a}) - {b} * {b}) / 2"
_X, _Y = {"a": "real(x0)", "b": "imag(x0)"}, {"a": "imag(x0)", "b": "real(x0)"}
_OF_COMPLEX = {
    "asin": _angles(_BELOW, _ABOVE, "atan2(real(x0), real(p * q))", "asinh(imag(conj(p) * q))"),
    "acos": _angles(_BELOW, _ABOVE, "2 * atan2(real(p), real(q))", "asinh(imag(conj(q) * p))"),
    "asinh": _angles(_LEFT, _RIGHT, "asinh(imag(conj(p) * q))", "atan2(imag(x0), real(p * q))"),
    "acosh": _angles(
        "complex(real(x0) - 1, imag(x0))",
        "complex(real(x0) + 1, imag(x0))",
        "asinh(real(conj(p) * q))",
        "2 * atan2(imag(p), real(q))",
    ),
    "atan": f"y0 = complex({_TURN.format(**_Y)}, {_LOG.format(**_Y)});",
    "atanh": f"y0 = complex({_LOG.format(**_X)}, {_TURN.format(**_X)});",
    "expm1": """
        y0 = complex(
            expm1(real(x0)) * cos(imag(x0)) - 2 * sin(imag(x0) / 2) * sin(imag(x0) / 2),
            exp(real(x0)) * sin(imag(x0))
        );
    """,
    "log1p": """
        y0 = fabs(real(x0)) < 0.5f && fabs(imag(x0)) < 0.5f
            ? complex(
                log1p(real(x0) * (2 + real(x0)) + imag(x0) * imag(x0)) / 2,
                atan2(imag(x0), 1 + real(x0))
            )
            : log(complex(1 + real(x0), imag(x0)));
    """,
    "sinc": f"y0 = x0 == 0 ? 1 : sin(x0 * {math.pi!r}) / (x0 * {math.pi!r});",
}
# By C99's annex G: what infinite numbers make, which number has a result of its own beside a NaN
# that is its other part, and that result.
_RE, _IM = "real(x0) != real(x0)", "imag(x0) != imag(x0)"
_HALF_TURN, _ZERO = f"copysign({math.pi / 2!r}, {{}}(x0))", "copysign(0.0, {}(x0))"
_ENDS = {
    "asin": (
        "atan2(real(x0), fabs(imag(x0))), copysign(INFINITY, imag(x0))",
        *(f"real(x0) == 0 && {_IM}", "x0"),
    ),
    "acos": (
        "atan2(fabs(imag(x0)), real(x0)), -copysign(INFINITY, imag(x0))",
        *(f"real(x0) == 0 && {_IM}", f"complex({math.pi / 2!r}, NAN)"),
    ),
    "asinh": (
        "copysign(INFINITY, real(x0)), atan2(imag(x0), fabs(real(x0)))",
        *(f"imag(x0) == 0 && {_RE}", "x0"),
    ),
    "acosh": (
        "INFINITY, atan2(imag(x0), real(x0))",
        *(f"real(x0) == 0 && {_IM}", f"complex(NAN, {math.pi / 2!r})"),
    ),
    "atan": (
        f"{_RE} ? NAN : {_HALF_TURN.format('real')}, {_ZERO.format('imag')}",
        *(f"imag(x0) == 0 && {_RE}", "x0"),
    ),
    "atanh": (
        f"{_ZERO.format('real')}, {_IM} ? NAN : {_HALF_TURN.format('imag')}",
        *(f"real(x0) == 0 && {_IM}", "x0"),
    ),
}


def _with_ends(text: str, infinite: str, alone: str, found: str) -> str:
    locals_, _, value = text.rpartition("y0 = ")
    ends = f"fabs(real(x0)) == INFINITY || fabs(imag(x0)) == INFINITY ? complex({infinite})"
    return f"{locals_}y0 = {ends} : {alone} ? {found} : {value}"


#: Of complex numbers.
COMPLEX = {n: _with_ends(t, *_ENDS[n]) if n in _ENDS else t for n, t in _OF_COMPLEX.items()}

# Of logaddexp: shares of the exponentials, of which none overflows.
SHARES = (
    "typeof_gy0 d = x0 - x1, e = {exp}(-fabs(d)), s = 1 / (1 + e); "
    "gx0 = gy0 * (d < 0 ? e * s : s); gx1 = gy0 * (d < 0 ? s : e * s);"
)


def greater(less: str) -> str:
    """Returns the gradient of the operand that is chosen, as PyTorch shares it."""
    share = "gx{} = x{} " + less + " x{} ? 0 : x0 == x1 ? gy0 / 2 : gy0;"
    return f"{share.format(0, 0, 1)} {share.format(1, 1, 0)}"


# Giles, Approximating the erfinv function, 2010, for float32, and Winitzki's approximation (2008)
# for what only float64 holds so near 1; two steps of Newton's method, or four, make its digits.
_CENTRE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
           -0.00125372503, -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
         -0.0076224613, 0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


def _horner(coefficients: tuple[float, ...], at: str) -> str:
    text = f"(typeof_y0){coefficients[0]!r}"
    for c in coefficients[1:]:
        text = f"({text} * {at} + (typeof_y0){c!r})"
    return text


# By what is left of 1, which erf near 1 no longer tells.
_NEWTON = f"""
    v -= (p < (typeof_y0)0.5 ? erf(v) - p : 1 - p - erfc(v))
        / ((typeof_y0){2 / math.sqrt(math.pi)!r} * exp(-v * v));
"""
ERFINV = f"""
    typeof_y0 p = fabs((typeof_y0)x0), w = -log((1 - p) * (1 + p));
    typeof_y0 c = w - (typeof_y0)2.5, t = sqrt(w) - 3;
    typeof_y0 v = p * (w < 5 ? {_horner(_CENTRE, "c")} : {_horner(_TAIL, "t")});
    if (w >= 16) {{
        t = (typeof_y0){2 / (math.pi * 0.147)!r} - w / 2;
        v = sqrt(sqrt(t * t + w / (typeof_y0)0.147) - t);
        {_NEWTON} {_NEWTON}
    }}
    {_NEWTON} {_NEWTON}
    y0 = p == 1 ? copysign((typeof_y0)INFINITY, x0) : p < 1 ? copysign(v, x0) : (typeof_y0)NAN;
"""
_SERIES = "0"
for _k in range(6, 0, -1):
    _c = (-1) ** (_k - 1) * 2 * _k / math.factorial(2 * _k + 1)
    _SERIES = f"((typeof_x0){_c!r} + z * {_SERIES})"
# Near 0 the first terms of its series, where the quotient cancels.
SINC_GRADIENT = (
    f"typeof_x0 z = x0 * x0 * (typeof_x0){math.pi**2!r}; "
    f"gx0 = gy0 * (fabs(x0) < (typeof_x0)0.1 ? -(typeof_x0){math.pi**2!r} * x0 * {_SERIES} "
    ": (cospi(x0) - y0) / x0);"
)

# The quotient is near 1 where x is near a half: how near, the difference tells, which is exact.
OF_ODDS = "y0 = fabs(x - 0.5f) < 0.25f ? log1p((x + x - 1) / (1 - x)) : log(x / (1 - x));"

# Below 1, where the difference cancels, tanh's continued fraction of eight terms without its x.
TANHSHRINK = """
    typeof_y0 x = x0;
    typeof_y0 z = x * x;
    typeof_y0 p = 11486475 + z * (810810 + z * (12870 + z * 44));
    typeof_y0 q = 34459425 + z * (16216200 + z * (945945 + z * (13860 + z * 45)));
    y0 = z < 1 ? x * z * (p / q) : x - tanh(x);
"""

# With e = exp(x): tanh(log(1 + e)) = ((1 + e)² − 1) / ((1 + e)² + 1), which is 1 from x = 20 on.
# Of a number past which a factor is settled the gradient takes none of its steps: what overflows
# in one is not multiplied by 0.
MISH = """
    typeof_y0 x = x0;
    typeof_y0 e = exp(x > 20 ? 20 : x < -1000 ? -1000 : x);
    y0 = x * (e * (e + 2) / (e * (e + 2) + 2));
"""
# erfc keeps the digits that 1 + erf loses where x is negative. The gradient by hand: past 40 both
# of its parts are settled, and what overflows is not multiplied by 0.
GELU = f"typeof_y0 x = x0; y0 = 0.5 * x * erfc(x * {-math.sqrt(0.5)});"
GELU_GRADIENT = f"""
    typeof_gx0 x = x0 < -40 ? -40 : x0 > 40 ? 40 : x0;
    gx0 = gy0 * (0.5 * erfc(x * {-math.sqrt(0.5)})
        + x * ({1 / math.sqrt(2 * math.pi)} * exp(-0.5 * (x * x))));
"""
# (1 + tanh(u)) / 2 is the sigmoid of 2 u, which does not cancel.
GELU_TANH = f"""
    typeof_y0 x = x0, z = x < -40 ? -40 : x > 40 ? 40 : x;
    {sigmoid_of(f"{math.sqrt(8 / math.pi)} * (z + 0.044715 * z * z * z)")}
    y0 = x * s;
"""

# By the bits of a mantissa and the exponent of the least normal number, of dtypes that are
# calculated with in float32.
_NEXT_AFTER = """
    const int e = a == 0 ? {least} : max(ilogb(a), {least});
    typeof_y0 step = ldexp((typeof_y0)1, e - {bits});
    if (e > {least} && (b > a) == (a < 0) && fabs(a) == ldexp((typeof_y0)1, e)) step /= 2;
    typeof_y0 next = b > a ? a + step : a - step;
    next = fabs(a) == INFINITY ? (typeof_y0){most} : fabs(next);
    y0 = a != a || b != b ? a + b : a == b ? b : copysign(next, a == 0 ? b : a);
"""
_SMALL = {
    "float16": {"least": -14, "bits": 10, "most": "65504"},
    "bfloat16": {"least": -126, "bits": 7, "most": "3.3895313892515355e38"},
}


def next_after(dtype: AnyDType) -> str:
    """Returns the statements of `nextafter` for a dtype."""
    small = _SMALL.get(dtype.name)
    return _NEXT_AFTER.format(**small) if small else "y0 = nextafter(a, b);"
