"""Convolutions of volumes, forward, back and transposed: checked, and computed as those of images.

See `clprim.ops.conv.volume_calls`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from clprim.arrays.array import Array, new_dense, view_of
from clprim.call.packed import matrix_of
from clprim.dtypes import AnyDType
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.ops.conv.arguments import (
    batched,
    check_groups,
    check_rank,
    check_shapes,
    unbatched,
    unbatched_gradient,
)
from clprim.ops.conv.volume_calls import Axes, convolve, correlate, spread
from clprim.ops.conv.windows import Padding, Pair, axes, transposed_axes
from clprim.ops.product.arguments import check_operands, check_result, product_dtypes
from clprim.ops.registry import operator
from clprim.ops.shared.arguments import check_shape
from clprim.ops.shared.dims import empty_like
from clprim.ops.shared.epilogue import check_epilogue, split_arguments
from clprim.options import current_options
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.epilogue import is_position
from clprim.runtime.device import current_device


@operator(gradient="`conv3d_input`, `conv3d_weight`", sample="image(3), empty((2, 3, 2, 2, 2))")
def conv3d(
    x: Any,
    w: Any,
    bias: Any = None,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    *,
    epilogue: str | None = None,
    epilogue_args: Any = (),
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Array:
    """Returns the convolution (cross-correlation, as in PyTorch) of volumes with kernels.

    Args:
        x: (N, C, D, H, W), or (C, D, H, W), of any strides.
        w: (O, C / groups, KD, KH, KW), or what `pack_weight` made of it.
        bias: (O,), added to every element.
        stride: A number, or one each for depth, height and width.
        padding: Likewise, or one for each of the six sides, or ``"same"`` or ``"valid"``.
        dilation: Likewise.
        groups: As in `conv2d`, as is all that follows.
        epilogue: A snippet on ``y0``.
        epilogue_args: Arrays for it.
        out: (N, O, OD, OH, OW), where the result goes.
        beta: What its old value is multiplied with before it is added.
        algorithm: ``"auto"`` or one of ``conv2d.algorithms``.

    Returns:
        (N, O, OD, OH, OW) in the memory format of ``x``.

    Raises:
        ShapeError, DTypeError, DefinitionError, DeviceError: As `conv2d` does.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(8, dtype=np.float32).reshape(1, 1, 2, 2, 2))
        >>> ops.conv3d(x, cp.full((1, 1, 2, 2, 2), 1.0)).get()
        array([[[[[28.]]]]], dtype=float32)
    """
    what = "conv3d"
    device, matrix = current_device(), matrix_of(w)
    CONVOLUTIONS.check(what, algorithm)
    check_operands(what, device, x=x, w=matrix)
    single = x.ndim == 4
    x = batched(x) if single else x
    given_out, out = out, batched(out) if single and getattr(out, "ndim", 0) == 4 else out
    outputs, _ = check_shapes(what, x.shape, matrix.shape, groups, rank=5)
    found = axes(what, x.shape[2:], matrix.shape[2:], stride, padding, dilation)
    dtype, value = product_dtypes(what, device, x.dtype, matrix.dtype)
    shape = (x.shape[0], outputs, *(axis.windows for axis in found))
    args, numbers = _checked(what, bias, epilogue, epilogue_args, shape, value)
    extras = [*args, *([] if bias is None else [bias])]
    check_result(what, out, device, shape, dtype, inputs=(x, matrix), extras=extras, beta=beta)
    if out is None:
        out = empty_like(x, shape, dtype)
    error = current_options().convolution_error
    given = (_numbers(found), groups, epilogue, numbers, beta, algorithm, error)
    y = convolve(x, w, bias, args, out, *given) if math.prod(shape) else out
    return given_out if given_out is not None else unbatched(y) if single else y


@operator(gradient="`conv3d`, `conv3d_weight`", sample="image(3), empty((3, 2, 2, 2, 2))")
def conv_transpose3d(
    x: Any,
    w: Any,
    bias: Any = None,
    stride: Pair = 1,
    padding: Pair = 0,
    output_padding: Pair = 0,
    groups: int = 1,
    dilation: Pair = 1,
    *,
    epilogue: str | None = None,
    epilogue_args: Any = (),
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Array:
    """Returns the transposed convolution: what `conv3d` does to gradients, done to volumes.

    Args:
        x: (N, C, D, H, W), or (C, D, H, W).
        w: (C, O / groups, KD, KH, KW), or what `pack_weight` made of it.
        bias: (O,).
        stride: Of the convolution that it is the transpose of; a number, or one for each axis.
        padding: Likewise, or one for each of the six sides.
        output_padding: Added to the result behind, as in `conv_transpose2d`.
        groups: As there, as is all that follows.
        dilation: A number, or one for each axis.
        epilogue: A snippet on ``y0``.
        epilogue_args: Arrays for it.
        out: (N, O, OD, OH, OW), where the result goes.
        beta: What its old value is multiplied with before it is added.
        algorithm: ``"auto"`` or one of ``conv2d.algorithms``.

    Returns:
        (N, O, OD, OH, OW) in the memory format of ``x``.

    Raises:
        ShapeError, DTypeError, DefinitionError, DeviceError: As `conv_transpose2d` does.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.array([[[[[1]], [[2]]]]], np.float32))
        >>> ops.conv_transpose3d(x, cp.full((1, 1, 2, 1, 1), 1.0), stride=2).get().ravel()
        array([1., 1., 2., 2.], dtype=float32)
    """
    what = "conv_transpose3d"
    device, matrix = current_device(), matrix_of(w)
    CONVOLUTIONS.check(what, algorithm)
    check_operands(what, device, x=x, w=matrix)
    single = x.ndim == 4
    x = batched(x) if single else x
    given_out, out = out, batched(out) if single and getattr(out, "ndim", 0) == 4 else out
    check_rank(what, "x", x.shape, 5)
    check_rank(what, "w", matrix.shape, 5)
    check_groups(what, groups)
    if x.shape[1] != matrix.shape[0] or x.shape[1] % groups:
        raise ShapeError(
            f"{what}: x of shape {x.shape} and w of shape {matrix.shape} with groups={groups}: "
            "expected as many channels in x as outputs in w, a multiple of groups"
        )
    sizes = x.shape[2:], matrix.shape[2:]
    found = transposed_axes(what, *sizes, stride, padding, output_padding, dilation)
    dtype, value = product_dtypes(what, device, x.dtype, matrix.dtype)
    shape = (x.shape[0], matrix.shape[1] * groups, *(axis.size for axis in found))
    args, numbers = _checked(what, bias, epilogue, epilogue_args, shape, value)
    extras = [*args, *([] if bias is None else [bias])]
    check_result(what, out, device, shape, dtype, inputs=(x, matrix), extras=extras, beta=beta)
    if out is None:
        out = empty_like(x, shape, dtype)
    error = current_options().convolution_error
    given = (_numbers(found), groups, epilogue, numbers, beta, algorithm, error)
    y = spread(what, x, w, bias, args, out, *given) if math.prod(shape) else out
    return given_out if given_out is not None else unbatched(y) if single else y


@operator(sample="(0, 3, 4, 4, 4), empty((2, 3, 2, 2, 2)), empty((0, 2, 3, 3, 3))")
def conv3d_input(
    input_shape: Sequence[int],
    w: Any,
    grad: Any,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Array:
    """Returns the gradient of `conv3d` in its input; see `conv2d_input`.

    The input is (N, C, D, H, W) or (C, D, H, W).

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> w, grad = cp.full((1, 1, 2, 1, 1), 1.0), cp.full((1, 1, 2, 1, 1), 1.0)
        >>> ops.conv3d_input((1, 1, 3, 1, 1), w, grad).get().ravel()
        array([1., 2., 1.], dtype=float32)
    """
    what = "conv3d_input"
    single = unbatched_gradient(input_shape, grad, 4)
    if single:
        input_shape, grad = (1, *input_shape), batched(grad)
    given_out, out = out, batched(out) if single and getattr(out, "ndim", 0) == 4 else out
    device, matrix = current_device(), matrix_of(w)
    CONVOLUTIONS.check(what, algorithm)
    check_operands(what, device, w=matrix, grad=grad)
    shape = _shape(what, "input_shape", input_shape)
    found = _gradient_axes(what, shape, matrix.shape, grad, groups, stride, padding, dilation)
    dtype, _ = product_dtypes(what, device, grad.dtype, matrix.dtype)
    check_result(what, out, device, shape, dtype, inputs=(grad, matrix), extras=(), beta=beta)
    if out is None:
        out = empty_like(grad, shape, dtype)
    error = current_options().convolution_error
    given = (_numbers(found), groups, None, (), beta, algorithm, error)
    dx = spread(what, grad, w, None, (), out, *given) if math.prod(shape) else out
    return given_out if given_out is not None else unbatched(dx) if single else dx


@operator(sample="image(3), (2, 3, 2, 2, 2), empty((0, 2, 3, 3, 3))")
def conv3d_weight(
    x: Any,
    weight_shape: Sequence[int],
    grad: Any,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Array:
    """Returns the gradient of `conv3d` in its weight, (O, C / groups, KD, KH, KW).

    See `conv2d_weight`.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(3, dtype=np.float32).reshape(1, 1, 3, 1, 1))
        >>> ops.conv3d_weight(x, (1, 1, 2, 1, 1), cp.full((1, 1, 2, 1, 1), 1.0)).get().ravel()
        array([1., 3.], dtype=float32)
    """
    what = "conv3d_weight"
    device = current_device()
    if getattr(x, "ndim", 0) == 4 and getattr(grad, "ndim", 0) == 4:
        x, grad = batched(x), batched(grad)
    CONVOLUTIONS.check(what, algorithm)
    check_operands(what, device, x=x, grad=grad)
    check_rank(what, "x", x.shape, 5)
    shape = _shape(what, "weight_shape", weight_shape)
    found = _gradient_axes(what, x.shape, shape, grad, groups, stride, padding, dilation)
    dtype, _ = product_dtypes(what, device, x.dtype, grad.dtype)
    check_result(what, out, device, shape, dtype, inputs=(x, grad), extras=(), beta=beta)
    if out is None:
        out = new_dense(shape, dtype)
    error = current_options().convolution_error
    given = (_numbers(found), groups, beta, algorithm, error)
    return correlate(x, grad, out, *given) if math.prod(shape) else out


# --- what users give ------------------------------------------------------------------------------


def _shape(what: str, label: str, shape: Any) -> tuple[int, ...]:
    try:
        found = tuple(int(n) for n in shape)
    except (TypeError, ValueError):
        found = ()
    if len(found) != 5 or min(found) < 0:
        raise ShapeError(f"{what}: {label}={quoted(shape)}: expected 5 sizes of at least 0")
    return found


def _gradient_axes(
    what: str,
    x: Sequence[int],
    w: Sequence[int],
    grad: Any,
    groups: Any,
    stride: Pair,
    padding: Padding,
    dilation: Pair,
) -> Axes:
    check_rank(what, "grad", grad.shape, 5)
    check_shapes(what, x, w, groups, rank=5)
    found = axes(what, x[2:], w[2:], stride, padding, dilation)
    expected = (x[0], w[0], *(axis.windows for axis in found))
    check_shape(what, "grad", grad, expected)
    return found


def _checked(
    what: str, bias: Any, epilogue: Any, args: Any, shape: tuple[int, ...], value: AnyDType
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Checks a bias and an epilogue; returns its arrays, each of five dimensions, and numbers."""
    device = current_device()
    if bias is not None:
        check_operands(what, device, bias=bias)
        check_shape(what, "bias", bias, (shape[1],))
    read = check_epilogue(what, device, epilogue, args, shape, value)
    if read.sizes or any(is_position(a.name) for a in read.arrays):
        raise DefinitionError(
            f"{what}: the epilogue reads index, coord or size, which that of a volume cannot"
        )
    arrays, numbers = split_arguments(args)
    wide = [
        view_of(a, (*(1,) * (5 - a.ndim), *a.shape), (*(0,) * (5 - a.ndim), *a.strides), a.offset)
        for a in arrays
    ]
    return tuple(wide), numbers


def _numbers(found: Axes) -> tuple[tuple[int, ...], ...]:
    """The axes as what a repeated call is known by."""
    return tuple((a.size, a.kernel, a.stride, a.dilation, a.before, a.after) for a in found)
