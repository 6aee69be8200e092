"""The likelihood of a normal distribution, as in `torch.nn.functional`."""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array
from clprim.errors import DefinitionError, ShapeError
from clprim.ops.gradients.vjp import vjp
from clprim.ops.loss.reduced import Loss
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating, real

# A variance below the least one counts as that; as in PyTorch its slope is then that at the least.
_VARIANCE = "typeof_y0 d = x0 - x2; typeof_y0 v = x1 < w0 ? w0 : x1; "
_gaussian = {
    full: Loss(
        "gaussian_nll_loss",
        f"{_VARIANCE}y0 = (log(v) + d * d / v) / 2{' + 0.9189385332046727' * full};",
        inputs=2,
        gradient=f"{_VARIANCE}gx0 = gy0 * d / v; gx1 = gy0 * (1 - d * d / v) / (2 * v);gx2 = -gx0;",
    )
    for full in (False, True)
}


@operator(sample='x, x, x, reduction="none"')
@operator(sample='x, x, x, reduction="none"')
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
    """
    arrays = (input, _variance("gaussian_nll_loss", input, var), target)
    return _gaussian[bool(full)](reduction, arrays, (_least("gaussian_nll_loss", eps),), out=out)


gaussian_nll_loss_backward = vjp(gaussian_nll_loss, "input var")


def _variance(what: str, input: Any, var: Any) -> Any:
    """The variance, so that it broadcasts to the input."""
    check_floating(what, "input", input)
    check_floating(what, "var", var)
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
