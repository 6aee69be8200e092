"""Elementwise expressions as strings, and the same in PyTorch: what derived gradients are held to.

A string has its operands as ``a``, ``b`` and ``c``. ``domain`` says where it has a value; data hold
kinks and ties (`data`), so the convention there is tested, too.
"""

from dataclasses import dataclass

import numpy as np
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    reference: object
    domain: str = "real"
    special: bool = True  # whether NaN and infinities have PyTorch's gradient as well

    @property
    def arity(self):
        return self.reference.__code__.co_argcount


_KINKS = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 6.0, -6.0, 20.0, 25.0, -25.0]


def data(domain, count, seed=0):
    """Arrays of float64 that share values, so that maxima have ties."""
    rng = np.random.default_rng(seed)
    made = []
    for n in range(count):
        values = rng.normal(0, 2, 30)
        if n:
            values[:8] = made[0][15:23]
        kinks = np.array(_KINKS) if n == 0 else np.roll(_KINKS, n * (n + 2))
        if n:
            kinks[:4] = _KINKS[:4]
        values = np.concatenate([kinks, values])
        if domain == "positive":
            values = np.abs(values) % 5 + 0.125
        elif domain == "unit":
            values = np.tanh(values / 3) * 0.95
        elif domain == "prob":
            values = 0.5 + np.tanh(values / 3) * 0.45
        elif domain == "above1":
            values = np.abs(values) % 7 + 1.0625
        elif domain == "small":
            values = np.tanh(values) * 2
        made.append(values)
    return made


SPECIAL = np.array([np.nan, np.inf, -np.inf])


def case(text, reference, domain="real", name=None, special=True):
    return Case(name or text, text, reference, domain, special)


def where(c, a, b):
    return torch.where(c, a, b)


def real(value, like):
    return torch.as_tensor(value, dtype=like.dtype)


EXP_STABLE = "e = exp(-fabs(a))"
T = "typeof_y0"

ARITHMETIC = [
    case("a + b", lambda a, b: a + b),
    case("a - b", lambda a, b: a - b),
    case("-a", lambda a: -a),
    case("a * b", lambda a, b: a * b),
    case("a / b", lambda a, b: a / b, "positive", special=False),
    case("a * a", lambda a: a * a),
    case("a * a * a - 2 * a + 1", lambda a: a**3 - 2 * a + 1, special=False),
    case("1 / a", lambda a: 1 / a, "positive"),
    case("1 / (1 + a * a)", lambda a: 1 / (1 + a * a), special=False),
    case("(a + b) * (a - b)", lambda a, b: (a + b) * (a - b), special=False),
    case("a * b + b * c + c * a", lambda a, b, c: a * b + b * c + c * a, special=False),
    case("(a - b) * (a - b)", lambda a, b: (a - b) ** 2),
    case("a / (b * b + c * c + 1)", lambda a, b, c: a / (b * b + c * c + 1), special=False),
    case("0.5 * a + 0.25 * a", lambda a: 0.5 * a + 0.25 * a),
    case("fma(a, b, c)", lambda a, b, c: a * b + c, special=False),
    case("mad(a, b, c)", lambda a, b, c: a * b + c, special=False),
    case("mix(a, b, c)", lambda a, b, c: a + (b - a) * c, special=False),
    case("(typeof_y0)(float)0.5 * a", lambda a: 0.5 * a),
    case("hypot(a, b)", lambda a, b: torch.hypot(a, b), "positive", special=False),
    case("atan2(a, b)", lambda a, b: torch.atan2(a, b), special=False),
    case("fmod(a, b)", lambda a, b: torch.fmod(a, b), "positive", special=False),
    case("fabs(a)", lambda a: a.abs()),
    case("fabs(a - b)", lambda a, b: (a - b).abs()),
    case("a * fabs(a)", lambda a: a * a.abs(), special=False),
    case("sign(a) * b", lambda a, b: torch.sign(a) * b, special=False),
    case("floor(a) + a", lambda a: torch.floor(a) + a),
    case("ceil(a) * b", lambda a, b: torch.ceil(a) * b, special=False),
    case("rint(a) + b * trunc(a)", lambda a, b: torch.round(a) + b * torch.trunc(a), special=False),
    case("a - floor(a)", lambda a: torch.frac(a) if False else a - torch.floor(a)),
    case("copysign(a, b)", lambda a, b: torch.copysign(a, b), "positive", special=False),
    case("degrees(a)", lambda a: torch.rad2deg(a)),
    case("radians(a)", lambda a: torch.deg2rad(a)),
    case("fdim(a, b)", lambda a, b: where(a > b, a - b, torch.zeros_like(a)), special=False),
]

