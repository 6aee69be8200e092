"""Special functions: by series, recurrences and asymptotic expansions.

Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 6.3, 6.4, 9.6, 9.7 and 23.2.
"""

from __future__ import annotations

import math
from typing import Any

from clprim.arrays.array import Array
from clprim.torch.copying import cast
from clprim.torch.kernels.elementwise import apply, floating, promoted
from clprim.torch.layout import seldom
from clprim.torch.memory import kind_of
from clprim.torch.table import kernel

# Bernoulli numbers B2, B4, …
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_T = "typeof_y0"


def _c(value: float) -> str:
    return f"({_T}){value!r}"


def _digamma() -> str:
    # ψ(v) = ψ(v + 1) - 1 / v up to 10, then ln v - 1 / 2v - Σ B2k / (2k v^2k).
    series = "0"
    for k in range(len(_BERNOULLI), 0, -1):
        series = f"z * ({_c(_BERNOULLI[k - 1] / (2 * k))} + {series})"
    return (
        f"{_T} v = {{a}}; {_T} r = 0; "
        f"if (v == 0) y0 = v == 0 && signbit(v) ? ({_T})INFINITY : -({_T})INFINITY; "
        f"else if (v < 0 && v == floor(v)) y0 = ({_T})NAN; "
        f"else {{{{ if (v < 0) {{{{ r = -{_c(math.pi)} / tanpi(v - floor(v)); v = 1 - v; }}}} "
        f"while (v < 10) {{{{ r -= 1 / v; v += 1; }}}} "
        f"{_T} z = 1 / (v * v); y0 = r + log(v) - {_c(0.5)} / v - {series}; }}}}"
    )


def _zeta(order: str, at: str, result: str) -> str:
    """Σ (at + k)^-order: nine terms and more, then Euler and Maclaurin's formula."""
    tail = ""
    factor = 1.0
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        factor = bernoulli / math.factorial(2 * k)
        rise = f"rise *= (s + {2 * k - 3}) * (s + {2 * k - 2}); " if k > 1 else "rise = s; "
        tail += f"{rise}power *= inverse{'' if k == 1 else ' * inverse'}; "
        tail += f"sum += {_c(factor)} * rise * power; "
    return (
        f"{_T} s = {order}; {_T} q = {at}; {_T} sum = 0; {_T} rise = 0; int n = 0; "
        f"if (s == 1 || (q <= 0 && q == floor(q))) sum = ({_T})INFINITY; "
        f"else if (!(s > 1) || isnan(q) || (q < 0 && s != floor(s))) sum = ({_T})NAN; "
        f"else {{{{ while (n < 9 || q <= 9) {{{{ sum += pow(q, -s); q += 1; n += 1; }}}} "
        f"{_T} power = pow(q, -s); {_T} inverse = 1 / q; "
        f"sum += power * q / (s - 1) + {_c(0.5)} * power; {tail} }}}} "
        f"y0 = {result};"
    )


@kernel("digamma", "special_digamma", lies=seldom)
def _digamma_of(x: Array) -> Any:
    return apply(_digamma(), x, kind=floating(kind_of(x.dtype)))


@kernel("polygamma", lies=seldom)
def _polygamma(n: int, x: Array) -> Any:
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    kind = floating(kind_of(x.dtype))
    if n == 0:
        return apply(_digamma(), x, kind=kind)
    # ψ⁽ⁿ⁾(x) = (-1)ⁿ⁺¹ n! ζ(n + 1, x); n! may not fit float32.
    sign = -1.0 if n % 2 == 0 else 1.0
    return apply(_zeta("{b}", "{a}", "{c} * sum"), x, n + 1, sign * math.factorial(n), kind=kind)


@kernel("special_zeta", "special_zeta.self_scalar", "special_zeta.other_scalar", lies=seldom)
def _zeta_of(order: Any, at: Any) -> Any:
    return apply(_zeta("{a}", "{b}", "sum"), order, at, kind=floating(promoted(order, at)))


def _bessel(order: int, scaled: bool) -> str:
    """I of order 0 or 1: its power series up to 20, whose terms have one sign, or its asymptote."""
    first = "1" if order == 0 else f"{_c(0.5)} * v"
    mu = 4 * order * order
    near = f"{_T} z = {_c(0.25)} * v * v; for (int k = 1; k < 60; k++) "
    near += f"{{{{ term *= z / (({_T})k * ({_T})(k + {order})); sum += term; }}}}"
    far = f"term = 1; sum = 1; for (int k = 1; k < 24; k++) {{{{ {_T} odd = 2 * k - 1; "
    far += f"term *= (odd * odd - {mu}) / (8 * ({_T})k * v); sum += term; }}}} "
    far += f"sum /= sqrt({_c(2 * math.pi)} * v);"
    near_scale, far_scale = ("sum *= exp(-v);", "") if scaled else ("", "sum *= exp(v);")
    sign = "{a} < 0 ? -sum : sum" if order else "sum"
    return (
        f"{_T} v = fabs(({_T}){{a}}); {_T} term = {first}; {_T} sum = term; "
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
