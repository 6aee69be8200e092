"""The table of losses that are a string of each element: names, arguments and meaning of PyTorch.

``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``: sums run in float32 at least. Targets, and
weights where there are any, broadcast to the input. ``NAME_backward(grad, …)`` returns the gradient
with respect to the input; ``grad`` is that of the loss, of shape () unless ``reduction="none"``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from clprim.errors import DefinitionError
from clprim.ops.elementwise.formulas import log1p_exp
from clprim.ops.loss.reduced import Loss, above_0
from clprim.ops.shared.checks import real

Text = str | Callable[..., str]


@dataclass(frozen=True, eq=False)
class LossRow:
    """A loss of the elements of several arrays."""

    name: str
    meaning: str
    text: Text
    parameters: str = "input, target, *, reduction='mean'"
    numbers: Mapping[str, Callable[[str, str, Any], float]] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    inputs: int = 1
    gradient: Text | None = None
    notes: str = ""
    backward: str = ""
    torch: str = ""

    @property
    def defaults(self) -> dict[str, str]:
        """The parameters, and what they are by default, if anything."""
        pairs = (p.partition("=") for p in self.parameters.split(", "))
        return {name: default for name, _, default in pairs}

    @property
    def arrays(self) -> list[str]:
        """Which of the parameters are arrays."""
        others = {"*", "reduction", *self.numbers, *self.flags}
        return [name for name in self.defaults if name not in others]

    @property
    def sample(self) -> str:
        """Arguments with which it takes an array ``x``; see `clprim.ops.registry.Facts`."""
        return ", ".join(["x" for name in self.arrays if not self.defaults[name]]) + (
            ', reduction="none"'
        )

    @cache  # noqa: B019, rows live as long as the module
    def loss(self, *choices: bool) -> Loss:
        """Returns the loss of some arrays and flags."""
        text, gradient = (t(*choices) if callable(t) else t for t in (self.text, self.gradient))
        return Loss(self.name, text or "", self.inputs, gradient)

    def chosen(
        self, what: str, arrays: tuple[Any, ...], numbers: tuple[Any, ...], flags: tuple[Any, ...]
    ) -> tuple[Loss, list[Any], tuple[float, ...]]:
        """Returns the loss of a call, its arrays and the numbers that it reads."""
        given = [c(what, n, v) for (n, c), v in zip(self.numbers.items(), numbers, strict=True)]
        optional = arrays[1 + max(n for n, d in enumerate(self.arrays) if not self.defaults[d]) :]
        loss = self.loss(*(a is not None for a in optional), *map(bool, flags))
        there = [*arrays[: len(arrays) - len(optional)], *(a for a in optional if a is not None)]
        return loss, there, tuple(given) if "w0" in loss.text else ()


def _at_least_0(what: str, label: str, value: Any) -> float:
    found: float = real(what, label, value)
    if found < 0:
        raise DefinitionError(f"{what}: {label}={found}; expected 0 or more")
    return found


def _above_0(what: str, label: str, value: Any) -> float:
    found: float = real(what, label, value)
    if found <= 0:
        raise DefinitionError(f"{what}: {label}={found}; expected more than 0")
    return found


_D = "typeof_y0 d = x0 - x1; "
_L1 = _D + "y0 = fabs(d);"
# As PyTorch, logarithms end at -100, and their slopes with them.
_BCE = """
    typeof_y0 p = log(x0);
    typeof_y0 q = log1p(-x0);
    p = p < -100 ? -100 : p;
    q = q < -100 ? -100 : q;
    y0 = -(x1 * p + (1 - x1) * q){};
"""
# PyTorch's gradient is not that of the logarithms which end: it is large beside 0 and 1.
_BCE_GRADIENT = """
    typeof_gy0 v = (1 - x0) * x0, p = log(x0), q = log1p(-x0);
    p = p < -100 ? -100 : p;
    q = q < -100 ? -100 : q;
    gx0 = gy0 * (x0 - x1) / (v < 1e-12 ? 1e-12 : v){0};
    gx1 = gy0 * (q - p){0};
    {1}
"""
_BCE_WEIGHTS = "gx2 = -gy0 * (x1 * p + (1 - x1) * q);"
# log1p(exp(-|x|)) + max(x, 0) is log(1 + exp(x)) without overflow, and of -x likewise: neither of
# the two parts, nor its slope, is what is left of a difference.
_LOGITS = (
    f"typeof_y0 z = {log1p_exp('x0')};"
    + """
    y0 = ((1 - x1) * (z + (x0 < 0 ? 0 : x0)) + {1}x1 * (z + (x0 < 0 ? -x0 : 0))){0};
"""
)
# Stirling's approximation of log(target!), where the target is more than 1.
_STIRLING = "typeof_y0 t = x1; y0 += t > 1 ? t * log(t) - t + log(t * 6.283185307179586) / 2 : 0;"


def _logits(weight: bool, positive: bool) -> str:
    return _LOGITS.format(" * x2" * weight, f"x{2 + weight} * " * positive)


def _poisson(log_input: bool, full: bool) -> str:
    loss = "exp(x0) - x1 * x0" if log_input else "x0 - x1 * log(x0 + w0)"
    return f"y0 = {loss};{_STIRLING * full}"


# fmt: off
LOSSES = (
    LossRow("mse_loss", "the squared distance (input - target)², its mean by default",
        _D + "y0 = d * d;", backward=", 2 (input - target) · grad, divided by how many",
        torch="mse_loss @promoted @seldom; mse_loss_backward @none", notes="""

