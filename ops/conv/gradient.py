"""The gradients of a convolution: each can be had alone, written or accumulated, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clprim.arrays.memory import operand_of
from clprim.call.call import Call
from clprim.call.packed import matrix_of
from clprim.call.product import Planned, run_contraction
from clprim.call.signature import Calls
from clprim.errors import ShapeError
from clprim.ops.conv.depthwise import depthwise_input, depthwise_weight, wants_depthwise
from clprim.ops.conv.lowering import (
    check_rank,
    checked_windows,
    given_shape,
    input_phases,
    result_of,
    weight_gradient,
)
from clprim.ops.conv.pixels import check_shuffle, plans_planes, shuffle_of
from clprim.ops.conv.windows import Pair, is_channels_last, key
from clprim.ops.product.arguments import (
    check_operands,
    check_result,
    product_dtypes,
)
from clprim.ops.shape.pixels import space_to_depth
from clprim.plan.depthwise.problem import Depthwise
from clprim.plan.product.problem import Contraction
from clprim.plan.strides import Operand, dense_strides
from clprim.reduction import Reduction
from clprim.runtime.device import Device, current_device

__all__ = ["conv2d_bias", "conv2d_input", "conv2d_weight"]

_calls: Calls[Call] = Calls()
_NO_PADDING = (0, (0, 0), (0, 0, 0, 0))


def conv2d_input(
    input_shape: Sequence[int],
    w: Any,
    grad: Any,
    *,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    depth_to_space: int | None = None,
    mode: str = "CRD",
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Any:
    """Returns the gradient of `conv2d` in its input.

    Args:
        input_shape: (N, C, H, W).
        w: (O, C / groups, KH, KW), or what `pack_weight` made of it.
        grad: (N, O, OH, OW), the gradient in the result.
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
        (N, C, H, W) in the memory format of ``grad``. The same inputs give the same bits.

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
    what = "conv2d_input"
    grad = _small(what, grad, depth_to_space, mode)
    options = (
        what,
        algorithm,
        key(input_shape),
        key(stride),
        key(padding),
        key(dilation),
        key(groups),
    )

    def prepare(device: Device) -> Planned:
        matrix = matrix_of(w)
        check_operands(what, device, w=matrix, grad=grad)
        shape = given_shape(what, "input_shape", input_shape)
        found = checked_windows(
            what, shape, matrix.shape, grad.shape, stride, padding, dilation, groups
        )
        planes = wants_depthwise(what, algorithm, matrix.shape, groups)
        dtype, value = product_dtypes(what, device, grad.dtype, matrix.dtype)
        check_result(what, out, device, shape, dtype, inputs=(grad, matrix), extras=(), beta=beta)
        y, described = result_of(out, shape, dtype, grad)
        phases: Sequence[Contraction | Depthwise] = (
            [depthwise_input(grad, matrix, y, found, value)]
            if planes
            else input_phases(grad, matrix, y, found, groups, value, None, [], None)
        )
        if not math.prod(shape):
            phases = []
        contractions = tuple(replace(p, name=what, beta=bool(beta)) for p in phases)
        return Planned(contractions, described, algorithm)

    return run_contraction(_calls, what, grad, w, (), options, prepare, out=out, beta=beta)


def conv2d_weight(
    x: Any,
    weight_shape: Sequence[int],
    grad: Any,
    *,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    depth_to_space: int | None = None,
    mode: str = "CRD",
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Any:
    """Returns the gradient of `conv2d` in its weight.

    Args:
        x: (N, C, H, W), the input.
        weight_shape: (O, C / groups, KH, KW).
        grad: (N, O, OH, OW), the gradient in the result.
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
    what = "conv2d_weight"
    # Of two arrays of pixels the larger one is gathered where it lies, the smaller one packed.
    window, around = key(weight_shape), key(padding)
    # (A window of one channel is depthwise, which knows no such choice.)
    pixels = isinstance(window, tuple) and window[2:] == (1, 1) and window[1] > 1
    pixels = pixels and around in _NO_PADDING
    swap = pixels and depth_to_space is None and getattr(grad, "size", 0) > getattr(x, "size", 0)
    options = (
        what,
        swap,
        algorithm,
        window,
        key(stride),
        around,
        key(dilation),
        key(groups),
        key(depth_to_space),
        key(mode),
    )

    def prepare(device: Device) -> Planned:
        check_operands(what, device, x=x, grad=grad)
        shape = given_shape(what, "weight_shape", weight_shape)
        check_rank(what, "grad", grad.shape)
        last = is_channels_last(grad.shape, grad.strides)
        shuffle = shuffle_of(what, depth_to_space, mode, shape[0], groups, last=last)
        found = checked_windows(
            what, x.shape, shape, grad.shape, stride, padding, dilation, groups, shuffle
        )
        planes = plans_planes(what, algorithm, shape, groups, shuffle)
        dtype, value = product_dtypes(what, device, x.dtype, grad.dtype)
        check_result(what, out, device, shape, dtype, inputs=(x, grad), extras=(), beta=beta)
        strides = dense_strides(shape, dtype.itemsize, range(4)) if out is None else out.strides
        y = operand_of(out) if out is not None else Operand(shape, strides, 0, dtype)
        contraction = (
            depthwise_weight(x, grad, y, found, value)
            if planes and x.size and grad.size
            else weight_gradient(x, grad, y, found, groups, value, shuffle, swap=swap)
        )
        contractions = (replace(contraction, beta=bool(beta)),) if math.prod(shape) else ()
        described = (shape, dtype, strides, math.prod(shape))
        return Planned(contractions, described, "auto" if planes else algorithm)

    gathered, packed = (grad, x) if swap else (x, grad)
    return run_contraction(_calls, what, gathered, packed, (), options, prepare, out=out, beta=beta)


def _small(what: str, grad: Any, block: int | None, mode: str) -> Any:
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


def conv2d_bias(grad: Any, *, out: Any = None, beta: float = 0) -> Any:
    """Returns the gradient of `conv2d` in its bias: the sums (O,) of ``grad`` (N, O, OH, OW).

    Of the large picture's gradient, as ``depth_to_space=`` makes it, take `space_to_depth` first.

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> ops.conv2d_bias(cp.full((2, 3, 4, 4), 1.0)).get()
        array([32., 32., 32.], dtype=float32)
    """
    if len(getattr(grad, "shape", (0,) * 4)) != 4:
        raise ShapeError(f"conv2d_bias: grad has shape {grad.shape}, expected 4 dimensions")
    return _bias_gradient(grad, axis=(0, 2, 3), out=out, beta=beta)
