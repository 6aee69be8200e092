"""The table of elementwise operators: a row says all about one.

The functions of `clprim.ops` and their gradients, PyTorch's overloads and NumPy's names follow
from it. Where integers have no string of their own they become float32, PyTorch's default dtype.
NaN stays NaN. Long strings stand in `formulas`.
"""

from __future__ import annotations

import math
from typing import Any

from clprim.dtypes import adapted, promote
from clprim.errors import DefinitionError, DTypeError
from clprim.ops.elementwise import formulas
from clprim.ops.elementwise.formulas import log1p_exp, sigmoid_of
from clprim.ops.elementwise.row import SAME, Row
from clprim.ops.shared.checks import dtype_of, number, real

# --- of numbers ----------------------------------------------------------------------------------


def _bounds(what: str, arrays: Any, least: Any, most: Any) -> tuple[float, float]:
    low, high = real(what, "min_val", least), real(what, "max_val", most)
    if low > high:
        raise DefinitionError(f"{what}: min_val={low} is greater than max_val={high}")
    return low, high


def _width(what: str, arrays: Any, lambd: Any) -> tuple[float]:
    found: float = real(what, "lambd", lambd)
    if not found >= 0:
        raise DefinitionError(f"{what}: lambd={lambd}: expected a number of at least 0")
    return (found,)


def _limit(what: str, arrays: Any, lambd: Any) -> tuple[float]:
    """That of `hardshrink`, which compares numbers of one dtype, as PyTorch does."""
    (found,) = _width(what, arrays, lambd)
    return (adapted(found, dtype_of(what, "x", arrays[0])),)


def _floats(what: str, arrays: Any, value: Any) -> tuple[Any]:
    given = [dtype_of(what, "every array", a) for a in arrays]
    if promote(given).kind in "biu":
        raise DTypeError(f"{what}: expected floats, got {', '.join(map(str, given))}")
    return (number(what, "value", value),)


# --- functions of one argument -------------------------------------------------------------------

_ARGUMENTS = """

Args:
    x: An array.
    out: Where the result goes; it may be ``x``.
"""


def _function(name: str, meaning: str, floats: str = "", **more: Any) -> Row:
    """A function of one argument, by default OpenCL C's own, which PyTorch calls the same."""
    more.setdefault("torch", name)
    more.setdefault("complexes", formulas.COMPLEX.get(name, ""))
    meaning = f"{meaning}, of every element of ``x``"
    return Row(name, meaning, floats, notes=_ARGUMENTS, **more)


_ENTR = "typeof_y0 x = x0; y0 = x > 0 ? -x * log(x) : x < 0 ? -(typeof_y0)INFINITY : x * x;"
_SINC = f"typeof_y0 x = x0; y0 = x == 0 ? 1 : sinpi(x) / ((typeof_y0){math.pi!r} * x);"
# Constants alone for integers: llvmpipe errs where ?: chooses between one and a char.
_SIGN = "y0 = x0 > 0 ? 1 : x0 < 0 ? -1 : x0 == 0 ? 0 : x0;", "y0 = x0 > 0 ? 1 : x0 < 0 ? -1 : 0;"

_OF_ANGLE = "y0 = x0 == 0 ? 0 : x0 / abs(x0);"

