"""The table of elementwise operators: a row says all about one.

The functions of `clprim.ops` and their gradients, PyTorch's overloads and NumPy's names follow
from it. Where integers have no string of their own they become float32, PyTorch's default dtype.
NaN stays NaN. Long strings stand in `formulas`.
"""

from __future__ import annotations

import math
from typing import Any

from clprim.dtypes import adapted
from clprim.errors import DefinitionError
from clprim.ops.elementwise import formulas
from clprim.ops.elementwise.formulas import sigmoid_of
from clprim.ops.elementwise.row import SAME, Row
from clprim.ops.shared.arguments import dtype_of, real

# --- of numbers ----------------------------------------------------------------------------------


def _bounds(what: str, x: Any, least: Any, most: Any) -> tuple[float, float]:
    low, high = real(what, "min_val", least), real(what, "max_val", most)
    if low > high:
        raise DefinitionError(f"{what}: min_val={low} is greater than max_val={high}")
    return low, high


def _width(what: str, x: Any, lambd: Any) -> tuple[float]:
    found: float = real(what, "lambd", lambd)
    if not found >= 0:
        raise DefinitionError(f"{what}: lambd={lambd}: expected a number of at least 0")
    return (found,)


def _limit(what: str, x: Any, lambd: Any) -> tuple[float]:
    """That of `hardshrink`, which compares numbers of one dtype, as PyTorch does."""
    (found,) = _width(what, x, lambd)
    return (adapted(found, dtype_of(what, "x", x)),)


# --- functions of one argument -------------------------------------------------------------------

_ARGUMENTS = """

Args:
    x: An array.
    out: Where the result goes; it may be ``x``.
"""


def _function(name: str, meaning: str, floats: str = "", **more: Any) -> Row:
    """A function of one argument, by default OpenCL C's own, which PyTorch calls the same."""
    more.setdefault("torch", name)
    meaning = f"{meaning}, of every element of ``x``"
    return Row(name, meaning, floats, notes=_ARGUMENTS, **more)


def _gradient_of(name: str, more: str = "") -> str:
    return f"Returns the gradient of `{name}`{more}."


_ENTR = "typeof_y0 x = x0; y0 = x > 0 ? -x * log(x) : x < 0 ? -(typeof_y0)INFINITY : x * x;"
_SINC = f"typeof_y0 x = x0; y0 = x == 0 ? 1 : sinpi(x) / ((typeof_y0){math.pi!r} * x);"
# Constants alone for integers: llvmpipe errs where ?: chooses between one and a char.
_SIGN = "y0 = x0 > 0 ? 1 : x0 < 0 ? -1 : x0 == 0 ? 0 : x0;", "y0 = x0 > 0 ? 1 : x0 < 0 ? -1 : 0;"

