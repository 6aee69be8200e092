"""RMSprop."""

from __future__ import annotations

from functools import lru_cache

from clprim.errors import ShapeError
from clprim.ops.optim.lists import Lists, fraction, gradient_sign, lists, not_negative, run_all
from clprim.primitives.pointwise import Pointwise

__all__ = ["rmsprop"]


@lru_cache(maxsize=16)
def _kernel(centered: bool, momentum: bool, maximize: bool) -> Pointwise:
    """``w0 … w5``: rate, decay, α, 1 − α, ε, momentum."""
    lines = [
        f"typeof_y0 g = {gradient_sign(maximize=maximize)}x1 + w1 * x0;",
        "y1 = w2 * x2 + w3 * g * g;",
    ]
    state, root = 2, "sqrt(y1)"
    if centered:
        lines.append(f"y{state} = x{state + 1} + (g - x{state + 1}) * w3;")
        root = f"sqrt(y1 - y{state} * y{state})"
        state += 1
    step = f"g / ({root} + w4)"
    if momentum:
        lines.append(f"y{state} = w5 * x{state + 1} + {step};")
        step = f"y{state}"
    return Pointwise("\n".join([*lines, f"y0 = x0 - w0 * ({step});"]), name="rmsprop")


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
    kernel = _kernel(bool(centered), momentum > 0, bool(maximize))
    rows = lists("rmsprop", params, grads=grads, **state)
    run_all(kernel, rows, numbers, 0, *range(2, 2 + len(state)))
