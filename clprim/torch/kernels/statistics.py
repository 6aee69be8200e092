"""Reductions that leave numbers out or return more than one result."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.torch.kernels.norm import _SLOPES, _batch_norm, _batch_norm_backward
from clprim.torch.kernels.reduction import _vector_norm, sum_dtype
from clprim.torch.layout import contiguous
from clprim.torch.table import kernel


@kernel("trace")
def _trace(x: Array) -> Any:
    if x.ndim != 2:
        raise RuntimeError("trace: expected a matrix")
    return ops.sum(ops.diagonal(x), dtype=sum_dtype(x, None))


@kernel("renorm", lies=contiguous)
def _renorm(x: Array, p: Any, dim: int, maxnorm: Any) -> Any:
    if p <= 0 or maxnorm < 0 or x.ndim < 2:
        raise RuntimeError("renorm: expected p > 0, maxnorm of 0 or more and two dimensions")
    return ops.renorm(x, p, dim, maxnorm)


@kernel("norm.ScalarOpt_dim", lies=contiguous)
def _norm(x: Array, p: Any, dim: Any, keepdim: bool = False) -> Any:
    return _vector_norm(x, 2 if p is None else p, dim, keepdim)


@kernel("_batch_norm_with_update")
def _with_update(
    x: Array, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> Any:
    found = _batch_norm(x, weight, bias, mean, var, True, momentum, eps)
    return (*found, empty((0,), np.dtype(np.uint8)))


@kernel("batch_norm_backward", lies=_SLOPES)
def _with_update_backward(*given: Any) -> Any:
    return _batch_norm_backward(*given[:-1])  # all but what is reserved for other libraries
