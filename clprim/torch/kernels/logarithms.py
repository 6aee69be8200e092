"""Gradients of logarithms of sums, where PyTorch's formulas read a result that is rounded.

exp(x − result) takes every element for the whole sum where elements are far from 0, as all of a row
behind a mask of finite numbers are: there rounding has absorbed the logarithm of how many they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from clprim import ops
from clprim.torch import dispatcher
from clprim.torch.kernels.reduction import axes_of
from clprim.torch.numbers import run_on
from clprim.torch.tensors import adopt, array_of


def _sum_gradient(grad: torch.Tensor, x: torch.Tensor, dim: Any, keepdim: bool = False) -> Any:
    given = array_of(grad), array_of(x)
    options = {"axis": axes_of(given[1], dim), "keepdims": keepdim and x.ndim > 0}
    return adopt(run_on((grad, x), ops.logsumexp_backward, *given, **options))


def _running_gradient(grad: torch.Tensor, x: torch.Tensor, dim: int) -> Any:
    # In C order, as the result, whatever the order of either.
    given = array_of(grad.contiguous()), array_of(x)
    return adopt(run_on((grad, x), ops.logcumsumexp_backward, *given, given[1], dim))


def _weights(x: torch.Tensor, dims: list[int]) -> torch.Tensor:
    """A softmax along several dimensions; of -∞ alone it is 0."""
    last = list(range(-len(dims), 0))
    moved = x.clamp(max=torch.finfo(x.dtype).max).movedim(dims, last)
    found = torch.ops.aten._safe_softmax(moved.flatten(-len(dims)), -1)
    return found.reshape(moved.shape).movedim(last, dims)


def _dims(x: torch.Tensor, dim: Any) -> list[int]:
    return sorted(d % x.ndim for d in dim) or list(range(x.ndim))


def _sum_of_operators(grad: torch.Tensor, x: torch.Tensor, dim: Any, keepdim: bool = False) -> Any:
    """Likewise, of operators that PyTorch differentiates."""
    dims = _dims(x, dim)
    for d in () if keepdim else dims:
        grad = grad.unsqueeze(d)
    return grad * _weights(x, dims)


def _by_sign(t: torch.Tensor, part: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """What is linear in t, of the logarithms of its positive numbers and of its negative ones."""
    size = t.abs().log()
    least = torch.finfo(t.dtype).min
    positive, negative = (part(size.masked_fill(~s, least)) for s in (t > 0, t < 0))
    return positive - negative


def _running_of_operators(grad: torch.Tensor, x: torch.Tensor, dim: int) -> Any:
    """Likewise: PyTorch's formula."""
    result = torch.logcumsumexp(x, dim)

    def part(logarithm: torch.Tensor) -> torch.Tensor:
        return ((logarithm - result).flip(dim).logcumsumexp(dim).flip(dim) + x).exp()

    return _by_sign(grad, part).contiguous()


def _sum_tangent(t: torch.Tensor, x: torch.Tensor, dim: Any, keepdim: bool = False) -> Any:
    """How the result changes with the input, of operators likewise; so does the next."""
    if not x.ndim:
        return t * 1
    return (t * _weights(x, _dims(x, dim))).sum(dim or None, keepdim)


def _running_tangent(t: torch.Tensor, x: torch.Tensor, dim: int) -> Any:
    result = torch.logcumsumexp(x, dim)
    return _by_sign(t, lambda logarithm: (torch.logcumsumexp(logarithm + x, dim) - result).exp())


def _differentiated(
    overload: Any,
    gradient: Callable[..., Any],
    of_operators: Callable[..., Any],
    tangent: Callable[..., Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes an operator whose gradient is another, or of several where that is differentiated."""

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, *ctx.rest = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        rest = (None for _ in ctx.rest)
        if not torch.is_grad_enabled():
            return gradient(grad, x, *ctx.rest), *rest
        if x.ndim:
            return of_operators(grad, x, *ctx.rest), *rest
        return _sum_of_operators(grad, x.reshape(1), (0,)).reshape(()), *rest

    def jvp(ctx: Any, t: torch.Tensor, *_: Any) -> Any:
        return tangent(t, *ctx.saved_tensors, *ctx.rest)

    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        logarithm = dispatcher.single_level(plain, setup, backward, jvp)

        def run(x: torch.Tensor, *rest: Any) -> Any:
            if x.is_complex():
                return dispatcher.by_own_formula(overload, x, *rest)
            wanted = torch.is_grad_enabled() and x.requires_grad
            if not wanted and torch.autograd.forward_ad._current_level < 0:
                return plain(x, *rest)
            return logarithm(x, *rest)

        return run

    return make


def register() -> None:
    """Registers the operators, and the gradients as the device's own."""

    def like_input(grad: torch.Tensor, x: torch.Tensor, *_: Any) -> torch.Tensor:
        return torch.empty_like(x)

    def in_c_order(grad: torch.Tensor, x: torch.Tensor, *_: Any) -> torch.Tensor:
        return x.new_empty(x.shape)

    sums = _sum_gradient, _sum_of_operators, _sum_tangent
    running = _running_gradient, _running_of_operators, _running_tangent
    for name, rest, meta, (gradient, *others) in (
        ("logsumexp", "int[] dim, bool keepdim=False", like_input, sums),
        ("logcumsumexp", "int dim", in_c_order, running),
    ):
        schema = f"{name}_backward(Tensor grad, Tensor x, {rest}) -> Tensor"
        own = dispatcher.define(schema, gradient, meta)
        overload = getattr(torch.ops.aten, name).default
        dispatcher.register_autograd(name, _differentiated(overload, own, *others))
