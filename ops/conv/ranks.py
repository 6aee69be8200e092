"""Convolutions of rows and volumes, forward, back and transposed: a definition for all ranks.

Rows are images one pixel high; of volumes see `clprim.ops.conv.volumes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

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
from clprim.ops.conv.volumes import Axes, Told, convolve_volumes, correlate, spread
from clprim.ops.conv.windows import Padding, Pair, axes, transposed_axes, whole_numbers
from clprim.ops.product.arguments import check_operands, check_result, product_dtypes
from clprim.ops.shared.arguments import check_shape
from clprim.ops.shared.dims import empty_like
from clprim.ops.shared.epilogue import check_epilogue, split_arguments
from clprim.ops.shared.ranks import Convolved, Windowed, of_rank, rank_of
from clprim.options import current_options
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.conv.problem import Axis
from clprim.plan.epilogue import is_position
from clprim.primitives.product import contract
from clprim.runtime.device import current_device

if TYPE_CHECKING:
    from typing_extensions import Unpack

Run = Callable[..., Any]
# An array, a weight and a bias.
Operands = tuple[Any, Any, Any]


def _conv(
    what: str,
    x: Any,
    w: Any,
    bias: Any = None,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    **store: Unpack[Convolved],
) -> Array:
    """Returns the convolution (cross-correlation, as in PyTorch) with kernels (O, C / groups, …).

    ``padding`` is a number, one for each axis, one for each side, ``"same"`` or ``"valid"``. The
    epilogue of a volume reads no coordinates. Everything else is as in `conv2d`.
    """
    ndim = rank_of(what)
    x, matrix, single = _operands(what, ndim, "x", x, w, store["algorithm"])
    outputs, _ = check_shapes(what, x.shape, matrix.shape, groups, rank=ndim + 2)
    found = axes(what, x.shape[2:], matrix.shape[2:], stride, padding, dilation)
    if ndim == 1:
        told = Settings(*across(found[0]), groups)
        return _rows(what, convolve, (x, w, bias), told, store, single)
    shape = (x.shape[0], outputs, *(axis.windows for axis in found))
    return _volumes(what, convolve_volumes, (x, w, bias), found, shape, groups, store, single)


conv1d = of_rank(
    _conv,
    "conv1d",
    autocast="lower",
    gradient="`conv1d_input`, `conv1d_weight`",
    sample="x[:, 0], empty((2, 4, 3))",
)
conv3d = of_rank(
    _conv,
    "conv3d",
    autocast="lower",
    gradient="`conv3d_input`, `conv3d_weight`",
    sample="image(3), empty((2, 3, 2, 2, 2))",
)


def _conv_transpose(
    what: str,
    x: Any,
    w: Any,
    bias: Any = None,
    stride: Pair = 1,
    padding: Pair = 0,
    output_padding: Pair = 0,
    groups: int = 1,
    dilation: Pair = 1,
    **store: Unpack[Convolved],
) -> Array:
    """Returns the transposed convolution: what `conv2d` does to gradients, done to images.

    Args:
        x: (N, C, H, W), or (C, H, W).
        w: (C, O / groups, KH, KW), or what `pack_weight` made of it.
        bias: (O,).
        stride: Of the convolution that it is the transpose of.
        padding: Likewise: a number, one for each axis or one for each side.
        dilation: Likewise.
        groups: Likewise.
        output_padding: Added to the result's height and width, below and to the right; less than
            stride or dilation.
        epilogue: As in `conv2d`; that of a volume reads no coordinates.
        epilogue_args: As in `conv2d`.
        out: As in `conv2d`.
        beta: As in `conv2d`.
        algorithm: As in `conv2d`.

    Returns:
        (N, O, OH, OW) in the memory format of ``x``, with OH = (H − 1) · stride − 2 · padding
        + dilation · (KH − 1) + output_padding + 1, likewise OW.

    Raises:
        ShapeError, DTypeError, DefinitionError, DeviceError: As `conv2d` does.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.array([[[[1, 2]]]], np.float32))
        >>> ops.conv_transpose2d(x, cp.full((1, 1, 1, 2), 1.0), stride=2).get()
        array([[[[1., 1., 2., 2.]]]], dtype=float32)
    """
    ndim = rank_of(what)
    if ndim == 2:
        single = getattr(x, "ndim", 0) == 3 and getattr(w, "ndim", 0) == 4
        told = Settings(stride, padding, dilation, groups, output_padding)
        told = told._replace(axes=(1, 2, 3) if single else (0, 1, 2, 3))
        return _images(what, transposed, (x, w, bias), told, store, single)
    x, matrix, single = _operands(what, ndim, "x", x, w, store["algorithm"])
    check_rank(what, "x", x.shape, ndim + 2)
    check_rank(what, "w", matrix.shape, ndim + 2)
    if ndim == 1:
        (more,) = whole_numbers(what, "output_padding", output_padding, 0, (1,))
        sides = whole_numbers(what, "padding", padding, 0, (1, 2))
        (axis,) = axes(what, (1 << 24,), matrix.shape[2:], stride, sides, dilation)
        told = Settings(*across(axis), groups, (0, more))
        return _rows(what, transposed, (x, w, bias), told, store, single)
    check_groups(what, groups)
    check_transposed(what, x.shape, matrix.shape, groups)
    sizes = x.shape[2:], matrix.shape[2:]
    found = transposed_axes(what, *sizes, stride, padding, output_padding, dilation)
    shape = (x.shape[0], matrix.shape[1] * groups, *(axis.size for axis in found))
    return _volumes(what, spread, (x, w, bias), found, shape, groups, store, single)


conv_transpose1d = of_rank(
    _conv_transpose,
    "conv_transpose1d",
    autocast="lower",
    gradient="`conv1d`, `conv1d_weight`",
    sample="x[:, 0], empty((4, 2, 3))",
)
conv_transpose2d = of_rank(
    _conv_transpose,
    "conv_transpose2d",
    autocast="lower conv_transpose2d.input",
    gradient="`conv2d`, `conv2d_weight`",
    sample="x, empty((3, 2, 3, 3))",
)
conv_transpose3d = of_rank(
    _conv_transpose,
    "conv_transpose3d",
    autocast="lower conv_transpose3d.input",
    gradient="`conv3d`, `conv3d_weight`",
    sample="image(3), empty((3, 2, 2, 2, 2))",
)


def _conv_input(
    what: str, input_shape: Sequence[int], w: Any, grad: Any, **settings: Unpack[Windowed]
) -> Array:
    """Returns the gradient of `conv2d` in its input."""
    ndim, groups = rank_of(what), settings["groups"]
    single = unbatched_gradient(input_shape, grad, ndim + 1)
    input_shape = (1, *input_shape) if single else input_shape
    rank = ndim if single else -1
    grad, matrix, _ = _operands(what, rank, "grad", grad, w, settings["algorithm"])
    shape = given_shape(what, "input_shape", input_shape, ndim + 2)
    found = _gradient_axes(what, shape, matrix.shape, grad, settings)
    if ndim == 1:
        n, c, size = shape
        given = as_images(grad), as_images(w)
        return _gradient_of_rows(
            input_primitive(what), given, found[0], (n, c, 1, size), settings, single
        )
    store: Convolved = {"epilogue": None, "epilogue_args": (), "out": settings["out"],
                        "beta": settings["beta"], "algorithm": settings["algorithm"]}  # fmt: skip
    return _volumes(what, spread, (grad, w, None), found, shape, groups, store, single)


conv1d_input = of_rank(
    _conv_input, "conv1d_input", sample="(0, 4, 4), empty((2, 4, 3)), empty((0, 2, 2))"
)
conv3d_input = of_rank(
    _conv_input,
    "conv3d_input",
    sample="(0, 3, 4, 4, 4), empty((2, 3, 2, 2, 2)), empty((0, 2, 3, 3, 3))",
)


def _conv_weight(
    what: str, x: Any, weight_shape: Sequence[int], grad: Any, **settings: Unpack[Windowed]
) -> Array:
    """Returns the gradient of `conv2d` in its weight, (O, C / groups, …)."""
    ndim, device = rank_of(what), current_device()
    out, beta, algorithm = settings["out"], settings["beta"], settings["algorithm"]
    if getattr(x, "ndim", 0) == ndim + 1 and getattr(grad, "ndim", 0) == ndim + 1:
        x, grad = batched(x), batched(grad)
    CONVOLUTIONS.check(what, algorithm)
    check_operands(what, device, x=x, grad=grad)
    check_rank(what, "x", x.shape, ndim + 2)
    shape = given_shape(what, "weight_shape", weight_shape, ndim + 2)
    found = _gradient_axes(what, x.shape, shape, grad, settings)
    if ndim == 1:
        outputs, channels, size = shape
        given = as_images(x), as_images(grad)
        image = (outputs, channels, 1, size)
        return _gradient_of_rows(weight_primitive(what), given, found[0], image, settings, False)
    dtype, _ = product_dtypes(what, device, x.dtype, grad.dtype)
    check_result(what, out, device, shape, dtype, inputs=(x, grad), extras=(), beta=beta)
    if out is None:
        out = new_dense(shape, dtype)
    if not math.prod(shape):
        return out
    error = current_options().convolution_error
    told = Told(found, settings["groups"], None, (), beta, algorithm, error)
    return correlate(x, grad, out, told)


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
    what: str, x: Sequence[int], w: Sequence[int], grad: Any, settings: Windowed
) -> Axes:
    check_rank(what, "grad", grad.shape, len(x))
    check_shapes(what, x, w, settings["groups"], rank=len(x))
    steps = settings["stride"], settings["padding"], settings["dilation"]
    found = axes(what, x[2:], w[2:], *steps)
    check_shape(what, "grad", grad, (x[0], w[0], *(axis.windows for axis in found)))
    return found


def _images(
    what: str, run: Run, operands: Operands, told: Settings, store: Convolved, single: bool
) -> Any:
    """Runs what takes images, which may be one without a batch."""
    x, w, bias = operands
    told = told._replace(
        algorithm=store["algorithm"], epilogue=store["epilogue"], bias=bias is not None
    )
    out = store["out"]
    place = batched(out) if single and getattr(out, "ndim", 0) == 3 else out
    given = batched(x) if single else x, w, bias, told, store["epilogue_args"]
    y = run(what, *given, out=place, beta=store["beta"])
    return out if out is not None else unbatched(y) if single else y


def _rows(
    what: str, run: Run, operands: Operands, told: Settings, store: Convolved, single: bool
) -> Any:
    """Runs what takes images on rows, which are a batch already."""
    x, w, bias = operands
    told = told._replace(
        algorithm=store["algorithm"], epilogue=store["epilogue"], bias=bias is not None,
        axes=axes_of(single),
    )  # fmt: skip
    given = as_images(x), as_images(w), bias, told, all_as_images(store["epilogue_args"])
    place = out_as_images(what, store["out"], single)
    y = run(what, *given, out=place, beta=store["beta"])
    return store["out"] if store["out"] is not None else as_rows(y, single)


def _gradient_of_rows(
    primitive: Any, given: Any, axis: Axis, shape: Any, settings: Windowed, single: bool
) -> Any:
    told = Settings(*across(axis), settings["groups"])
    told = told._replace(shape=shape, algorithm=settings["algorithm"])
    out = settings["out"]
    place = out_as_images(primitive.what, out, single)
    y = contract(primitive, *given, (), told, told.key, out=place, beta=settings["beta"])  # type: ignore[arg-type, call-arg, misc]
    return out if out is not None else as_rows(y, single)


def _volumes(
    what: str,
    run: Run,
    operands: Operands,
    found: Axes,
    shape: tuple[int, ...],
    groups: int,
    store: Convolved,
    single: bool,
) -> Array:
    """Checks what is left to check of volumes, and computes them."""
    (x, w, bias), device = operands, current_device()
    matrix, given, beta = matrix_of(w), store["out"], store["beta"]
    out = batched(given) if single and getattr(given, "ndim", 0) == 4 else given
    dtype, value = product_dtypes(what, device, x.dtype, matrix.dtype)
    epilogue = store["epilogue"]
    args, numbers = _epilogue(what, bias, epilogue, store["epilogue_args"], shape, value)
    extras = [*args, *([] if bias is None else [bias])]
    check_result(what, out, device, shape, dtype, inputs=(x, matrix), extras=extras, beta=beta)
    if out is None:
        out = empty_like(x, shape, dtype)
    error = current_options().convolution_error
    told = Told(found, groups, epilogue, numbers, beta, store["algorithm"], error)
    y = run(what, x, w, bias, args, out, told) if math.prod(shape) else out
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
