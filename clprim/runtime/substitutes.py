"""Built-ins that a device's compiler gets wrong or does not link, written anew before a program.

Whether it does is found out by `clprim.runtime.probe`. A program that calls one of them is preceded
by text that defines it, and by a macro of its name; all others are compiled as they are printed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from clprim.errors import BuildError
from clprim.runtime import probe

if TYPE_CHECKING:
    import pyopencl as cl

# By way of 16-bit words and a private copy, whose address any compiler may rely on.
_HALVES = """
#define cp_loaded(n) \\
static inline float##n cp_own_vload_half##n(size_t i, __global const half *from) \\
{ \\
    const ushort##n bits = vload##n(i, (__global const ushort *)from); \\
    return vload_half##n(0, (const half *)&bits); \\
}
#define cp_stored(n, real) \\
static inline __attribute__((overloadable)) \\
void cp_own_vstore_half##n(real##n values, size_t i, __global half *to) \\
{ \\
    ushort##n bits; \\
    vstore_half##n(values, 0, (half *)&bits); \\
    vstore##n(bits, i, (__global ushort *)to); \\
}
cp_loaded(2) cp_loaded(4) cp_loaded(8) cp_loaded(16)
cp_stored(2, float) cp_stored(4, float) cp_stored(8, float) cp_stored(16, float)
"""
_STORED_DOUBLES = "cp_stored(2, double) cp_stored(4, double) cp_stored(8, double)\n"
# Payne and Hanek (1983): the bits of 2 / pi that decide, times the 24 of the angle, in whole
# numbers; then the polynomials of Moshier's Cephes (1992) on an eighth of a turn.
_CIRCULAR = """
__constant uint cp_two_over_pi[8] = {
    0x28u, 0xbe60db93u, 0x91054a7fu, 0x09d5f47du, 0x4d377036u, 0xd8a5664fu, 0x10e4107fu, 0x9458eaf7u
};
static inline float cp_own_rest(float a, uint *quadrant)
{
    const uint bits = as_uint(a) & 0x7fffffff;
    *quadrant = 0;
    if (bits <= 0x3f490fda)  // a quarter of pi
        return a;
    if (bits >= 0x7f800000)
        return a - a;
    const uint whole = (bits & 0x7fffff) | 0x800000, shift = (bits >> 23) - 126;
    const uint word = shift / 32, left = shift % 32;
    ulong window[3];
    for (uint k = 0; k < 3; ++k) {
        const ulong both = (ulong)cp_two_over_pi[word + k] << 32 | cp_two_over_pi[word + k + 1];
        window[k] = (both << left) >> 32;
    }
    const ulong turn
        = ((whole * window[0]) << 32) + whole * window[1] + ((whole * window[2]) >> 32);
    const ulong nearest = (turn + (1UL << 61)) >> 62;
    const float rest = (float)(long)(turn - (nearest << 62)) * 3.4061215800e-19f;
    *quadrant = (uint)nearest & 3;
    if (as_int(a) < 0)
        *quadrant = (4 - *quadrant) & 3;
    return as_int(a) < 0 ? -rest : rest;
}
static inline float cp_own_wave(float a, uint turned)
{
    uint quadrant;
    const float r = cp_own_rest(a, &quadrant), z = r * r;
    const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
    const float c = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z
        + 4.166664568298827e-2f) * z * z + (1 - 0.5f * z);
    const float found = (quadrant + turned) & 1 ? c : s;
    return (quadrant + turned) & 2 ? -found : found;
}
static inline __attribute__((overloadable)) float cp_own_sin(float a) { return cp_own_wave(a, 0); }
static inline __attribute__((overloadable)) float cp_own_cos(float a) { return cp_own_wave(a, 1); }
static inline __attribute__((overloadable)) float cp_own_tan(float a)
{
    return cp_own_wave(a, 0) / cp_own_wave(a, 1);
}
#define cp_lanes(f, n) \\
static inline __attribute__((overloadable)) float##n cp_own_##f(float##n a) \\
{ \\
    float lanes[n]; \\
    vstore##n(a, 0, lanes); \\
    for (int l = 0; l < n; ++l) \\
        lanes[l] = cp_own_##f(lanes[l]); \\
    return vload##n(0, lanes); \\
}
#define cp_each(n) cp_lanes(sin, n) cp_lanes(cos, n) cp_lanes(tan, n)
cp_each(2) cp_each(3) cp_each(4) cp_each(8) cp_each(16)
static inline float cp_own_sincos(float a, float *cosine)
{
    *cosine = cp_own_cos(a);
    return cp_own_sin(a);
}
"""
_CIRCULAR_DOUBLES = """
#define cp_double(f, n) \\
static inline __attribute__((overloadable)) double##n cp_own_##f(double##n a) { return f(a); }
#define cp_doubles(n) cp_double(sin, n) cp_double(cos, n) cp_double(tan, n)
cp_doubles() cp_doubles(2) cp_doubles(4) cp_doubles(8)
"""
# The product in whole numbers, the summand shifted to it, and one rounding of the sum; bits that
# are shifted out leave a trace in the last one.
_FUSED = """
static inline uint cp_own_bits(float a, int *power)
{
    const uint bits = as_uint(a), above = bits >> 23 & 0xff;
    *power = (int)max(above, 1u) - 150;
    return (bits & 0x7fffff) | (above ? 0x800000 : 0);
}
static inline ulong cp_own_shifted(ulong a, int right)
{
    return right > 63 ? a != 0 : a >> right | ((a & ((1UL << right) - 1)) != 0);
}
static inline __attribute__((overloadable)) float cp_own_fma(float a, float b, float c)
{
    const bool product_is_finite = isfinite(a) && isfinite(b);
    if (a == 0 || b == 0 || c == 0 || !product_is_finite || !isfinite(c))
        return product_is_finite && !isfinite(c) ? c : a * b + c;
    int power, power_b, power_c;
    ulong product = (ulong)cp_own_bits(a, &power) * cp_own_bits(b, &power_b) << 14;
    ulong summand = cp_own_bits(c, &power_c);
    power += power_b - 14;
    const int apart = power_c - power;
    if (apart < 0) {
        summand = cp_own_shifted(summand, -apart);
    } else {
        summand <<= min(apart, 38);
        product = cp_own_shifted(product, max(apart - 38, 0));
        power += max(apart - 38, 0);
    }
    const bool minus = (as_int(a) ^ as_int(b)) < 0;
    const long sum = (minus ? -(long)product : (long)product)
        + (as_int(c) < 0 ? -(long)summand : (long)summand);
    ulong size = sum < 0 ? -(ulong)sum : (ulong)sum;
    const int less = max(40 - (int)clz(size), -149 - power);
    if (less > 0) {
        const int by = min(less, 63);
        const ulong kept = size >> by, rest = size & ((1UL << by) - 1), middle = 1UL << (by - 1);
        size = kept + (rest > middle || (rest == middle && (kept & 1)));
        power += by;
    }
    const float found = ldexp((float)(uint)size, power);
    return sum < 0 ? -found : found;
}
#define cp_fused(n) \\
static inline __attribute__((overloadable)) \\
float##n cp_own_fma(float##n a, float##n b, float##n c) \\
{ \\
    float x[n], y[n], z[n]; \\
    vstore##n(a, 0, x); \\
    vstore##n(b, 0, y); \\
    vstore##n(c, 0, z); \\
    for (int l = 0; l < n; ++l) \\
        x[l] = cp_own_fma(x[l], y[l], z[l]); \\
    return vload##n(0, x); \\
}
cp_fused(2) cp_fused(3) cp_fused(4) cp_fused(8) cp_fused(16)
"""
_FUSED_DOUBLES = """
#define cp_doubles_fused(n) \\
static inline __attribute__((overloadable)) \\
double##n cp_own_fma(double##n a, double##n b, double##n c) { return fma(a, b, c); }
cp_doubles_fused() cp_doubles_fused(2) cp_doubles_fused(4) cp_doubles_fused(8)
"""
_PRAGMA = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"


class _Substitute(NamedTuple):
    """Text for what a compiler lacks."""

    calls: dict[str, str]
    text: str
    doubles: str


_SIZES = (2, 4, 8, 16)
# By the answer of `probe` that makes them needless.
_SUBSTITUTES = {
    "halves": _Substitute(
        {f"vload_half{n}": "(i, from)" for n in _SIZES}
        | {f"vstore_half{n}": "(values, i, to)" for n in _SIZES},
        _HALVES,
        _STORED_DOUBLES,
    ),
    "circular": _Substitute(
        dict.fromkeys(("sin", "cos", "tan"), "(a)") | {"sincos": "(a, cosine)"},
        _CIRCULAR,
        _CIRCULAR_DOUBLES,
    ),
    "fused": _Substitute({"fma": "(a, b, c)"}, _FUSED, _FUSED_DOUBLES),
}
_REFUSED = {
    "circular": {"half_sin": "sin", "half_cos": "cos", "half_tan": "tan"},
    "fused": {"remquo": "remainder"},
}


def completed(device: cl.Device, source: str, title: str) -> str:
    """Returns a program with what the device's compiler lacks of the functions that it calls."""
    found = probe.abilities(device)
    if found is None or found.issuperset(_SUBSTITUTES):
        return source
    words = _words(source)
    parts = []
    for answer, (calls, text, doubles) in _SUBSTITUTES.items():
        if answer in found:
            continue
        for name in words & _REFUSED.get(answer, {}).keys():
            other = _REFUSED[answer][name]
            refused = BuildError(
                f"{title}: the OpenCL compiler of {device.name} lacks {name}; write {other}"
            )
            vars(refused).update(log="", source=source)
            raise refused
        if words & calls.keys():
            wide = f"{_PRAGMA}{doubles}" if "double" in source else ""
            macros = [f"#undef {f}\n#define {f}{a} cp_own_{f}{a}\n" for f, a in calls.items()]
            parts += [text, wide, *macros]
    return "".join([*parts, '#line 1 "kernel"\n', source]) if parts else source


@lru_cache(maxsize=64)
def _words(source: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", source))
