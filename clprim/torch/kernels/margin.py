"""Losses of margins between classes, and the distances of a matrix's rows."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.arrays.array import Array
from clprim.torch.agreeing import REDUCTIONS
from clprim.torch.table import kernel


def _rows(x: Array) -> Array:
    """One row of classes, or one class, as a batch of one."""
    return x if x.ndim > 1 else x.reshape(1, -1)


@kernel("multi_margin_loss_backward")
def _multi_margin_backward(
    grad: Array,
    x: Array,
    target: Array,
    p: Any,
    margin: Any,
    weight: Any = None,
    reduction: int = 1,
) -> Any:
    how, labels = REDUCTIONS[reduction], target.reshape(-1)
    grad = grad.reshape(-1) if how == "none" else grad
    found = ops.multi_margin_loss_backward(grad, _rows(x), labels, p, margin, weight, reduction=how)
    return found.reshape(x.shape)


@kernel("multilabel_margin_loss_backward")
def _multilabel_margin_backward(
    grad: Array, x: Array, target: Array, reduction: int, is_target: Any
) -> Any:
    how = REDUCTIONS[reduction]
    grad = grad.reshape(-1) if how == "none" else grad
    found = ops.multilabel_margin_loss_backward(grad, _rows(x), _rows(target), reduction=how)
    return found.reshape(x.shape)
