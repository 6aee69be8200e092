"""Convolutions of rows and of volumes, forward, back and transposed: one definition each.

Rows are images one pixel high; of volumes see `clprim.ops.conv.volumes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from clprim.arrays.array import Array, new_dense, view_of
from clprim.call.packed import matrix_of
from clprim.dtypes import AnyDType
from clprim.errors import DefinitionError
from clprim.ops.conv.arguments import (
    batched,
    check_groups,
    check_rank,
    check_shapes,
    check_transposed,
    given_shape,
    unbatched,
    unbatched_gradient,
)
from clprim.ops.conv.forward import convolve
from clprim.ops.conv.gradient import input_primitive, weight_primitive
from clprim.ops.conv.rows import (
    across,
    all_as_images,
    as_images,
    as_rows,
    axes_of,
    out_as_images,
)
from clprim.ops.conv.settings import Settings
from clprim.ops.conv.transpose import transposed
from clprim.ops.conv.volumes import Axes, convolve_volumes, correlate, spread
from clprim.ops.conv.windows import Padding, Pair, axes, transposed_axes, whole_numbers
from clprim.ops.product.arguments import check_operands, check_result, product_dtypes
from clprim.ops.shared.arguments import check_shape
from clprim.ops.shared.dims import empty_like
from clprim.ops.shared.epilogue import check_epilogue, split_arguments
from clprim.ops.shared.ranks import of_rank
from clprim.options import current_options
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.epilogue import is_position
from clprim.primitives.product import contract
from clprim.runtime.device import current_device


def _conv(
    what: str,
    ndim: int,
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
    """Returns the convolution (cross-correlation, as in PyTorch) with kernels (O, C / groups, …).

    ``padding`` is a number, one for each axis, one for each side, ``"same"`` or ``"valid"``. The
    epilogue of a volume reads no coordinates. Everything else is as in `conv2d`.
    """
    x, matrix, single = _operands(what, ndim, "x", x, w, algorithm)
    outputs, _ = check_shapes(what, x.shape, matrix.shape, groups, rank=ndim + 2)
    found = axes(what, x.shape[2:], matrix.shape[2:], stride, padding, dilation)
    if ndim == 1:
        told = Settings(
            *across(found[0]),
            groups,
            algorithm=algorithm,
            epilogue=epilogue,
            bias=bias is not None,
            axes=axes_of(single),
        )
        images = as_images(x), as_images(w), bias, told, all_as_images(epilogue_args)
        y = convolve(what, *images, out=out_as_images(what, out, single), beta=beta)
        return out if out is not None else as_rows(y, single)
    shape = (x.shape[0], outputs, *(axis.windows for axis in found))
    given = (epilogue, epilogue_args, out, beta, algorithm, single)
    return _volumes(what, convolve_volumes, x, w, bias, found, shape, groups, *given)


conv1d = of_rank(
    _conv, "conv1d", gradient="`conv1d_input`, `conv1d_weight`", sample="x[:, 0], empty((2, 4, 3))"
)
conv3d = of_rank(
    _conv,
    "conv3d",
    gradient="`conv3d_input`, `conv3d_weight`",
    sample="image(3), empty((2, 3, 2, 2, 2))",
)


def _conv_transpose(
    what: str,
    ndim: int,
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
    """Returns the transposed convolution with (C, O / groups, …): what `conv2d` does to gradients.

    ``padding`` is a number, one for each axis or one for each side. The epilogue of a volume reads
    no coordinates. Everything else is as in `conv_transpose2d`.
    """
    x, matrix, single = _operands(what, ndim, "x", x, w, algorithm)
    check_rank(what, "x", x.shape, ndim + 2)
    check_rank(what, "w", matrix.shape, ndim + 2)
    if ndim == 1:
        (more,) = whole_numbers(what, "output_padding", output_padding, 0, (1,))
        sides = whole_numbers(what, "padding", padding, 0, (1, 2))
        (axis,) = axes(what, (1 << 24,), matrix.shape[2:], stride, sides, dilation)
        told = Settings(
            *across(axis),
            groups,
            (0, more),
            algorithm=algorithm,
            epilogue=epilogue,
            bias=bias is not None,
            axes=axes_of(single),
        )
        images = as_images(x), as_images(w), bias, told, all_as_images(epilogue_args)
        y = transposed(what, *images, out=out_as_images(what, out, single), beta=beta)
        return out if out is not None else as_rows(y, single)
    check_groups(what, groups)
    check_transposed(what, x.shape, matrix.shape, groups)
    sizes = x.shape[2:], matrix.shape[2:]
    found = transposed_axes(what, *sizes, stride, padding, output_padding, dilation)
    shape = (x.shape[0], matrix.shape[1] * groups, *(axis.size for axis in found))
    given = (epilogue, epilogue_args, out, beta, algorithm, single)
    return _volumes(what, spread, x, w, bias, found, shape, groups, *given)


conv_transpose1d = of_rank(
    _conv_transpose,
    "conv_transpose1d",
    gradient="`conv1d`, `conv1d_weight`",
    sample="x[:, 0], empty((4, 2, 3))",
)
conv_transpose3d = of_rank(
    _conv_transpose,
    "conv_transpose3d",
    gradient="`conv3d`, `conv3d_weight`",
    sample="image(3), empty((3, 2, 2, 2, 2))",
)


def _conv_input(
    what: str,
    ndim: int,
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
    """Returns the gradient of `conv2d` in its input."""
    single = unbatched_gradient(input_shape, grad, ndim + 1)
    input_shape = (1, *input_shape) if single else input_shape
    grad, matrix, _ = _operands(what, ndim if single else -1, "grad", grad, w, algorithm)
    shape = given_shape(what, "input_shape", input_shape, ndim + 2)
    found = _gradient_axes(what, shape, matrix.shape, grad, groups, stride, padding, dilation)
    if ndim == 1:
        (n, c, size) = shape
        told = Settings(*across(found[0]), groups, shape=(n, c, 1, size), algorithm=algorithm)
        given = as_images(grad), as_images(w), (), told, told.key
        out_ = out_as_images(what, out, single)
        y = contract(input_primitive(what), *given, out=out_, beta=beta)
        return out if out is not None else as_rows(y, single)
    rest = (None, (), out, beta, algorithm, single)
    return _volumes(what, spread, grad, w, None, found, shape, groups, *rest)


conv1d_input = of_rank(
    _conv_input, "conv1d_input", sample="(0, 4, 4), empty((2, 4, 3)), empty((0, 2, 2))"
)
conv3d_input = of_rank(
    _conv_input,
    "conv3d_input",
    sample="(0, 3, 4, 4, 4), empty((2, 3, 2, 2, 2)), empty((0, 2, 3, 3, 3))",
)


def _conv_weight(
    what: str,
    ndim: int,
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
    """Returns the gradient of `conv2d` in its weight, (O, C / groups, …)."""
    device = current_device()
    if getattr(x, "ndim", 0) == ndim + 1 and getattr(grad, "ndim", 0) == ndim + 1:
        x, grad = batched(x), batched(grad)
    CONVOLUTIONS.check(what, algorithm)
    check_operands(what, device, x=x, grad=grad)
    check_rank(what, "x", x.shape, ndim + 2)
    shape = given_shape(what, "weight_shape", weight_shape, ndim + 2)
    found = _gradient_axes(what, x.shape, shape, grad, groups, stride, padding, dilation)
    if ndim == 1:
        outputs, channels, size = shape
        image = (outputs, channels, 1, size)
        told = Settings(*across(found[0]), groups, shape=image, algorithm=algorithm)
        given = as_images(x), as_images(grad), (), told, told.key
        out_ = out_as_images(what, out, False)
        y = contract(weight_primitive(what), *given, out=out_, beta=beta)
        return out if out is not None else as_rows(y, False)
    dtype, _ = product_dtypes(what, device, x.dtype, grad.dtype)
    check_result(what, out, device, shape, dtype, inputs=(x, grad), extras=(), beta=beta)
    if out is None:
        out = new_dense(shape, dtype)
    if not math.prod(shape):
        return out
    error = current_options().convolution_error
    return correlate(x, grad, out, _numbers(found), groups, beta, algorithm, error)


conv1d_weight = of_rank(
    _conv_weight, "conv1d_weight", sample="x[:, 0], (2, 4, 3), empty((0, 2, 2))"
)
conv3d_weight = of_rank(
    _conv_weight, "conv3d_weight", sample="image(3), (2, 3, 2, 2, 2), empty((0, 2, 3, 3, 3))"
)


# --- what users give ------------------------------------------------------------------------------


def _operands(
    what: str, ndim: int, label: str, x: Any, w: Any, algorithm: str
) -> tuple[Any, Any, bool]:
    """Returns the array as a batch, the weight without what is packed, and whether it was one."""
    matrix = matrix_of(w)
    CONVOLUTIONS.check(what, algorithm)
    check_operands(what, current_device(), **{label: x}, w=matrix)
    single = x.ndim == ndim + 1
    return batched(x) if single else x, matrix, single


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
    check_rank(what, "grad", grad.shape, len(x))
    check_shapes(what, x, w, groups, rank=len(x))
    found = axes(what, x[2:], w[2:], stride, padding, dilation)
    check_shape(what, "grad", grad, (x[0], w[0], *(axis.windows for axis in found)))
    return found


def _volumes(
    what: str,
    run: Callable[..., Any],
    x: Any,
    w: Any,
    bias: Any,
    found: Axes,
    shape: tuple[int, ...],
    groups: int,
    epilogue: str | None,
    epilogue_args: Any,
    out: Any,
    beta: float,
    algorithm: str,
    single: bool,
) -> Array:
    """Checks what is left to check of volumes, and computes them."""
    device, matrix = current_device(), matrix_of(w)
    given, out = out, batched(out) if single and getattr(out, "ndim", 0) == 4 else out
    dtype, value = product_dtypes(what, device, x.dtype, matrix.dtype)
    args, numbers = _epilogue(what, bias, epilogue, epilogue_args, shape, value)
    extras = [*args, *([] if bias is None else [bias])]
    check_result(what, out, device, shape, dtype, inputs=(x, matrix), extras=extras, beta=beta)
    if out is None:
        out = empty_like(x, shape, dtype)
    told = (_numbers(found), groups, epilogue, numbers, beta, algorithm)
    error = current_options().convolution_error
    y = run(what, x, w, bias, args, out, *told, error) if math.prod(shape) else out
    return given if given is not None else unbatched(y) if single else y


def _epilogue(
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
