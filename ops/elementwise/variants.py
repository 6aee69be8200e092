"""Elementwise operators whose arguments choose the formula, or are looked at first.

Elementwise on any shape and memory format; ``out`` may be the input itself. Names and arguments are
PyTorch's.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.ops.elementwise.row import Row
from clprim.ops.elementwise.table import ROWS
from clprim.ops.gradients.vjp import vjp
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of, real
from clprim.ops.shared.dims import one_axis, whole
from clprim.ops.shared.strings import kernel

_MOST_PLACES = 308  # of float64


@operator(torch="round.decimals @out @seldom")
def round(x: Any, *, decimals: int = 0, out: Any = None) -> Array:
    """Returns the nearest number with so many decimals, of two the even one.

    Args:
        x: An array; integers are round already.
        decimals: Digits after the point; of floats also negative, for digits before it.
        out: Where the result goes; it may be ``x``.

    Raises:
        DTypeError: ``decimals`` is no integer, or negative for integers.
        ShapeError: More than 308 digits.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.round(cp.asarray(np.float32([1.26, -0.5])), decimals=1).get()
        array([ 1.3, -0.5], dtype=float32)
    """
    places = whole("round", "decimals", decimals)
    if places == 0 or dtype_of("round", "x", x).kind in "biu":
        if places < 0:
            raise DTypeError(f"round: decimals={places} of {x.dtype}: expected 0 or more")
        return ROWS["round"].operator(x, out=out)
    if builtins.abs(places) > _MOST_PLACES:
        raise ShapeError(f"round: decimals={places}: expected -{_MOST_PLACES} to {_MOST_PLACES}")
    rescaled = ROWS["round.down_to" if places < 0 else "round.up_to"].operator
    return rescaled(x, 10.0 ** builtins.abs(places), out=out)


@operator(autocast="lower", sample="x, empty(3)")
def prelu(x: Any, weight: Any, *, out: Any = None) -> Array:
    """Returns x where it is positive, else weight · x.

    Args:
        x: Of shape (N, C, …), or of any shape where ``weight`` is a single number.
        weight: An array of C slopes, one a channel, or of one slope.
    """
    return ROWS["prelu"].operator(x, _slopes("prelu", x, weight), out=out)


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


prelu_backward = vjp(prelu, "x weight")


@operator(
    torch="gelu @out @seldom; gelu_backward @broadcast @of_two",
    onnx="""Gelu approximate='none'; com.microsoft::Gelu(x);
        com.microsoft::BiasGelu(x, bias) @sum;
        com.microsoft::FastGelu(x, bias) =approximate='tanh' @sum""",
)
def gelu(x: Any, approximate: str = "none", *, out: Any = None) -> Array:
    """Returns x · Φ(x), Φ the normal distribution function (Hendrycks and Gimpel 2016).

    Args:
        approximate: ``"none"`` calculates x / 2 · (1 + erf(x / √2)), and ``"tanh"``
            x / 2 · (1 + tanh(√(2/π) (x + 0.044715 x³))).
    """
    return _gelu("gelu", approximate).operator(x, out=out)


def _gelu(what: str, approximate: str) -> Row:
    if approximate not in ("none", "tanh"):
        raise DefinitionError(
            f"{what}: approximate={quoted(approximate)}; expected 'none' or 'tanh'"
        )
    return ROWS["gelu" if approximate == "none" else "gelu.tanh"]


gelu_backward = vjp(gelu, "x")


@operator(torch="glu @none; glu_backward")
def glu(x: Any, dim: int | None = None, *, axis: int | None = None, out: Any = None) -> Array:
    """Returns a · sigmoid(b) of the halves a and b of an array along an axis.

    Args:
        x: Of an even size along the axis.
        dim: The axis; the last one by default.

    Raises:
        ShapeError: An odd size.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.glu(cp.asarray(np.float32([[3, 4, 0, 100]]))).get()
        array([[1.5, 4. ]], dtype=float32)
    """
    a, b = _halves("glu", x, one_axis("glu", x, dim, axis, default=-1))
    return ROWS["glu"].operator(a, b, out=out)


glu_backward = vjp(glu, "x")


def _halves(what: str, x: Any, axis: int) -> tuple[Any, Any]:
    size = x.shape[axis] if x.shape else 1
    if size % 2:
        raise ShapeError(f"{what}: x has size {size} along axis {axis}; expected an even one")
    before = (slice(None),) * axis
    first, second = (*before, slice(size // 2)), (*before, slice(size // 2, size))
    return x[first], x[second]


@operator(torch="logit_backward @broadcast @none")
def logit(x: Any, eps: float | None = None, *, out: Any = None) -> Array:
    """Returns log(x / (1 - x)), the inverse of `sigmoid`.

    Args:
        eps: Where given, x is brought between ``eps`` and ``1 - eps`` first; else there is no
            result (NaN) below 0 and above 1.
        out: Where the result goes; it may be ``x``.
    """
    if eps is None:
        return ROWS["logit"].operator(x, out=out)
    return ROWS["logit.within"].operator(x, real("logit", "eps", eps), out=out)


logit_backward = vjp(logit, "x", ": 0 outside of ``eps`` and ``1 - eps``, or NaN without it")


_BFLOAT16 = 3.3895313892515355e38
_FINITE = "{0} != {0} ? w0 : {0} == INFINITY ? w1 : {0} == -INFINITY ? w2 : {0}"


@operator(
    torch="nan_to_num @seldom", numpy="nan_to_num(x, /, *, nan=0.0, posinf=None, neginf=None)"
)
def nan_to_num(
    x: Any,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Any = None,
) -> Array:
    """Returns x with numbers in place of NaN and of infinities; integers stay as they are.

    Of complex numbers it looks at each part by itself.

    Args:
        nan: What stands for NaN.
        posinf: What stands for ∞: the greatest number of x's dtype by default.
        neginf: What stands for -∞: the least one by default.
        out: Where the result goes; it may be ``x``.
    """
    what = "nan_to_num"
    dtype = dtype_of(what, "x", x)
    if dtype.kind in "biu":
        return kernel("y0 = x0;", what, dtype)(x, out=out)
    most = _BFLOAT16 if dtype.kind not in "fc" else float(np.finfo(dtype).max)
    text = _FINITE.format("x0")
    if dtype.kind == "c":
        text = f"complex({_FINITE.format('real(x0)')}, {_FINITE.format('imag(x0)')})"
    return kernel(f"y0 = {text};", what, dtype)(
        x,
        real(what, "nan", 0.0 if nan is None else nan),
        most if posinf is None else real(what, "posinf", posinf),
        -most if neginf is None else real(what, "neginf", neginf),
        out=out,
    )


nan_to_num_backward = vjp(nan_to_num, "x", ": 0 where x is not finite")
