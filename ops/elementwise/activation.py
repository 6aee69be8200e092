"""Activations: names and arguments of `torch.nn.functional`, each a string or two.

Elementwise on any shape and memory format; ``out`` may be the input itself. NaN stays NaN. Floats
keep their dtype. Integers become float32, PyTorch's default dtype, but for `relu`, `relu6` and
`threshold`, which keep them.
"""

from __future__ import annotations

import math
from typing import Any

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.ops.shared.arguments import Operator, by_kind, dtype_of, number, of_reals, real
from clprim.pointwise import Pointwise

__all__ = [
    "celu",
    "elu",
    "gelu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "threshold",
]

# --- pieces of straight lines --------------------------------------------------------------------

# Comparisons are written so that NaN fails them and comes through, and so does the zero at which
# both pieces meet, with its sign; at kinks and at NaN the gradient is PyTorch's. Integers have no
# NaN, and llvmpipe errs where ?: chooses between a constant and a char.
_relu = by_kind(
    Pointwise("y0 = x0 < 0 ? 0 : x0;", name="relu", gradient="gx0 = x0 <= 0 ? 0 : gy0;"),
    Pointwise("y0 = max(x0, 0);", name="relu"),
)
_relu6 = by_kind(
    Pointwise(
        "y0 = x0 < 0 ? 0 : x0 > 6 ? 6 : x0;",
        name="relu6",
        gradient="gx0 = x0 <= 0 || x0 >= 6 ? 0 : gy0;",
    ),
    Pointwise("y0 = min(max(x0, 0), 6);", name="relu6"),
)
_threshold: Operator = Pointwise("y0 = x0 <= w0 ? w1 : x0;", name="threshold")
_leaky_relu = of_reals("typeof_y0 x = x0; y0 = x > 0 ? x : x * w0;", "leaky_relu")
_prelu = of_reals("typeof_y0 x = x0; y0 = x > 0 ? x : x * x1;", "prelu")
_hardtanh = of_reals(
    "typeof_y0 x = x0; y0 = x < w0 ? w0 : x > w1 ? w1 : x;",
    "hardtanh",
    "gx0 = x0 <= w0 || x0 >= w1 ? 0 : gy0;",
)
_hardsigmoid = of_reals(
    """
    typeof_y0 s = ((typeof_y0)x0 + 3) / 6;
    y0 = s <= 0 ? 0 : s >= 1 ? 1 : s == s ? s : (typeof_y0)NAN;
    """,
    "hardsigmoid",
)
_hardswish = of_reals(
    # Of -∞ it is NaN, as in PyTorch.
    "typeof_y0 x = x0; typeof_y0 s = (x + 3) / 6; y0 = s <= 0 ? x * 0 : s < 1 ? x * s : x;",
    "hardswish",
)


def relu(x: Any, *, out: Any = None) -> Array:
    """Returns max(0, x); integers stay integers.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.relu(cp.asarray(np.array([-1, 0.5, np.nan], np.float32))).get()
        array([0. , 0.5, nan], dtype=float32)
    """
    return _relu(x, out=out)


def relu6(x: Any, *, out: Any = None) -> Array:
    """Returns min(max(0, x), 6); integers stay integers."""
    return _relu6(x, out=out)


def threshold(x: Any, threshold: float, value: float, *, out: Any = None) -> Array:
    """Returns x where it is greater than ``threshold``, else ``value``; promoted as NumPy does."""
    low = number("threshold", "threshold", threshold)
    return _threshold(x, low, number("threshold", "value", value), out=out)


def leaky_relu(x: Any, negative_slope: float = 0.01, *, out: Any = None) -> Array:
    """Returns x where it is positive, else ``negative_slope`` · x."""
    return _leaky_relu(x, real("leaky_relu", "negative_slope", negative_slope), out=out)


