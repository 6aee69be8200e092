"""Fused steps of optimizers, and what `torch.amp.GradScaler` asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.ops.optim.flat import not_finite
from clprim.ops.optim.foreach import lists, run_all
from clprim.primitives.pointwise import Pointwise
from clprim.torch import dispatcher
from clprim.torch.kernels.elementwise import apply
from clprim.torch.table import by_name, given
from clprim.torch.tensors import array_of

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


def _sgd(a: Any) -> None:
    buffers = _arrays(a.momentum_buffer_list)
    if a.momentum and a.is_first_step:
        # Not initialised; a step multiplies them with the momentum, if not this one then the next.
        for buffer in buffers:
            buffer.fill(0)
    arrays = _unscaled(a.grads, a.grad_scale, a.found_inf)
    if arrays is None:
        return
    ops.optim.sgd(
        _arrays(a.self),
        arrays,
        buffers if a.momentum else None,
        lr=float(a.lr),
        momentum=a.momentum,
        dampening=a.dampening,
        weight_decay=a.weight_decay,
        nesterov=a.nesterov,
        maximize=a.maximize,
        step=1 if a.is_first_step else 2,
    )


def _adagrad(a: Any) -> None:
    _stepped(ops.optim.adagrad, a, a.state_sums, lr_decay=a.lr_decay)


def _adam(step: Callable[..., None]) -> Callable[..., None]:
    def run(a: Any) -> None:
        greatest = [a.max_exp_avg_sqs] if a.amsgrad else []
        _stepped(step, a, a.exp_avgs, a.exp_avg_sqs, *greatest, betas=(a.beta1, a.beta2))

    return run


def _stepped(step: Callable[..., None], a: Any, *states: Tensors, **how: Any) -> None:
    """Takes a step with parameters, of all that are at the same one at once."""
    grads = _unscaled(a.grads, a.grad_scale, a.found_inf)
    if grads is None or not a.state_steps:
        return  # PyTorch takes the step back that it has counted
    lists = [_arrays(a.self), grads, *map(_arrays, states)]
    numbers = [int(n) for n in torch.stack(list(a.state_steps)).tolist()]  # fetched at once
    how |= {"weight_decay": a.weight_decay, "eps": a.eps, "maximize": a.maximize}
    for number in set(numbers):  # as a rule there is one
        chosen = [n for n, found in enumerate(numbers) if found == number]
        given_lists = ([entry[n] for n in chosen] for entry in lists)
        step(*given_lists, step=number, lr=float(a.lr), **how)


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
    steps = {
        "sgd": _sgd,
        "adagrad": _adagrad,
        "adam": _adam(ops.optim.adam),
        "adamw": _adam(ops.optim.adamw),
    }
    for kind, step in steps.items():
        for name in (f"_fused_{kind}_", f"_fused_{kind}_.tensor_lr"):
            dispatcher.register_kernel(name, by_name(name, step))
    dispatcher.register_kernel("_amp_foreach_non_finite_check_and_unscale_", _unscale)
    dispatcher.register_kernel("_amp_update_scale_", _update_scale)
