"""Normalisations, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.ops.shared.sums import products
from clprim.torch.kernels.elementwise import apply
from clprim.torch.kernels.reduction import wide
from clprim.torch.layout import contiguous, of_two
from clprim.torch.table import kernel
from clprim.torch.tensors import kind_of, numpy_dtype

# Of the input, then of weight and bias.
_SLOPES = (of_two, contiguous, contiguous)


@kernel("native_batch_norm", "_native_batch_norm_legit", named=True)
def _batch_norm(a: Any) -> Any:
    x, running = a.input, (a.running_mean, a.running_var)
    if a.training:
        return ops.batch_norm_train(x, a.weight, a.bias, *running, momentum=a.momentum, eps=a.eps)
    nothing = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    y = ops.batch_norm(x, *running, a.weight, a.bias, eps=a.eps)
    return y, empty((0,), nothing), empty((0,), nothing)


@kernel("_native_batch_norm_legit.no_stats", named=True)
def _of_batch(a: Any) -> Any:
    return ops.batch_norm_train(a.input, a.weight, a.bias, momentum=a.momentum, eps=a.eps)


@kernel("_batch_norm_with_update", named=True)
def _with_update(a: Any) -> Any:
    given = a.input, a.weight, a.bias, a.running_mean, a.running_var
    found = ops.batch_norm_train(*given, momentum=a.momentum, eps=a.eps)
    return (*found, empty((0,), np.dtype(np.uint8)))


@kernel("native_batch_norm_backward", lies=_SLOPES, named=True)
def _batch_norm_backward(a: Any) -> Any:
    return _slopes(a, a.save_mean, a.save_invstd, a.train)


# Without what is reserved for other libraries.
@kernel("batch_norm_backward", lies=_SLOPES, named=True)
def _with_update_backward(a: Any) -> Any:
    return _slopes(a, a.save_mean, a.save_var, a.update)


def _slopes(a: Any, mean: Any, invstd: Any, training: bool) -> Any:
    if not training:
        mean, var = a.running_mean, a.running_var
        expr = "rsqrt((typeof_y0){a} + (typeof_y0){b})"
        invstd = apply(expr, var, a.eps, kind=kind_of(var.dtype))
    how: dict[str, Any] = {"training": training, "output_mask": tuple(a.output_mask)}
    return ops.batch_norm_backward(a.grad_out, a.input, a.weight, mean, invstd, **how)


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
