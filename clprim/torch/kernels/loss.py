"""Softmax and losses."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import full
from clprim.torch.agreeing import REDUCTIONS, family
from clprim.torch.copying import cast, check_target
from clprim.torch.kernels.elementwise import apply, promoted
from clprim.torch.table import kernel
from clprim.torch.tensors import kind_of


@family("of_rows")
def _of_rows(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Array, dim: int, half_to_float: bool) -> Any:
        return forward(cast(x, torch.float32) if half_to_float else x, dim)

    return run


@family("of_rows_gradient")
def _of_rows_gradient(backward: Callable[..., Any]) -> Callable[..., Any]:
    def run(grad_output: Array, output: Array, dim: int, input_dtype: torch.dtype) -> Any:
        return cast(backward(grad_output, output, dim), input_dtype)

    return run


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


@family("of_classes")
def _nll(forward: Callable[..., Any]) -> Callable[..., Any]:
    """The loss, and what it was divided by, of rows of classes or one."""

    def run(
        input: Array, target: Array, weight: Any = None, reduction: Any = 1, ignore_index: int = 0
    ) -> Any:
        rows, labels = _rows(input, target)
        how = {"ignore_index": ignore_index, "reduction": reduction}
        found = forward(rows, labels, weight, **how)
        if reduction == "none":
            return found.reshape(target.shape), full((), 0.0, input.dtype)
        return found.reshape(()), _total_weight(input, target, weight, ignore_index)

    return run


@family("of_classes_gradient")
def _nll_gradient(backward: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        grad_output: Array,
        input: Array,
        target: Array,
        weight: Any = None,
        reduction: Any = 1,
        ignore_index: int = 0,
    ) -> Any:
        rows, labels = _rows(input, target)
        grad = grad_output.reshape(labels.shape) if reduction == "none" else grad_output
        how = {"ignore_index": ignore_index, "reduction": reduction}
        return backward(grad, rows, labels, weight, **how).reshape(input.shape)

    return run


@family("promoted")
def _promoted(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A loss of elements: of mixed dtypes it is in that of PyTorch's promotion."""

    @wraps(forward)
    def run(*, input: Array, target: Array, **options: Any) -> Any:
        if input.dtype == target.dtype:
            return forward(input, target, **options)
        kind, own = promoted(input, target), kind_of(input.dtype)
        found = forward(cast(input, kind), cast(target, kind), **options)
        if forward.__name__ != "huber_loss":
            return found
        check_target(kind, input)  # PyTorch stores it in the input's dtype
        return cast(found, own)

    return run


@family("weighted")
def _weighted(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A loss in the input's dtype, whatever those of targets and weights."""

    @wraps(forward)
    def run(*, input: Array, target: Array, weight: Any = None, **options: Any) -> Any:
        kind = kind_of(input.dtype)
        weight = None if weight is None else cast(weight, kind)
        return forward(input, cast(target, kind), weight, **options)

    return run


@kernel("multi_margin_loss_backward", named=True)
def _multi_margin_backward(a: Any) -> Any:
    (rows, labels), how = _rows(a.self, a.target), REDUCTIONS[a.reduction]
    grad = a.grad_output.reshape(-1) if how == "none" else a.grad_output
    given = (grad, rows, labels, a.p, a.margin, a.weight)
    return ops.multi_margin_loss_backward(*given, reduction=how).reshape(a.self.shape)


@kernel("multilabel_margin_loss_backward", named=True)
def _multilabel_margin_backward(a: Any) -> Any:
    rows, labels = (t if t.ndim > 1 else t.reshape(1, -1) for t in (a.self, a.target))
    how = REDUCTIONS[a.reduction]
    grad = a.grad_output.reshape(-1) if how == "none" else a.grad_output
    found = ops.multilabel_margin_loss_backward(grad, rows, labels, reduction=how)
    return found.reshape(a.self.shape)


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