def prelu(x: Any, weight: Any, *, out: Any = None) -> Array:
    """Returns x where it is positive, else weight · x.

    Args:
        x: Of shape (N, C, …), or of any shape where ``weight`` is a single number.
        weight: An array of C slopes, one a channel, or of one slope.
        out: Where the result goes.

    Raises:
        ShapeError: Neither one slope nor one a channel.
    """
    return _prelu(x, _slopes("prelu", x, weight), out=out)


def _slopes(what: str, x: Any, weight: Any) -> Array:
    """The slopes of `prelu`, so that they broadcast along channels."""
    dtype_of(what, "x", x)
    dtype_of(what, "weight", weight)
    channels = x.shape[1] if len(x.shape) > 1 else 1
    if weight.size not in (1, channels) or len(weight.shape) > 1:
        raise ShapeError(
            f"{what}: weight has shape {weight.shape}, expected one slope or one for each of "
            f"{channels} channels of x, whose shape is {x.shape}"
        )
    slopes = asarray(weight).reshape(weight.size, *(1,) * max(0, len(x.shape) - 2))
    return slopes if len(x.shape) > 0 else slopes.reshape(())


def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0, *, out: Any = None) -> Array:
    """Returns min(max(min_val, x), max_val).

    Raises:
        DefinitionError: A ``min_val`` above ``max_val``.
    """
    return _hardtanh(x, *_bounds("hardtanh", min_val, max_val), out=out)


def _bounds(what: str, least: Any, most: Any) -> tuple[float, float]:
    low, high = real(what, "min_val", least), real(what, "max_val", most)
    if low > high:
        raise DefinitionError(f"{what}: min_val={low} is greater than max_val={high}")
    return low, high


def hardsigmoid(x: Any, *, out: Any = None) -> Array:
    """Returns min(max(0, (x + 3) / 6), 1)."""
    return _hardsigmoid(x, out=out)


def hardswish(x: Any, *, out: Any = None) -> Array:
    """Returns x · hardsigmoid(x)."""
    return _hardswish(x, out=out)


# --- exponentials --------------------------------------------------------------------------------


def sigmoid_of(x: str, name: str = "s") -> str:
    """Returns statements that declare the sigmoid of an expression.

    exp of what is not positive cannot overflow, and 1 + e has no cancellation.

    Args:
        x: C of the result's type.
        name: Of the sigmoid.
    """
    return (
        f"typeof_y0 {name}_x = {x}; typeof_y0 {name}_e = exp(-fabs({name}_x)); "
        f"typeof_y0 {name} = ({name}_x < 0 ? {name}_e : 1) / (1 + {name}_e);"
    )


