"""Fused steps of optimizers, and what `torch.amp.GradScaler` asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.ops.optim.flat import not_finite
from clprim.ops.optim.lists import lists, run_all
from clprim.primitives.pointwise import Pointwise
from clprim.torch import private
from clprim.torch.kernels.elementwise import apply
from clprim.torch.memory import array_of
from clprim.torch.table import given

Tensors = Sequence[torch.Tensor]


def _arrays(tensors: Tensors) -> list[Array]:
    return [array_of(t) for t in tensors]


def _unscaled(grads: Tensors, scale: Any, found_inf: Any) -> list[Array] | None:
    """Gradients without a scaler's scale; None where the step is to be left out."""
    if found_inf is not None and found_inf.item():
        return None
    arrays = _arrays(grads)
    if scale is not None:
        _multiply(
            lists("unscale", arrays, "grads"), apply("1 / {a}", given(scale), kind=scale.dtype)
        )
    return arrays


_times = Pointwise("y0 = x0 * x1;", name="unscale")


def _multiply(rows: Sequence[Sequence[Array]], factor: Array) -> None:
    """Multiplies all arrays with one number."""
    run_all(_times, [(g, factor) for (g,) in rows], (), 0, shared=1)


def _sgd(
    params: Tensors,
    grads: Tensors,
    momentum_buffers: Tensors,
    *,
    weight_decay: float,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Any = None,
    found_inf: Any = None,
) -> None:
    buffers = _arrays(momentum_buffers)
    if momentum and is_first_step:
        # Not initialised; a step multiplies them with the momentum, if not this one then the next.
        for buffer in buffers:
            buffer.fill(0)
    arrays = _unscaled(grads, grad_scale, found_inf)
    if arrays is None:
        return
    ops.optim.sgd(
        _arrays(params),
        arrays,
        buffers if momentum else None,
        lr=float(lr),
        momentum=momentum,
        dampening=dampening,
        weight_decay=weight_decay,
        nesterov=nesterov,
        maximize=maximize,
        step=1 if is_first_step else 2,
    )


def _adagrad(
    params: Tensors,
    grads: Tensors,
    state_sums: Tensors,
    state_steps: Tensors,
    *,
    grad_scale: Any = None,
    found_inf: Any = None,
    lr: Any,
    **how: Any,
) -> None:
    arrays = _unscaled(grads, grad_scale, found_inf)
    if arrays is None:
        return  # PyTorch takes the step back that it has counted
    lists = [_arrays(params), arrays, _arrays(state_sums)]
    numbers = _steps(state_steps)
    for number in set(numbers):
        chosen = [n for n, found in enumerate(numbers) if found == number]
        given_lists = ([entry[n] for n in chosen] for entry in lists)
        ops.optim.adagrad(*given_lists, step=number, lr=float(lr), **how)


def _adam(step: Callable[..., None]) -> Callable[..., None]:
    def run(
        params: Tensors,
        grads: Tensors,
        exp_avgs: Tensors,
        exp_avg_sqs: Tensors,
        max_exp_avg_sqs: Tensors,
        state_steps: Tensors,
        *,
        lr: Any,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
        maximize: bool,
        grad_scale: Any = None,
        found_inf: Any = None,
    ) -> None:
        arrays = _unscaled(grads, grad_scale, found_inf)
        if arrays is None:
            return  # PyTorch takes the step back that it has counted
        lists = [_arrays(params), arrays, _arrays(exp_avgs), _arrays(exp_avg_sqs)]
        if amsgrad:
            lists.append(_arrays(max_exp_avg_sqs))
        numbers = _steps(state_steps)
        for number in set(numbers):  # as a rule there is one
            chosen = [n for n, found in enumerate(numbers) if found == number]
            step(
                *([entry[n] for n in chosen] for entry in lists),
                step=number,
                lr=float(lr),
                betas=(beta1, beta2),
                eps=eps,
                weight_decay=weight_decay,
                maximize=maximize,
            )

    return run


def _steps(counts: Tensors) -> list[int]:
    """The numbers of the steps, fetched at once."""
    if not counts:
        return []
    return [int(n) for n in torch.stack(list(counts)).tolist()]


_UPDATE = """
    const typeof_y0 next = x0 * w0;
    y0 = x2 != 0 ? x0 * w1 : x1 + 1 == w2 && isfinite(next) ? next : x0;
    y1 = x2 != 0 || x1 + 1 == w2 ? 0 : x1 + 1;
"""
_update = Pointwise(_UPDATE, name="update_scale", result_type=(np.float32, np.int32))


def _unscale(tensors: Tensors, found_inf: torch.Tensor, inv_scale: torch.Tensor) -> None:
    flag, scale = given(found_inf), given(inv_scale)
    rows = lists("unscale", _arrays(tensors), "grads")
    bad = not_finite(rows)
    apply("{b} > 0 ? 1 : {a}", flag, bad.reshape(flag.shape), kind=found_inf.dtype, out=flag)
    _multiply(rows, scale)


def _update_scale(
    scale: torch.Tensor,
    tracker: torch.Tensor,
    found_inf: torch.Tensor,
    growth: float,
    backoff: float,
    interval: int,
) -> torch.Tensor:
    a, b = array_of(scale), array_of(tracker)
    _update(a, b, array_of(found_inf), float(growth), float(backoff), int(interval), out=(a, b))
    return scale


def register() -> None:
    """Registers them; lists that are written to follow no other overload."""
    for form in ("", ".tensor_lr"):
        private.register_kernel(f"_fused_sgd_{form}", _sgd)
        private.register_kernel(f"_fused_adagrad_{form}", _adagrad)
        private.register_kernel(f"_fused_adam_{form}", _adam(ops.optim.adam))
        private.register_kernel(f"_fused_adamw_{form}", _adam(ops.optim.adamw))
    private.register_kernel("_amp_foreach_non_finite_check_and_unscale_", _unscale)
    private.register_kernel("_amp_update_scale_", _update_scale)
