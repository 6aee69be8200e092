"""Adam and AdamW."""

from __future__ import annotations

import math
from functools import lru_cache

from clprim.errors import ShapeError, quoted
from clprim.ops.optim.lists import Lists, fraction, gradient_sign, lists, not_negative, run_all
from clprim.primitives.pointwise import Pointwise

__all__ = ["adam", "adamw"]


@lru_cache(maxsize=16)
def _kernel(amsgrad: bool, maximize: bool) -> Pointwise:
    """Kingma and Ba (2015), algorithm 1; weights decay in the gradient (w1) or by themselves (w0).

    ``w2 … w7``: 1 − β₁, β₂, 1 − β₂, rate over 1 − β₁ᵗ, 1 / √(1 − β₂ᵗ), ε.
    """
    greatest = "y3 = x4 > y2 ? x4 : y2;" if amsgrad else ""
    return Pointwise(
        f"""
        typeof_y0 g = {gradient_sign(maximize=maximize)}x1 + w1 * x0;
        y1 = x2 + (g - x2) * w2;
        y2 = w3 * x3 + w4 * g * g;
        {greatest}
        y0 = x0 * w0 - w5 * y1 / (sqrt({"y3" if amsgrad else "y2"}) * w6 + w7);
        """,
        name="adam",
    )


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
    if not isinstance(step, int) or step < 1:
        raise ShapeError(f"{what}: step={quoted(step)}: expected the number of the step, from 1")
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise ShapeError(f"{what}: betas={quoted(betas)}: expected two numbers")
    beta1, beta2 = fraction(what, **{"betas[0]": betas[0], "betas[1]": betas[1]})
    state = {"exp_avgs": exp_avgs, "exp_avg_sqs": exp_avg_sqs}
    if greatest is not None:
        state["max_exp_avg_sqs"] = greatest
    rate, root = lr / (1 - beta1**step), 1 / math.sqrt(1 - beta2**step)
    kernel = _kernel(greatest is not None, bool(maximize))
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
