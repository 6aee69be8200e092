"""Matrix products, distances between all pairs of rows, and convolutions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import zeros
from clprim.errors import ShapeError
from clprim.ops.shared.sums import products
from clprim.torch import dispatcher
from clprim.torch.agreeing import family
from clprim.torch.kernels.elementwise import apply
from clprim.torch.layout import contiguous, format_of
from clprim.torch.precision import precise
from clprim.torch.table import kernel
from clprim.torch.tensors import kind_of, numpy_dtype


@kernel("mm", "bmm")
@precise
def _mm(a: Array, b: Array) -> Any:
    _check_matrices(a, b)
    return _wrapped(ops.matmul(a, b), a)


def _check_matrices(a: Array, b: Array) -> None:
    if b.ndim != a.ndim or a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({_sizes(a)} and {_sizes(b)})"
        )


def _wrapped(product: Array, like: Array) -> Array:
    """A product in the operands' dtype: of short integers what is left of int32."""
    return product if product.dtype == like.dtype else product.astype(like.dtype)


def _sizes(a: Array) -> str:
    return "x".join(map(str, a.shape))


@kernel("_grouped_mm")
@precise
def _grouped_mm(
    a: Array,
    b: Array,
    ends: Array | None = None,
    bias: Array | None = None,
    out_dtype: Any = None,
) -> Any:
    """Products of groups, which end where ``ends`` says: rows of a, columns of b, or terms."""
    if bias is not None or (out_dtype is not None and numpy_dtype(out_dtype) != a.dtype):
        raise RuntimeError("grouped_mm: expected no bias, and out_dtype as the inputs'")
    if a.dtype != b.dtype or not {a.ndim, b.ndim} <= {2, 3}:
        raise RuntimeError(
            f"grouped_mm: expected 2 or 3 dimensions and one dtype, got {_sizes(a)} of {a.dtype} "
            f"and {_sizes(b)} of {b.dtype}"
        )
    if a.shape[-1] != b.shape[-2] or (ends is None) != (a.ndim == b.ndim == 3):
        raise RuntimeError(
            f"grouped_mm: matrices of {_sizes(a)} and {_sizes(b)} do not fit, or offs is "
            f"{'missing' if ends is None else 'too much'}"
        )
    if ends is None:
        return ops.matmul(a, b)
    groups = [x.shape[0] for x in (a, b) if x.ndim == 3]
    if ends.ndim != 1 or ends.dtype != np.int32 or any(n != ends.size for n in groups):
        raise RuntimeError(
            f"grouped_mm: offs is {ends.dtype} of shape {ends.shape}, expected int32, one for each "
            f"group of {_sizes(a)} and {_sizes(b)}"
        )
    bounds = [0, *ends.get().tolist()]
    most = a.shape[-2 if b.ndim == 3 else -1] if a.ndim == 2 else b.shape[-1]
    if sorted(bounds) != bounds or bounds[-1] > most:
        raise RuntimeError(f"grouped_mm: offs={bounds[1:]}: expected to rise from 0 to {most}")
    shape = (*((len(bounds) - 1,) if a.ndim == b.ndim else ()), a.shape[-2], b.shape[-1])
    y = zeros(shape, a.dtype)
    for n, (start, stop) in enumerate(pairwise(bounds)):
        if start < stop:
            part = slice(start, stop)
            if a.ndim == 2 and b.ndim == 2:
                ops.matmul(a[:, part], b[part], out=y[n])
            elif a.ndim == 2:
                ops.matmul(a[part], b[n], out=y[part])
            else:
                ops.matmul(a[n], b[:, part], out=y[:, part])
    return y


@kernel("mv")
@precise
def _mv(a: Array, b: Array) -> Any:
    return _wrapped(ops.matmul(a, b), a) if a.size else zeros((a.shape[0],), a.dtype)


@kernel("vdot")
def _vdot(a: Array, b: Array) -> Any:
    return _dot(apply("conj({a})", a, kind=kind_of(a.dtype)) if a.dtype.kind == "c" else a, b)


@kernel("dot")
@precise
def _dot(a: Array, b: Array) -> Any:
    if a.shape != b.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor {list(a.shape)} and src {list(b.shape)} to "
            "have the same number of elements"
        )
    return products(a.dtype)(a, b)


