"""Gradients of group norms in any memory format: PyTorch's formula copies to C order first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from clprim.torch import dispatcher
from clprim.torch.layout import of_two

_backward = torch.ops.aten.native_group_norm_backward


def _fake_backward(original: Callable[..., Any], *args: Any) -> Any:
    """What the kernel returns, without values."""
    dx, *rest = original(*args)
    return None if dx is None else of_two(args, dx), *rest


def _standardized(x: torch.Tensor, group: int, eps: float) -> tuple[torch.Tensor, ...]:
    """Returns x of mean 0 and variance 1 in each group, then mean and 1 / deviation."""
    rows = x.reshape(x.shape[0], group, -1)
    var, mean = torch.var_mean(rows, -1, unbiased=False, keepdim=True)
    rstd = (var + eps).rsqrt()
    return ((rows - mean) * rstd).reshape(x.shape), mean, rstd


def _of_channels(vector: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return vector.reshape(-1, *[1] * (x.ndim - 2))


def _of_operators(
    x: torch.Tensor, weight: Any, bias: Any, n: int, c: int, size: int, group: int, eps: float
) -> tuple[torch.Tensor, ...]:
    """The operator made of others."""
    y, mean, rstd = _standardized(x, group, eps)
    if weight is not None:
        y = y * _of_channels(weight, x)
    if bias is not None:
        y = y + _of_channels(bias, x)
    return y, mean.squeeze(-1), rstd.squeeze(-1)


def _gradients_of_operators(
    grads: Sequence[torch.Tensor | None],
    x: torch.Tensor,
    weight: torch.Tensor | None,
    group: int,
    eps: float,
) -> tuple[torch.Tensor, ...]:
    """The gradients in x, weight and bias, made of what PyTorch differentiates."""
    grad, of_mean, of_rstd = grads
    grad = x.new_zeros(x.shape) if grad is None else grad
    y, _, rstd = _standardized(x, group, eps)
    weighted = grad if weight is None else grad * _of_channels(weight, x)
    rows, g = (t.reshape(x.shape[0], group, -1) for t in (y, weighted))
    count = rows.shape[-1]
    dx = rstd * (g - g.mean(-1, keepdim=True) - rows * (g * rows).mean(-1, keepdim=True))
    if of_mean is not None:
        dx = dx + of_mean.unsqueeze(-1) / count
    if of_rstd is not None:
        dx = dx - of_rstd.unsqueeze(-1) * rstd * rstd * rows / count
    axes = [d for d in range(x.ndim) if d != 1]
    return dx.reshape(x.shape), (grad * y).sum(axes), grad.sum(axes)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, weight, _, *ctx.sizes = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, weight, *output[1:])


def _gradients(ctx: Any, *grads: Any) -> Any:
    x, weight, mean, rstd = ctx.saved_tensors
    wanted, rest = ctx.needs_input_grad[:3], [None] * len(ctx.sizes)
    *sizes, group, eps = ctx.sizes
    grad, *others = grads
    if all(g is None for g in grads):
        return None, None, None, *rest
    if torch.is_grad_enabled() or any(g is not None for g in others):
        found = _gradients_of_operators(grads, x, weight, group, eps)
    else:
        found = _backward(grad, x, mean, rstd, weight, *sizes, group, wanted)
    return *(f if w else None for f, w in zip(found, wanted, strict=True)), *rest


def _differentiated(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the operator whose gradient is a kernel, or of others where that is differentiated."""
    norm = dispatcher.single_level(plain, _setup, _gradients)

    def run(x: torch.Tensor, weight: Any, bias: Any, *sizes: Any) -> Any:
        if torch.autograd.forward_ad._current_level >= 0:
            return _of_operators(x, weight, bias, *sizes)
        wanted = any(t is not None and t.requires_grad for t in (x, weight, bias))
        made = norm if wanted and torch.is_grad_enabled() else plain
        return made(x, weight, bias, *sizes)

    return run


def register() -> None:
    """Registers the gradient as the device's own."""
    dispatcher.register_fake("native_group_norm_backward", _fake_backward)
    dispatcher.register_autograd("native_group_norm", _differentiated)