Args:
    input: Of floating-point numbers.
    target: Broadcasts with it.

Example:
    >>> import numpy as np, clprim as cp
    >>> from clprim import ops
    >>> a, b = (cp.asarray(np.float32(v)) for v in ([1, 2], [1, 4]))
    >>> ops.mse_loss(a, b).item(), ops.mse_loss(a, b, reduction="none").get()
    (2.0, array([0., 4.], dtype=float32))
"""),
    LossRow("l1_loss", "the distance |input - target|; see `mse_loss` for the arguments", _L1,
        backward="; 0 where input and target are equal"),
    # What is beyond is compared, so that NaN takes the parabola, whose slope is NaN, too. Where
    # beta is 0, nothing is smooth.
    LossRow("smooth_l1_loss",
        "d² / (2 beta) where |d| = |input - target| < beta, else |d| - beta / 2",
        lambda beta: f"{_D}typeof_y0 a = fabs(d); y0 = a >= w0 ? a - w0 / 2 : d * d / (2 * w0);"
            if beta else _L1,
        "input, target, *, reduction='mean', beta=1.0", {"beta": _at_least_0}, ("beta",),
        torch="smooth_l1_loss @promoted @seldom; smooth_l1_loss_backward @none"),
    LossRow("huber_loss",
        "d² / 2 where |d| = |input - target| ≤ delta, else delta (|d| - delta / 2)",
        _D + "typeof_y0 a = fabs(d); y0 = a > w0 ? w0 * (a - w0 / 2) : d * d / 2;",
        "input, target, *, reduction='mean', delta=1.0", {"delta": _above_0},
        backward=", input - target between -delta and delta",
        torch="huber_loss @promoted @seldom; huber_loss_backward @none"),
    LossRow("binary_cross_entropy",
        "-(target log(input) + (1 - target) log(1 - input)) · weight",
        lambda weight: _BCE.format(" * x2" * weight),
        "input, target, weight=None, *, reduction='mean'",
        gradient=lambda weight: _BCE_GRADIENT.format(" * x2" * weight, _BCE_WEIGHTS * weight),
        torch="binary_cross_entropy @weighted @seldom; binary_cross_entropy_backward @none",
        notes="""

Args:
    input: Probabilities, from 0 to 1.
    target: Likewise.
    weight: A factor for each element, or None."""),
    LossRow("binary_cross_entropy_with_logits",
        "the `binary_cross_entropy` of sigmoid(input), without overflow", _logits,
        "input, target, weight=None, *, reduction='mean', pos_weight=None", notes="""

Args:
    input: Logits, of floating-point numbers.
    target: Probabilities, from 0 to 1.
    weight: A factor for each element, or None.
    pos_weight: A factor for target log(sigmoid(input)), or None.

Example:
    >>> import numpy as np, clprim as cp
    >>> from clprim import ops
    >>> logits, target = (cp.asarray(np.float32(v)) for v in ([0, 1000], [1, 0]))
    >>> ops.binary_cross_entropy_with_logits(logits, target, reduction="none").get().round(3)
    array([6.93e-01, 1.00e+03], dtype=float32)
"""),
    LossRow("kl_div",
        "the Kullback-Leibler divergence target · (log(target) - input), 0 where target is 0",
        lambda of_log: "y0 = exp(x1) * (x1 - x0);" if of_log
            else "y0 = x1 == 0 ? 0 : x1 * (log(x1) - x0);",
        "input, target, *, reduction='mean', log_target=False", flags=("log_target",), notes="""

Of reductions ``"batchmean"`` divides the sum by the first dimension.

Args:
    input: Logarithms of probabilities.
    target: Probabilities; with ``log_target`` their logarithms.
    log_target: Whether the target is a logarithm."""),
    LossRow("poisson_nll_loss",
        "exp(input) - target · input, or input - target · log(input + eps)", _poisson,
        "input, target, log_input=True, full=False, eps=1e-8, *, reduction='mean'",
        {"eps": real}, ("log_input", "full"), notes="""

Args:
    input: The expected value, or with ``log_input`` its logarithm.
    target: What was counted.
    log_input: Whether the input is a logarithm.
    full: Whether to add Stirling's approximation of log(target!).
    eps: See above; of no consequence with ``log_input``."""),
    # Targets are 1 or -1.
    LossRow("hinge_embedding_loss",
        "input where target is 1, max(0, margin - input) where it is -1",
        f"typeof_y0 m = w0 - x0; y0 = (x1 != 1 ? {above_0('m')} : 0) + (x1 != -1 ? x0 : 0);",
        "input, target, margin=1.0, *, reduction='mean'", {"margin": real}),
    LossRow("soft_margin_loss", "log(1 + exp(-target · input)), where targets are 1 and -1",
        f"typeof_y0 z = -x1 * x0; y0 = {log1p_exp('z')} + (z > 0 ? z : 0);"),
    LossRow("margin_ranking_loss",
        "max(0, margin - target · (input1 - input2)), where targets are 1 and -1",
        f"typeof_y0 m = w0 - x2 * (x0 - x1); y0 = {above_0('m')};",
        "input1, input2, target, margin=0.0, *, reduction='mean'", {"margin": real}, inputs=2,
        backward=" with respect to both inputs"),
)
# fmt: on
