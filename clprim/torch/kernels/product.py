"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim import ops
from clprim.arrays.array import Array
from clprim.errors import ShapeError
from clprim.torch.kernels.elementwise import apply
from clprim.torch.memory import kind_of
from clprim.torch.table import kernel


@kernel("mm", "bmm")
def _mm(a: Array, b: Array) -> Any:
    rank = a.ndim
    if b.ndim != rank or a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({_sizes(a)} and {_sizes(b)})"
        )
    return ops.matmul(a, b)


def _sizes(a: Array) -> str:
    return "x".join(map(str, a.shape))


@kernel("mv")
def _mv(a: Array, b: Array) -> Any:
    return ops.matmul(a, b.reshape(-1, 1)).reshape(-1) if a.size else _mm_empty(a)


def _mm_empty(a: Array) -> Array:
    from clprim.arrays.creation import zeros

    return zeros((a.shape[0],), a.dtype)


@kernel("dot")
def _dot(a: Array, b: Array) -> Any:
    if a.shape != b.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor {list(a.shape)} and src {list(b.shape)} to "
            "have the same number of elements"
        )
    return ops.sum(apply("(typeof_y0){a} * (typeof_y0){b}", a, b, kind=kind_of(a.dtype)))


def _add_product(old: Array, product: Array, beta: Any, alpha: Any) -> Any:
    kind = kind_of(product.dtype)
    if beta == 0:
        return apply("(typeof_y0){a} * (typeof_y0){b}", product, alpha, kind=kind)
    expr = "(typeof_y0){a} * (typeof_y0){c} + (typeof_y0){b} * (typeof_y0){d}"
    return apply(expr, product, old, alpha, beta, kind=kind)


@kernel("addmm", "baddbmm")
def _addmm(old: Array, a: Array, b: Array, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if beta == 1 and alpha == 1 and old.ndim == 1 and a.ndim == 2:
        columns = b.shape[-1]
        if old.shape == (columns,) and old.dtype == a.dtype and a.size and b.size:
            return ops.matmul(a, b, bias=old)
    return _add_product(old, _mm(a, b), beta, alpha)


@kernel("addmv")
def _addmv(old: Array, a: Array, b: Array, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _add_product(old, _mv(a, b), beta, alpha)


@kernel("addbmm")
def _addbmm(old: Array, a: Array, b: Array, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _add_product(old, ops.sum(ops.matmul(a, b), 0), beta, alpha)


# --- convolutions --------------------------------------------------------------------------------


def _planes(x: Array) -> Array:
    """Images of one dimension as images of one row."""
    return x if x.ndim == 4 else x.reshape(x.shape[0], x.shape[1], 1, x.shape[2])


def _pair(values: Sequence[int], neutral: int) -> tuple[int, int]:
    given = tuple(values)
    return (neutral, given[0]) if len(given) == 1 else (given[0], given[1])


@kernel("convolution_overrideable")
def _convolution(
    x: Array,
    w: Array,
    bias: Array | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    if x.ndim == 5:
        raise ShapeError(
            f"convolution: x has shape {x.shape}; the device convolves in one or two dimensions, "
            "so keep this layer and its input on the CPU"
        )
    options: dict[str, Any] = {
        "stride": _pair(stride, 1),
        "padding": _pair(padding, 0),
        "dilation": _pair(dilation, 1),
        "groups": groups,
    }
    line = x.ndim == 3
    x, w = _planes(x), _planes(w)
    if transposed:
        options["output_padding"] = _pair(output_padding, 0)
        y = ops.conv_transpose2d(x, w, bias, **options)
    else:
        y = ops.conv2d(x, w, bias, **options)
    return y.reshape(y.shape[0], y.shape[1], y.shape[3]) if line else y


def _as_input(grad: Array, x: Array, w: Array, options: dict[str, Any]) -> Array:
    """Returns a transposed convolution's gradient as the input of a convolution.

    It gets the padding below and right that makes as many windows as ``x`` has pixels.
    """
    ends = []
    for d in range(2):
        stride, dilation = options["stride"][d], options["dilation"][d]
        reach = (x.shape[d + 2] - 1) * stride + dilation * (w.shape[d + 2] - 1) + 1
        ends.append(reach - options["padding"][d] - grad.shape[d + 2])
    top, left = options["padding"]
    options["padding"] = (top, max(0, ends[0]), left, max(0, ends[1]))
    rows, columns = (grad.shape[d + 2] + min(0, ends[d]) for d in range(2))
    return grad[:, :, :rows, :columns]


@kernel("convolution_backward_overrideable")
def _convolution_backward(
    grad: Array,
    x: Array,
    w: Array,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    mask: Sequence[bool],
) -> Any:
    line = x.ndim == 3
    x_shape, w_shape = x.shape, w.shape
    grad, x, w = _planes(grad), _planes(x), _planes(w)
    options: dict[str, Any] = {
        "stride": _pair(stride, 1),
        "padding": _pair(padding, 0),
        "dilation": _pair(dilation, 1),
        "groups": groups,
    }
    dx = dw = db = None
    if mask[2]:
        db = ops.sum(grad, (0, 2, 3))
    if transposed:
        grad = _as_input(grad, x, w, options)
    if mask[0]:
        if transposed:
            dx = ops.conv2d(grad, w, **options)
        else:
            dx = ops.conv2d_input(x.shape, w, grad, **options)
    if mask[1]:
        if transposed:
            dw = ops.conv2d_weight(grad, w.shape, x, **options)
        else:
            dw = ops.conv2d_weight(x, w.shape, grad, **options)
    if line:
        dx = dx if dx is None else dx.reshape(x_shape)
        dw = dw if dw is None else dw.reshape(w_shape)
    return dx, dw, db
