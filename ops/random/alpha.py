"""Random slopes and dropout that keeps mean and variance; gradients draw the numbers again."""

from __future__ import annotations

import math
from typing import Any

from clprim.arrays.array import Array
from clprim.errors import ShapeError
from clprim.ops.elementwise.operators import leaky_relu, leaky_relu_backward
from clprim.ops.random.dropout import channel_factors, probability
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating, check_shape, real
from clprim.ops.shared.flags import drawing
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.randomness import State, at, get_state

# What selu tends to: Klambauer et al., Self-Normalizing Neural Networks, 2017.
_ALPHA = 1.7580993408473766
_alpha = Pointwise("y0 = (rand() < w0 ? -w3 : x0) * w1 + w2;", name="alpha_dropout")
_alpha_slope = Pointwise("y0 = rand() < w0 ? 0 : x0 * w1;", name="alpha_dropout_backward")
_features = Pointwise("y0 = (x1 == 0 ? -w2 : x0) * w0 + w1;", name="feature_alpha_dropout")
_features_slope = Pointwise("y0 = x1 == 0 ? 0 : x0 * w0;", name="feature_alpha_dropout_backward")
_rrelu = Pointwise("typeof_y0 r = w0 + rand() * w1; y0 = x0 <= 0 ? r * x0 : x0;", name="rrelu")
_rrelu_slope = Pointwise(
    "typeof_y0 r = w0 + rand() * w1; y0 = x1 <= 0 ? r * x0 : x0;", name="rrelu_backward"
)


@operator()
@drawing
def alpha_dropout(
    x: Any, p: float = 0.5, training: bool = False, *, return_state: bool = False
) -> Array | tuple[Array, State | None]:
    """Returns ``x`` with elements at random set to what `selu` tends to, as PyTorch does.

    What is returned has the mean and the variance of ``x``, where these are 0 and 1.

    Args:
        x: An array of floating numbers.
        p: Probability that an element is dropped.
        training: Whether anything happens at all; if not, ``x`` itself comes back.
        return_state: Whether to return what `alpha_dropout_backward` needs as well.

    Returns:
        An array, or (array, state).

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> y = ops.alpha_dropout(cp.full((50,), 1.0), 0.5, training=True)
        >>> len(set(y.get().round(3).tolist()))
        2
    """
    p = probability("alpha_dropout", "x", x, p)
    if not training or p == 0:
        return (x, None) if return_state else x
    state = get_state()
    scale = _scale(p)
    y: Array = _alpha(x, p, scale, _ALPHA * p * scale, _ALPHA)
    return (y, state) if return_state else y


def alpha_dropout_backward(grad: Any, state: State | None, p: float = 0.5) -> Array:
    """Returns the gradient of `alpha_dropout` in its input.

    Args:
        state: What `alpha_dropout` returned beside it; None where it did nothing.
    """
    p = probability("alpha_dropout_backward", "grad", grad, p)
    found: Array = grad
    if state is not None and p:
        with at(state):
            found = _alpha_slope(grad, p, _scale(p))
    return found


@operator()
@drawing
def feature_alpha_dropout(
    x: Any, p: float = 0.5, training: bool = False, *, return_state: bool = False
) -> Array | tuple[Array, State | None]:
    """Returns ``x`` with whole channels set to what `selu` tends to; see `alpha_dropout`.

    Args:
        x: (N, C, …) of floating numbers.
        p: Probability that a channel is dropped.
        training: Whether anything happens at all; if not, ``x`` itself comes back.
        return_state: Whether to return what `feature_alpha_dropout_backward` needs as well.
    """
    what = "feature_alpha_dropout"
    p = probability(what, "x", x, p)
    first = _first(what, "x", x)
    if not training or p == 0:
        return (x, None) if return_state else x
    state = get_state()
    scale = _scale(p)
    y: Array = _features(x, channel_factors(first, p, 1.0), scale, _ALPHA * p * scale, _ALPHA)
    return (y, state) if return_state else y


def feature_alpha_dropout_backward(grad: Any, state: State | None, p: float = 0.5) -> Array:
    """Returns the gradient of `feature_alpha_dropout`; see `alpha_dropout_backward`."""
    what = "feature_alpha_dropout_backward"
    p = probability(what, "grad", grad, p)
    first = _first(what, "grad", grad)
    found: Array = grad
    if state is not None and p:
        with at(state):
            found = _features_slope(grad, channel_factors(first, p, 1.0), _scale(p))
    return found


def _first(what: str, label: str, x: Any) -> Any:
    """The first element of every channel."""
    if x.ndim < 2:
        raise ShapeError(f"{what}: {label} has shape {x.shape}, expected (N, C, …)")
    pixel: tuple[slice, ...] = (slice(1),) * (x.ndim - 2)
    first = (Ellipsis, *pixel)
    return x[first]


def _scale(p: float) -> float:
    """What makes the variance 1 again; at p = 1 everything is 0, as in PyTorch."""
    return 1 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p)) if p < 1 else 0.0


@operator()
@drawing
def rrelu(
    x: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    *,
    return_state: bool = False,
) -> Array | tuple[Array, State | None]:
    """Returns ``x`` where it is above 0, else times a random slope, as PyTorch does.

    Args:
        x: An array of floating numbers.
        lower: The least slope.
        upper: The greatest one.
        training: Whether slopes are random; if not, they are the mean of the two.
        return_state: Whether to return what `rrelu_backward` needs as well.

    Returns:
        An array, or (array, state).

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.rrelu(cp.asarray(np.float32([-1, 0, 2])), 0.25, 0.75).get()
        array([-0.5,  0. ,  2. ], dtype=float32)
    """
    low, high = _slopes("rrelu", x, lower, upper)
    if not training:
        y: Array = leaky_relu(x, (low + high) / 2)
        return (y, None) if return_state else y
    state = get_state()
    y = _rrelu(x, low, high - low)
    return (y, state) if return_state else y


def rrelu_backward(
    grad: Any, x: Any, state: State | None, lower: float = 1 / 8, upper: float = 1 / 3
) -> Array:
    """Returns the gradient of `rrelu` in its input.

    Args:
        state: What `rrelu` returned beside it; None where slopes were not random.
    """
    what = "rrelu_backward"
    low, high = _slopes(what, x, lower, upper)
    check_floating(what, "grad", grad)
    check_shape(what, "grad", grad, x.shape)
    if state is None:
        found: Array = leaky_relu_backward(grad, x, (low + high) / 2)
    else:
        with at(state):
            found = _rrelu_slope(grad, x, low, high - low)
    return found


def _slopes(what: str, x: Any, lower: Any, upper: Any) -> tuple[float, float]:
    check_floating(what, "x", x)
    low, high = real(what, "lower", lower), real(what, "upper", upper)
    if not low <= high:
        raise ShapeError(f"{what}: lower={lower} is more than upper={upper}")
    return low, high
