"""The gradients of a convolution: each can be had alone, written or accumulated, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.arrays.formats import order_like
from clprim.call.forms import register_form
from clprim.call.primitive import Request, Target
from clprim.errors import ShapeError
from clprim.ops.conv.arguments import (
    batched,
    check_rank,
    checked_windows,
    given_shape,
    place_of,
    result_of,
    unbatched,
    unbatched_gradient,
)
from clprim.ops.conv.pixels import check_shuffle, shuffle_of
from clprim.ops.conv.settings import Settings
from clprim.ops.conv.windows import Padding, Pair
from clprim.ops.product.arguments import check_operands, check_result, product_dtypes
from clprim.ops.registry import operator
from clprim.ops.shape.pixels import space_to_depth
from clprim.ops.shared.arguments import dtype_of
from clprim.options import current_options
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.conv.problem import Convolution
from clprim.plan.epilogue import Epilogue
from clprim.plan.strides import is_channels_last
from clprim.primitives.product import Contracted, ContractionPrimitive, contract
from clprim.primitives.reduction import Reduction
from clprim.runtime.device import current_device


@operator(sample="x.shape, empty((2, 3, 3, 3)), empty((0, 2, 2, 2))")
def conv2d_input(
    input_shape: Sequence[int],
    w: Any,
    grad: Any,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    depth_to_space: int | None = None,
    mode: str = "CRD",
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Array:
    """Returns the gradient of `conv2d` in its input.

    Args:
        input_shape: (N, C, H, W), or (C, H, W).
        w: (O, C / groups, KH, KW), or what `pack_weight` made of it.
        grad: (N, O, OH, OW), or (O, OH, OW), the gradient in the result.
        stride: Of the convolution.
        padding: Of the convolution.
        dilation: Of the convolution.
        groups: Of the convolution.
        depth_to_space: Of the convolution; ``grad`` is then the large picture's, and is taken
            apart by `space_to_depth` first.
        mode: Of ``depth_to_space``.
        out: Where the gradient goes.
        beta: ``gradient + beta * old`` is written; 1 accumulates, and at 0 the old value is not
            read.
        algorithm: As in `conv2d`.

    Returns:
        As ``input_shape`` in the memory format of ``grad``. The same inputs give the same bits.

    Raises:
        ShapeError, DTypeError, DeviceError: As `conv2d` does.

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> grad = cp.full((1, 1, 2, 2), 1.0)
        >>> ops.conv2d_input((1, 1, 3, 3), cp.full((1, 1, 2, 2), 1.0), grad).get()
        array([[[[1., 2., 1.],
                 [2., 4., 2.],
                 [1., 2., 1.]]]], dtype=float32)
    """
    single = unbatched_gradient(input_shape, grad, 3)
    what, shape = "conv2d_input", (1, *input_shape) if single else input_shape
    grad = _small(what, batched(grad) if single else grad, depth_to_space, mode)
    told = Settings(stride, padding, dilation, groups, 0, shape, algorithm=algorithm)
    out_ = batched(out) if single else out
    dx = contract(input_primitive(what), grad, w, (), told, told.key, out=out_, beta=beta)
    return out if out is not None else unbatched(dx) if single else dx


@lru_cache(maxsize=16)
def input_primitive(what: str) -> ContractionPrimitive:
    """Returns what computes the gradient in the input, of images and of rows as such."""

    def lower(request: Request, target: Target) -> Contracted:
        told: Settings = request.options
        (grad, w), beta = request.operands, request.numbers[0]
        out = request.outs[0] if request.outs else None
        CONVOLUTIONS.check(what, told.algorithm)
        check_operands(what, target, w=w, grad=grad)
        shape = given_shape(what, "input_shape", told.shape)
        found = checked_windows(what, shape, w.shape, grad.shape, *told[:4])
        dtype, value = product_dtypes(what, target, grad.dtype, w.dtype)
        check_result(what, out, target, shape, dtype, inputs=(grad, w), extras=(), beta=beta)
        x, result = result_of("x", out, shape, dtype, order_like(grad))
        problem = Convolution(
            name=what,
            direction="input",
            images=shape[0],
            channels=shape[1],
            outputs=w.shape[0],
            groups=told.groups,
            rows=found.y,
            columns=found.x,
            value=value,
            x=x,
            w=place_of("w", w),
            y=place_of("y", grad),
            epilogue=Epilogue(beta=bool(beta)),
            error=current_options().convolution_error,
            kept="w" in request.kept,
        )
        return Contracted(CONVOLUTIONS, (problem,) if result.size else (), result, told.algorithm)

    return ContractionPrimitive(what, lambda _: ("grad", "w"), lower, "conv_input")


register_form("conv_input", input_primitive, Settings)


@operator(sample="x, (2, 3, 3, 3), empty((0, 2, 2, 2))")
def conv2d_weight(
    x: Any,
    weight_shape: Sequence[int],
    grad: Any,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    depth_to_space: int | None = None,
    mode: str = "CRD",
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Array:
    """Returns the gradient of `conv2d` in its weight.

    Args:
        x: (N, C, H, W), or (C, H, W), the input.
        weight_shape: (O, C / groups, KH, KW).
        grad: (N, O, OH, OW), or (O, OH, OW), the gradient in the result.
        stride: Of the convolution.
        padding: Of the convolution.
        dilation: Of the convolution.
        groups: Of the convolution.
        depth_to_space: Of the convolution; ``grad`` is then the large picture's, and is read
            where it lies.
        mode: Of ``depth_to_space``.
        out: Where the gradient goes.
        beta: ``gradient + beta * old`` is written; 1 accumulates, and at 0 the old value is not
            read.
        algorithm: As in `conv2d`.

    Returns:
        (O, C / groups, KH, KW), C-contiguous. The same inputs give the same bits.

    Raises:
        ShapeError, DTypeError, DeviceError: As `conv2d` does.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3))
        >>> ops.conv2d_weight(x, (1, 1, 2, 2), cp.full((1, 1, 2, 2), 1.0)).get()
        array([[[[ 8., 12.],
                 [20., 24.]]]], dtype=float32)
    """
    single = getattr(x, "ndim", 0) == 3 and getattr(grad, "ndim", 0) == 3
    if single:
        x, grad = batched(x), batched(grad)
    how = depth_to_space, mode, algorithm
    told = Settings(stride, padding, dilation, groups, 0, weight_shape, *how)
    given = x, grad, (), told, told.key
    dw: Array = contract(weight_primitive("conv2d_weight"), *given, out=out, beta=beta)
    return dw


@lru_cache(maxsize=16)
def weight_primitive(what: str) -> ContractionPrimitive:
    """Returns what computes the gradient in the weight, of images and of rows as such."""

    def lower(request: Request, target: Target) -> Contracted:
        told: Settings = request.options
        (x, grad), beta = request.operands, request.numbers[0]
        out = request.outs[0] if request.outs else None
        CONVOLUTIONS.check(what, told.algorithm)
        check_operands(what, target, x=x, grad=grad)
        shape = given_shape(what, "weight_shape", told.shape)
        check_rank(what, "grad", grad.shape)
        last = is_channels_last(grad.shape, grad.strides)
        how = told.depth_to_space, told.mode, shape[0], told.groups
        shuffle = shuffle_of(what, *how, last=last)
        found = checked_windows(what, x.shape, shape, grad.shape, *told[:4], shuffle)
        dtype, value = product_dtypes(what, target, x.dtype, grad.dtype)
        check_result(what, out, target, shape, dtype, inputs=(x, grad), extras=(), beta=beta)
        w, result = result_of("w", out, shape, dtype, range(4))
        problem = Convolution(
            name=what,
            direction="weight",
            images=x.shape[0],
            channels=x.shape[1],
            outputs=shape[0],
            groups=told.groups,
            rows=found.y,
            columns=found.x,
            value=value,
            x=place_of("x", x),
            w=w,
            y=place_of("y", grad),
            epilogue=Epilogue(beta=bool(beta)),
            error=current_options().convolution_error,
            shuffle=shuffle,
        )
        return Contracted(CONVOLUTIONS, (problem,) if result.size else (), result, told.algorithm)

    return ContractionPrimitive(what, lambda _: ("x", "grad"), lower, "conv_weight")


register_form("conv_weight", weight_primitive, Settings)


def _small(what: str, grad: Any, block: int | None, mode: str) -> Array:
    """Returns the gradient of the convolution's outputs, given that of the large picture."""
    check_shuffle(what, block, mode)
    if block is None:
        return grad
    check_operands(what, current_device(), grad=grad)
    check_rank(what, "grad", grad.shape)
    if any(size % block for size in grad.shape[2:]):
        raise ShapeError(
            f"{what}: {grad.shape[2]} × {grad.shape[3]} pixels of grad, whose shape is "
            f"{grad.shape}, are not a multiple of depth_to_space = {block}"
        )
    return space_to_depth(grad, block, mode)


_bias_gradient = Reduction(
    "", init="reduce_y0 = 0;", step="reduce_y0 += x0;", name="conv2d_bias", result_type=None
)


@operator()
def conv2d_bias(grad: Any, *, out: Any = None, beta: float = 0) -> Array:
    """Returns the gradient of `conv2d` in its bias: the sums (O,) of ``grad``.

    That is (N, O, OH, OW), or (O, OH, OW).

    Of the large picture's gradient, as ``depth_to_space=`` makes it, take `space_to_depth` first.

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> ops.conv2d_bias(cp.full((2, 3, 4, 4), 1.0)).get()
        array([32., 32., 32.], dtype=float32)
    """
    dtype_of("conv2d_bias", "grad", grad)
    rank = grad.ndim
    if rank not in (3, 4):
        raise ShapeError(f"conv2d_bias: grad has shape {grad.shape}, expected 3 or 4 dimensions")
    return _bias_gradient(grad, axis=(1, 2) if rank == 3 else (0, 2, 3), out=out, beta=beta)
