"""Classes drawn by the Gumbel distribution, in a way that has a gradient."""

from __future__ import annotations

from typing import Any, Literal, overload

from clprim.arrays.array import Array
from clprim.errors import DTypeError, ShapeError
from clprim.ops.reduction.extrema import argmax
from clprim.ops.reduction.softmax import softmax, softmax_backward
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of, real
from clprim.ops.shared.dims import one_axis
from clprim.ops.shared.strings import kernel

# -log(-log(u)) of a u in (0, 1), whose first logarithm is no 0.
_NOISE = "y0 = (x0 - log(fmax(-log1p(-rand()), FLT_MIN))) * w0;"


@overload
def gumbel_softmax(
    logits: Any,
    tau: float = ...,
    hard: bool = ...,
    dim: int | None = ...,
    *,
    axis: int | None = ...,
    return_soft: Literal[False] = ...,
) -> Array: ...
@overload
def gumbel_softmax(
    *args: Any, return_soft: Literal[True], **options: Any
) -> tuple[Array, Array]: ...
@operator(wrt="logits", saves="return_soft: soft")  # type: ignore[misc]
def gumbel_softmax(
    logits: Any,
    tau: float = 1.0,
    hard: bool = False,
    dim: int | None = None,
    *,
    axis: int | None = None,
    return_soft: bool = False,
) -> Array | tuple[Array, Array]:
    """Returns the softmax of logits with noise: of one class, drawn by its probability, most.

    As `torch.nn.functional.gumbel_softmax` (Jang, Gu and Poole, 2017), with numbers from
    `clprim.random`.

    Args:
        logits: Logarithms of probabilities, but for a constant; of floating-point numbers.
        tau: The temperature: the lower, the nearer to one class.
        hard: Whether the result is 1 for the class drawn and 0 for the others.
        dim: The axis of the classes; the last one by default.
        return_soft: Whether the softmax itself is returned as well, for the gradient.

    Returns:
        An array, or (result, softmax).

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> cp.random.seed(1)
        >>> drawn = ops.gumbel_softmax(cp.zeros((1000, 2)), hard=True).get()
        >>> bool((drawn.sum(1) == 1).all()), bool(abs(drawn.mean(0)[0] - 0.5) < 0.1)
        (True, True)
    """
    what = "gumbel_softmax"
    if dtype_of(what, "logits", logits).kind in "biu":
        raise DTypeError(f"{what}: logits are {logits.dtype}; expected floating-point numbers")
    at = one_axis(what, logits, dim, axis, default=-1)
    soft = softmax(kernel(_NOISE, what, logits.dtype)(logits, 1 / _temperature(what, tau)), at)
    result = soft
    if hard:
        chosen = argmax(soft, at, keepdims=True)
        result = kernel(f"y0 = coord({at}) == x0;", what, logits.dtype)(chosen, shape=soft.shape)
    return (result, soft) if return_soft else result


def gumbel_softmax_backward(
    grad: Any, soft: Any, tau: float = 1.0, dim: int | None = None, *, axis: int | None = None
) -> Array:
    """Returns the gradient of `gumbel_softmax` in its logits; also of a hard one, straight through.

    Args:
        soft: The softmax, as ``return_soft`` gives it.
    """
    what = "gumbel_softmax_backward"
    scale = 1 / _temperature(what, tau)
    back = softmax_backward(grad, soft, dim, axis=axis)
    return kernel("y0 = x0 * w0;", what, back.dtype)(back, scale, out=back)


def _temperature(what: str, tau: Any) -> float:
    found = real(what, "tau", tau)
    if not found > 0:
        raise ShapeError(f"{what}: tau={found}; expected more than 0")
    return found