POWERS = [
    case("pow(a, 2)", lambda a: a**2),
    case("pow(a, 3)", lambda a: a**3, special=False),
    case("pow(a, 5)", lambda a: a**5, special=False),
    case("pow(a, 0.5)", lambda a: a**0.5, "positive"),
    case("pow(a, -1)", lambda a: a**-1.0, "positive"),
    case("pow(a, -2)", lambda a: a**-2.0, "positive"),
    case("pow(a, 1.5)", lambda a: a**1.5, "positive", special=False),
    case("pow(a, b)", lambda a, b: torch.pow(a, b), "positive", special=False),
    case("pow(fabs(a), b)", lambda a, b: torch.pow(a.abs(), b), "positive", special=False),
    case("pow(2, a)", lambda a: torch.pow(real(2.0, a), a), "small"),
    case("pown(a, 4)", lambda a: a**4, special=False),
    case("sqrt(a)", lambda a: torch.sqrt(a), "positive"),
    case("sqrt(a * a + b * b)", lambda a, b: torch.sqrt(a * a + b * b), "positive", special=False),
    case("rsqrt(a)", lambda a: torch.rsqrt(a), "positive"),
    case("cbrt(a)", lambda a: torch.sign(a) * a.abs() ** (1 / 3), "positive", special=False),
]

EXPONENTIALS = [
    case("exp(a)", lambda a: torch.exp(a)),
    case("exp(-a * a)", lambda a: torch.exp(-a * a), special=False),
    case("exp2(a)", lambda a: torch.exp2(a)),
    case("exp10(a)", lambda a: torch.pow(real(10.0, a), a), "small"),
    case("expm1(a)", lambda a: torch.expm1(a)),
    case("log(a)", lambda a: torch.log(a), "positive"),
    case("log2(a)", lambda a: torch.log2(a), "positive"),
    case("log10(a)", lambda a: torch.log10(a), "positive"),
    case("log1p(a)", lambda a: torch.log1p(a), "positive"),
    case("a * log(a)", lambda a: a * torch.log(a), "positive", special=False),
    case("log(exp(a) + exp(b))", lambda a, b: torch.logaddexp(a, b), "small", special=False),
    case("exp(a) / (exp(a) + exp(b))", lambda a, b: torch.sigmoid(a - b), "small", special=False),
    case("log(a / (1 - a))", lambda a: torch.logit(a), "prob", special=False),
    case("exp(a * b) * c", lambda a, b, c: torch.exp(a * b) * c, "small", special=False),
    case("ldexp(a, 3)", lambda a: a * 8),
    case("lgamma(a)", lambda a: torch.lgamma(a), "positive", special=False),
]

TRIGONOMETRY = [
    case("sin(a)", lambda a: torch.sin(a)),
    case("cos(a)", lambda a: torch.cos(a)),
    case("tan(a)", lambda a: torch.tan(a), "unit", special=False),
    case("asin(a)", lambda a: torch.asin(a), "unit"),
    case("acos(a)", lambda a: torch.acos(a), "unit"),
    case("atan(a)", lambda a: torch.atan(a)),
    case("sinh(a)", lambda a: torch.sinh(a)),
    case("cosh(a)", lambda a: torch.cosh(a)),
    case("tanh(a)", lambda a: torch.tanh(a)),
    case("asinh(a)", lambda a: torch.asinh(a)),
    case("acosh(a)", lambda a: torch.acosh(a), "above1", special=False),
    case("atanh(a)", lambda a: torch.atanh(a), "unit", special=False),
    case("sinpi(a)", lambda a: torch.sin(torch.pi * a), "unit", special=False),
    case("cospi(a)", lambda a: torch.cos(torch.pi * a), "unit", special=False),
    case("sin(a) * cos(b)", lambda a, b: torch.sin(a) * torch.cos(b), special=False),
    case("sinpi(a) / (M_PI * a)", lambda a: torch.sinc(a), "positive", special=False),
    case("erf(a)", lambda a: torch.erf(a)),
    case("erfc(a)", lambda a: torch.erfc(a)),
    case("tgamma(a)", lambda a: torch.exp(torch.lgamma(a)), "positive", special=False),
    case("asinpi(a) * M_PI", lambda a: torch.asin(a), "unit", special=False),
    case("acospi(a) * M_PI", lambda a: torch.acos(a), "unit", special=False),
    case("atanpi(a) * M_PI", lambda a: torch.atan(a), special=False),
    case("atan2pi(a, b) * M_PI", lambda a, b: torch.atan2(a, b), special=False),
    case("tanpi(a / 4)", lambda a: torch.tan(torch.pi / 4 * a), "unit", special=False),
]

