"""Activations that shrink or gate; their gradients are derived from strings."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.arrays.array import Array
from clprim.pointwise import Pointwise
from clprim.torch.kernels.elementwise import apply
from clprim.torch.layout import contiguous, elementwise, seldom
from clprim.torch.memory import kind_of
from clprim.torch.table import kernel

# As PyTorch's: a negative limit, which `clprim.ops` refuses, keeps everything.
_INSIDE = "v >= -({b}) && v <= {b}"
_HARDSHRINK = f"typeof_y0 v = {{a}}; y0 = {_INSIDE} ? 0 : v;"
_hardshrink_gradient = Pointwise(_HARDSHRINK.format(a="x0", b="w0"), name="hardshrink").gradient(
    "x0"
)
_prelu_gradient = Pointwise("y0 = x0 > 0 ? x0 : x0 * x1;", name="prelu").gradient()
# The slope of what lies outside is NaN, as PyTorch's; the logarithms of 0 have infinite ones.
_logit_gradient = Pointwise(
    "y0 = x0 < 0 || x0 > 1 ? x0 * NAN : log(x0) - log1p(-x0);", name="logit"
).gradient("x0")
_logit_between_gradient = Pointwise(
    "y0 = x0 < w0 || x0 > 1 - w0 ? 0 : log(x0) - log1p(-x0);", name="logit"
).gradient("x0")


@kernel("hardshrink", lies=seldom)
def _hardshrink(x: Array, lambd: Any = 0.5) -> Any:
    return apply(_HARDSHRINK, x, lambd, kind=kind_of(x.dtype))


@kernel("hardshrink_backward", lies=elementwise)
def _hardshrink_backward(grad: Array, x: Array, lambd: Any) -> Any:
    return _hardshrink_gradient(x, lambd, grad=grad)


@kernel("softshrink", lies=seldom)
def _softshrink(x: Array, lambd: Any = 0.5) -> Any:
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return ops.softshrink(x, lambd)


@kernel("softshrink_backward", lies=elementwise)
def _softshrink_backward(grad: Array, x: Array, lambd: Any) -> Any:
    return ops.softshrink_backward(grad, x, lambd)


@kernel("_prelu_kernel", lies=seldom)
def _prelu(x: Array, weight: Array) -> Any:
    expr = "typeof_y0 v = {a}; y0 = v > 0 ? v : v * {b};"
    return apply(expr, x, weight, kind=kind_of(x.dtype))


@kernel("_prelu_kernel_backward")
def _prelu_backward(grad: Array, x: Array, weight: Array) -> Any:
    return _prelu_gradient(x, weight, grad=grad)


@kernel("glu")
def _glu(x: Array, dim: int = -1) -> Any:
    return ops.glu(x, dim)


@kernel("glu_backward", lies=contiguous)
def _glu_backward(grad: Array, x: Array, dim: int) -> Any:
    return ops.glu_backward(grad, x, dim)


@kernel("logit_backward")
def _logit_backward(grad: Array, x: Array, eps: float | None = None) -> Any:
    if eps is None:
        return _logit_gradient(x, grad=grad)
    return _logit_between_gradient(x, eps, grad=grad)
