"""Special functions: by series, recurrences and asymptotic expansions.

Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 6.3, 6.4, 9.6, 9.7 and 23.2.
"""

from __future__ import annotations

import math
from typing import Any

from clprim.arrays.array import Array
from clprim.language.gradient.derivatives import helper
from clprim.torch.copying import cast
from clprim.torch.kernels.elementwise import apply, floating, promoted
from clprim.torch.layout import seldom
from clprim.torch.table import kernel
from clprim.torch.tensors import kind_of

_T = "typeof_y0"


def _c(value: float) -> str:
    return f"({_T}){value!r}"


def _real(kind: Any) -> str:
    """The type that kernels calculate in."""
    return "double" if kind.itemsize == 8 else "float"


@kernel("digamma", "special_digamma", lies=seldom)
def _digamma(x: Array) -> Any:
    kind = floating(kind_of(x.dtype))
    return apply("digamma({a})", x, kind=kind, preamble=helper("digamma", _real(kind)))


# B2k / (2k)! of the Bernoulli numbers B2, B4, …
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_TAIL = [number / math.factorial(2 * k) for k, number in enumerate(_BERNOULLI, 1)]
# Nine terms and more, then Euler and Maclaurin's formula. Below 0 the sum over all whole k, which
# has two sides that are alike at halves, less the part that is not asked for.
_ZETA = """\
static inline {T} zeta_above({T} s, {T} q, {T} unit)
{{
    {T} sum = 0;
    for (int n = 0; n < 9 || q <= 9; n++, q += 1) sum += pow(unit * q, -s);
    const {T} power = pow(unit * q, -s), inverse = 1 / q;
    sum += pow(unit * q, 1 - s) / ((s - 1) * unit) + power / 2;
    if (power == 0) return sum;
    {T} rise = s * inverse, tail = 0;
    for (int k = 0; k < {n}; k++) {{
        const {T} factor[{n}] = {{ {tail} }};
        tail += factor[k] * rise;
        rise *= (s + 2 * k + 1) * inverse * ((s + 2 * k + 2) * inverse);
    }}
    return sum + power * tail;
}}
static inline {T} zeta({T} s, {T} q, {T} unit)
{{
    if (s == 1) return INFINITY;
    if (!(s > 1) || isnan(q)) return NAN;
    if (q > 0) return zeta_above(s, q, unit);
    if (q == floor(q)) return INFINITY;
    if (s != floor(s)) return NAN;
    const {T} off = fabs(q - rint(q)), sign = fmod(s, 2) == 0 ? 1 : -1;
    const {T} all = zeta_above(s, off, unit) + sign * zeta_above(s, 1 - off, unit);
    return (q < rint(q) ? sign * all : all) - sign * zeta_above(s, 1 - q, unit);
}}
"""


def _zeta(kind: Any) -> str:
    """The function Σ (unit (q + k))^-s over k from 0 on, in the type of a dtype."""
    real = _real(kind)
    tail = ", ".join(f"({real}){c!r}" for c in _TAIL)
    return _ZETA.format(T=real, n=len(_TAIL), tail=tail)


@kernel("polygamma", lies=seldom)
def _polygamma(n: int, x: Array) -> Any:
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n == 0:
        return _digamma(x)
    kind = floating(kind_of(x.dtype))
    # ψ⁽ⁿ⁾(x) = (-1)ⁿ⁺¹ n! ζ(n + 1, x); in a unit of some n / e where n! is large.
    bits = math.lgamma(n + 1) / math.log(2)
    unit = round(bits / (n + 1)) if n > 12 else 0
    if n <= 170:  # n! is a number of float64
        factor = math.ldexp(float(math.factorial(n)), -unit * (n + 1))
    else:
        factor = 2.0 ** (bits - unit * (n + 1))
    return apply(
        "{c} * zeta({b}, {a}, {d})",
        x,
        float(n + 1),
        factor if n % 2 else -factor,
        2.0**-unit,
        kind=kind,
        preamble=_zeta(kind),
    )