# fmt: off
FUNCTIONS = (
    _function("exp", "e to that power", autocast="float32", numpy="exp", onnx="Exp"),
    _function("exp2", "2 to that power", numpy="exp2",
        complexes=f"y0 = exp({math.log(2)!r} * x0);"),
    _function("expm1", "e to that power less 1, accurate near 0", autocast="float32",
        numpy="expm1"),
    _function("log", "the natural logarithm", autocast="float32", numpy="log", onnx="Log"),
    _function("log2", "the logarithm to base 2", autocast="float32", numpy="log2",
        complexes=f"y0 = log(x0) * {1 / math.log(2)!r};"),
    _function("log10", "the logarithm to base 10", autocast="float32", numpy="log10",
        complexes=f"y0 = log(x0) * {1 / math.log(10)!r};"),
    _function("log1p", "the natural logarithm of 1 + x, accurate near 0", autocast="float32",
        numpy="log1p"),
    _function("sqrt", "the square root", numpy="sqrt", onnx="Sqrt"),
    _function("rsqrt", "1 by the square root", autocast="float32", numpy="rsqrt",
        complexes="y0 = 1 / sqrt(x0);"),
    _function("reciprocal", "1 / x", "y0 = 1 / (typeof_y0)x0;", autocast="float32",
        numpy="reciprocal",
        onnx="Reciprocal"),
    _function("sin", "the sine, of radians", numpy="sin", onnx="Sin"),
    _function("cos", "the cosine, of radians", numpy="cos", onnx="Cos"),
    _function("tan", "the tangent, of radians", autocast="float32", numpy="tan", onnx="Tan"),
    _function("sinc", "sin(π x) / (π x), and 1 at 0", _SINC, gradient=formulas.SINC_GRADIENT,
        backward=", 0 at 0"),
    _function("deg2rad", "radians of degrees",
        f"y0 = (typeof_y0)x0 * (typeof_y0){math.pi / 180!r};", backward=""),
    Row("rad2deg", floats=f"typeof_y0 x = x0; y0 = x * (typeof_y0){180 / math.pi!r};",
        shown=False, torch="rad2deg"),
    _function("asin", "the angle of that sine, in radians", autocast="float32",
        numpy="asin arcsin", onnx="Asin"),
    _function("acos", "the angle of that cosine, in radians", autocast="float32",
        numpy="acos arccos", onnx="Acos"),
    _function("atan", "the angle of that tangent, in radians", numpy="atan arctan", onnx="Atan"),
    _function("sinh", "the hyperbolic sine", autocast="float32", numpy="sinh", onnx="Sinh"),
    _function("cosh", "the hyperbolic cosine", autocast="float32", numpy="cosh", onnx="Cosh"),
    _function("tanh", "the hyperbolic tangent", of_result="gx0 = gy0 * (1 - y0 * y0);",
        numpy="tanh", onnx="Tanh"),
    _function("asinh", "the inverse hyperbolic sine", numpy="asinh arcsinh", onnx="Asinh"),
    _function("acosh", "the inverse hyperbolic cosine", numpy="acosh arccosh", onnx="Acosh"),
    _function("atanh", "the inverse hyperbolic tangent", numpy="atanh arctanh", onnx="Atanh"),
    _function("erf", "the error function", numpy="erf", onnx="Erf"),
    _function("erfc", "1 less the error function, accurate where it is small", numpy="erfc"),
    _function("erfinv", "the number of that error function, ±∞ of ±1 and NaN beyond",
        formulas.ERFINV,
        gradient=f"gx0 = gy0 * ((typeof_y0){math.sqrt(math.pi) / 2!r} * exp(y0 * y0));",
        backward="", autocast="float32"),
    _function("entr", "-x · log x, 0 at 0 and -∞ below", _ENTR,
        gradient="gx0 = -(gy0 * (1 + log(x0)));", backward=": -1 - log x, ∞ at 0 and NaN below",
        torch="special_entr"),
    _function("lgamma", "the logarithm of the gamma function's absolute value", numpy="lgamma"),
    # Integers keep their dtype from here on.
    _function("abs", "the absolute value", "y0 = fabs(x0);", integers="y0 = x0 < 0 ? -x0 : x0;",
        complexes="y0 = abs(x0);", onnx="Abs"),
    Row("angle", floats=f"y0 = x0 < 0 ? (typeof_y0){math.pi!r} : x0 == x0 ? 0 : (typeof_y0)x0;",
        complexes="y0 = arg(x0);", shown=False, torch="angle"),
    Row("conj", floats="y0 = x0;", integers=SAME, complexes="y0 = conj(x0);", shown=False,
        torch="_conj_physical"),
    Row("absolute", "the absolute value", arithmetic="absolute", shown=False,
        numpy="absolute abs fabs"),
    Row("neg", "the number with the other sign", "y0 = -x0;", SAME, arithmetic="negative",
        shown=False, numpy="negative", torch="neg", onnx="Neg"),
    Row("positive", "the number itself", arithmetic="positive", shown=False,
        numpy="positive"),
    Row("invert", "all bits, or a truth value, the other way round", arithmetic="invert",
        shown=False, numpy="invert bitwise_not bitwise_invert", torch="bitwise_not",
        onnx="BitwiseNot"),
    # PyTorch's sign of NaN is 0, unlike NumPy's.
    Row("sign.of_nan", floats="typeof_y0 x = x0; y0 = (x > 0) - (x < 0);", integers=SAME,
        shown=False, torch="sgn sign", complexes=_OF_ANGLE),
    _function("sign", "-1, 0 or 1, and of NaN NaN, as in NumPy", _SIGN[0], integers=_SIGN[1],
        complexes=_OF_ANGLE, numpy="sign", torch="", onnx="Sign"),
    _function("square", "the square", "y0 = x0 * x0;", integers=SAME, numpy="square"),
    _function("floor", "the greatest whole number not above it", "y0 = floor(x0);",
        integers="y0 = x0;", numpy="floor", onnx="Floor"),
    _function("ceil", "the least whole number not below it", "y0 = ceil(x0);", integers="y0 = x0;",
        numpy="ceil", onnx="Ceil"),
    _function("trunc", "the whole number next towards 0", "y0 = trunc(x0);", integers="y0 = x0;",
        numpy="trunc"),
    _function("frac", "what is left without `trunc`", "y0 = x0 - trunc(x0);",
        integers="y0 = x0 - x0;", slope="the result's own"),
    # The function takes decimals, and that of slopes looks at them first.
    _function("round", "the nearest whole number, of two the even", "y0 = rint(x0);",
        integers="y0 = x0;", shown=False, numpy="rint", onnx="Round"),
    Row("round.up_to", floats="y0 = rint(x0 * w0) / w0;", integers=SAME, shown=False),
    Row("round.down_to", floats="y0 = rint(x0 / w0) * w0;", integers=SAME, shown=False),
    # Infinite at both ends, NaN beyond; or 0 beyond both bounds.
    Row("logit", floats=f"typeof_y0 x = x0; {formulas.OF_ODDS}", shown=False,
        gradient="gx0 = x0 >= 0 && x0 <= 1 ? gy0 / (x0 * (1 - x0)) : (typeof_x0)NAN;"),
    Row("logit.within", floats=f"""
            typeof_y0 x = x0, high = 1 - (typeof_y0)w0;
            x = x < w0 ? (typeof_y0)w0 : x > high ? high : x;
            {formulas.OF_ODDS}
        """, gradient="""
            gx0 = x0 >= w0 && x0 <= 1 - w0 ? gy0 / (x0 * (1 - x0)) : x0 == x0 ? 0 : (typeof_x0)NAN;
        """, shown=False),
)
# fmt: on