CHOICES = [
    case("max(a, b)", lambda a, b: torch.maximum(a, b)),
    case("min(a, b)", lambda a, b: torch.minimum(a, b)),
    case("fmax(a, b)", lambda a, b: torch.fmax(a, b)),
    case("fmin(a, b)", lambda a, b: torch.fmin(a, b)),
    case("max(a, 0)", lambda a: torch.maximum(a, torch.zeros_like(a))),
    case("max(max(a, b), c)", lambda a, b, c: torch.maximum(torch.maximum(a, b), c), special=False),
    case("clamp(a, -1, 2)", lambda a: torch.clamp(a, -1, 2)),
    case("clamp(a, b, c)", lambda a, b, c: torch.clamp(a, b, c), special=False),
    case("a > 0 ? a : b", lambda a, b: where(a > 0, a, b)),
    case("a > b ? a * b : a - b", lambda a, b: where(a > b, a * b, a - b), special=False),
    case("a >= b ? a : b", lambda a, b: where(a >= b, a, b)),
    case(
        "a > 0 && b > 0 ? a * b : 0",
        lambda a, b: where((a > 0) & (b > 0), a * b, 0.0),
        special=False,
    ),
    case(
        "a > 0 || !(b < 1) ? a : b * b",
        lambda a, b: where((a > 0) | ~(b < 1), a, b * b),
        special=False,
    ),
    case("(a > 0) * a", lambda a: (a > 0) * a, special=False),
    case("select(b, a, a > 0 ? 1L : 0L)", lambda a, b: where(a > 0, a, b)),
    case("isgreater(a, b) ? a : c", lambda a, b, c: where(a > b, a, c)),
    case("step(0.5, a) * a", lambda a: (a >= 0.5) * a, special=False),
    case("a != a ? 0 : a", lambda a: where(a != a, torch.zeros_like(a), a)),
    case("isnan(a) ? 0 : a", lambda a: where(torch.isnan(a), torch.zeros_like(a), a)),
    case(
        "smoothstep(-2, 2, a)",
        lambda a: (lambda t: t * t * (3 - 2 * t))(torch.clamp((a + 2) / 4, 0, 1)),
        special=False,
    ),
    case(
        "maxmag(a, b)",
        lambda a, b: where(a.abs() > b.abs(), a, where(a.abs() < b.abs(), b, torch.maximum(a, b))),
        special=False,
    ),
    case(
        "minmag(a, b)",
        lambda a, b: where(a.abs() < b.abs(), a, where(a.abs() > b.abs(), b, torch.minimum(a, b))),
        special=False,
    ),
]

