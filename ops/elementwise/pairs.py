"""Functions of two numbers beside arithmetic, each a string, and whether two are close.

Names and arguments are PyTorch's. Shapes broadcast, dtypes promote as in NumPy, and one operand may
be a number, on either side; whole numbers alone become float32, PyTorch's default dtype.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.dtypes import AnyDType, adapted
from clprim.ops.elementwise.binary import common_dtype
from clprim.ops.reduction.reduce import all as all_of
from clprim.ops.shared.arguments import check_floating, dtype_of, is_array, number, real
from clprim.ops.shared.strings import kernel
from clprim.pointwise import Pointwise
from clprim.runtime.device import current_device

__all__ = [
    "allclose",
    "atan2",
    "atan2_backward",
    "copysign",
    "copysign_backward",
    "heaviside",
    "hypot",
    "hypot_backward",
    "isclose",
    "logaddexp",
    "logaddexp2",
    "logaddexp2_backward",
    "logaddexp_backward",
    "nextafter",
    "xlog1py",
    "xlog1py_backward",
    "xlogy",
    "xlogy_backward",
]

# --- of two --------------------------------------------------------------------------------------

#: Statements that assign ``y0`` from ``a`` and ``b``, which have the result's type.
BODIES = {
    "atan2": "y0 = atan2(a, b);",
    "copysign": "y0 = copysign(a, b);",
    "heaviside": "y0 = a == 0 ? b : (typeof_y0)(a > 0);",
    "hypot": "y0 = hypot(a, b);",
    # The greater one, and log(1 + exp(-distance)) ≤ log 2; a distance of NaN is one of infinities.
    "logaddexp": (
        "const typeof_y0 d = fabs(a - b); y0 = a == b ? a + (typeof_y0)0.6931471805599453 : "
        "(a > b ? a : b) + log1p(exp(-d)) + (d != d ? d : 0);"
    ),
    "logaddexp2": (
        "const typeof_y0 d = fabs(a - b); y0 = a == b ? a + 1 : (a > b ? a : b) + "
        "log1p(exp2(-d)) * (typeof_y0)1.4426950408889634 + (d != d ? d : 0);"
    ),
    "xlog1py": "y0 = b != b ? b : a == 0 ? 0 : a * log1p(b);",
    "xlogy": "y0 = b != b ? b : a == 0 ? 0 : a * log(b);",
}

# PyTorch's at the places where there is none; others are derived.
_GRADIENTS = {
    "copysign": "gx0 = x0 == 0 ? 0 : gy0 * (y0 / x0); gx1 = 0;",
    "hypot": "gx0 = gy0 * (x0 / y0); gx1 = gy0 * (x1 / y0);",
    "logaddexp": "gx0 = gy0 / (1 + exp(x1 - x0)); gx1 = gy0 / (1 + exp(x0 - x1));",
    "logaddexp2": "gx0 = gy0 / (1 + exp2(x1 - x0)); gx1 = gy0 / (1 + exp2(x0 - x1));",
    "xlog1py": """
        gx0 = gy0 == 0 || (x0 == 0 && x1 <= -1) ? 0 : gy0 * log1p(x1);
        gx1 = gy0 * x0 / (1 + x1);
    """,
    "xlogy": """
        gx0 = gy0 == 0 || (x0 == 0 && x1 <= 0) ? 0 : gy0 * log(x1);
        gx1 = gy0 * x0 / x1;
    """,
}


def _of_two(name: str, a: Any, b: Any, out: Any, *, whole: bool = False) -> Array:
    if not is_array(a) and not is_array(b):
        dtype_of(name, "at least one operand", a)
    a, b = (v if is_array(v) else number(name, "an operand", v) for v in (a, b))
    dtype = common_dtype(a, b)
    if dtype.kind == "b" or (dtype.kind in "iu" and not whole):
        dtype = np.dtype(np.float32)
    a, b = (v if is_array(v) else adapted(v, dtype) for v in (a, b))
    left = "x0" if is_array(a) else "w0"
    right = "w0" if not is_array(b) else "x1" if is_array(a) else "x0"
    body = next_after(dtype) if name == "nextafter" else BODIES[name]
    operator = kernel(f"const typeof_y0 a = {left}, b = {right}; {body}", f"{name}_of", dtype)
    given = [*(v for v in (a, b) if is_array(v)), *(v for v in (a, b) if not is_array(v))]
    found: Array = operator(*given, out=out)
    return found


@cache
def _gradient(name: str) -> Any:
    text = f"typeof_y0 a = x0, b = x1; {BODIES[name]}"
    return Pointwise(text, name=f"{name}_of", gradient=_GRADIENTS.get(name)).gradient()


def _gradients_of_two(name: str, grad: Any, a: Any, b: Any) -> tuple[Array, Array]:
    what = f"{name}_backward"
    dtype_of(what, "grad", grad)
    for label, operand in (("a", a), ("b", b)):
        check_floating(what, label, operand)
    ga, gb = _gradient(name)(a, b, grad=grad)
    return ga, gb


def hypot(a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns √(a² + b²), without overflow on the way."""
    return _of_two("hypot", a, b, out)


def hypot_backward(grad: Any, a: Any, b: Any) -> tuple[Array, Array]:
    """Returns the gradients of `hypot` in both arrays; at (0, 0) they are NaN, as PyTorch's."""
    return _gradients_of_two("hypot", grad, a, b)


