"""Softmax along any axis, its logarithm, and gradients: one read where a near cache holds a group.

Names and arguments are those of `torch.nn.functional`; ``dim=`` and ``axis=`` are one argument.
float16 and bfloat16 are computed in float32. A group that holds NaN or +∞ becomes NaN, as in
PyTorch; so does one of -∞ alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.dtypes import AnyDType, as_dtype, value_dtype
from clprim.errors import DTypeError
from clprim.grouped import Grouped
from clprim.ops.shared.dims import one_axis
from clprim.ops.shared.exponentials import exponentials
from clprim.ops.shared.sums import added

__all__ = [
    "log_softmax",
    "log_softmax_backward",
    "softmax",
    "softmax_backward",
    "softmin",
    "softmin_backward",
]

# m - m is 0, but NaN of infinities.
_INVERSE = "group_y0 = reduce_y0; group_y1 = 1 / reduce_y1 + (reduce_y0 - reduce_y0);"
_LOGARITHM = "group_y0 = reduce_y0; group_y1 = log(reduce_y1) + (reduce_y0 - reduce_y0);"


def softmax(
    x: Any, dim: int | None = None, *, axis: int | None = None, dtype: Any = None, out: Any = None
) -> Array:
    """Returns exp(x) / Σ exp(x) along an axis, without overflow.

    Args:
        x: Of floating-point numbers, any shape and memory format.
        dim: The axis; the last one by default.
        axis: Another name of ``dim``.
        dtype: Of the result, in which it is computed; that of ``x`` by default.
        out: Where the result goes; may be ``x``.

    Raises:
        ShapeError: No such axis, ``out`` of another shape.
        DTypeError: No device array; integers without ``dtype``.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.softmax(cp.asarray(np.log(np.float32([[1, 3], [4, 4]]))), axis=1).get().round(3)
        array([[0.25, 0.75],
               [0.5 , 0.5 ]], dtype=float32)
    """
    return _along(
        "softmax", "exp(x0 - group_y0) * group_y1", _INVERSE, "x0", x, dim, axis, dtype, out
    )


def softmin(
    x: Any, dim: int | None = None, *, axis: int | None = None, dtype: Any = None, out: Any = None
) -> Array:
    """Returns the softmax of -x; see `softmax`."""
    each = "exp(-x0 - group_y0) * group_y1"
    return _along("softmin", each, _INVERSE, "-x0", x, dim, axis, dtype, out)


def log_softmax(
    x: Any, dim: int | None = None, *, axis: int | None = None, dtype: Any = None, out: Any = None
) -> Array:
    """Returns x - log Σ exp(x) along an axis; see `softmax` for the arguments.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.log_softmax(cp.asarray(np.float32([1000, 1000]))).get().round(4)
        array([-0.6931, -0.6931], dtype=float32)
    """
    each = "(x0 - group_y0) - group_y1"
    return _along("log_softmax", each, _LOGARITHM, "x0", x, dim, axis, dtype, out)


def softmax_backward(
    grad: Any, output: Any, dim: int | None = None, *, axis: int | None = None, out: Any = None
) -> Array:
    """Returns the gradient of `softmax`, y · (grad - Σ grad · y), from its result y.

    Args:
        grad: Of the result.
        output: The result.
        dim: As in `softmax`.
        axis: Likewise.
        out: Where the gradient goes.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.
    """
    strings = ("y0 = x0 * x1;", "y0 = x1 * (x0 - group_y0);")
    return _back("softmax_backward", strings, grad, output, dim, axis, out)


def softmin_backward(
    grad: Any, output: Any, dim: int | None = None, *, axis: int | None = None, out: Any = None
) -> Array:
    """Returns the gradient of `softmin`, y · (Σ grad · y - grad); see `softmax_backward`."""
    strings = ("y0 = x0 * x1;", "y0 = x1 * (group_y0 - x0);")
    return _back("softmin_backward", strings, grad, output, dim, axis, out)


def log_softmax_backward(
    grad: Any, output: Any, dim: int | None = None, *, axis: int | None = None, out: Any = None
) -> Array:
    """Returns the gradient of `log_softmax`, grad - exp(y) · Σ grad; see `softmax_backward`."""
    strings = ("y0 = x0;", "y0 = x0 - exp(x1) * group_y0;")
    return _back("log_softmax_backward", strings, grad, output, dim, axis, out)


def _along(
    what: str,
    each: str,
    finalize: str,
    element: str,
    x: Any,
    dim: Any,
    axis: Any,
    dtype: Any,
    out: Any,
) -> Array:
    found = one_axis(what, x, dim, axis, default=-1)
    if dtype is None and x.dtype.kind in "biu":
        raise DTypeError(f"{what}: x is {x.dtype}; expected floating-point numbers, or dtype=")
    dtype = x.dtype if dtype is None else as_dtype(dtype)
    operator = _map(what, each, finalize, element, dtype)
    result: Array = operator(x, axis=found if x.shape else (), out=out)
    return result


def _back(
    what: str, strings: tuple[str, str], grad: Any, output: Any, dim: Any, axis: Any, out: Any
) -> Array:
    found = one_axis(what, output, dim, axis, default=-1)
    operator = _slope(what, *strings, output.dtype)
    result: Array = operator(grad, output, axis=found if output.shape else (), out=out)
    return result


@lru_cache(maxsize=64)
def _map(name: str, each: str, finalize: str, element: str, dtype: AnyDType) -> Grouped:
    return Grouped(
        "",
        **exponentials(element),
        finalize=finalize,
        each=f"y0 = {each};",
        result_type=dtype,
        partial_type=value_dtype(dtype, [dtype]),
        name=name,
    )


@lru_cache(maxsize=64)
def _slope(name: str, expr: str, each: str, dtype: AnyDType) -> Grouped:
    return Grouped(expr, **added(1), each=each, result_type=dtype, name=name)
