"""Reductions that leave numbers out or return more than one result."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.torch.agreeing import axes_of
from clprim.torch.copying import cast, duplicate
from clprim.torch.kernels.elementwise import apply
from clprim.torch.kernels.index import median_of_nothing
from clprim.torch.kernels.norm import _SLOPES, _batch_norm, _batch_norm_backward
from clprim.torch.kernels.reduction import _vector_norm, sum_dtype
from clprim.torch.layout import contiguous
from clprim.torch.table import kernel


@kernel("nansum", lies=contiguous)
def _nansum(
    x: Array, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Any:
    keep = keepdim and x.ndim > 0
    return ops.nansum(x, axes_of(x, dim), keepdims=keep, dtype=sum_dtype(x, dtype))


def _nanmedian(x: Array, dim: int, keepdim: bool = False) -> Any:
    lines = x if x.ndim else x.reshape(-1)
    dim %= lines.ndim
    # NaN comes last; of the two in the middle the lower one counts.
    values, places = ops.sort(lines, dim, False, True)
    numbers = apply("isnan({a}) ? 0 : 1", cast(lines, torch.float32), kind=torch.int64)
    count = ops.sum(numbers, dim, keepdims=True)
    middle = apply("{a} > 0 ? ({a} - 1) / 2 : 0", count, kind=torch.int64)
    shape = (
        x.shape
        if not x.ndim
        else tuple(1 if d == dim else n for d, n in enumerate(x.shape) if keepdim or d != dim)
    )
    found = (ops.gather(a, dim, middle) for a in (values, places))
    return tuple(a.reshape(shape) for a in found)


kernel("nanmedian.dim", lies=contiguous)(_nanmedian)


@kernel("nanmedian")
def _nanmedian_all(x: Array) -> Any:
    if not x.size:
        return median_of_nothing(x.dtype)
    return _nanmedian(duplicate(x, "contiguous").reshape(-1), 0)[0]


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
def _with_update_backward(
    grad: Array,
    x: Array,
    weight: Any,
    mean: Any,
    var: Any,
    save_mean: Any,
    save_var: Any,
    update: bool,
    eps: float,
    output_mask: Any,
    reserve: Any,
) -> Any:
    given = (weight, mean, var, save_mean, save_var, update, eps, output_mask)
    return _batch_norm_backward(grad, x, *given)