_NEVER, _ALWAYS = "(void)x0; y0 = 0;", "(void)x0; y0 = 1;"


def _truth(
    name: str, meaning: str, floats: str, integers: str, onnx: str = "", complexes: str = ""
) -> Row:
    return Row(
        name,
        meaning,
        floats,
        integers,
        complexes,
        truth=True,
        shown=False,
        numpy="" if name in ("isposinf", "isneginf") else name,
        torch=name,
        onnx=onnx,
    )


# fmt: off
_TRUTHS = (
    _truth("isnan", "whether it is NaN", "y0 = x0 != x0;", _NEVER, "IsNaN @decoded",
        "y0 = x0 != x0;"),
    _truth("isinf", "whether it is infinite", "y0 = x0 == INFINITY || x0 == -INFINITY;", _NEVER,
        complexes="y0 = fabs(real(x0)) == INFINITY || fabs(imag(x0)) == INFINITY;"),
    _truth("isposinf", "whether it is ∞", "y0 = x0 == INFINITY;", _NEVER),
    _truth("isneginf", "whether it is -∞", "y0 = x0 == -INFINITY;", _NEVER),
    _truth("isfinite", "whether it is neither infinite nor NaN", "y0 = x0 - x0 == 0;", _ALWAYS),
    _truth("signbit", "whether its sign is a minus, also of 0",
        "y0 = copysign((typeof_x0)1, x0) < 0;", "y0 = x0 < 0;"),
    _truth("logical_not", "whether an element is 0", "y0 = x0 == 0;", SAME, "Not",
        "y0 = x0 == 0;"),
)
# fmt: on

