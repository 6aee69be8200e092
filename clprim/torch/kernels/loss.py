"""Softmax and losses."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import full
from clprim.torch.agreeing import REDUCTIONS, agrees
from clprim.torch.copying import cast, check_target
from clprim.torch.kernels.elementwise import apply, promoted
from clprim.torch.layout import Rule, contiguous, elementwise, seldom
from clprim.torch.memory import kind_of
from clprim.torch.table import kernel


def _softmax(name: str, slope: Rule) -> None:
    forward: Callable[..., Any] = getattr(ops, name)
    backward: Callable[..., Any] = getattr(ops, f"{name}_backward")

    @kernel(f"_{name}", lies=contiguous)
    def run(x: Array, dim: int, half_to_float: bool) -> Any:
        x = cast(x, torch.float32) if half_to_float else x
        return forward(x, dim) if x.ndim else forward(x.reshape(1), 0).reshape(())

    @kernel(f"_{name}_backward_data", lies=slope)
    def gradient(grad: Array, output: Array, dim: int, input_dtype: torch.dtype) -> Any:
        if not grad.ndim:
            return cast(backward(grad.reshape(1), output.reshape(1), 0).reshape(()), input_dtype)
        return cast(backward(grad, output, dim), input_dtype)


_softmax("softmax", contiguous)
_softmax("log_softmax", elementwise)


def _total_weight(x: Array, target: Array, weight: Array | None, ignore_index: int) -> Any:
    """The sum of the weights of all targets that count."""
    kind = kind_of(x.dtype)
    if weight is None:
        counts = apply("{a} != {b}", target, ignore_index, kind=torch.float32)
    else:
        expr = "{a} != {b} ? at_{c}({a}) : 0"
        counts = apply(expr, target, ignore_index, weight, kind=torch.float32)
    return cast(ops.sum(counts), kind)


def _rows(x: Array, target: Array) -> tuple[Array, Array]:
    """One row of classes as a batch of one."""
    return (x, target) if x.ndim > 1 else (x.reshape(1, -1), target.reshape(1))


@kernel("nll_loss_forward", "nll_loss2d_forward")
def _nll(x: Array, target: Array, weight: Any, reduction: int, ignore_index: int) -> Any:
    how = REDUCTIONS[reduction]
    rows, labels = _rows(x, target)
    found = ops.nll_loss(rows, labels, weight, ignore_index=ignore_index, reduction=how)
    found = found.reshape(target.shape if how == "none" else ())
    if how == "none":
        return found, full((), 0.0, x.dtype)
    return found, _total_weight(x, target, weight, ignore_index)


@kernel("nll_loss_backward", "nll_loss2d_backward")
def _nll_backward(
    grad: Array,
    x: Array,
    target: Array,
    weight: Any,
    reduction: int,
    ignore_index: int,
    total_weight: Array,
) -> Any:
    how = REDUCTIONS[reduction]
    rows, labels = _rows(x, target)
    grad = grad.reshape(labels.shape) if how == "none" else grad
    found = ops.nll_loss_backward(
        grad, rows, labels, weight, ignore_index=ignore_index, reduction=how
    )
    return found.reshape(x.shape)


def _of_one_dtype(name: str) -> None:
    """Registers a loss of elements: of mixed dtypes it is in that of PyTorch's promotion."""
    forward: Callable[..., Any] = getattr(ops, name)

    @wraps(forward)
    def run(input: Array, target: Array, *args: Any, **options: Any) -> Any:
        if input.dtype == target.dtype:
            return forward(input, target, *args, **options)
        kind, own = promoted(input, target), kind_of(input.dtype)
        found = forward(cast(input, kind), cast(target, kind), *args, **options)
        if name != "huber_loss":
            return found
        check_target(kind, input)  # PyTorch stores it in the input's dtype
        return cast(found, own)

    agrees(name, run, lies=seldom)
    agrees(f"{name}_backward", getattr(ops, f"{name}_backward"), lies=None)


for _name in ("mse_loss", "smooth_l1_loss", "huber_loss"):
    _of_one_dtype(_name)


@wraps(ops.binary_cross_entropy)
def _cross_entropy(input: Array, target: Array, weight: Any = None, **options: Any) -> Any:
    kind = kind_of(input.dtype)  # the result's, whatever the weight's
    weight = None if weight is None else cast(weight, kind)
    return ops.binary_cross_entropy(input, cast(target, kind), weight, **options)


agrees("binary_cross_entropy", _cross_entropy, lies=seldom)
agrees("binary_cross_entropy_backward", ops.binary_cross_entropy_backward, lies=None)


@kernel("_ctc_loss", "_ctc_loss.Tensor")
def _ctc(
    x: Array,
    targets: Array,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    zero_infinity: bool = False,
) -> Any:
    # PyTorch keeps the probabilities of paths for its gradient, which finds them again here.
    given = (x, targets, input_lengths, target_lengths, blank)
    return ops.ctc_loss(*given, reduction="none"), full((0,), 0, x.dtype)


for _form in ("", ".Tensor"):
    agrees(
        f"_ctc_loss_backward{_form}",
        ops.ctc_loss_backward,
        lies=None,
        without="neg_log_likelihood log_alpha",
        reduction="none",
    )
