"""Normalisations, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.ops.shared.sums import products
from clprim.torch.kernels.elementwise import apply
from clprim.torch.kernels.reduction import wide
from clprim.torch.layout import contiguous, of_two
from clprim.torch.memory import kind_of, numpy_dtype
from clprim.torch.table import kernel

_FLOAT = np.dtype(np.float32)
# Of the input, then of weight and bias.
_SLOPES = (of_two, contiguous, contiguous)


def _statistics_dtype(x: Array) -> Any:
    return np.dtype(np.float64) if x.dtype == np.float64 else _FLOAT


@kernel("native_batch_norm", "_native_batch_norm_legit")
def _batch_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    if training:
        return ops.batch_norm_train(
            x, weight, bias, running_mean, running_var, momentum=momentum, eps=eps
        )
    assert running_mean is not None and running_var is not None
    y = ops.batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    nothing = empty((0,), _statistics_dtype(x))
    return y, nothing, empty((0,), nothing.dtype)


@kernel("_native_batch_norm_legit.no_stats")
def _legit_without(
    x: Array, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    return _batch_norm(x, weight, bias, None, None, True, momentum, eps)


@kernel("native_batch_norm_backward", lies=_SLOPES)
def _batch_norm_backward(
    grad: Array,
    x: Array,
    weight: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    save_mean: Array | None,
    save_invstd: Array | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> Any:
    if not train:
        assert running_mean is not None and running_var is not None
        save_mean = running_mean
        expr = "rsqrt((typeof_y0){a} + (typeof_y0){b})"
        save_invstd = apply(expr, running_var, eps, kind=kind_of(running_var.dtype))
    mask = tuple(output_mask)
    return ops.batch_norm_backward(
        grad, x, weight, save_mean, save_invstd, training=train, output_mask=mask
    )


@kernel("_weight_norm_interface")
def _weight_norm(v: Array, g: Array, dim: int = 0) -> Any:
    axes = [d for d in range(v.ndim) if d != dim % v.ndim]
    squares = products(numpy_dtype(wide(kind_of(v.dtype))))
    norms = ops.sqrt(squares(v, v, axis=tuple(axes), keepdims=True))
    return apply("{a} * ({b} / {c})", v, g, norms, kind=kind_of(v.dtype)), norms


@kernel("_weight_norm_interface_backward")
def _weight_norm_backward(grad: Array, v: Array, g: Array, norms: Array, dim: int) -> Any:
    axes = [d for d in range(v.ndim) if d != dim % v.ndim]
    kind = kind_of(v.dtype)
    along = products(numpy_dtype(wide(kind)))(grad, v, axis=tuple(axes), keepdims=True)
    expr = "{a} * {d} / {c} - {b} * ({d} * {e} / ({c} * {c} * {c}))"
    found = apply(expr, grad, v, norms, g, along, kind=kind)
    return found, apply("{a} / {b}", along, norms, kind=kind_of(g.dtype))
