"""Strings of unusual control flow and assignments, held to central differences."""

import re

import numpy as np
import pytest

import clprim as cp

STRANGE = [
    "real t = x0; if (x0 > 0) { t = t * 2; if (x1 > 0) t = t * t * x1; else { t = sin(t); t += x1;"
    " } } else { t -= x1 * t; } y0 = t * x0;",
    "real4 v = (real4)(x0, x1, x0 * x1, 2); v = v * v + v.yxwz; y0 = v.x * v.y + v.z + v.w;",
    "real4 v = (real4)(x0); v.xy = (real2)(x1, x0 * x1); v.hi = v.lo * 2; y0 = dot(v, v.wzyx);",
    "real3 v = (real3)(x0, x1, 1); v.xz += v.yy * 2; v *= v; y0 = v.x + v.y * v.z;",
    "real3 v = cross((real3)(x0, x1, x2), (real3)(x1, 2, x0)); y0 = v.x * 2 + v.y * v.z;",
    "y0 = x0 > 1 ? x0 * x0 : x0 > .5 ? sin(x0) * x1 : x0 > 0 ? x1 : x0 > -1 ? x0 * x1 : exp(x0);",
    "real s = x0; for (int i = 0; i < 10; ++i) { if (s > 3) break; s = s * s + x1 * x1; }"
    " y0 = s * x0;",
    "real s = 0; for (int i = 0; i < 6; ++i) { if (i % 2) continue; s += pown(x0, i) * x1; }"
    " y0 = s;",
    "real a[3] = {x0, x1, 2}; for (int i = 0; i < 3; ++i) a[i] *= a[(i + 1) % 3];"
    " y0 = a[0] * a[1] + a[2];",
    "real a[3] = {x0, x1, x0 * x1}; y0 = a[x0 > 0 ? 1 : 2] * a[(int)(x1 > 0)];",
    "int i = 0; real s = x0; do { s = s * x1 + 1; i++; } while (i < 3); y0 = s;",
    "real a, b; a = b = x0 * x1; a += b *= 2; y0 = a * b;",
    "real a = x0; real b = a++ * x1; y0 = a * b + --b;",
    "real t; y0 = (t = x0 * x1) > 0 ? t * t : -t;",
    "real c; real s = sincos(x0 * x1, &c); y0 = s * c;",
    "y0 = (x0 > 0) * x0 * x1 + (x1 > 0 ? x1 : 0);",
    "real2 v[2] = {(real2)(x0, 1), (real2)(x1, x0)}; v[1] += v[0]; y0 = v[1].x * v[1].y;",
    "y0 = early(x0, x1) + looped(x0, x1); real p, q; both(x1, x0, &p, &q); y0 *= p * q;",
]
PREAMBLE = """
real early(real a, real b) {
    if (a > 0) return a * b;
    a = a * a;
    if (b > 0) { b += 1; return a / b; }
    return a - b * b;
}
real looped(real a, real b) {
    for (int i = 0; i < 4; ++i) { a = a * b + 1; if (a > 2) return a * i; }
    return a * a;
}
void both(real u, real v, real* s, real* t) { *s = u * v; *t = u + v * *s; }
"""


def test_strange_strings(double_device):
    rng = np.random.default_rng(5)
    arrays = [rng.uniform(0.3, 1.7, 7) * rng.choice([-1, 1], 7) for _ in range(3)]
    text = "".join(f"{{ {re.sub(r'y0', f'y{n}', string)} }}\n" for n, string in enumerate(STRANGE))
    text, preamble = (re.sub(r"\breal", "double", t) for t in (text, PREAMBLE))
    cp.check_gradient(cp.Pointwise(text, preamble=preamble), *arrays)


@pytest.mark.parametrize("text", ["08", "1" * 5000, "0x" + "f" * 500], ids=len)
def test_digits_that_are_no_number_are_refused(text):
    # The compiler refuses them as well, but only in a call.
    with pytest.raises(cp.DefinitionError, match=r"is no number\n.*\n +\^"):
        str(cp.Pointwise(f"y0 = x0 * {text};").gradient())


@pytest.mark.parametrize("call", ["pow(x0)", "select(x0, x0)", "isgreater(x0)", "dot(x0)"])
def test_calls_with_too_few_arguments_are_refused(call):
    with pytest.raises(cp.DefinitionError, match=r"takes \d arguments, \d given\n.*\n +\^"):
        str(cp.Pointwise(f"y0 = x0 * {call};").gradient())