def atan2(a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns the angle of the point (b, a) in radians, between -π and π."""
    return _of_two("atan2", a, b, out)


def atan2_backward(grad: Any, a: Any, b: Any) -> tuple[Array, Array]:
    """Returns the gradients of `atan2` in both arrays; at (0, 0) they are 0, as PyTorch's."""
    return _gradients_of_two("atan2", grad, a, b)


def copysign(a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns a with the sign of b, also that of a negative zero."""
    return _of_two("copysign", a, b, out)


def copysign_backward(grad: Any, a: Any, b: Any) -> tuple[Array, Array]:
    """Returns the gradients of `copysign`: ±1 in a, 0 where a is 0, and 0 in b."""
    return _gradients_of_two("copysign", grad, a, b)


def logaddexp(a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns log(exp(a) + exp(b)), without overflow; of infinities the greater one."""
    return _of_two("logaddexp", a, b, out)


def logaddexp_backward(grad: Any, a: Any, b: Any) -> tuple[Array, Array]:
    """Returns the gradients of `logaddexp` in both arrays."""
    return _gradients_of_two("logaddexp", grad, a, b)


def logaddexp2(a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns the logarithm to base 2 of 2^a + 2^b, without overflow; see `logaddexp`."""
    return _of_two("logaddexp2", a, b, out)


def logaddexp2_backward(grad: Any, a: Any, b: Any) -> tuple[Array, Array]:
    """Returns the gradients of `logaddexp2` in both arrays."""
    return _gradients_of_two("logaddexp2", grad, a, b)


def xlog1py(a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns a · log(1 + b), accurate for b near 0: 0 where a is 0, but for a b of NaN."""
    return _of_two("xlog1py", a, b, out)


def xlog1py_backward(grad: Any, a: Any, b: Any) -> tuple[Array, Array]:
    """Returns the gradients of `xlog1py`: log(1 + b), 0 where a = 0 and b ≤ -1, and a / (1 + b)."""
    return _gradients_of_two("xlog1py", grad, a, b)


def xlogy(a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns a · log(b): 0 where a is 0, but for a b of NaN.

    Args:
        a: An array or a number.
        b: Likewise; one of the two is an array.
        out: Where the result goes; it may be an operand.

    Raises:
        DTypeError: No array.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.xlogy(cp.asarray(np.float32([0, 2])), cp.asarray(np.float32([0, 1]))).get()
        array([0., 0.], dtype=float32)
    """
    return _of_two("xlogy", a, b, out)


def xlogy_backward(grad: Any, a: Any, b: Any) -> tuple[Array, Array]:
    """Returns the gradients of `xlogy`: log(b), 0 where a = 0 and b ≤ 0, and a / b."""
    return _gradients_of_two("xlogy", grad, a, b)


def heaviside(x: Any, values: Any, *, out: Any = None) -> Array:
    """Returns 0 below 0, 1 above it and ``values`` at 0; of NaN 0, as PyTorch does."""
    return _of_two("heaviside", x, values, out, whole=True)


# By the bits of a mantissa and the exponent of the least normal number, of dtypes
#: that are calculated with in float32.
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
    """Returns the statements of `nextafter` for a dtype, as those of `BODIES`."""
    small = _SMALL.get(dtype.name)
    return _NEXT_AFTER.format(**small) if small else "y0 = nextafter(a, b);"


def nextafter(a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns the number of the result's dtype that is next to a towards b; of equal ones b."""
    return _of_two("nextafter", a, b, out)


# --- whether numbers are close -------------------------------------------------------------------


def isclose(
    a: Any,
    b: Any,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
    *,
    out: Any = None,
) -> Array:
    """Returns whether elements are within ``atol + rtol · |b|`` of each other, as bool.

    Equal infinities are close, other infinities are not.

    Args:
        a: An array.
        b: An array or a number.
        rtol: The difference there may be, as a part of b.
        atol: That there may be besides.
        equal_nan: Whether two NaN are close.
        out: Where the result goes.

    Raises:
        DTypeError: No arrays.
    """
    what = "isclose"
    given = dtype_of(what, "a", a)
    b = b if is_array(b) else adapted(number(what, "b", b), given)
    relative, absolute = real(what, "rtol", rtol), real(what, "atol", atol)
    dtypes = [given, *([b.dtype] if is_array(b) else [])]
    whole = any(d.kind in "iu" and d.itemsize > 2 for d in dtypes)
    wide = np.float64 in dtypes or (whole and current_device().traits.fp64)
    c, other = "double" if wide else "float", "x1" if is_array(b) else "w2"
    nan = f" || (x0 != x0 && {other} != {other})" if equal_nan else ""
    # Without a tolerance they are equal or not, which a difference in floats does not tell.
    near = "d < INFINITY && d <= low + high * fabs(b)" if relative or absolute else "(void)d, 0"
    expr = (
        f"const {c} a = x0, b = {other}, low = w0, high = w1, d = fabs(a - b); "
        f"y0 = x0 == {other} || ({near}){nan};"
    )
    numbers = [np.float64(v) if wide else np.float32(v) for v in (absolute, relative)]
    operator = kernel(expr, what, np.dtype(np.bool_))
    operands = (a, b, *numbers) if is_array(b) else (a, *numbers, b)
    found: Array = operator(*operands, out=out)
    return found


def allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Returns whether all elements are close to each other, as `isclose` says; of none True."""
    return bool(all_of(isclose(a, b, rtol, atol, equal_nan)).get())
