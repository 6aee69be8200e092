"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from functools import lru_cache

from clprim.errors import ShapeError
from clprim.ops.optim.lists import Lists, gradient_sign, lists, not_negative, run_all
from clprim.ops.shared.arguments import real
from clprim.primitives.pointwise import Pointwise

__all__ = ["sgd"]


@lru_cache(maxsize=16)
def _kernel(momentum: bool, nesterov: bool, maximize: bool) -> Pointwise:
    """``w0`` is the rate, ``w1`` the decay, ``w2`` the momentum, ``w3`` what the gradient keeps."""
    text = f"typeof_y0 g = {gradient_sign(maximize=maximize)}x1 + w1 * x0;\n"
    if not momentum:
        return Pointwise(text + "y0 = x0 - w0 * g;", name="sgd")
    text += "y1 = w2 * x2 + w3 * g;\n"
    step = "g + w2 * y1" if nesterov else "y1"
    return Pointwise(f"{text}y0 = x0 - w0 * ({step});", name="sgd")


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
        kernel = _kernel(False, False, bool(maximize))
        run_all(kernel, lists("sgd", params, grads=grads), (lr, decay), 0)
        return
    if momentum_buffers is None:
        raise ShapeError(f"sgd: momentum={momentum} needs momentum_buffers=, zeros at first")
    if dampening and step is None:
        raise ShapeError("sgd: dampening= needs step=, the number of the step from 1")
    taken = 1.0 if step == 1 else 1 - dampening
    kernel = _kernel(True, bool(nesterov), bool(maximize))
    rows = lists("sgd", params, grads=grads, momentum_buffers=momentum_buffers)
    run_all(kernel, rows, (lr, decay, momentum, taken), 0, 2)