@kernel("addmm")
@precise
def _addmm(old: Array, a: Array, b: Array, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if beta == 1 and alpha == 1 and old.ndim == 1 and a.ndim == 2:
        columns = b.shape[-1]
        if old.shape == (columns,) and old.dtype == a.dtype and a.size and b.size:
            return _wrapped(ops.matmul(a, b, bias=old), a)
    _check_matrices(a, b)
    return _wrapped(ops.addmm(old, a, b, beta=beta, alpha=alpha), a)


@family("wrapped")
def _added(operator: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(operator)
    @precise
    def run(a: Array, **values: Any) -> Any:
        try:
            return _wrapped(operator(a=a, **values), a)
        except ShapeError as error:
            raise RuntimeError(str(error)) from None

    return run


@kernel("_cdist_backward", lies=contiguous)
def _cdist_backward(grad: Array, a: Array, b: Array, p: float, found: Array) -> Any:
    if grad.ndim > max(a.ndim, b.ndim):
        raise ShapeError(
            f"cdist: gradients of shape {grad.shape} for operands of {a.shape} and {b.shape}: "
            "of a batch of gradients PyTorch would add up the results, on every device; "
            "let torch.func.jacrev take chunk_size=1"
        )
    return ops.cdist_backward(grad, a, b, p, output_mask=(True, False))[0]


# --- convolutions --------------------------------------------------------------------------------


def _of_rank(name: str, x: Array) -> Any:
    """The operator of a convolution's rank."""
    return getattr(ops, name.format(x.ndim - 2))


def _settings(a: Any) -> dict[str, Any]:
    """The settings that all directions share, each a number for every dimension of a window."""
    given = {"stride": a.stride, "padding": a.padding, "dilation": a.dilation}
    rank = a.input.ndim - 2
    spread = {k: tuple(v) * rank if len(v) == 1 else tuple(v) for k, v in given.items()}
    return {**spread, "groups": a.groups}


@kernel("convolution_overrideable", lies=format_of(0), named=True)
@precise
def _convolution(a: Any) -> Any:
    x, options, name = a.input, _settings(a), "conv{}d"
    if a.transposed:
        options["output_padding"], name = tuple(a.output_padding), "conv_transpose{}d"
    return _wrapped(_of_rank(name, x)(x, a.weight, a.bias, **options), x)


def _as_input(grad: Array, x: Array, w: Array, options: dict[str, Any]) -> Array:
    """Returns a transposed convolution's gradient as the input of a convolution.

    It gets the padding behind that makes as many windows as ``x`` has elements.
    """
    sides: list[int] = []
    inside = [slice(None), slice(None)]
    for d, before in enumerate(options["padding"]):
        stride, dilation = options["stride"][d], options["dilation"][d]
        reach = (x.shape[d + 2] - 1) * stride + dilation * (w.shape[d + 2] - 1) + 1
        after = reach - before - grad.shape[d + 2]
        sides += (before, max(0, after))
        inside.append(slice(grad.shape[d + 2] + min(0, after)))
    options["padding"] = tuple(sides)
    return grad[tuple(inside)]


_GRADIENTS = (format_of(0), contiguous, contiguous)


@kernel("convolution_backward_overrideable", lies=_GRADIENTS, named=True)
@precise
def _convolution_backward(a: Any) -> Any:
    x, w, grad, mask = a.input, a.weight, a.grad_output, a.output_mask
    options = _settings(a)
    dx = dw = db = None
    if mask[2]:
        db = ops.sum(grad, (0, *range(2, grad.ndim)))
    if a.transposed:
        grad = _as_input(grad, x, w, options)
    if mask[0]:
        if a.transposed:
            dx = _of_rank("conv{}d", x)(grad, w, **options)
        else:
            dx = _of_rank("conv{}d_input", x)(x.shape, w, grad, **options)
    if mask[1]:
        read, slopes = (grad, x) if a.transposed else (x, grad)
        dw = _of_rank("conv{}d_weight", x)(read, w.shape, slopes, **options)
    return dx, dw, db


_of_input = format_of(0)


def _fake_convolution(original: Any, *args: Any, **options: Any) -> Any:
    found = original(*args, **options)
    return found if found is None else _of_input(args or (options["input"],), found)


def _fake_convolution_backward(original: Any, grad: torch.Tensor, *args: Any) -> Any:
    dx, dw, db = original(grad, *args)
    return (
        dx if dx is None else _of_input((grad,), dx),
        dw if dw is None else contiguous((), dw),
        db,
    )


def register() -> None:
    """Registers how convolutions lie, which PyTorch's own devices decide by their libraries."""
    dispatcher.register_fake("convolution", _fake_convolution)
    dispatcher.register_fake("convolution_backward", _fake_convolution_backward)