# --- activations: pieces of straight lines -------------------------------------------------------

_SELU = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717

# Comparisons are written so that NaN fails them and comes through, and so does the zero at which
# both pieces meet, with its sign; at kinks and at NaN the gradient is PyTorch's. Integers have no
# NaN, and llvmpipe errs where ?: chooses between a constant and a char.
# fmt: off
_ACTIVATIONS = (
    Row("relu", "max(0, x); integers stay integers", "y0 = x0 < 0 ? 0 : x0;",
        integers="y0 = max(x0, 0);", gradient="gx0 = y0 <= 0 ? 0 : gy0;",
        backward=""": 0 where x is not positive.

Example:
    >>> import numpy as np, clprim as cp
    >>> from clprim import ops
    >>> x = cp.asarray(np.array([-1, 0, 0.5], np.float32))
    >>> ops.relu_backward(cp.full(3, 2.0), x).get()
    array([0., 0., 2.], dtype=float32)
""", notes="""

Example:
    >>> import numpy as np, clprim as cp
    >>> from clprim import ops
    >>> ops.relu(cp.asarray(np.array([-1, 0.5, np.nan], np.float32))).get()
    array([0. , 0.5, nan], dtype=float32)
""", torch="relu", onnx="Relu"),
    Row("relu6", "min(max(0, x), 6); integers stay integers", "y0 = x0 < 0 ? 0 : x0 > 6 ? 6 : x0;",
        integers="y0 = min(max(x0, 0), 6);", gradient="gx0 = y0 <= 0 || y0 >= 6 ? 0 : gy0;",
        backward=""),
    Row("threshold",
        "x where it is greater than ``threshold``, else ``value``; promoted as NumPy does",
        "y0 = x0 <= w0 ? w1 : x0;", integers=SAME, numbers="threshold, value=0.0", sample="x, 0, 1",
        backward=", which does not depend on its ``value``",
        onnx="ThresholdedRelu alpha:threshold=1.0"),
    Row("leaky_relu", "x where it is positive, else ``negative_slope`` · x",
        "typeof_y0 x = x0; y0 = x > 0 ? x : x * w0;", numbers="negative_slope=0.01", backward="",
        torch="leaky_relu", onnx="""LeakyRelu alpha:negative_slope=0.01;
        com.microsoft::QLinearLeakyRelu(x, sx, zx, sy, zy) alpha:negative_slope=0.01 @steps"""),
    Row("prelu", floats="typeof_y0 x = x0; y0 = x > 0 ? x : x * x1;", shown=False),
    Row("hardtanh", "min(max(min_val, x), max_val)",
        "typeof_y0 x = x0; y0 = x < w0 ? w0 : x > w1 ? w1 : x;",
        numbers="min_val=-1.0, max_val=1.0", check=_bounds,
        gradient="gx0 = x0 <= w0 || x0 >= w1 ? 0 : gy0;", backward=": 0 at both ends",
        notes="\n\nRaises:\n    DefinitionError: A ``min_val`` above ``max_val``.\n"),
    Row("hardsigmoid", "min(max(0, (x + 3) / 6), 1)", """
            typeof_y0 s = ((typeof_y0)x0 + 3) / 6;
            y0 = s <= 0 ? 0 : s >= 1 ? 1 : s == s ? s : (typeof_y0)NAN;
        """, backward="", torch="hardsigmoid"),
    Row("hardsigmoid.of", floats="""
            typeof_y0 s = w0 * (typeof_y0)x0 + w1;
            y0 = s <= 0 ? 0 : s >= 1 ? 1 : s;
        """, numbers="alpha, beta", shown=False, onnx="HardSigmoid alpha=0.2 beta=0.5"),
    # Of -∞ it is NaN, as in PyTorch.
    Row("hardswish", "x · hardsigmoid(x)",
        "typeof_y0 x = x0; typeof_y0 s = (x + 3) / 6; y0 = s <= 0 ? x * 0 : s < 1 ? x * s : x;",
        backward="", torch="hardswish", onnx="HardSwish"),
    Row("hardshrink", "x, and 0 where |x| is at most ``lambd``",
        "typeof_y0 x = x0; y0 = x >= -w0 && x <= w0 ? 0 : x;", numbers="lambd=0.5", check=_limit,
        backward="", notes="""

Example:
    >>> import numpy as np, clprim as cp
    >>> from clprim import ops
    >>> ops.hardshrink(cp.asarray(np.float32([-2, 0.5, 0.6]))).get()
    array([-2. ,  0. ,  0.6], dtype=float32)
"""),
    # Zeros have the sign of x, as PyTorch's.
    Row("softshrink", "x moved towards 0 by ``lambd``, and 0 where |x| is at most that",
        "typeof_y0 x = x0; y0 = x >= -w0 && x <= w0 ? x * 0 : x > 0 ? x - w0 : x + w0;",
        numbers="lambd=0.5", check=_width, backward="", torch="softshrink"),
    Row("shrink", "x moved towards 0 by ``bias``, and 0 where |x| is at most ``lambd``",
        "typeof_y0 x = x0; y0 = x < -w0 ? x + w1 : x > w0 ? x - w1 : x == x ? 0 : x;",
        numbers="lambd=0.5, bias=0.0", backward="", onnx="Shrink lambd=0.5 bias=0.0"),
    # --- exponentials ----------------------------------------------------------------------------
    Row("sigmoid", "1 / (1 + exp(-x))", f"{sigmoid_of('x0')} y0 = s;",
        complexes="y0 = 1 / (1 + exp(-x0));",
        of_result="gx0 = gy0 * ((1 - y0) * y0);", backward="; as in PyTorch from its *result*",
        torch="sigmoid", onnx="Sigmoid; com.microsoft::QLinearSigmoid(x, sx, zx, sy, zy) @steps"),
    Row("silu", "x · sigmoid(x), also called swish (Elfwing, Uchibe and Doya 2017)",
        f"{sigmoid_of('x0')} y0 = s_x * s;", complexes="y0 = x0 / (1 + exp(-x0));", backward="",
        torch="silu"),
    Row("swish", "x · sigmoid(beta · x) (Ramachandran, Zoph and Le 2017)",
        f"{sigmoid_of('w0 * (typeof_y0)x0')} y0 = x0 * s;", numbers="beta=1.0", backward="",
        onnx="Swish alpha:beta=1.0; com.microsoft::QuickGelu alpha:beta=1.702"),
    Row("logsigmoid", "log(sigmoid(x)), accurate where the sigmoid underflows",
        f"typeof_y0 x = x0; y0 = (x < 0 ? x : 0) - {log1p_exp('x')};", backward=""),
    Row("softplus",
        "log(1 + exp(beta · x)) / beta, and x itself where beta · x is above ``threshold``", f"""
            typeof_y0 x = x0;
            typeof_y0 z = x * w0;
            y0 = z > w1 ? x : ((z > 0 ? z : 0) + {log1p_exp("z")}) / w0;
        """, numbers="beta=1.0, threshold=20.0", backward="", autocast="float32",
        torch="softplus", onnx="Softplus"),
    Row("elu", "x where it is positive, else alpha · (exp(x) - 1) (Clevert and others 2015)",
        "typeof_y0 x = x0; y0 = x > 0 ? x : w0 * expm1(x);", numbers="alpha=1.0", backward="",
        onnx="Elu alpha=1.0"),
    Row("celu", "x where it is positive, else alpha · (exp(x / alpha) - 1) (Barron 2017)",
        "typeof_y0 x = x0; y0 = x > 0 ? x : w0 * expm1(x / w0);", numbers="alpha=1.0", backward="",
        onnx="Celu alpha=1.0"),
    Row("selu", "scale · elu(x, alpha), by default as Klambauer and others have them (2017)",
        "typeof_y0 x = x0; y0 = x > 0 ? w1 * x : w0 * w1 * expm1(x);",
        numbers=f"alpha={_SELU[1]}, scale={_SELU[0]}", backward="",
        onnx=f"Selu alpha={_SELU[1]} gamma:scale={_SELU[0]}"),
    Row("mish", "x · tanh(softplus(x)) (Misra 2019)", formulas.MISH, backward="", torch="mish",
        onnx="Mish"),
    Row("gelu", floats=formulas.GELU, gradient=formulas.GELU_GRADIENT, shown=False),
    Row("gelu.tanh", floats=formulas.GELU_TANH, shown=False),
    Row("glu", floats=f"{sigmoid_of('x1')} y0 = x0 * s;", shown=False),
    # By hand, as the two parts of a quotient's derivative cancel.
    Row("softsign", "x / (1 + |x|)", "typeof_y0 x = x0; y0 = x / (1 + fabs(x));",
        gradient="gx0 = gy0 / (1 + fabs(x0)) / (1 + fabs(x0));", backward="", onnx="Softsign"),
    Row("tanhshrink", "x - tanh(x)", formulas.TANHSHRINK,
        gradient="typeof_gx0 t = tanh(x0); gx0 = gy0 * (t * t);", backward=""),
)
# fmt: on