ACTIVATIONS = [
    case(
        "a < 0 ? 0 : a > 6 ? 6 : a", lambda a: where(a < 0, 0.0, where(a > 6, 6.0, a)), name="clip6"
    ),
    case("a > 0 ? a : 0", lambda a: F.relu(a), name="relu", special=False),
    case("a <= 0 ? 0 : a >= 6 ? 6 : a", lambda a: F.relu6(a), name="relu6", special=False),
    case("a > 0 ? a : a * 0.01", lambda a: F.leaky_relu(a), name="leaky_relu"),
    case("a > 0 ? a : a * b", lambda a, b: where(a > 0, a, a * b), name="prelu", special=False),
    case("a <= -1 ? -1 : a >= 1 ? 1 : a", lambda a: F.hardtanh(a), name="hardtanh", special=False),
    case(
        "a <= -3 ? 0 : a >= 3 ? 1 : (a + 3) / 6",
        lambda a: where(a.abs() >= 3, 0.0, (a + 3) / 6),
        name="hardsigmoid",
    ),
    case(
        "a <= -3 ? 0 : a >= 3 ? a : a * (a + 3) / 6",
        lambda a: F.hardswish(a),
        name="hardswish",
        special=False,
    ),
    case(
        "a > 0.5 || a < -0.5 ? a : 0", lambda a: F.hardshrink(a), name="hardshrink", special=False
    ),
    case(
        "a > 0.5 ? a - 0.5 : a < -0.5 ? a + 0.5 : 0",
        lambda a: F.softshrink(a),
        name="softshrink",
        special=False,
    ),
    case("a > 0.1 ? a : 20", lambda a: F.threshold(a, 0.1, 20), name="threshold", special=False),
    case("1 / (1 + exp(-a))", lambda a: torch.sigmoid(a), name="sigmoid", special=False),
    case(
        f"{T} e = exp(-fabs(a)); r = (a < 0 ? e : 1) / (1 + e)",
        lambda a: torch.sigmoid(a),
        name="sigmoid, stable",
        special=False,
    ),
    case(
        f"{T} e = exp(-fabs(a)); r = a * ((a < 0 ? e : 1) / (1 + e))",
        lambda a: F.silu(a),
        name="silu, stable",
        special=False,
    ),
    case("a / (1 + exp(-a))", lambda a: F.silu(a), name="silu", special=False),
    case(
        "(a < 0 ? a : 0) - log1p(exp(-fabs(a)))",
        lambda a: F.logsigmoid(a),
        name="logsigmoid",
        special=False,
    ),
    case(
        "(a > 0 ? a : 0) + log1p(exp(-fabs(a)))",
        lambda a: F.softplus(a, threshold=1e6),
        name="softplus",
        special=False,
    ),
    case(
        "fmax(a, 0) + log1p(exp(-fabs(a)))",
        lambda a: F.softplus(a, threshold=1e6),
        name="softplus, fmax",
        special=False,
    ),
    case(
        "max(a, 0) + log1p(exp(-fabs(a)))",
        lambda a: F.softplus(a, threshold=1e6),
        name="softplus, max",
        special=False,
    ),
    case(
        "a > 20 ? a : log1p(exp(a))",
        lambda a: F.softplus(a),
        name="softplus, threshold",
        special=False,
    ),
    case("a > 0 ? a : expm1(a)", lambda a: F.elu(a), name="elu"),
    case("a > 0 ? a : 1.5 * expm1(a / 1.5)", lambda a: F.celu(a, 1.5), name="celu"),
    case(
        "1.0507009873554805 * (a > 0 ? a : 1.6732632423543772 * expm1(a))",
        lambda a: F.selu(a),
        name="selu",
    ),
    case("0.5 * a * (1 + erf(a * M_SQRT1_2))", lambda a: F.gelu(a), name="gelu", special=False),
    case("0.5 * a * erfc(a * -M_SQRT1_2)", lambda a: F.gelu(a), name="gelu, erfc", special=False),
    case(
        "0.5 * a * (1 + tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)))",
        lambda a: F.gelu(a, approximate="tanh"),
        name="gelu, tanh",
        special=False,
    ),
    case("a * tanh(log1p(exp(a)))", lambda a: F.mish(a), name="mish", special=False),
    case(
        f"{T} e = exp(a < 20 ? a : 20); {T} n = e * (e + 2); r = a * (n / (n + 2))",
        lambda a: F.mish(a),
        name="mish, rational",
        special=False,
    ),
    case("a / (1 + fabs(a))", lambda a: F.softsign(a), name="softsign", special=False),
    case("a - tanh(a)", lambda a: F.tanhshrink(a), name="tanhshrink", special=False),
    case("a / (1 + exp(-b))", lambda a, b: a * torch.sigmoid(b), name="glu", special=False),
    case(
        "max(a, 0) * b",
        lambda a, b: torch.maximum(a, torch.zeros_like(a)) * b,
        name="reglu",
        special=False,
    ),
    case(
        "b * 0.5 * a * (1 + erf(a * M_SQRT1_2))",
        lambda a, b: F.gelu(a) * b,
        name="geglu",
        special=False,
    ),
    case(
        "a * exp(-a * a / 2)", lambda a: a * torch.exp(-a * a / 2), name="gaussian", special=False
    ),
    case("a > 0 ? a * a : 0", lambda a: F.relu(a) ** 2, name="squared relu", special=False),
    case(
        "log(a > 0 ? a + 1 : exp(a))",
        lambda a: torch.log(where(a > 0, a + 1, torch.exp(a))),
        "small",
        name="log of elu + 1",
        special=False,
    ),
    case(
        "a > 0 ? log(a) : 0",
        lambda a: torch.nan_to_num(torch.log(torch.clamp(a, min=1e-300)) * (a > 0), 0, 0, 0),
        "positive",
        name="log where positive",
        special=False,
    ),
    case(
        "sin(a) * sin(a) / 1.5 + a",
        lambda a: a + torch.sin(a) ** 2 / 1.5,
        name="snake",
        special=False,
    ),
    case("2 / (1 + exp(-2 * a)) - 1", lambda a: torch.tanh(a), name="tanh by exp", special=False),
    case(
        "0.5 * (tanh(a / 2) + 1)", lambda a: torch.sigmoid(a), name="sigmoid by tanh", special=False
    ),
]