FUNCTIONS = (
    _function("exp", "e to that power", numpy="exp", onnx="Exp"),
    _function("exp2", "2 to that power", numpy="exp2"),
    _function("expm1", "e to that power less 1, accurate near 0", numpy="expm1"),
    _function("log", "the natural logarithm", numpy="log", onnx="Log"),
    _function("log2", "the logarithm to base 2", numpy="log2"),
    _function("log10", "the logarithm to base 10", numpy="log10"),
    _function("log1p", "the natural logarithm of 1 + x, accurate near 0", numpy="log1p"),
    _function("sqrt", "the square root", numpy="sqrt", onnx="Sqrt"),
    _function("rsqrt", "1 by the square root", numpy="rsqrt"),
    _function(
        *("reciprocal", "1 / x", "y0 = 1 / (typeof_y0)x0;"), numpy="reciprocal", onnx="Reciprocal"
    ),
    _function("sin", "the sine, of radians", numpy="sin", onnx="Sin"),
    _function("cos", "the cosine, of radians", numpy="cos", onnx="Cos"),
    _function("tan", "the tangent, of radians", numpy="tan", onnx="Tan"),
    _function(
        *("sinc", "sin(π x) / (π x), and 1 at 0", _SINC),
        gradient=formulas.SINC_GRADIENT,
        backward=_gradient_of("sinc", ", 0 at 0"),
    ),
    _function("asin", "the angle of that sine, in radians", numpy="asin arcsin", onnx="Asin"),
    _function("acos", "the angle of that cosine, in radians", numpy="acos arccos", onnx="Acos"),
    _function("atan", "the angle of that tangent, in radians", numpy="atan arctan", onnx="Atan"),
    _function("sinh", "the hyperbolic sine", numpy="sinh", onnx="Sinh"),
    _function("cosh", "the hyperbolic cosine", numpy="cosh", onnx="Cosh"),
    _function(
        *("tanh", "the hyperbolic tangent"),
        of_result="gx0 = gy0 * (1 - y0 * y0);",
        numpy="tanh",
        onnx="Tanh",
    ),
    _function("asinh", "the inverse hyperbolic sine", numpy="asinh arcsinh", onnx="Asinh"),
    _function("acosh", "the inverse hyperbolic cosine", numpy="acosh arccosh", onnx="Acosh"),
    _function("atanh", "the inverse hyperbolic tangent", numpy="atanh arctanh", onnx="Atanh"),
    _function("erf", "the error function", numpy="erf", onnx="Erf"),
    _function("erfc", "1 less the error function, accurate where it is small", numpy="erfc"),
    _function(
        "erfinv",
        "the number of that error function, ±∞ of ±1 and NaN beyond",
        formulas.ERFINV,
        gradient=f"gx0 = gy0 * ((typeof_y0){math.sqrt(math.pi) / 2!r} * exp(y0 * y0));",
        backward=_gradient_of("erfinv"),
    ),
    _function(
        *("entr", "-x · log x, 0 at 0 and -∞ below", _ENTR),
        gradient="gx0 = -(gy0 * (1 + log(x0)));",
        backward=_gradient_of("entr", ": -1 - log x, ∞ at 0 and NaN below"),
        torch="special_entr",
    ),
    _function("lgamma", "the logarithm of the gamma function's absolute value", numpy="lgamma"),
    # Integers keep their dtype from here on.
    _function(
        *("abs", "the absolute value", "y0 = fabs(x0);"),
        integers="y0 = x0 < 0 ? -x0 : x0;",
        onnx="Abs",
    ),
    _function(
        *("sign", "-1, 0 or 1, and of NaN NaN, as in NumPy", _SIGN[0]),
        integers=_SIGN[1],
        numpy="sign",
        torch="",  # whose sign of NaN is 0
        onnx="Sign",
    ),
    _function("square", "the square", "y0 = x0 * x0;", integers=SAME, numpy="square"),
    _function(
        *("floor", "the greatest whole number not above it", "y0 = floor(x0);"),
        integers="y0 = x0;",
        numpy="floor",
        onnx="Floor",
    ),
    _function(
        *("ceil", "the least whole number not below it", "y0 = ceil(x0);"),
        integers="y0 = x0;",
        numpy="ceil",
        onnx="Ceil",
    ),
    _function(
        *("trunc", "the whole number next towards 0", "y0 = trunc(x0);"),
        integers="y0 = x0;",
        numpy="trunc",
    ),
    _function(
        *("frac", "what is left without `trunc`", "y0 = x0 - trunc(x0);"),
        integers="y0 = x0 - x0;",
    ),
    _function(
        *("round", "the nearest whole number, of two the even", "y0 = rint(x0);"),
        integers="y0 = x0;",
        shown=False,  # which takes decimals
        numpy="rint",
        onnx="Round",
    ),
    Row("round.up_to", floats="y0 = rint(x0 * w0) / w0;", integers=SAME, shown=False),
    Row("round.down_to", floats="y0 = rint(x0 / w0) * w0;", integers=SAME, shown=False),
    Row(
        "logit",
        floats=f"typeof_y0 x = x0; {formulas.OF_ODDS}",
        shown=False,
        # Infinite at both ends, NaN beyond; or 0 beyond both bounds.
        gradient="gx0 = x0 >= 0 && x0 <= 1 ? gy0 / (x0 * (1 - x0)) : (typeof_x0)NAN;",
    ),
    Row(
        "logit.within",
        floats=f"""
            typeof_y0 x = x0, high = 1 - (typeof_y0)w0;
            x = x < w0 ? (typeof_y0)w0 : x > high ? high : x;
            {formulas.OF_ODDS}
        """,
        gradient="""
            gx0 = x0 >= w0 && x0 <= 1 - w0 ? gy0 / (x0 * (1 - x0)) : x0 == x0 ? 0 : (typeof_x0)NAN;
        """,
        shown=False,
    ),
)

# --- activations: pieces of straight lines -------------------------------------------------------

