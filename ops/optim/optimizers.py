"""Optimizers: a step each of all parameters, one string that changes them and their state."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from clprim.dtypes import is_integer
from clprim.errors import ShapeError, quoted
from clprim.ops.optim.foreach import Lists, fraction, lists, not_negative, run_all
from clprim.ops.shared.checks import real
from clprim.primitives.pointwise import Pointwise

__all__ = ["adagrad", "adam", "adamw", "lion", "rmsprop", "sgd"]


@lru_cache(maxsize=64)
def _kernel(name: str, maximize: bool, text: str, decay: str = " + w1 * x0") -> Pointwise:
    """The string of a step, in which ``g`` is the gradient, of what is to grow with a minus."""
    sign = "-" if maximize else ""
    return Pointwise(f"typeof_y0 g = {sign}x1{decay};\n{text}", name=name)


def _number(what: str, step: Any) -> int:
    if not is_integer(step) or step < 1:
        raise ShapeError(f"{what}: step={quoted(step)}: expected the number of the step, from 1")
    return int(step)


def _fractions(what: str, betas: Any) -> tuple[float, ...]:
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise ShapeError(f"{what}: betas={quoted(betas)}: expected two numbers")
    return fraction(what, **{"betas[0]": betas[0], "betas[1]": betas[1]})


def sgd(
    params: Lists,
    grads: Lists,
    momentum_buffers: Lists | None = None,
    *,
    lr: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
    step: int | None = None,
) -> None:
    """Makes a step of stochastic gradient descent, as `torch.optim.SGD` does.

    Args:
        params: Arrays, changed in place.
        grads: Their gradients.
        momentum_buffers: With ``momentum``: zeros at first, changed in place.
        lr: Rate.
        momentum: What is kept of the last step.
        dampening: What is not taken of the gradient into it.
        weight_decay: Times the parameter is added to the gradient.
        nesterov: Whether to look ahead.
        maximize: Gradient ascent instead of descent.
        step: Number of the step, from 1; needed with ``dampening``, which the first step ignores.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> p, g = cp.asarray(np.ones(2, np.float32)), cp.asarray(np.array([1, 2], np.float32))
        >>> ops.optim.sgd([p], [g], lr=0.5)
        >>> p.get()
        array([0.5, 0. ], dtype=float32)
    """
    lr, momentum, decay = not_negative("sgd", lr=lr, momentum=momentum, weight_decay=weight_decay)
    dampening = real("sgd", "dampening", dampening)
    if nesterov and (momentum == 0 or dampening != 0):
        raise ShapeError("sgd: nesterov=True needs a momentum and no dampening")
    if momentum == 0:
        kernel = _kernel("sgd", bool(maximize), "y0 = x0 - w0 * g;")
        run_all(kernel, lists("sgd", params, grads=grads), (lr, decay), 0)
        return
    if momentum_buffers is None:
        raise ShapeError(f"sgd: momentum={momentum} needs momentum_buffers=, zeros at first")
    if dampening and step is None:
        raise ShapeError("sgd: dampening= needs step=, the number of the step from 1")
    taken = 1.0 if step == 1 else 1 - dampening
    moved = "g + w2 * y1" if nesterov else "y1"
    text = f"y1 = w2 * x2 + w3 * g;\ny0 = x0 - w0 * ({moved});"
    kernel = _kernel("sgd", bool(maximize), text)
    rows = lists("sgd", params, grads=grads, momentum_buffers=momentum_buffers)
    run_all(kernel, rows, (lr, decay, momentum, taken), 0, 2)


# Kingma and Ba (2015), algorithm 1; weights decay in the gradient (w1) or by themselves (w0).
# w2 … w7: 1 − β₁, β₂, 1 − β₂, rate over 1 − β₁ᵗ, 1 / √(1 − β₂ᵗ), ε.
_ADAM = """
    y1 = x2 + (g - x2) * w2;
    y2 = w3 * x3 + w4 * g * g;
    {}
    y0 = x0 * w0 - w5 * y1 / (sqrt({}) * w6 + w7);