# --- of two operands ---------------------------------------------------------------------------


def _pair(name: str, meaning: str, floats: Any = "", **more: Any) -> Row:
    """A function of two operands, by default of arrays whose integers become float32."""
    more = {"operands": "a, b", "torch": name, **more}
    return Row(name, meaning, floats, **more)


_ARGUMENTS_OF_TWO = """

Args:
    a: An array or a number.
    b: Likewise; one of the two is an array.
    out: Where the result goes; it may be an operand.
"""

# fmt: off
PAIRS = (
    _pair("hypot", "√(a² + b²), without overflow on the way", "y0 = hypot(a, b);",
        gradient="gx0 = gy0 * (x0 / y0); gx1 = gy0 * (x1 / y0);",
        backward=" in both arrays; at (0, 0) they are NaN, as PyTorch's", numpy="hypot"),
    _pair("atan2", "the angle of the point (b, a) in radians, between -π and π",
        "y0 = atan2(a, b);", backward=" in both arrays; at (0, 0) they are 0, as PyTorch's",
        numpy="atan2 arctan2", autocast="widest"),
    _pair("complex", "the complex number of its parts", "y0 = complex(x0, x1);", shown=False),
    _pair("polar", "that of its absolute value and angle",
        "y0 = complex(x0 * cos(x1), x0 * sin(x1));", shown=False),
    _pair("copysign", "a with the sign of b, also that of a negative zero", "y0 = copysign(a, b);",
        gradient="gx0 = x0 == 0 ? 0 : gy0 * (y0 / x0); gx1 = 0;",
        backward=": ±1 in a, 0 where a is 0, and 0 in b", numpy="copysign",
        torch="copysign.Tensor copysign.Scalar"),
    # The greater one, and log(1 + exp(-distance)) ≤ log 2; a distance of NaN is one of infinities.
    _pair("logaddexp", "log(exp(a) + exp(b)), without overflow; of infinities the greater one",
        "const typeof_y0 d = fabs(a - b); y0 = a == b ? a + (typeof_y0)0.6931471805599453 : "
        "(a > b ? a : b) + log1p(exp(-d)) + (d != d ? d : 0);",
        gradient=formulas.SHARES.format(exp="exp"),
        backward=" in both arrays", numpy="logaddexp"),
    _pair("logaddexp2", "the logarithm to base 2 of 2^a + 2^b, without overflow; see `logaddexp`",
        "const typeof_y0 d = fabs(a - b); y0 = a == b ? a + 1 : (a > b ? a : b) + "
        "log1p(exp2(-d)) * (typeof_y0)1.4426950408889634 + (d != d ? d : 0);",
        gradient=formulas.SHARES.format(exp="exp2"),
        backward=" in both arrays"),
    _pair("xlog1py", "a · log(1 + b), accurate for b near 0: 0 where a is 0, but for a b of NaN",
        "y0 = b != b ? b : a == 0 ? 0 : a * log1p(b);", gradient="""
            gx0 = gy0 == 0 || (x0 == 0 && x1 <= -1) ? 0 : gy0 * log1p(x1);
            gx1 = gy0 * x0 / (1 + x1);
        """, backward=": log(1 + b), 0 where a = 0 and b ≤ -1, and a / (1 + b)",
        torch="special_xlog1py special_xlog1py.self_scalar special_xlog1py.other_scalar"),
    _pair("xlogy", "a · log(b): 0 where a is 0, but for a b of NaN",
        "y0 = b != b ? b : a == 0 ? 0 : a * log(b);", gradient="""
            gx0 = gy0 == 0 || (x0 == 0 && x1 <= 0) ? 0 : gy0 * log(x1);
            gx1 = gy0 * x0 / x1;
        """, backward=": log(b), 0 where a = 0 and b ≤ 0, and a / b", notes=_ARGUMENTS_OF_TWO
        + """

Example:
    >>> import numpy as np, clprim as cp
    >>> from clprim import ops
    >>> ops.xlogy(cp.asarray(np.float32([0, 2])), cp.asarray(np.float32([0, 1]))).get()
    array([0., 0.], dtype=float32)
""", torch="xlogy.Tensor xlogy.Scalar_Self xlogy.Scalar_Other"),
    _pair("heaviside", "0 below 0, 1 above it and ``values`` at 0; of NaN 0, as PyTorch does",
        "y0 = a == 0 ? b : (typeof_y0)(a > 0);", integers=SAME, operands="x, values"),
    _pair("nextafter",
        "the number of the result's dtype that is next to a towards b; of equal ones b",
        formulas.next_after, numpy="nextafter"),
    # The first of equals is chosen, whose zeros may differ in sign.
    _pair("maximum", "the greater of two elements, or NaN where either is",
        "y0 = a >= b || a != a ? a : b;", commutes=True, integers=SAME, numpy="maximum",
        gradient=formulas.greater("<"), slope="halves where both are equal",
        onnx="Max(*)"),
    _pair("minimum", "the lesser of two elements, or NaN where either is",
        "y0 = a <= b || a != a ? a : b;", commutes=True, integers=SAME, numpy="minimum",
        gradient=formulas.greater(">"), slope="halves where both are equal",
        onnx="Min(*)"),
    _pair("fmax", "the greater of two elements, or the one that is not NaN",
        "y0 = a >= b || b != b ? a : b;", commutes=True, integers=SAME, numpy="fmax"),
    _pair("fmin", "the lesser of two elements, or the one that is not NaN",
        "y0 = a <= b || b != b ? a : b;", commutes=True, integers=SAME, numpy="fmin"),
    # What arrays have operators for; functions by hand take what PyTorch takes besides.
    _pair("add", "a + b", arithmetic="add", shown=False, numpy="add",
        torch="add.Tensor add.Scalar"),
    _pair("sub", "a - b", arithmetic="subtract", shown=False, numpy="subtract",
        torch="sub.Tensor sub.Scalar rsub.Tensor rsub.Scalar"),
    _pair("mul", "a · b, of two arrays or an array and a number", arithmetic="multiply",
        numpy="multiply", torch="mul.Tensor mul.Scalar",
        onnx="Mul; com.microsoft::QLinearMul(a, sa, za, b, sb, zb, sy, zy) @steps"),
    _pair("div", "a / b, of integers in float64", arithmetic="divide", shown=False,
        numpy="divide true_divide", torch="div.Tensor div.Scalar div.Tensor_mode div.Scalar_mode"),
    _pair("floor_divide", "the quotient rounded down, as ``a // b`` does; of integers by 0 it is 0",
        arithmetic="floor_divide", numpy="floor_divide",
        torch="floor_divide floor_divide.Scalar"),
    _pair("remainder",
        "a less b times the quotient rounded down, as ``a % b`` does: it has b's sign",
        arithmetic="remainder", numpy="remainder mod",
        torch="remainder.Tensor remainder.Scalar remainder.Scalar_Tensor"),
    _pair("fmod", "a less b times the quotient rounded towards 0: it has a's sign",
        arithmetic="fmod", torch="fmod.Tensor fmod.Scalar"),
    _pair("pow", "a to the power b", arithmetic="power", numpy="power pow",
        torch="pow.Tensor_Tensor pow.Tensor_Scalar pow.Scalar",
        autocast="float32 pow.Tensor_Tensor pow.Tensor_Scalar pow.Scalar",
        onnx="Pow @own",
        notes="""

Integers stay integers. A negative power of one is, as in PyTorch, what is whole of it: 1 or -1
for those two and 0 for all others (NumPy refuses it)."""
        + _ARGUMENTS_OF_TWO
        + """
Raises:
    DTypeError: No array, or a negative number as the power of integers.

Example:
    >>> import numpy as np, clprim as cp
    >>> from clprim import ops
    >>> ops.pow(cp.asarray(np.int32([2, -1])), cp.asarray(np.int32([-1, -3]))).get()
    array([ 0, -1], dtype=int32)
"""),
    *(_pair(f"bitwise_{name}", f"the bits that {which}", arithmetic=f"bitwise_{name}", shown=False,
        numpy=f"bitwise_{name}", onnx=f"Bitwise{name.title()}",
        torch=f"bitwise_{name}.Tensor bitwise_{name}.Scalar bitwise_{name}.Scalar_Tensor")
        for name, which in (
            ("and", "both have"), ("or", "either has"), ("xor", "one of them has"))),
    *(_pair(f"{name}_shift", f"a with its bits moved {where} by b", arithmetic=f"{name}_shift",
        shown=False, numpy=f"{name}_shift bitwise_{name}_shift",
        torch=f"bitwise_{name}_shift.Tensor bitwise_{name}_shift.Tensor_Scalar")
        for name, where in (("left", "up"), ("right", "down"))),
    *(_pair(f"logical_{name}", f"whether {which} not 0", arithmetic=f"logical_{name}", shown=False,
        numpy=f"logical_{name}", onnx=name.title())
        for name, which in (("and", "both are"), ("or", "either is"), ("xor", "one of them is"))),
    *(_pair(name, f"whether a {sign} b", arithmetic=word, shown=False, numpy=word,
        torch=f"{name}.Tensor {name}.Scalar", onnx=onnx)
        for name, sign, word, onnx in (
            ("eq", "=", "equal", "Equal"), ("ne", "≠", "not_equal", ""),
            ("lt", "<", "less", "Less"), ("le", "≤", "less_equal", "LessOrEqual"),
            ("gt", ">", "greater", "Greater"), ("ge", "≥", "greater_equal", "GreaterOrEqual"))),
)
# fmt: on

