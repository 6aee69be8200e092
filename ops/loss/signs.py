"""Losses whose targets are 1 and -1: names, arguments and meaning of `torch.nn.functional`.

``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``: sums run in float32 at least. Targets, and
weights where there are any, broadcast to the input. ``NAME_backward(grad, …)`` returns the gradient
with respect to the input; ``grad`` is that of the loss, of shape () unless ``reduction="none"``.
"""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array
from clprim.ops.loss.reduced import Elementwise, above_0
from clprim.ops.registry import operator
from clprim.ops.shared.arguments import real

# A target is 1 or -1.
_hinge = Elementwise(
    "hinge_embedding_loss",
    f"typeof_y0 m = w0 - x0; y0 = (x1 != 1 ? {above_0('m')} : 0) + (x1 != -1 ? x0 : 0);",
)
_soft_margin = Elementwise(
    "soft_margin_loss",
    "typeof_y0 z = -x1 * x0; y0 = log1p(exp(-fabs(z))) + (z > 0 ? z : 0);",
)
_ranking = Elementwise(
    "margin_ranking_loss",
    f"typeof_y0 m = w0 - x2 * (x0 - x1); y0 = {above_0('m')};",
    inputs=2,
)


@operator(sample='x, x, reduction="none"')
def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, *, reduction: str = "mean", out: Any = None
) -> Array:
    """Returns input where target is 1, max(0, margin - input) where it is -1."""
    numbers = (real("hinge_embedding_loss", "margin", margin),)
    return _hinge(reduction, (input, target), numbers, out=out)


def hinge_embedding_loss_backward(
    grad: Any, input: Any, target: Any, margin: float = 1.0, *, reduction: str = "mean"
) -> Array:
    """Returns the gradient of `hinge_embedding_loss`."""
    numbers = (real("hinge_embedding_loss_backward", "margin", margin),)
    return _hinge.backward(reduction, grad, (input, target), numbers)


@operator(sample='x, x, reduction="none"')
def soft_margin_loss(input: Any, target: Any, *, reduction: str = "mean", out: Any = None) -> Array:
    """Returns log(1 + exp(-target · input)), where targets are 1 and -1."""
    return _soft_margin(reduction, (input, target), out=out)


def soft_margin_loss_backward(
    grad: Any, input: Any, target: Any, *, reduction: str = "mean"
) -> Array:
    """Returns the gradient of `soft_margin_loss`."""
    return _soft_margin.backward(reduction, grad, (input, target))


@operator(sample='x, x, x, reduction="none"')
def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0.0,
    *,
    reduction: str = "mean",
    out: Any = None,
) -> Array:
    """Returns max(0, margin - target · (input1 - input2)), where targets are 1 and -1."""
    numbers = (real("margin_ranking_loss", "margin", margin),)
    return _ranking(reduction, (input1, input2, target), numbers, out=out)


def margin_ranking_loss_backward(
    grad: Any,
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0.0,
    *,
    reduction: str = "mean",
) -> tuple[Array, ...]:
    """Returns the gradients of `margin_ranking_loss` with respect to both inputs."""
    numbers = (real("margin_ranking_loss_backward", "margin", margin),)
    found: tuple[Array, ...] = _ranking.backward(reduction, grad, (input1, input2, target), numbers)
    return found
