"""Losses of each element by itself: names, arguments and meaning of `torch.nn.functional`.

``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``: sums run in float32 at least. Targets, and
weights where there are any, broadcast to the input. ``NAME_backward(grad, …)`` returns the gradient
with respect to the input; ``grad`` is that of the loss, of shape () unless ``reduction="none"``.
"""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array
from clprim.errors import DefinitionError, ShapeError
from clprim.ops.loss.reduced import Elementwise, above_0, check_floats
from clprim.ops.shared.arguments import real
from clprim.ops.shared.sums import added
from clprim.pointwise import Pointwise
from clprim.reduction import Reduction

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_backward",
    "binary_cross_entropy_with_logits",
    "binary_cross_entropy_with_logits_backward",
    "gaussian_nll_loss",
    "gaussian_nll_loss_backward",
    "hinge_embedding_loss",
    "hinge_embedding_loss_backward",
    "huber_loss",
    "huber_loss_backward",
    "kl_div",
    "kl_div_backward",
    "l1_loss",
    "l1_loss_backward",
    "margin_ranking_loss",
    "margin_ranking_loss_backward",
    "mse_loss",
    "mse_loss_backward",
    "poisson_nll_loss",
    "poisson_nll_loss_backward",
    "smooth_l1_loss",
    "smooth_l1_loss_backward",
    "soft_margin_loss",
    "soft_margin_loss_backward",
]

# --- distances -----------------------------------------------------------------------------------

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


def l1_loss(input: Any, target: Any, *, reduction: str = "mean", out: Any = None) -> Array:
    """Returns the distance |input - target|; see `mse_loss` for the arguments."""
    return _l1(reduction, (input, target), out=out)


def l1_loss_backward(grad: Any, input: Any, target: Any, *, reduction: str = "mean") -> Array:
    """Returns the gradient of `l1_loss`; 0 where input and target are equal."""
    return _l1.backward(reduction, grad, (input, target))


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


# --- probabilities -------------------------------------------------------------------------------

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


_POISSON = {True: "exp(x0) - x1 * x0", False: "x0 - x1 * log(x0 + w0)"}
# Stirling's approximation of log(target!), where the target is more than 1.
_STIRLING = "typeof_y0 t = x1; y0 += t > 1 ? t * log(t) - t + log(t * 6.283185307179586) / 2 : 0;"
_poisson = {
    (log_input, full): Elementwise("poisson_nll_loss", f"y0 = {loss};" + _STIRLING * full)
    for log_input, loss in _POISSON.items()
    for full in (False, True)
}


def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    *,
    reduction: str = "mean",
    out: Any = None,
) -> Array:
    """Returns exp(input) - target · input, or input - target · log(input + eps).

    Args:
        input: The expected value, or with ``log_input`` its logarithm.
        target: What was counted.
        log_input: Whether the input is a logarithm.
        full: Whether to add Stirling's approximation of log(target!).
        eps: See above; of no consequence with ``log_input``.
        reduction: See above.
        out: Where the loss goes.

    Raises:
        ShapeError, DTypeError, DefinitionError: With what was given and what was expected.
    """
    numbers = () if log_input else (real("poisson_nll_loss", "eps", eps),)
    return _poisson[bool(log_input), bool(full)](reduction, (input, target), numbers, out=out)


def poisson_nll_loss_backward(
    grad: Any,
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    *,
    reduction: str = "mean",
) -> Array:
    """Returns the gradient of `poisson_nll_loss`."""
    numbers = () if log_input else (real("poisson_nll_loss", "eps", eps),)
    loss = _poisson[bool(log_input), bool(full)]
    return loss.backward(reduction, grad, (input, target), numbers)


# --- margins -------------------------------------------------------------------------------------

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


def soft_margin_loss(input: Any, target: Any, *, reduction: str = "mean", out: Any = None) -> Array:
    """Returns log(1 + exp(-target · input)), where targets are 1 and -1."""
    return _soft_margin(reduction, (input, target), out=out)


def soft_margin_loss_backward(
    grad: Any, input: Any, target: Any, *, reduction: str = "mean"
) -> Array:
    """Returns the gradient of `soft_margin_loss`."""
    return _soft_margin.backward(reduction, grad, (input, target))


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


# A variance below the least one counts as that; as in PyTorch its slope is then that at the least.
_VARIANCE = "typeof_y0 d = x0 - x2; typeof_y0 v = x1 < w0 ? w0 : x1; "
_gaussian = {
    full: Elementwise(
        "gaussian_nll_loss",
        f"{_VARIANCE}y0 = (log(v) + d * d / v) / 2{' + 0.9189385332046727' * full};",
        inputs=2,
        gradient=f"{_VARIANCE}gx0 = gy0 * d / v; gx1 = gy0 * (1 - d * d / v) / (2 * v);",
    )
    for full in (False, True)
}


def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    *,
    reduction: str = "mean",
    out: Any = None,
) -> Array:
    """Returns (log v + (input - target)² / v) / 2, where v is the variance, at least ``eps``.

    Args:
        input: The expected value.
        target: Broadcasts with it.
        var: The variance, of the input's shape, or of that with a last dimension of size 1 or
            none. Unlike PyTorch, negative ones are not looked for: they count as ``eps``.
        full: Whether to add log(2π) / 2.
        eps: See above.
        reduction: See above.
        out: Where the loss goes.

    Raises:
        ShapeError, DTypeError, DefinitionError: With what was given and what was expected.
    """
    arrays = (input, _variance("gaussian_nll_loss", input, var), target)
    return _gaussian[bool(full)](reduction, arrays, (_least("gaussian_nll_loss", eps),), out=out)


def gaussian_nll_loss_backward(
    grad: Any,
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    *,
    reduction: str = "mean",
) -> tuple[Array, Array]:
    """Returns the gradients of `gaussian_nll_loss` in the input and in the variance."""
    what = "gaussian_nll_loss_backward"
    spread = _variance(what, input, var)
    arrays = (input, _copied(spread, shape=input.shape), target)
    of_input, of_variance = _gaussian[bool(full)].backward(
        reduction, grad, arrays, (_least(what, eps),)
    )
    if spread.shape != input.shape:
        of_variance = _sums(of_variance, axis=-1, keepdims=True)
    return of_input, of_variance.reshape(var.shape)


_copied = Pointwise("y0 = x0;", name="gaussian_nll_loss_variance")
_sums = Reduction("y0 = x0;", **added(1), name="gaussian_nll_loss_variance")


def _variance(what: str, input: Any, var: Any) -> Any:
    """The variance, so that it broadcasts to the input."""
    check_floats(what, "input", input)
    check_floats(what, "var", var)
    shape = input.shape
    if var.shape not in (shape, shape[:-1], (*shape[:-1], 1)):
        raise ShapeError(
            f"{what}: var has shape {var.shape}, expected {shape}, {(*shape[:-1], 1)} or "
            f"{shape[:-1]}"
        )
    return var if len(var.shape) == len(shape) else var.reshape(*var.shape, 1)


def _least(what: str, eps: Any) -> float:
    found: float = real(what, "eps", eps)
    if not found > 0:
        raise DefinitionError(f"{what}: eps={eps}: expected a number above 0")
    return found