_SELU = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717

# Comparisons are written so that NaN fails them and comes through, and so does the zero at which
# both pieces meet, with its sign; at kinks and at NaN the gradient is PyTorch's. Integers have no
# NaN, and llvmpipe errs where ?: chooses between a constant and a char.
_ACTIVATIONS = (
    Row(
        "relu",
        "max(0, x); integers stay integers",
        "y0 = x0 < 0 ? 0 : x0;",
        integers="y0 = max(x0, 0);",
        gradient="gx0 = x0 <= 0 ? 0 : gy0;",
        backward=_gradient_of("relu", ": 0 where x is not positive")
        + """

Example:
    >>> import numpy as np, clprim as cp
    >>> from clprim import ops
    >>> x = cp.asarray(np.array([-1, 0, 0.5], np.float32))
    >>> ops.relu_backward(cp.full(3, 2.0), x).get()
    array([0., 0., 2.], dtype=float32)
""",
        notes="""

Example:
    >>> import numpy as np, clprim as cp
    >>> from clprim import ops
    >>> ops.relu(cp.asarray(np.array([-1, 0.5, np.nan], np.float32))).get()
    array([0. , 0.5, nan], dtype=float32)
""",
        torch="relu",
        onnx="Relu",
    ),
    Row(
        "relu6",
        "min(max(0, x), 6); integers stay integers",
        "y0 = x0 < 0 ? 0 : x0 > 6 ? 6 : x0;",
        integers="y0 = min(max(x0, 0), 6);",
        gradient="gx0 = x0 <= 0 || x0 >= 6 ? 0 : gy0;",
        backward=_gradient_of("relu6"),
    ),
    Row(
        "threshold",
        "x where it is greater than ``threshold``, else ``value``; promoted as NumPy does",
        "y0 = x0 <= w0 ? w1 : x0;",
        integers=SAME,
        numbers="threshold, value",
        onnx="ThresholdedRelu",
    ),
    Row(
        "leaky_relu",
        "x where it is positive, else ``negative_slope`` · x",
        "typeof_y0 x = x0; y0 = x > 0 ? x : x * w0;",
        numbers="negative_slope=0.01",
        backward=_gradient_of("leaky_relu"),
        onnx="LeakyRelu",
    ),
    Row(
        "prelu",
        floats="typeof_y0 x = x0; y0 = x > 0 ? x : x * x1;",
        shown=False,  # which looks at the slopes
        onnx="PRelu",
    ),
    Row(
        "hardtanh",
        "min(max(min_val, x), max_val)",
        "typeof_y0 x = x0; y0 = x < w0 ? w0 : x > w1 ? w1 : x;",
        numbers="min_val=-1.0, max_val=1.0",
        check=_bounds,
        gradient="gx0 = x0 <= w0 || x0 >= w1 ? 0 : gy0;",
        backward=_gradient_of("hardtanh", ": 0 at both ends"),
        notes="\n\nRaises:\n    DefinitionError: A ``min_val`` above ``max_val``.\n",
    ),
    Row(
        "hardsigmoid",
        "min(max(0, (x + 3) / 6), 1)",
        """
            typeof_y0 s = ((typeof_y0)x0 + 3) / 6;
            y0 = s <= 0 ? 0 : s >= 1 ? 1 : s == s ? s : (typeof_y0)NAN;
        """,
        backward=_gradient_of("hardsigmoid"),
        torch="hardsigmoid",
        onnx="HardSigmoid",
    ),
    Row(
        "hardswish",
        "x · hardsigmoid(x)",
        # Of -∞ it is NaN, as in PyTorch.
        "typeof_y0 x = x0; typeof_y0 s = (x + 3) / 6; y0 = s <= 0 ? x * 0 : s < 1 ? x * s : x;",
        backward=_gradient_of("hardswish"),
        torch="hardswish",
        onnx="HardSwish",
    ),
    Row(
        "hardshrink",
        "x, and 0 where |x| is at most ``lambd``",
        "typeof_y0 x = x0; y0 = x >= -w0 && x <= w0 ? 0 : x;",
        numbers="lambd=0.5",
        check=_limit,
        backward=_gradient_of("hardshrink"),
        notes="""

Example:
    >>> import numpy as np, clprim as cp
    >>> from clprim import ops
    >>> ops.hardshrink(cp.asarray(np.float32([-2, 0.5, 0.6]))).get()
    array([-2. ,  0. ,  0.6], dtype=float32)
""",
    ),
    Row(
        "softshrink",
        "x moved towards 0 by ``lambd``, and 0 where |x| is at most that",
        # Zeros have the sign of x, as PyTorch's.
        "typeof_y0 x = x0; y0 = x >= -w0 && x <= w0 ? x * 0 : x > 0 ? x - w0 : x + w0;",
        numbers="lambd=0.5",
        check=_width,
        backward=_gradient_of("softshrink"),
    ),
    # --- exponentials ----------------------------------------------------------------------------
    Row(
        "sigmoid",
        "1 / (1 + exp(-x))",
        f"{sigmoid_of('x0')} y0 = s;",
        of_result="gx0 = gy0 * ((1 - y0) * y0);",
        backward=_gradient_of("sigmoid", "; as in PyTorch from its *result*"),
        torch="sigmoid",
        onnx="Sigmoid",
    ),
    Row(
        "silu",
        "x · sigmoid(x), also called swish (Elfwing, Uchibe and Doya 2017)",
        f"{sigmoid_of('x0')} y0 = s_x * s;",
        backward=_gradient_of("silu"),
        torch="silu",
        onnx="Swish",
    ),
    Row(
        "logsigmoid",
        "log(sigmoid(x)), accurate where the sigmoid underflows",
        "typeof_y0 x = x0; y0 = (x < 0 ? x : 0) - log1p(exp(-fabs(x)));",
        backward=_gradient_of("logsigmoid"),
    ),
    Row(
        "softplus",
        "log(1 + exp(beta · x)) / beta, and x itself where beta · x is above ``threshold``",
        """
            typeof_y0 x = x0;
            typeof_y0 z = x * w0;
            y0 = z > w1 ? x : ((z > 0 ? z : 0) + log1p(exp(-fabs(z)))) / w0;
        """,
        numbers="beta=1.0, threshold=20.0",
        backward=_gradient_of("softplus"),
        torch="softplus",
        onnx="Softplus",
    ),
    Row(
        "elu",
        "x where it is positive, else alpha · (exp(x) - 1) (Clevert and others 2015)",
        "typeof_y0 x = x0; y0 = x > 0 ? x : w0 * expm1(x);",
        numbers="alpha=1.0",
        backward=_gradient_of("elu"),
        onnx="Elu",
    ),
    Row(
        "celu",
        "x where it is positive, else alpha · (exp(x / alpha) - 1) (Barron 2017)",
        "typeof_y0 x = x0; y0 = x > 0 ? x : w0 * expm1(x / w0);",
        numbers="alpha=1.0",
        backward=_gradient_of("celu"),
        onnx="Celu",
    ),
    Row(
        "selu",
        "scale · elu(x, alpha) with the constants of Klambauer and others (2017)",
        f"typeof_y0 x = x0; y0 = x > 0 ? {_SELU[0]} * x : {_SELU[0] * _SELU[1]} * expm1(x);",
        backward=_gradient_of("selu"),
        onnx="Selu",
    ),
    Row(
        "mish",
        "x · tanh(softplus(x)) (Misra 2019)",
        formulas.MISH,
        backward=_gradient_of("mish"),
        torch="mish",
        onnx="Mish",
    ),
    Row("gelu", floats=formulas.GELU, shown=False, onnx="Gelu"),
    Row("gelu.tanh", floats=formulas.GELU_TANH, shown=False),
    Row("glu", floats=f"{sigmoid_of('x1')} y0 = x0 * s;", shown=False),
    Row(
        "softsign",
        "x / (1 + |x|)",
        "typeof_y0 x = x0; y0 = x / (1 + fabs(x));",
        # By hand, as the two parts of a quotient's derivative cancel.
        gradient="gx0 = gy0 / (1 + fabs(x0)) / (1 + fabs(x0));",
        backward=_gradient_of("softsign"),
        onnx="Softsign",
    ),
    Row(
        "tanhshrink",
        "x - tanh(x)",
        formulas.TANHSHRINK,
        gradient="typeof_gx0 t = tanh(x0); gx0 = gy0 * (t * t);",
        backward=_gradient_of("tanhshrink"),
    ),
)

#: By name.
ROWS = {row.name: row for row in (*FUNCTIONS, *_ACTIVATIONS)}