_sigmoid = of_reals(f"{sigmoid_of('x0')} y0 = s;", "sigmoid")
_silu = of_reals(f"{sigmoid_of('x0')} y0 = s_x * s;", "silu")
_logsigmoid = of_reals(
    "typeof_y0 x = x0; y0 = (x < 0 ? x : 0) - log1p(exp(-fabs(x)));", "logsigmoid"
)
_softplus = of_reals(
    """
    typeof_y0 x = x0;
    typeof_y0 z = x * w0;
    y0 = z > w1 ? x : ((z > 0 ? z : 0) + log1p(exp(-fabs(z)))) / w0;
    """,
    "softplus",
)
_elu = of_reals("typeof_y0 x = x0; y0 = x > 0 ? x : w0 * expm1(x);", "elu")
_celu = of_reals("typeof_y0 x = x0; y0 = x > 0 ? x : w0 * expm1(x / w0);", "celu")
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
_selu = of_reals(
    f"typeof_y0 x = x0; y0 = x > 0 ? {_SELU_SCALE} * x : {_SELU_SCALE * _SELU_ALPHA} * expm1(x);",
    "selu",
)
# With e = exp(x): tanh(log(1 + e)) = ((1 + e)² − 1) / ((1 + e)² + 1), which is 1 from x = 20 on.
# Of a number past which a factor is settled the gradient takes none of its steps: what overflows
# in one is not multiplied by 0.
_mish = of_reals(
    """
    typeof_y0 x = x0;
    typeof_y0 e = exp(x < -1000 ? -1000 : x > 20 ? 20 : x);
    y0 = x * (e * (e + 2) / (e * (e + 2) + 2));
    """,
    "mish",
)
# erfc keeps the digits that 1 + erf loses where x is negative. The gradient by hand: past 40 both
# of its parts are settled, and what overflows is not multiplied by 0.
_ROOT_HALF = math.sqrt(0.5)
_gelu = of_reals(
    f"typeof_y0 x = x0; y0 = 0.5 * x * erfc(x * {-_ROOT_HALF});",
    "gelu",
    f"""
    typeof_gx0 x = x0 < -40 ? -40 : x0 > 40 ? 40 : x0;
    gx0 = gy0 * (0.5 * erfc(x * {-_ROOT_HALF})
        + x * ({1 / math.sqrt(2 * math.pi)} * exp(-0.5 * (x * x))));
    """,
)
# (1 + tanh(u)) / 2 is the sigmoid of 2 u, which does not cancel.
_gelu_tanh = of_reals(
    f"""
    typeof_y0 x = x0, z = x < -40 ? -40 : x > 40 ? 40 : x;
    {sigmoid_of(f"{math.sqrt(8 / math.pi)} * (z + 0.044715 * z * z * z)")}
    y0 = x * s;
    """,
    "gelu_tanh",
)


def sigmoid(x: Any, *, out: Any = None) -> Array:
    """Returns 1 / (1 + exp(-x))."""
    return _sigmoid(x, out=out)


def silu(x: Any, *, out: Any = None) -> Array:
    """Returns x · sigmoid(x), also called swish (Elfwing, Uchibe and Doya 2017)."""
    return _silu(x, out=out)


def logsigmoid(x: Any, *, out: Any = None) -> Array:
    """Returns log(sigmoid(x)), accurate where the sigmoid underflows."""
    return _logsigmoid(x, out=out)


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0, *, out: Any = None) -> Array:
    """Returns log(1 + exp(beta · x)) / beta, and x itself where beta · x is above ``threshold``."""
    beta, threshold = real("softplus", "beta", beta), real("softplus", "threshold", threshold)
    return _softplus(x, beta, threshold, out=out)


def elu(x: Any, alpha: float = 1.0, *, out: Any = None) -> Array:
    """Returns x where it is positive, else alpha · (exp(x) - 1) (Clevert and others 2015)."""
    return _elu(x, real("elu", "alpha", alpha), out=out)


def celu(x: Any, alpha: float = 1.0, *, out: Any = None) -> Array:
    """Returns x where it is positive, else alpha · (exp(x / alpha) - 1) (Barron 2017)."""
    return _celu(x, real("celu", "alpha", alpha), out=out)


def selu(x: Any, *, out: Any = None) -> Array:
    """Returns scale · elu(x, alpha) with the constants of Klambauer and others (2017)."""
    return _selu(x, out=out)


def mish(x: Any, *, out: Any = None) -> Array:
    """Returns x · tanh(softplus(x)) (Misra 2019)."""
    return _mish(x, out=out)


def gelu(x: Any, approximate: str = "none", *, out: Any = None) -> Array:
    """Returns x · Φ(x), Φ the normal distribution function (Hendrycks and Gimpel 2016).

    Args:
        x: An array.
        approximate: ``"none"`` calculates x / 2 · (1 + erf(x / √2)), and ``"tanh"``
            x / 2 · (1 + tanh(√(2/π) (x + 0.044715 x³))).
        out: Where the result goes.

    Raises:
        DefinitionError: Another word for ``approximate``.
    """
    if approximate not in ("none", "tanh"):
        raise DefinitionError(f"gelu: approximate={quoted(approximate)}; expected 'none' or 'tanh'")
    return (_gelu if approximate == "none" else _gelu_tanh)(x, out=out)
