"""Activations that shrink or gate."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.arrays.array import Array
from clprim.torch.kernels.elementwise import apply
from clprim.torch.memory import kind_of
from clprim.torch.table import kernel

# As PyTorch's: a negative limit, which `clprim.ops` refuses, keeps everything.
_INSIDE = "v >= -({b}) && v <= {b}"


@kernel("hardshrink")
def _hardshrink(x: Array, lambd: Any = 0.5) -> Any:
    expr = f"typeof_y0 v = {{a}}; y0 = {_INSIDE} ? 0 : v;"
    return apply(expr, x, lambd, kind=kind_of(x.dtype))


@kernel("hardshrink_backward")
def _hardshrink_backward(grad: Array, x: Array, lambd: Any) -> Any:
    expr = f"typeof_y0 v = {{a}}; y0 = {_INSIDE} ? 0 : (typeof_y0){{c}};"
    return apply(expr, x, lambd, grad, kind=kind_of(grad.dtype))


@kernel("softshrink")
def _softshrink(x: Array, lambd: Any = 0.5) -> Any:
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return ops.softshrink(x, lambd)


@kernel("softshrink_backward")
def _softshrink_backward(grad: Array, x: Array, lambd: Any) -> Any:
    return ops.softshrink_backward(grad, x, lambd)


@kernel("_prelu_kernel")
def _prelu(x: Array, weight: Array) -> Any:
    expr = "typeof_y0 v = {a}; y0 = v > 0 ? v : v * {b};"
    return apply(expr, x, weight, kind=kind_of(x.dtype))


@kernel("_prelu_kernel_backward")
def _prelu_backward(grad: Array, x: Array, weight: Array) -> Any:
    kind = kind_of(x.dtype)
    slope = apply("typeof_y0 g = {a}; y0 = {b} > 0 ? g : g * {c};", grad, x, weight, kind=kind)
    return slope, apply("typeof_y0 g = {a}; y0 = {b} > 0 ? 0 : g * {b};", grad, x, kind=kind)


@kernel("glu")
def _glu(x: Array, dim: int = -1) -> Any:
    return ops.glu(x, dim)


@kernel("glu_backward")
def _glu_backward(grad: Array, x: Array, dim: int) -> Any:
    return ops.glu_backward(grad, x, dim)


@kernel("logit_backward")
def _logit_backward(grad: Array, x: Array, eps: float | None = None) -> Any:
    kind = kind_of(grad.dtype)
    slope = "typeof_y0 g = {a}; typeof_y0 v = {b}; "
    if eps is None:
        slope += "y0 = v < 0 || v > 1 ? (typeof_y0)NAN : g / (v * (1 - v));"
        return apply(slope, grad, x, kind=kind)
    slope += "y0 = v < {c} || v > 1 - {c} ? 0 : g / (v * (1 - v));"
    return apply(slope, grad, x, eps, kind=kind)
