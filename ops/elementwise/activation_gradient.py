"""Gradients of activations, derived from their strings; arguments after PyTorch's own.

``NAME_backward(grad, x, …)`` takes the gradient of the result, the input, and what `NAME` takes
beside it. PyTorch's convention holds at kinks.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from clprim.arrays.array import Array
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.ops.elementwise import activation
from clprim.ops.shared.arguments import ByKind, dtype_of, formula, number, real
from clprim.pointwise import Pointwise

__all__ = [
    "celu_backward",
    "elu_backward",
    "gelu_backward",
    "hardsigmoid_backward",
    "hardswish_backward",
    "hardtanh_backward",
    "leaky_relu_backward",
    "logsigmoid_backward",
    "mish_backward",
    "prelu_backward",
    "relu6_backward",
    "relu_backward",
    "selu_backward",
    "sigmoid_backward",
    "silu_backward",
    "softplus_backward",
    "threshold_backward",
]

# PyTorch keeps the result alone; the derived one takes the exponential of the input.
_sigmoid_of_result = Pointwise(
    formula(activation._sigmoid), gradient="gx0 = gy0 * ((1 - y0) * y0);", name="sigmoid"
).gradient(saves="y0")


@cache
def _gradient(name: str, wrt: tuple[str, ...] = ("x0",)) -> Any:
    """The gradient of an activation, derived when it is asked for first."""
    operator = getattr(activation, f"_{name}")
    found: Any = operator.floats if isinstance(operator, ByKind) else operator
    return found.gradient(wrt)


def _derived(name: str, grad: Any, x: Any, *numbers: Any) -> Any:
    what = f"{name}_backward"
    dtype_of(what, "grad", grad)
    dtype_of(what, "x", x)
    if grad.shape != x.shape:
        raise ShapeError(f"{what}: grad has shape {grad.shape}, expected that of x, {x.shape}")
    return _gradient(name)(x, *numbers, grad=grad)


def relu_backward(grad: Any, x: Any) -> Array:
    """Returns the gradient of `relu`: 0 where x is not positive.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.array([-1, 0, 0.5], np.float32))
        >>> ops.relu_backward(cp.full(3, 2.0), x).get()
        array([0., 0., 2.], dtype=float32)
    """
    return _derived("relu", grad, x)


def relu6_backward(grad: Any, x: Any) -> Array:
    """Returns the gradient of `relu6`."""
    return _derived("relu6", grad, x)


def threshold_backward(grad: Any, x: Any, threshold: float) -> Array:
    """Returns the gradient of `threshold`, which does not depend on its ``value``."""
    low = number("threshold_backward", "threshold", threshold)
    return _derived("threshold", grad, x, low, 0)


def leaky_relu_backward(grad: Any, x: Any, negative_slope: float = 0.01) -> Array:
    """Returns the gradient of `leaky_relu`."""
    slope = real("leaky_relu_backward", "negative_slope", negative_slope)
    return _derived("leaky_relu", grad, x, slope)


def prelu_backward(grad: Any, x: Any, weight: Any) -> tuple[Array, Array]:
    """Returns the gradients of `prelu` in x and in the weight.

    Raises:
        ShapeError: Neither one slope nor one a channel.
    """
    dtype_of("prelu_backward", "x", x)
    slopes = activation._slopes("prelu_backward", x, weight)
    gx, gw = _gradient("prelu", ("x0", "x1"))(x, slopes, grad=grad)
    return gx, gw.reshape(weight.shape)


def hardtanh_backward(grad: Any, x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Array:
    """Returns the gradient of `hardtanh`: 0 at both ends."""
    bounds = activation._bounds("hardtanh_backward", min_val, max_val)
    return _derived("hardtanh", grad, x, *bounds)


def hardsigmoid_backward(grad: Any, x: Any) -> Array:
    """Returns the gradient of `hardsigmoid`."""
    return _derived("hardsigmoid", grad, x)


def hardswish_backward(grad: Any, x: Any) -> Array:
    """Returns the gradient of `hardswish`."""
    return _derived("hardswish", grad, x)


def sigmoid_backward(grad: Any, output: Any) -> Array:
    """Returns the gradient of `sigmoid`; as in PyTorch from its *result*."""
    dtype_of("sigmoid_backward", "grad", grad)
    dtype_of("sigmoid_backward", "output", output)
    found: Array = _sigmoid_of_result(output, grad=grad, saved=output)
    return found


def silu_backward(grad: Any, x: Any) -> Array:
    """Returns the gradient of `silu`."""
    return _derived("silu", grad, x)


def logsigmoid_backward(grad: Any, x: Any) -> Array:
    """Returns the gradient of `logsigmoid`."""
    return _derived("logsigmoid", grad, x)


def softplus_backward(grad: Any, x: Any, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """Returns the gradient of `softplus`."""
    what = "softplus_backward"
    beta, threshold = real(what, "beta", beta), real(what, "threshold", threshold)
    return _derived("softplus", grad, x, beta, threshold)


def elu_backward(grad: Any, x: Any, alpha: float = 1.0) -> Array:
    """Returns the gradient of `elu`."""
    return _derived("elu", grad, x, real("elu_backward", "alpha", alpha))


def celu_backward(grad: Any, x: Any, alpha: float = 1.0) -> Array:
    """Returns the gradient of `celu`."""
    return _derived("celu", grad, x, real("celu_backward", "alpha", alpha))


def selu_backward(grad: Any, x: Any) -> Array:
    """Returns the gradient of `selu`."""
    return _derived("selu", grad, x)


def mish_backward(grad: Any, x: Any) -> Array:
    """Returns the gradient of `mish`."""
    return _derived("mish", grad, x)


def gelu_backward(grad: Any, x: Any, approximate: str = "none") -> Array:
    """Returns the gradient of `gelu`.

    Raises:
        DefinitionError: Another word for ``approximate`` than ``"none"`` and ``"tanh"``.
    """
    if approximate not in ("none", "tanh"):
        raise DefinitionError(
            f"gelu_backward: approximate={quoted(approximate)}; expected 'none' or 'tanh'"
        )
    return _derived("gelu" if approximate == "none" else "gelu_tanh", grad, x)
