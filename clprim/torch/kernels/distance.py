"""Distances between all pairs of rows."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.arrays.array import Array
from clprim.errors import ShapeError
from clprim.torch.layout import contiguous
from clprim.torch.table import kernel


@kernel("_cdist_backward", lies=contiguous)
def _cdist_backward(grad: Array, a: Array, b: Array, p: float, found: Array) -> Any:
    if grad.ndim > max(a.ndim, b.ndim):
        raise ShapeError(
            f"cdist: gradients of shape {grad.shape} for operands of {a.shape} and {b.shape}: "
            "of a batch of gradients PyTorch would add up the results, on every device; "
            "let torch.func.jacrev take chunk_size=1"
        )
    return ops.cdist_backward(grad, a, b, p, output_mask=(True, False))[0]
