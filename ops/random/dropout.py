"""Dropout, whose mask is never stored: the gradient draws it again."""

from __future__ import annotations

from typing import Any, Literal, overload

from clprim.arrays.array import Array
from clprim.errors import DTypeError, ShapeError
from clprim.ops.shared.arguments import dtype_of, real
from clprim.pointwise import Pointwise
from clprim.runtime.randomness import State, at, get_state

__all__ = ["dropout", "dropout_backward"]

_dropout = Pointwise("y0 = rand() < w0 ? 0 : x0 * w1;", name="dropout")


@overload
def dropout(
    x: Any, p: float = ..., training: bool = ..., *, return_state: Literal[False] = ...
) -> Array: ...
@overload
def dropout(
    x: Any, p: float = ..., training: bool = ..., *, return_state: Literal[True]
) -> tuple[Array, State | None]: ...
def dropout(
    x: Any, p: float = 0.5, training: bool = True, *, return_state: bool = False
) -> Array | tuple[Array, State | None]:
    """Returns ``x`` with elements set to zero at random, and the others scaled up.

    As `torch.nn.functional.dropout`, with numbers from `clprim.random`.

    Args:
        x: An array of floating numbers.
        p: Probability of a zero.
        training: Whether anything happens at all; if not, ``x`` itself comes back.
        return_state: Whether to return what `dropout_backward` needs as well.

    Returns:
        An array, or (array, state).

    Raises:
        ShapeError: A probability that is not in [0, 1].
        DTypeError: No device array of floating numbers.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> cp.random.seed(1)
        >>> y, state = ops.dropout(cp.full((6,), 1, np.float32), 0.5, return_state=True)
        >>> bool((ops.dropout_backward(cp.full((6,), 1, np.float32), state).get() == y.get()).all())
        True
    """
    kept = _check("dropout", "x", x, p)
    if not training or kept == 1:
        return (x, None) if return_state else x
    state = get_state()
    y = _run(x, kept)
    return (y, state) if return_state else y


def dropout_backward(grad: Any, state: State | None, p: float = 0.5) -> Array:
    """Returns the gradient of `dropout` in its input.

    Args:
        grad: Gradient in the result.
        state: What `dropout` returned beside it; None where it did nothing.
        p: As it was then.

    Raises:
        ShapeError: A probability that is not in [0, 1].
        DTypeError: No device array of floating numbers.
    """
    kept = _check("dropout_backward", "grad", grad, p)
    if state is None or kept == 1:
        found: Array = grad
        return found
    with at(state):
        return _run(grad, kept)


def _run(x: Any, kept: float) -> Array:
    found: Array = _dropout(x, 1 - kept, 1 / kept if kept else 0.0)
    return found


def _check(what: str, label: str, x: Any, p: Any) -> float:
    """Returns the probability of an element to stay."""
    dtype = dtype_of(what, label, x)
    if dtype.kind in "biu":
        raise DTypeError(f"{what}: {label} is {dtype}, expected a floating dtype")
    probability = real(what, "p", p)
    if not 0 <= probability <= 1:
        raise ShapeError(f"{what}: p={p} is no probability: expected 0 to 1")
    return 1 - probability
