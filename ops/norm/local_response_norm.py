"""Local response normalisation (Krizhevsky and others 2012), across neighbouring channels."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_array, view_of
from clprim.dtypes import AnyDType, is_integer
from clprim.errors import ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.norm.arguments import (
    allocate_like,
    check_floats,
    check_gradient,
    check_result,
)
from clprim.ops.norm.moments import statistics_dtype
from clprim.ops.registry import operator
from clprim.ops.shared.arguments import real
from clprim.plan.strides import dense_strides, memory_order
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction
from clprim.runtime.device import current_device

_sum = Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;", name="lrn_window")
_square = Pointwise("y0 = x0 * x0;", name="lrn_square")
# Where the channels end, windows reach into zeros.
_weigh = Pointwise("y0 = x0 * x1 * pow(w0 + w1 * x2, w2);", name="lrn_weigh")


@operator(sample="x, 2", wrt="x")
@repeatable
def local_response_norm(
    x: Any,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    *,
    out: Any = None,
) -> Array:
    """Returns x / (k + alpha / size · Σ x²)^beta, the sum over ``size`` neighbouring channels.

    Args:
        x: (N, C, L), (N, C, H, W) or (N, C, D, H, W) of floating-point numbers.
        size: Channels of a window, ``size // 2`` of them before its own; those that are not there
            count as 0.
        alpha: Of the mean square.
        beta: The exponent.
        k: Added to it.
        out: Where the result goes; may be ``x``.

    Raises:
        ShapeError: Fewer than three dimensions, a ``size`` below 1.
        DTypeError, DeviceError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([1, 2, 3]).reshape(1, 3, 1))
        >>> ops.local_response_norm(x, 3, alpha=3, beta=1, k=0).get().ravel().round(3)
        array([0.2  , 0.143, 0.231], dtype=float32)
    """
    what = "local_response_norm"
    dtype = check_floats(what, "x", x)
    alpha, beta, k = _check(what, x, size, alpha, beta, k)
    if out is not None:
        check_result(what, out, x.shape, dtype, [x])
    sums = _windows(x, size, size // 2, _square, (x,))
    result: Array = _apply(dtype)(x, sums, k, alpha / size, -beta, out=out)
    return result


@repeatable
def local_response_norm_backward(
    grad: Any, x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Array:
    """Returns the gradient of `local_response_norm` with respect to ``x``.

    With d = k + alpha / size · Σ x²: dx = grad · d^-beta
    - 2 · alpha · beta / size · x · Σ grad · x · d^(-beta - 1), the last sum over all windows that
    hold the channel.

    Args:
        grad: Of the result, of the shape of ``x``.
        x: The input.
        size: As in `local_response_norm`.
        alpha: Likewise.
        beta: Likewise.
        k: Likewise.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.
    """
    what = "local_response_norm_backward"
    dtype = check_floats(what, "x", x)
    check_gradient(what, grad, x)
    alpha, beta, k = _check(what, x, size, alpha, beta, k)
    sums = _windows(x, size, size // 2, _square, (x,))
    back = _windows(x, size, (size - 1) // 2, _weigh, (grad, x, sums, k, alpha / size, -beta - 1))
    factor = 2 * alpha * beta / size
    result: Array = _gradient(dtype)(grad, x, sums, back, k, alpha / size, -beta, factor)
    return result


@lru_cache(maxsize=64)
def _apply(dtype: AnyDType) -> Pointwise:
    expr = "y0 = x0 * pow(w0 + w1 * x1, w2);"
    return Pointwise(expr, result_type=dtype, name="local_response_norm")


@lru_cache(maxsize=64)
def _gradient(dtype: AnyDType) -> Pointwise:
    expr = "y0 = x0 * pow(w0 + w1 * x2, w2) - w3 * x1 * x3;"
    return Pointwise(expr, result_type=dtype, name="local_response_norm_dx")


def _windows(x: Any, size: int, before: int, term: Pointwise, arguments: tuple[Any, ...]) -> Array:
    """Sums a term of every element over windows of channels, ``before`` of them before its own."""
    kind = statistics_dtype(x.dtype)
    n, channels, *rest = x.shape
    shape = (n, channels + size - 1, *rest)
    strides = dense_strides(shape, kind.itemsize, memory_order(x.shape, [x.strides]))
    padded = new_array(current_device(), shape, kind, strides, int(np.prod(shape)))
    padded[:, :before] = 0
    padded[:, before + channels :] = 0
    inner = padded[:, before : before + channels]
    term(*arguments, out=inner)
    windows = view_of(
        padded,
        (n, channels, size, *rest),
        (strides[0], strides[1], *strides[1:]),
        padded.offset,
    )
    sums = allocate_like(x, kind)
    _sum(windows, axis=2, out=sums)
    return sums


def _check(
    what: str, x: Any, size: Any, alpha: Any, beta: Any, k: Any
) -> tuple[float, float, float]:
    """Checks shape and numbers, and returns the latter."""
    if len(x.shape) < 3:
        raise ShapeError(f"{what}: x has shape {x.shape}, expected (N, C, L) or (N, C, H, W)")
    if not is_integer(size) or size < 1:
        raise ShapeError(f"{what}: size={quoted(size)}; expected a positive integer")
    return real(what, "alpha", alpha), real(what, "beta", beta), real(what, "k", k)
