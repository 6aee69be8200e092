"""Adagrad: gradients over the root of the sum of their squares."""

from __future__ import annotations

from functools import lru_cache

from clprim.dtypes import is_integer
from clprim.errors import ShapeError, quoted
from clprim.ops.optim.lists import Lists, gradient_sign, lists, not_negative, run_all
from clprim.primitives.pointwise import Pointwise

__all__ = ["adagrad"]


@lru_cache(maxsize=2)
def _kernel(maximize: bool) -> Pointwise:
    """``w0`` is the rate of this step, ``w1`` the decay, ``w2`` what is added to the root."""
    return Pointwise(
        f"typeof_y0 g = {gradient_sign(maximize=maximize)}x1 + w1 * x0;\n"
        "y1 = x2 + g * g;\n"
        "y0 = x0 - w0 * g / (sqrt(y1) + w2);",
        name="adagrad",
    )


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
    if not is_integer(step) or step < 1:
        raise ShapeError(f"adagrad: step={quoted(step)}: expected the number of the step, from 1")
    rows = lists("adagrad", params, grads=grads, state_sums=state_sums)
    numbers = [lr / (1 + (step - 1) * lr_decay), decay, eps]
    run_all(_kernel(bool(maximize)), rows, numbers, 0, 2)
