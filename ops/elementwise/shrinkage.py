"""Activations that shrink, squash or gate, each a string: names and arguments of PyTorch.

Elementwise on any shape and memory format; integers become float32. NaN stays NaN. Gradients are
derived from the strings.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.dtypes import adapted
from clprim.errors import DefinitionError, ShapeError
from clprim.ops.elementwise.activation import sigmoid_of
from clprim.ops.shape.join import cat
from clprim.ops.shared.arguments import ByKind, dtype_of, of_reals, real
from clprim.ops.shared.dims import one_axis

__all__ = [
    "glu",
    "glu_backward",
    "hardshrink",
    "hardshrink_backward",
    "softshrink",
    "softshrink_backward",
    "softsign",
    "softsign_backward",
    "tanhshrink",
    "tanhshrink_backward",
]

# Comparisons are written so that NaN comes through, and that gradients at the ends are 0; the zeros
# that `softshrink` gives have the sign of x, as PyTorch's.
_hardshrink = of_reals("typeof_y0 x = x0; y0 = x >= -w0 && x <= w0 ? 0 : x;", "hardshrink")
_softshrink = of_reals(
    "typeof_y0 x = x0; y0 = x >= -w0 && x <= w0 ? x * 0 : x > 0 ? x - w0 : x + w0;", "softshrink"
)
# By hand, as the two parts of a quotient's derivative cancel.
_softsign = of_reals(
    "typeof_y0 x = x0; y0 = x / (1 + fabs(x));",
    "softsign",
    gradient="gx0 = gy0 / (1 + fabs(x0)) / (1 + fabs(x0));",
)
# Below 1, where the difference cancels, tanh's continued fraction of eight terms without its x.
_tanhshrink = of_reals(
    """
    typeof_y0 x = x0;
    typeof_y0 z = x * x;
    typeof_y0 p = 11486475 + z * (810810 + z * (12870 + z * 44));
    typeof_y0 q = 34459425 + z * (16216200 + z * (945945 + z * (13860 + z * 45)));
    y0 = z < 1 ? x * z * (p / q) : x - tanh(x);
    """,
    "tanhshrink",
    "typeof_gx0 t = tanh(x0); gx0 = gy0 * (t * t);",
)
_glu = of_reals(f"{sigmoid_of('x1')} y0 = x0 * s;", "glu")


@lru_cache(maxsize=16)
def _gradient(operator: ByKind) -> Any:
    """The gradient of an operator in its arrays, derived when it is asked for first."""
    floats: Any = operator.floats
    return floats.gradient()


def _back(what: str, operator: ByKind, grad: Any, x: Any, *numbers: float) -> Array:
    for label, array in (("grad", grad), ("x", x)):
        dtype_of(what, label, array)
    if grad.shape != x.shape:
        raise ShapeError(f"{what}: grad has shape {grad.shape}, expected that of x, {x.shape}")
    found: Array = _gradient(operator)(x, *numbers, grad=grad)
    return found


def _width(what: str, lambd: Any) -> float:
    found: float = real(what, "lambd", lambd)
    if not found >= 0:
        raise DefinitionError(f"{what}: lambd={lambd}: expected a number of at least 0")
    return found


def _limit(what: str, x: Any, lambd: Any) -> float:
    """That of `hardshrink`, which compares numbers of one dtype, as PyTorch does."""
    found: float = adapted(_width(what, lambd), dtype_of(what, "x", x))
    return found


def hardshrink(x: Any, lambd: float = 0.5, *, out: Any = None) -> Array:
    """Returns x, and 0 where |x| is at most ``lambd``.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.hardshrink(cp.asarray(np.float32([-2, 0.5, 0.6]))).get()
        array([-2. ,  0. ,  0.6], dtype=float32)
    """
    found: Array = _hardshrink(x, _limit("hardshrink", x, lambd), out=out)
    return found


def hardshrink_backward(grad: Any, x: Any, lambd: float = 0.5) -> Array:
    """Returns the gradient of `hardshrink`."""
    what = "hardshrink_backward"
    return _back(what, _hardshrink, grad, x, _limit(what, x, lambd))


def softshrink(x: Any, lambd: float = 0.5, *, out: Any = None) -> Array:
    """Returns x moved towards 0 by ``lambd``, and 0 where |x| is at most that."""
    found: Array = _softshrink(x, _width("softshrink", lambd), out=out)
    return found


def softshrink_backward(grad: Any, x: Any, lambd: float = 0.5) -> Array:
    """Returns the gradient of `softshrink`."""
    what = "softshrink_backward"
    return _back(what, _softshrink, grad, x, _width(what, lambd))


def softsign(x: Any, *, out: Any = None) -> Array:
    """Returns x / (1 + |x|)."""
    found: Array = _softsign(x, out=out)
    return found


def softsign_backward(grad: Any, x: Any) -> Array:
    """Returns the gradient of `softsign`."""
    return _back("softsign_backward", _softsign, grad, x)


def tanhshrink(x: Any, *, out: Any = None) -> Array:
    """Returns x - tanh(x)."""
    found: Array = _tanhshrink(x, out=out)
    return found


def tanhshrink_backward(grad: Any, x: Any) -> Array:
    """Returns the gradient of `tanhshrink`."""
    return _back("tanhshrink_backward", _tanhshrink, grad, x)


def glu(x: Any, dim: int | None = None, *, axis: int | None = None, out: Any = None) -> Array:
    """Returns a · sigmoid(b) of the halves a and b of an array along an axis.

    Args:
        x: Of an even size along the axis.
        dim: The axis; the last one by default.
        axis: Another name of ``dim``.
        out: Where the result goes.

    Raises:
        ShapeError: An odd size.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.glu(cp.asarray(np.float32([[3, 4, 0, 100]]))).get()
        array([[1.5, 4. ]], dtype=float32)
    """
    a, b = _halves("glu", x, one_axis("glu", x, dim, axis, default=-1))
    found: Array = _glu(a, b, out=out)
    return found


def glu_backward(grad: Any, x: Any, dim: int | None = None, *, axis: int | None = None) -> Array:
    """Returns the gradient of `glu` in ``x``."""
    what = "glu_backward"
    found_axis = one_axis(what, x, dim, axis, default=-1)
    a, b = _halves(what, x, found_axis)
    dtype_of(what, "grad", grad)
    if grad.shape != a.shape:
        raise ShapeError(
            f"{what}: grad has shape {grad.shape}, expected that of the result, {a.shape}"
        )
    return cat(_gradient(_glu)(a, b, grad=grad), found_axis)


def _halves(what: str, x: Any, axis: int) -> tuple[Any, Any]:
    size = x.shape[axis] if x.shape else 1
    if size % 2:
        raise ShapeError(f"{what}: x has size {size} along axis {axis}; expected an even one")
    before = (slice(None),) * axis
    first, second = (*before, slice(size // 2)), (*before, slice(size // 2, size))
    return x[first], x[second]