LOSSES = [
    case("(a - b) * (a - b)", lambda a, b: F.mse_loss(a, b, reduction="none"), name="mse"),
    case("fabs(a - b)", lambda a, b: F.l1_loss(a, b, reduction="none"), name="l1"),
    case(
        f"{T} d = fabs(a - b); r = d < 1 ? 0.5 * d * d : d - 0.5",
        lambda a, b: F.smooth_l1_loss(a, b, reduction="none"),
        name="smooth l1",
        special=False,
    ),
    case(
        f"{T} d = fabs(a - b); r = d <= 1.5 ? 0.5 * d * d : 1.5 * (d - 0.75)",
        lambda a, b: F.huber_loss(a, b, reduction="none", delta=1.5),
        name="huber",
        special=False,
    ),
    case(
        "-(b * log(a) + (1 - b) * log(1 - a))",
        lambda a, b: -(b * a.log() + (1 - b) * (1 - a).log()),
        "prob",
        name="bce",
        special=False,
    ),
    case(
        "max(a, 0) - a * b + log1p(exp(-fabs(a)))",
        lambda a, b: F.binary_cross_entropy_with_logits(a, b, reduction="none"),
        name="bce with logits",
        special=False,
    ),
    case(
        "(1 - b) * a + log1p(exp(-fabs(a))) + (a < 0 ? -a : 0)",
        lambda a, b: F.binary_cross_entropy_with_logits(a, b, reduction="none"),
        name="bce with logits, other way",
        special=False,
    ),
    case("b * (log(b) - a)", lambda a, b: b * (b.log() - a), "positive", name="kl", special=False),
    case(
        "exp(b) * (b - a)",
        lambda a, b: F.kl_div(a, b, reduction="none", log_target=True),
        "small",
        name="kl of logs",
        special=False,
    ),
    case(
        "exp(a) - b * a",
        lambda a, b: F.poisson_nll_loss(a, b, reduction="none"),
        "small",
        name="poisson",
        special=False,
    ),
    case(
        "a - b * log(a + 1e-8)",
        lambda a, b: F.poisson_nll_loss(a, b, log_input=False, reduction="none"),
        "positive",
        name="poisson of rates",
        special=False,
    ),
    case(
        "0.5 * (log(c) + (a - b) * (a - b) / c)",
        lambda a, b, c: 0.5 * (torch.log(c) + (a - b) ** 2 / c),
        "positive",
        name="gaussian nll",
        special=False,
    ),
    case(
        "log1p(exp(-a * b))",
        lambda a, b: F.softplus(-a * b, threshold=1e6),
        "small",
        name="soft margin",
        special=False,
    ),
    case(
        "max(0, 1 - a * b)",
        lambda a, b: torch.maximum(torch.zeros_like(a), 1 - a * b),
        name="hinge",
        special=False,
    ),
    case(
        f"{T} m = max(0, 1 - a * b); r = m * m",
        lambda a, b: torch.maximum(torch.zeros_like(a), 1 - a * b) ** 2,
        name="squared hinge",
        special=False,
    ),
    case(
        "b > 0 ? a : max(0, 1 - a)",
        lambda a, b: where(b > 0, a, torch.maximum(torch.zeros_like(a), 1 - a)),
        name="hinge embedding",
        special=False,
    ),
    case(
        "max(0, -c * (a - b) + 0.5)",
        lambda a, b, c: torch.maximum(torch.zeros_like(a), -c * (a - b) + 0.5),
        name="margin ranking",
        special=False,
    ),
    case(
        f"{T} p = 1 / (1 + exp(-a)); {T} q = b > 0 ? p : 1 - p; r = -(1 - q) * (1 - q) * log(q)",
        lambda a, b: (lambda q: -((1 - q) ** 2) * torch.log(q))(
            where(b > 0, torch.sigmoid(a), 1 - torch.sigmoid(a))
        ),
        "small",
        name="focal",
        special=False,
    ),
    case(
        "log(cosh(a - b))",
        lambda a, b: torch.log(torch.cosh(a - b)),
        "small",
        name="log cosh",
        special=False,
    ),
    case(
        f"{T} d = a - b; r = d > 0 ? 0.9 * d : -0.1 * d",
        lambda a, b: where(a > b, 0.9 * (a - b), -0.1 * (a - b)),
        name="pinball",
        special=False,
    ),
    case(
        "sqrt((a - b) * (a - b) + 1e-6)",
        lambda a, b: torch.sqrt((a - b) ** 2 + 1e-6),
        name="charbonnier",
        special=False,
    ),
    case(
        "log(1 + (a - b) * (a - b) / 2)",
        lambda a, b: torch.log(1 + (a - b) ** 2 / 2),
        name="cauchy",
        special=False,
    ),
    case(
        "fabs(a - b) / (fabs(a) + fabs(b) + 1)",
        lambda a, b: (a - b).abs() / (a.abs() + b.abs() + 1),
        name="smape",
        special=False,
    ),
    case(
        "2 * a * b / (a + b + 1)",
        lambda a, b: 2 * a * b / (a + b + 1),
        "prob",
        name="dice",
        special=False,
    ),
    case(
        "lgamma(a + b) - lgamma(a) - lgamma(b) + (a - 1) * log(c)",
        lambda a, b, c: (
            torch.lgamma(a + b) - torch.lgamma(a) - torch.lgamma(b) + (a - 1) * torch.log(c)
        ),
        "positive",
        name="beta log density",
        special=False,
    ),
]