# --- of several arrays ---------------------------------------------------------------------------

# From whichever end is nearer, so that both ends are met exactly.
_LERP = """
    typeof_y0 a = x0, b = x1, w = {};
    y0 = {}(w) < 0.5f ? a + w * (b - a) : b - (1 - w) * (b - a);
"""

# fmt: off
SEVERAL = (
    Row("addcmul", "x + value · tensor1 · tensor2, of arrays that broadcast together",
        "y0 = (typeof_y0)x0 + (typeof_y0)w0 * x1 * x2;", integers=SAME,
        operands="x, tensor1, tensor2", numbers="*, value=1", sample="x, x, x", torch="addcmul",
        autocast="widest"),
    Row("addcdiv", "x + value · tensor1 / tensor2, of arrays that broadcast together",
        "y0 = (typeof_y0)x0 + (typeof_y0)w0 * x1 / x2;", integers=SAME,
        operands="x, tensor1, tensor2", numbers="*, value=1", check=_floats,
        sample="x, x, x", torch="addcdiv", autocast="widest",
        notes="""

Raises:
    DTypeError: All are integers, whose quotients PyTorch refuses here too.
"""),
    Row("lerp", floats=_LERP.format("w0", "fabs"), integers=SAME, shown=False,
        complexes=_LERP.format("w0", "abs")),
    Row("lerp.by_array", floats=_LERP.format("x2", "fabs"), complexes=_LERP.format("x2", "abs"),
        operands="x0, x1, x2", shown=False,
        torch="lerp.Scalar lerp.Tensor"),
)
# fmt: on

#: By name.
ROWS = {row.name: row for row in (*FUNCTIONS, *_TRUTHS, *_ACTIVATIONS, *PAIRS, *SEVERAL)}
