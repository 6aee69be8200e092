"""Local response normalisation (Krizhevsky and others 2012), across neighbouring channels."""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array
from clprim.errors import ShapeError
from clprim.graph.repeat import repeatable
from clprim.ops.norm.checks import check_floats, check_gradient, check_result
from clprim.ops.norm.moments import statistics_dtype
from clprim.ops.pool import avg_pool
from clprim.ops.registry import operator
from clprim.ops.shared.checks import real
from clprim.ops.shared.dims import empty_like, whole
from clprim.ops.shared.strings import kernel


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
    size, (alpha, beta, k) = _checked(what, x, size, alpha, beta, k)
    if out is not None:
        check_result(what, out, x.shape, dtype, [x])
    if not x.size:
        return empty_like(x, x.shape, dtype) if out is None else out
    sums = _sums(_squares(x), size, size // 2)
    text = "y0 = x0 * pow(w0 + w1 * x1, w2);"
    return kernel(text, what, dtype)(x, sums, k, alpha / size, -beta, out=out)


@repeatable
def local_response_norm_backward(
    grad: Any, x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Array:
    """Returns the gradient of `local_response_norm` in x.

    With d = k + alpha / size · Σ x²: dx = grad · d^-beta
    - 2 · alpha · beta / size · x · Σ grad · x · d^(-beta - 1), the last sum over all windows that
    hold the channel. ``grad`` is that of the result, all else as in the call.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.
    """
    what = "local_response_norm_backward"
    dtype = check_floats(what, "x", x)
    check_gradient(what, grad, x)
    size, (alpha, beta, k) = _checked(what, x, size, alpha, beta, k)
    if not x.size:
        return empty_like(x, x.shape, dtype)
    sums = _sums(_squares(x), size, size // 2)
    text = "y0 = x0 * x1 * pow(w0 + w1 * x2, w2);"
    terms = kernel(text, what, sums.dtype)(grad, x, sums, k, alpha / size, -beta - 1)
    back = _sums(terms, size, (size - 1) // 2)
    text = "y0 = x0 * pow(w0 + w1 * x2, w2) - w3 * x1 * x3;"
    numbers = k, alpha / size, -beta, 2 * alpha * beta / size
    return kernel(text, what, dtype)(grad, x, sums, back, *numbers)


def _squares(x: Any) -> Array:
    return kernel("y0 = x0 * x0;", "squares", statistics_dtype(x.dtype))(x)


def _sums(terms: Array, size: int, before: int) -> Array:
    """Sums of windows of channels: a pooling, looked up where it has a gradient."""
    rank = min(terms.ndim - 1, 3)
    ones, none = (1,) * (rank - 1), ((0, 0),) * (rank - 1)
    lines = terms if terms.ndim <= 4 else terms.reshape(*terms.shape[:3], -1)
    borders = ((before, size - 1 - before), *none)
    pool = getattr(avg_pool, f"avg_pool{rank}d")
    found: Array = pool(lines, (size, *ones), 1, borders, divisor_override=1)
    return found.reshape(terms.shape)


def _checked(
    what: str, x: Any, size: Any, alpha: Any, beta: Any, k: Any
) -> tuple[int, tuple[float, float, float]]:
    if x.ndim < 3:
        raise ShapeError(f"{what}: x has shape {x.shape}, expected (N, C, L) or (N, C, H, W)")
    numbers = real(what, "alpha", alpha), real(what, "beta", beta), real(what, "k", k)
    return whole(what, "size", size, 1), numbers
