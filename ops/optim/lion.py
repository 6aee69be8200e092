"""Lion."""

from __future__ import annotations

from functools import lru_cache

from clprim.errors import ShapeError, quoted
from clprim.ops.optim.lists import Lists, fraction, gradient_sign, lists, not_negative, run_all
from clprim.primitives.pointwise import Pointwise

__all__ = ["lion"]


@lru_cache(maxsize=2)
def _kernel(maximize: bool) -> Pointwise:
    """Chen et al. (2023), algorithm 2.

    ``w0 … w5``: 1 − rate · decay, rate, β₁, 1 − β₁, β₂, 1 − β₂.
    """
    return Pointwise(
        f"""
        typeof_y0 g = {gradient_sign(maximize=maximize)}x1;
        typeof_y0 mixed = w2 * x2 + w3 * g;
        y0 = x0 * w0 - (mixed > 0 ? w1 : mixed < 0 ? -w1 : 0 * mixed);
        y1 = w4 * x2 + w5 * g;
        """,
        name="lion",
    )


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
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise ShapeError(f"lion: betas={quoted(betas)}: expected two numbers")
    beta1, beta2 = fraction("lion", **{"betas[0]": betas[0], "betas[1]": betas[1]})
    kernel = _kernel(bool(maximize))
    numbers = (1 - lr * decay, lr, beta1, 1 - beta1, beta2, 1 - beta2)
    run_all(kernel, lists("lion", params, grads=grads, exp_avgs=exp_avgs), numbers, 0, 2)
