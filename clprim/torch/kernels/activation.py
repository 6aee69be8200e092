"""Activations; their gradients are derived from strings, those of `clprim.ops` or these."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.dtypes import adapted
from clprim.ops.elementwise.row import Row, gradient, gradient_of_result
from clprim.ops.elementwise.table import ROWS
from clprim.primitives.pointwise import Pointwise
from clprim.torch.kernels.elementwise import (
    apply,
    as_given,
    broadcast,
    floating,
    has_gradient,
    typed,
)
from clprim.torch.layout import elementwise, of_two, seldom, turned
from clprim.torch.table import kernel
from clprim.torch.tensors import kind_of

# Here PyTorch has the argument before the gradient, and results lie as `clprim.ops` has them.
_ARGUMENT_FIRST = ("hardsigmoid", "hardswish", "hardtanh", "softplus")


def _derivative(overload: str, name: str, record: str = "") -> None:
    """Registers the gradient of an operator; PyTorch may say more than its numbers."""
    backward = broadcast(getattr(ops, f"{name}_backward"))
    numbers = ROWS[name].numbers.count(",") + 1 if ROWS[name].numbers else 0
    lies = None if overload in _ARGUMENT_FIRST else of_two

    @kernel(f"{overload}_backward", lies=lies, record=record)
    def run(grad: Array, x: Array, *args: Any, **options: Any) -> Any:
        return backward(grad, x, *args[:numbers], **options)


def _activation(name: str) -> None:
    """Registers an operator that is one of `clprim.ops`, and its gradient."""
    forward: Callable[..., Any] = getattr(ops, name)

    @kernel(name, out=True, record=name)
    def run(x: Array, *args: Any, out: Array | None = None, **options: Any) -> Any:
        if out is None or out.dtype == x.dtype:
            return forward(x, *args, out=out, **options)
        found = forward(x, *args, **options)
        return apply("{a}", found, kind=kind_of(found.dtype), out=out)

    _derivative(name, name, name)


def _of_result(row: Row) -> None:
    # Of complex numbers the gradient takes the slope's conjugate.
    assert row.of_result is not None
    slope = row.of_result.removeprefix("gx0 = ").removesuffix(";")
    slope = re.sub(r"\by0\b", "{b}", re.sub(r"\bgy0\b", "conj({a})", slope))

    @kernel(f"{row.torch}_backward", out=True, record=row.name)
    @broadcast
    def run(grad: Array, y: Array, *, out: Array | None = None) -> Any:
        if y.dtype.kind == "c":
            return apply(f"conj({slope})", grad, y, kind=kind_of(y.dtype), out=out)
        return gradient_of_result(row)(y, grad=grad, saved=y, out=out)


for _row in ROWS.values():
    if has_gradient(_row):
        _activation(_row.torch)
    elif _row.torch and _row.of_result is not None:
        _of_result(_row)
# The operators themselves take other arguments here.
for _overload, _name in {"log_sigmoid": "logsigmoid", "hardtanh": "hardtanh"}.items():
    _derivative(_overload, _name)


_ELU = "typeof_y0 x = x0; y0 = x <= 0 ? w0 * w1 * expm1(x * w2) : w1 * x;"
_elu_gradient = Pointwise(_ELU, name="elu").gradient("x0")
# Of the result alone: what is derived takes the input, of which an inverse would be computed.
_elu_of_result = Pointwise(
    _ELU, gradient="gx0 = y0 <= 0 ? gy0 * w2 * (y0 + w0 * w1) : gy0 * w1;", name="elu"
).gradient("x0", saves="y0")


@kernel("elu", out=True)
def _elu(
    x: Array, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1, *, out: Array | None = None
) -> Any:
    expr = "{a} <= 0 ? {b} * {c} * expm1({a} * {d}) : {c} * {a}"
    return apply(typed(expr), x, alpha, scale, input_scale, kind=kind_of(x.dtype), out=out)


@kernel("elu_backward")
@broadcast
def _elu_backward(
    grad: Array, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: Array
) -> Any:
    if not is_result:
        return _elu_gradient(x, alpha, scale, input_scale, grad=grad)
    return _elu_of_result(x, alpha, scale, input_scale, grad=grad, saved=x)


@kernel("threshold", out=True)
def _threshold(x: Array, threshold: Any, value: Any, *, out: Array | None = None) -> Any:
    expr = as_given(ROWS["threshold"].text())
    return apply(expr, x, threshold, value, kind=kind_of(x.dtype), out=out)


@kernel("threshold_backward", out=True, lies=turned)
@broadcast
def _threshold_backward(grad: Array, x: Array, threshold: Any, *, out: Array | None = None) -> Any:
    return gradient(ROWS["threshold"])(x, threshold, 0, grad=grad, out=out)


@kernel("log_sigmoid", out=True)
def _log_sigmoid(x: Array, *, out: Array | None = None) -> Any:
    found = ops.logsigmoid(x, out=out if out is None or out.dtype == x.dtype else None)
    if out is None or found is out:
        return found
    return apply("{a}", found, kind=kind_of(found.dtype), out=out)


@kernel("log_sigmoid_forward")
def _log_sigmoid_forward(x: Array) -> Any:
    return ops.logsigmoid(x), empty((0,), x.dtype)


@kernel("logit", out=True)
def _logit(x: Array, eps: float | None = None, *, out: Array | None = None) -> Any:
    kind = floating(kind_of(x.dtype))
    if eps is None:
        return apply(ROWS["logit"].text(), x, kind=kind, out=out)
    return apply(ROWS["logit.within"].text(), x, eps, kind=kind, out=out)


# As PyTorch's: a negative limit, which `clprim.ops` refuses, keeps everything.
_HARDSHRINK = as_given(ROWS["hardshrink"].text())
_PRELU = as_given(ROWS["prelu"].text())


@kernel("hardshrink", lies=seldom)
def _hardshrink(x: Array, lambd: Any = 0.5) -> Any:
    kind = kind_of(x.dtype)
    if not kind.is_floating_point:
        raise RuntimeError(f"hardshrink: not for tensors of {kind}")
    return apply(_HARDSHRINK, x, adapted(lambd, x.dtype), kind=kind)


@kernel("hardshrink_backward", lies=elementwise)
@broadcast
def _hardshrink_backward(grad: Array, x: Array, lambd: Any) -> Any:
    return gradient(ROWS["hardshrink"])(x, adapted(lambd, x.dtype), grad=grad)


@kernel("_prelu_kernel", lies=seldom)
def _prelu(x: Array, weight: Array) -> Any:
    return apply(_PRELU, x, weight, kind=kind_of(x.dtype))


@kernel("_prelu_kernel_backward")
@broadcast
def _prelu_backward(grad: Array, x: Array, weight: Array) -> Any:
    return gradient(ROWS["prelu"], ("x0", "x1"))(x, weight, grad=grad)
