"""Losses of the difference of two numbers: names and arguments of `torch.nn.functional`.

``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``: sums run in float32 at least. Targets, and
weights where there are any, broadcast to the input. ``NAME_backward(grad, …)`` returns the gradient
with respect to the input; ``grad`` is that of the loss, of shape () unless ``reduction="none"``.
"""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array
from clprim.errors import DefinitionError
from clprim.ops.loss.reduced import Elementwise
from clprim.ops.registry import operator
from clprim.ops.shared.arguments import real

_D = "typeof_y0 d = x0 - x1; "

_mse = Elementwise("mse_loss", _D + "y0 = d * d;")
_l1 = Elementwise("l1_loss", _D + "y0 = fabs(d);")
# What is beyond is compared, so that NaN takes the parabola, whose slope is NaN, too.
_smooth = Elementwise(
    "smooth_l1_loss",
    _D + "typeof_y0 a = fabs(d); y0 = a >= w0 ? a - w0 / 2 : d * d / (2 * w0);",
)
_huber = Elementwise(
    "huber_loss",
    _D + "typeof_y0 a = fabs(d); y0 = a > w0 ? w0 * (a - w0 / 2) : d * d / 2;",
)


@operator(sample='x, x, reduction="none"')
def mse_loss(input: Any, target: Any, *, reduction: str = "mean", out: Any = None) -> Array:
    """Returns the squared distance (input - target)², its mean by default.

    Args:
        input: Of floating-point numbers.
        target: Broadcasts with it.
        reduction: See above.
        out: Where the loss goes.

    Raises:
        ShapeError, DTypeError, DefinitionError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> a, b = (cp.asarray(np.float32(v)) for v in ([1, 2], [1, 4]))
        >>> ops.mse_loss(a, b).item(), ops.mse_loss(a, b, reduction="none").get()
        (2.0, array([0., 4.], dtype=float32))
    """
    return _mse(reduction, (input, target), out=out)


def mse_loss_backward(grad: Any, input: Any, target: Any, *, reduction: str = "mean") -> Array:
    """Returns the gradient of `mse_loss`, 2 (input - target) · grad, divided by how many."""
    return _mse.backward(reduction, grad, (input, target))


@operator(sample='x, x, reduction="none"')
def l1_loss(input: Any, target: Any, *, reduction: str = "mean", out: Any = None) -> Array:
    """Returns the distance |input - target|; see `mse_loss` for the arguments."""
    return _l1(reduction, (input, target), out=out)


def l1_loss_backward(grad: Any, input: Any, target: Any, *, reduction: str = "mean") -> Array:
    """Returns the gradient of `l1_loss`; 0 where input and target are equal."""
    return _l1.backward(reduction, grad, (input, target))


@operator(sample='x, x, reduction="none"')
def smooth_l1_loss(
    input: Any, target: Any, *, reduction: str = "mean", beta: float = 1.0, out: Any = None
) -> Array:
    """Returns d² / (2 beta) where |d| = |input - target| < beta, else |d| - beta / 2."""
    loss, numbers = _smoothness("smooth_l1_loss", beta)
    return loss(reduction, (input, target), numbers, out=out)


def smooth_l1_loss_backward(
    grad: Any, input: Any, target: Any, *, reduction: str = "mean", beta: float = 1.0
) -> Array:
    """Returns the gradient of `smooth_l1_loss`."""
    loss, numbers = _smoothness("smooth_l1_loss_backward", beta)
    return loss.backward(reduction, grad, (input, target), numbers)


def _smoothness(what: str, beta: Any) -> tuple[Elementwise, tuple[float, ...]]:
    """The loss and its numbers; where ``beta`` is 0, nothing is smooth."""
    beta = real(what, "beta", beta)
    if beta < 0:
        raise DefinitionError(f"{what}: beta={beta}; expected 0 or more")
    return (_smooth, (beta,)) if beta else (_l1, ())


@operator(sample='x, x, reduction="none"')
def huber_loss(
    input: Any, target: Any, *, reduction: str = "mean", delta: float = 1.0, out: Any = None
) -> Array:
    """Returns d² / 2 where |d| = |input - target| ≤ delta, else delta (|d| - delta / 2)."""
    return _huber(reduction, (input, target), (_delta("huber_loss", delta),), out=out)


def huber_loss_backward(
    grad: Any, input: Any, target: Any, *, reduction: str = "mean", delta: float = 1.0
) -> Array:
    """Returns the gradient of `huber_loss`, input - target between -delta and delta."""
    numbers = (_delta("huber_loss_backward", delta),)
    return _huber.backward(reduction, grad, (input, target), numbers)


def _delta(what: str, delta: Any) -> float:
    found: float = real(what, "delta", delta)
    if found <= 0:
        raise DefinitionError(f"{what}: delta={found}; expected more than 0")
    return found