PROGRAMS = [
    case(f"{T} t = a; t = t * 2; t += b; t *= t; r = t", lambda a, b: (2 * a + b) ** 2, name="reassigned", special=False),
    case(f"{T} t = a; t -= b; t /= 4; r = t * t", lambda a, b: ((a - b) / 4) ** 2, name="compound", special=False),
    case("r = a; if (a > 0) { r = a * b; } else { r = b; }", lambda a, b: where(a > 0, a * b, b), name="if else", special=False),
    case("r = 0; if (a > 1) r = a; else if (a > -1) r = a * a; else r = -a;", lambda a: where(a > 1, a, where(a > -1, a * a, -a)), name="else if", special=False),
    case("r = b; if (a > 0) { if (b > 0) r = a * b; else r = a; }", lambda a, b: where(a > 0, where(b > 0, a * b, a), b), name="nested if", special=False),
    case(f"{T} s = 0; for (int i = 0; i < 4; ++i) s = s * a + (i + 1); r = s", lambda a: ((a + 2) * a + 3) * a + 4, name="horner", special=False),
    case(f"{T} s = 1; for (int i = 1; i <= 5; i++) {{ s *= a; s += b / i; }} r = s", lambda a, b: ((((a + b) * a + b / 2) * a + b / 3) * a + b / 4) * a + b / 5, "small", name="loop", special=False),
    case(f"{T} s = a; int i = 0; while (i < 3) {{ s = s * s + b; i += 1; }} r = s", lambda a, b: ((a * a + b) ** 2 + b) ** 2 + b, "unit", name="while", special=False),
    case(f"{T} s = a; for (int i = 0; i < 6; ++i) {{ if (s > 4) break; s = s * 2 + b; }} r = s", lambda a, b: _until(a, b), "positive", name="break", special=False),
    case(f"{T} s = 0; for (int i = 0; i < 6; ++i) {{ if (i % 2) continue; s += a * i; }} r = s", lambda a: 6 * a, name="continue", special=False),
    case(f"{T} t[3] = {{a, b, a * b}}; {T} s = 0; for (int i = 0; i < 3; i++) s += t[i] * t[i]; r = s", lambda a, b: a * a + b * b + (a * b) ** 2, name="array", special=False),
    case("square(a) + twice(b)", lambda a, b: a * a + 2 * b, name="helpers", special=False),
    case("norm2(a, b)", lambda a, b: torch.sqrt(a * a + b * b + 1), name="helper of helpers", special=False),
    case("piecewise(a)", lambda a: where(a > 1, 2 * a - 1, where(a < -1, -2 * a - 1, a * a)), name="helper with returns", special=False),
    case(f"{T} s, q; split(a, &s, &q); r = s * q", lambda a: (a + 1) * a * a, name="helper with pointers", special=False),
    case("CUBE(a) * FACTOR", lambda a: 0.75 * a**3, name="macros", special=False),
    case(f"{T} q; {T} s = sincos(a, &q); r = s * q", lambda a: torch.sin(a) * torch.cos(a), name="sincos", special=False),
    case(f"{T} q; r = fract(a, &q) * b + q", lambda a, b: (a - torch.floor(a)) * b + torch.floor(a), "positive", name="fract", special=False),
    case("double2 v = (double2)(a, b); v = v * v + 1.0; r = v.x * v.y", lambda a, b: (a * a + 1) * (b * b + 1), name="vectors", special=False),
    case("double3 v = (double3)(a, b, c); r = dot(v, v.zxy) + length(v + 1.0)", lambda a, b, c: a * c + b * a + c * b + torch.sqrt((a + 1) ** 2 + (b + 1) ** 2 + (c + 1) ** 2), "positive", name="dot and length", special=False),
    case("double4 v; v.xy = (double2)(a, b); v.hi = v.lo.yx; r = v.x * v.z + v.s3 * v.w", lambda a, b: a * b + a * a, name="swizzle", special=False),
    case("int k = (int)a; r = a * k + b", lambda a, b: a * torch.trunc(a).detach() + b, name="whole number", special=False),
    case("r = a * ((index & 1) ? b : 2)", lambda a, b: a * where(torch.arange(len(a)) % 2 == 1, b, 2.0), name="index", special=False),
    case("a > 0 ? sqrt(a) : a", lambda a: where(a > 0, torch.sqrt(where(a > 0, a, 1.0)), a), name="guarded sqrt", special=False),
    case("(a, b) * a", lambda a, b: b * a, name="comma", special=False),
    case("convert_double(a) * M_PI", lambda a: a * torch.pi, name="convert"),
    case("0x1p-1 * a + 1e1 * b", lambda a, b: 0.5 * a + 10 * b, name="literals", special=False),
]  # fmt: skip


def _until(a, b):
    s = a
    done = torch.zeros_like(a, dtype=torch.bool)
    for _ in range(6):
        done = done | (s > 4)
        s = torch.where(done, s, s * 2 + b)
    return s


PREAMBLE = """
inline double square(double v) { return v * v; }
inline double twice(double v) { double t = v; t += v; return t; }
inline double norm2(double p, double q) { return sqrt(square(p) + square(q) + 1); }
inline double piecewise(double v)
{
    if (v > 1) return 2 * v - 1;
    if (v < -1) { return -2 * v - 1; }
    return v * v;
}
inline void split(double v, double *above, double *squared) { *above = v + 1; *squared = v * v; }
#define CUBE(v) ((v) * (v) * (v))
#define FACTOR 0.75
"""

FAMILIES = {
    "arithmetic": ARITHMETIC,
    "powers": POWERS,
    "exponentials": EXPONENTIALS,
    "trigonometry": TRIGONOMETRY,
    "choices": CHOICES,
    "activations": ACTIVATIONS,
    "losses": LOSSES,
    "programs": PROGRAMS,
}
CASES = [c for family in FAMILIES.values() for c in family]