@kernel("special_zeta", "special_zeta.self_scalar", "special_zeta.other_scalar", lies=seldom)
def _zeta_of(order: Any, at: Any) -> Any:
    kind = floating(promoted(order, at))
    return apply("zeta({a}, {b}, 1)", order, at, kind=kind, preamble=_zeta(kind))


def _bessel(order: int, scaled: bool) -> str:
    """I of order 0 or 1: its power series up to 20, whose terms have one sign, or its asymptote."""
    first = "1" if order == 0 else f"{_c(0.5)} * v"
    mu = 4 * order * order
    near = f"{_T} z = {_c(0.25)} * v * v; for (int k = 1; k < 60; k++) "
    near += f"{{{{ term *= z / (({_T})k * ({_T})(k + {order})); sum += term; }}}}"
    far = f"term = 1; sum = 1; for (int k = 1; k < 24; k++) {{{{ {_T} odd = 2 * k - 1; "
    far += f"term *= (odd * odd - {mu}) / (8 * ({_T})k * v); sum += term; }}}} "
    far += f"sum /= {_c(math.sqrt(2 * math.pi))} * sqrt(v);"
    near_scale, far_scale, most = "sum *= exp(-v);", "", ""
    if not scaled:
        # In two factors, as the exponential overflows before the result; of ∞ as of what does.
        near_scale, far_scale = "", f"{_T} half_of = exp(v / 2); sum = sum * half_of * half_of;"
        most = "v = v > 2000 ? 2000 : v;"
    sign = "{a} < 0 ? -sum : sum" if order else "sum"
    return (
        f"{_T} v = fabs(({_T}){{a}}); {most} {_T} term = {first}; {_T} sum = term; "
        f"if (v < 20) {{{{ {near} {near_scale} }}}} else {{{{ {far} {far_scale} }}}} y0 = {sign};"
    )


def _unary(name: str, expr: str) -> None:
    @kernel(name, lies=seldom)
    def run(x: Array) -> Any:
        return apply(expr, x, kind=floating(kind_of(x.dtype)))


for _name, _order, _scaled in (
    ("i0", 0, False),
    ("special_i0e", 0, True),
    ("special_i1", 1, False),
    ("special_i1e", 1, True),
    ("special_modified_bessel_i0", 0, False),
    ("special_modified_bessel_i1", 1, False),
):
    _unary(_name, _bessel(_order, _scaled))
_unary("angle", f"{_T} v = {{a}}; y0 = isnan(v) ? v : v < 0 ? {_c(math.pi)} : 0;")


@kernel("frexp.Tensor", lies=seldom)
def _frexp(x: Array) -> Any:
    kind = kind_of(x.dtype)
    if not kind.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    import torch

    whole = "isfinite({a}) && {a} != 0"
    power = apply(f"{whole} ? ilogb({{a}}) + 1 : 0", x, kind=torch.int32)
    # In two steps: 2 to the power of a subnormal number's exponent does not fit.
    expr = "ldexp(ldexp({a}, -({b} / 2)), -({b} - {b} / 2))"
    wide = cast(x, torch.float32) if kind.itemsize < 4 else x
    return apply(f"{whole} ? {expr} : {{a}}", wide, power, kind=kind), power


@kernel("gcd", lies=seldom)
def _gcd(a: Array, b: Array) -> Any:
    kind = promoted(a, b)
    expr = (
        f"{_T} p = {{a}}; {_T} q = {{b}}; "
        f"while (q != 0) {{{{ {_T} r = p % q; p = q; q = r; }}}} y0 = p < 0 ? -p : p;"
    )
    return apply(expr, a, b, kind=kind)


@kernel("lcm", lies=seldom)
def _lcm(a: Array, b: Array) -> Any:
    expr = f"{_T} p = {{a}}; {_T} q = {{b}}; {_T} g = {{c}}; "
    expr += f"{_T} m = g == 0 ? 0 : p / g * q; y0 = m < 0 ? -m : m;"
    return apply(expr, a, b, _gcd(a, b), kind=promoted(a, b))
