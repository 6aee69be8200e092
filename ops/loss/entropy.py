"""Cross entropies of probabilities: names, arguments and meaning of `torch.nn.functional`.

``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``: sums run in float32 at least. Targets, and
weights where there are any, broadcast to the input. ``NAME_backward(grad, …)`` returns the gradient
with respect to the input; ``grad`` is that of the loss, of shape () unless ``reduction="none"``.
"""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array
from clprim.ops.loss.reduced import Elementwise
from clprim.ops.registry import operator

# As PyTorch, logarithms end at -100, and their slopes with them.
_BCE = """
    typeof_y0 p = log(x0);
    typeof_y0 q = log1p(-x0);
    y0 = -(x1 * (p < -100 ? -100 : p) + (1 - x1) * (q < -100 ? -100 : q)){};
"""
# PyTorch's gradient is not that of the logarithms which end: it is large beside 0 and 1.
_BCE_GRADIENT = """
    typeof_gy0 v = (1 - x0) * x0;
    gx0 = gy0 * (x0 - x1) / (v < 1e-12 ? 1e-12 : v){};
"""
# log1p(exp(-|x|)) + max(-x, 0) is log(1 + exp(-x)) without overflow; f counts the ones.
_LOGITS = """
    typeof_y0 f = {1};
    typeof_y0 z = log1p(exp(-fabs(x0))) + (x0 < 0 ? -x0 : 0);
    y0 = ((1 - x1) * x0 + f * z){0};
"""
_bce = tuple(
    Elementwise("binary_cross_entropy", _BCE.format(w), gradient=_BCE_GRADIENT.format(w))
    for w in ("", " * x2")
)


def _of_weights(text: str, weight: bool, positive: bool) -> str:
    factor = f"1 + (x{2 + weight} - 1) * x1" if positive else "(typeof_y0)1"
    return text.format(" * x2" if weight else "", factor)


_logits = {
    (weight, positive): Elementwise(
        "binary_cross_entropy_with_logits", _of_weights(_LOGITS, weight, positive)
    )
    for weight in (False, True)
    for positive in (False, True)
}
_kl = Elementwise("kl_div", "y0 = x1 == 0 ? 0 : x1 * (log(x1) - x0);")
_kl_log = Elementwise("kl_div", "y0 = exp(x1) * (x1 - x0);")


@operator(sample='x, x, reduction="none"')
def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, *, reduction: str = "mean", out: Any = None
) -> Array:
    """Returns -(target log(input) + (1 - target) log(1 - input)) · weight.

    Args:
        input: Probabilities, from 0 to 1.
        target: Likewise.
        weight: A factor for each element, or None.
        reduction: See above.
        out: Where the loss goes.

    Raises:
        ShapeError, DTypeError, DefinitionError: With what was given and what was expected.
    """
    extra = () if weight is None else (weight,)
    return _bce[len(extra)](reduction, (input, target, *extra), out=out)


def binary_cross_entropy_backward(
    grad: Any, input: Any, target: Any, weight: Any = None, *, reduction: str = "mean"
) -> Array:
    """Returns the gradient of `binary_cross_entropy`."""
    extra = () if weight is None else (weight,)
    return _bce[len(extra)].backward(reduction, grad, (input, target, *extra))


@operator(sample='x, x, reduction="none"')
def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    reduction: str = "mean",
    pos_weight: Any = None,
    out: Any = None,
) -> Array:
    """Returns the `binary_cross_entropy` of sigmoid(input), without overflow.

    Args:
        input: Logits, of floating-point numbers.
        target: Probabilities, from 0 to 1.
        weight: A factor for each element, or None.
        reduction: See above.
        pos_weight: A factor for target log(sigmoid(input)), or None.
        out: Where the loss goes.

    Raises:
        ShapeError, DTypeError, DefinitionError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> logits, target = (cp.asarray(np.float32(v)) for v in ([0, 1000], [1, 0]))
        >>> ops.binary_cross_entropy_with_logits(logits, target, reduction="none").get().round(3)
        array([6.93e-01, 1.00e+03], dtype=float32)
    """
    loss, arrays = _of_logits(input, target, weight, pos_weight)
    return loss(reduction, arrays, out=out)


def binary_cross_entropy_with_logits_backward(
    grad: Any,
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Array:
    """Returns the gradient of `binary_cross_entropy_with_logits`."""
    loss, arrays = _of_logits(input, target, weight, pos_weight)
    return loss.backward(reduction, grad, arrays)


def _of_logits(
    input: Any, target: Any, weight: Any, pos_weight: Any
) -> tuple[Elementwise, tuple[Any, ...]]:
    loss = _logits[weight is not None, pos_weight is not None]
    return loss, (input, target, *(a for a in (weight, pos_weight) if a is not None))


@operator(sample='x, x, reduction="none"')
def kl_div(
    input: Any,
    target: Any,
    *,
    reduction: str = "mean",
    log_target: bool = False,
    out: Any = None,
) -> Array:
    """Returns the Kullback-Leibler divergence target · (log(target) - input), 0 where target is 0.

    Args:
        input: Logarithms of probabilities.
        target: Probabilities; with ``log_target`` their logarithms.
        reduction: See above; ``"batchmean"`` divides the sum by the first dimension.
        log_target: Whether the target is a logarithm.
        out: Where the loss goes.

    Raises:
        ShapeError, DTypeError, DefinitionError: With what was given and what was expected.
    """
    return (_kl_log if log_target else _kl)(reduction, (input, target), out=out)


def kl_div_backward(
    grad: Any, input: Any, target: Any, *, reduction: str = "mean", log_target: bool = False
) -> Array:
    """Returns the gradient of `kl_div`."""
    return (_kl_log if log_target else _kl).backward(reduction, grad, (input, target))