"""


def _step(
    what: str,
    given: tuple[Lists, Lists, Lists, Lists, Lists | None],
    settings: tuple[float, float, float, float],
    betas: tuple[float, float],
    step: int,
    maximize: bool,
) -> None:
    params, grads, exp_avgs, exp_avg_sqs, greatest = given
    kept, decay, lr, eps = settings
    step, (beta1, beta2) = _number(what, step), _fractions(what, betas)
    state = {"exp_avgs": exp_avgs, "exp_avg_sqs": exp_avg_sqs}
    if greatest is not None:
        state["max_exp_avg_sqs"] = greatest
    rate, root = lr / (1 - beta1**step), 1 / math.sqrt(1 - beta2**step)
    amsgrad = ("", "y2") if greatest is None else ("y3 = x4 > y2 ? x4 : y2;", "y3")
    kernel = _kernel("adam", bool(maximize), _ADAM.format(*amsgrad))
    numbers = (kept, decay, 1 - beta1, beta2, 1 - beta2, rate, root, eps)
    run_all(
        kernel, lists(what, params, grads=grads, **state), numbers, 0, *range(2, 2 + len(state))
    )


def adam(
    params: Lists,
    grads: Lists,
    exp_avgs: Lists,
    exp_avg_sqs: Lists,
    max_exp_avg_sqs: Lists | None = None,
    *,
    step: int,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> None:
    """Makes a step of Adam, as `torch.optim.Adam` does.

    Args:
        params: Arrays, changed in place.
        grads: Their gradients.
        exp_avgs: Running means of the gradients: zeros at first, changed in place.
        exp_avg_sqs: Likewise of their squares.
        max_exp_avg_sqs: Likewise the greatest of these: given, this is AMSGrad.
        step: Number of the step, from 1.
        lr: Rate.
        betas: What running means keep.
        eps: Added to the root of the mean square.
        weight_decay: Times the parameter is added to the gradient.
        maximize: Gradient ascent instead of descent.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> p, g, m, v = (cp.full((2,), value, np.float32) for value in (1, 3, 0, 0))
        >>> ops.optim.adam([p], [g], [m], [v], step=1, lr=0.25)
        >>> p.get()
        array([0.75, 0.75], dtype=float32)
    """
    lr, eps, decay = not_negative("adam", lr=lr, eps=eps, weight_decay=weight_decay)
    given = (params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs)
    _step("adam", given, (1.0, decay, lr, eps), betas, step, maximize)


def adamw(
    params: Lists,
    grads: Lists,
    exp_avgs: Lists,
    exp_avg_sqs: Lists,
    max_exp_avg_sqs: Lists | None = None,
    *,
    step: int,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    maximize: bool = False,
) -> None:
    """Makes a step of AdamW, as `torch.optim.AdamW` does: weights decay by themselves.

    Args and errors are those of `adam`, but that parameters are multiplied with
    ``1 - lr * weight_decay`` and gradients stay as they are.
    """
    lr, eps, decay = not_negative("adamw", lr=lr, eps=eps, weight_decay=weight_decay)
    given = (params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs)
    _step("adamw", given, (1 - lr * decay, 0.0, lr, eps), betas, step, maximize)


def _rmsprop(centered: bool, momentum: bool, maximize: bool) -> Pointwise:
    """``w0 … w5``: rate, decay, α, 1 − α, ε, momentum."""
    lines, state, root = ["y1 = w2 * x2 + w3 * g * g;"], 2, "sqrt(y1)"
    if centered:
        lines.append(f"y{state} = x{state + 1} + (g - x{state + 1}) * w3;")
        root = f"sqrt(y1 - y{state} * y{state})"
        state += 1
    step = f"g / ({root} + w4)"
    if momentum:
        lines.append(f"y{state} = w5 * x{state + 1} + {step};")
        step = f"y{state}"
    return _kernel("rmsprop", maximize, "\n".join([*lines, f"y0 = x0 - w0 * ({step});"]))


def rmsprop(
    params: Lists,
    grads: Lists,
    square_avgs: Lists,
    grad_avgs: Lists | None = None,
    momentum_buffers: Lists | None = None,
    *,
    lr: float = 1e-2,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    centered: bool = False,
    maximize: bool = False,
) -> None:
    """Makes a step of RMSprop, as `torch.optim.RMSprop` does.

    Args:
        params: Arrays, changed in place.
        grads: Their gradients.
        square_avgs: Running means of their squares: zeros at first, changed in place.
        grad_avgs: Likewise of the gradients, where ``centered``.
        momentum_buffers: Likewise, with ``momentum``.
        lr: Rate.
        alpha: What running means keep.
        eps: Added to the root of the mean square.
        weight_decay: Times the parameter is added to the gradient.
        momentum: What is kept of the last step.
        centered: Whether gradients are divided by their deviation.
        maximize: Gradient ascent instead of descent.
    """
    lr, eps, decay, momentum = not_negative(
        "rmsprop", lr=lr, eps=eps, weight_decay=weight_decay, momentum=momentum
    )
    (alpha,) = fraction("rmsprop", alpha=alpha)
    state = {"square_avgs": square_avgs}
    numbers = [lr, decay, alpha, 1 - alpha, eps]
    if centered:
        if grad_avgs is None:
            raise ShapeError("rmsprop: centered=True needs grad_avgs=, zeros at first")
        state["grad_avgs"] = grad_avgs
    if momentum:
        if momentum_buffers is None:
            raise ShapeError(
                f"rmsprop: momentum={momentum} needs momentum_buffers=, zeros at first"
            )
        state["momentum_buffers"] = momentum_buffers
        numbers.append(momentum)
    kernel = _rmsprop(bool(centered), momentum > 0, bool(maximize))
    rows = lists("rmsprop", params, grads=grads, **state)
    run_all(kernel, rows, numbers, 0, *range(2, 2 + len(state)))


# w0 is the rate of this step, w1 the decay, w2 what is added to the root.
_ADAGRAD = "y1 = x2 + g * g;\ny0 = x0 - w0 * g / (sqrt(y1) + w2);"


def adagrad(
    params: Lists,
    grads: Lists,
    state_sums: Lists,
    *,
    step: int,
    lr: float = 1e-2,
    lr_decay: float = 0.0,
    weight_decay: float = 0.0,
    eps: float = 1e-10,
    maximize: bool = False,
) -> None:
    """Makes a step of Adagrad (Duchi, Hazan and Singer, 2011), as `torch.optim.Adagrad` does.

    Args:
        params: Arrays, changed in place.
        grads: Their gradients.
        state_sums: Sums of their squares: zeros at first, changed in place.
        step: Number of the step, from 1.
        lr: Rate.
        lr_decay: The rate of a step is ``lr / (1 + (step - 1) * lr_decay)``.
        weight_decay: Times the parameter is added to the gradient.
        eps: Added to the root of the sum.
        maximize: Gradient ascent instead of descent.
    """
    lr, lr_decay, decay, eps = not_negative(
        "adagrad", lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps
    )
    step = _number("adagrad", step)
    rows = lists("adagrad", params, grads=grads, state_sums=state_sums)
    numbers = [lr / (1 + (step - 1) * lr_decay), decay, eps]
    run_all(_kernel("adagrad", bool(maximize), _ADAGRAD), rows, numbers, 0, 2)


# Chen et al. (2023), algorithm 2. w0 … w5: 1 − rate · decay, rate, β₁, 1 − β₁, β₂, 1 − β₂.
_LION = """
    typeof_y0 mixed = w2 * x2 + w3 * g;
    y0 = x0 * w0 - (mixed > 0 ? w1 : mixed < 0 ? -w1 : 0 * mixed);
    y1 = w4 * x2 + w5 * g;
"""


def lion(
    params: Lists,
    grads: Lists,
    exp_avgs: Lists,
    *,
    lr: float = 1e-4,
    betas: tuple[float, float] = (0.9, 0.99),
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> None:
    """Makes a step of Lion: the sign of a mix of gradient and momentum.

    Args:
        params: Arrays, changed in place.
        grads: Their gradients.
        exp_avgs: Running means of the gradients: zeros at first, changed in place.
        lr: Rate.
        betas: What is kept of the mean in the mix, and in the mean.
        weight_decay: Parameters are multiplied with ``1 - lr * weight_decay``.
        maximize: Gradient ascent instead of descent.
    """
    lr, decay = not_negative("lion", lr=lr, weight_decay=weight_decay)
    beta1, beta2 = _fractions("lion", betas)
    kernel = _kernel("lion", bool(maximize), _LION, decay="")
    numbers = (1 - lr * decay, lr, beta1, 1 - beta1, beta2, 1 - beta2)
    run_all(kernel, lists("lion", params, grads=grads, exp_avgs=exp_avgs), numbers, 0, 2)
