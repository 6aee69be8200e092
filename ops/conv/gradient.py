"""The gradients of a convolution: each can be had alone, written or accumulated, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clprim.arrays.array import Array, new_dense
from clprim.errors import ShapeError
from clprim.ops.conv.operands import (
    across,
    as_images,
    as_rows,
    batched,
    check_rank,
    check_shuffle,
    checked_axes,
    given_shape,
    looked_up,
    operands_of,
    out_as_images,
    unbatched,
    unbatched_gradient,
)
from clprim.ops.conv.problem import to_input, to_weight
from clprim.ops.conv.settings import Settings
from clprim.ops.conv.volumes import Told, correlate, spread, volumes
from clprim.ops.product.arguments import check_operands, check_result, product_dtypes
from clprim.ops.registry import operator
from clprim.ops.shape.pixel_shuffle import space_to_depth
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.ranks import Convolved, ShuffledBack, Windowed, of_rank, rank_of
from clprim.ops.shared.sums import SUM
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.conv.problem import Axis
from clprim.primitives.product import ContractionPrimitive, contract
from clprim.runtime.device import current_device

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _conv2d_input(
    what: str, input_shape: Sequence[int], w: Any, grad: Any, **settings: Unpack[ShuffledBack]
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
    shape = (1, *input_shape) if single else input_shape
    block, mode, out = settings["depth_to_space"], settings["mode"], settings["out"]
    grad = _small(what, batched(grad) if single else grad, block, mode)
    told = _told(settings, shape)
    given = grad, w, (), told, told.key
    place = batched(out) if single else out
    dx = contract(to_input(what), *given, out=place, beta=settings["beta"])
    return out if out is not None else unbatched(dx) if single else dx


conv2d_input = of_rank(
    _conv2d_input,
    "conv2d_input",
    sample="x.shape, empty((2, 3, 3, 3)), empty((0, 2, 2, 2))",
)


def _conv2d_weight(
    what: str, x: Any, weight_shape: Sequence[int], grad: Any, **settings: Unpack[ShuffledBack]
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
    if getattr(x, "ndim", 0) == 3 and getattr(grad, "ndim", 0) == 3:
        x, grad = batched(x), batched(grad)
    told = _told(settings, weight_shape, settings["depth_to_space"], settings["mode"])
    given = x, grad, (), told, told.key
    return contract(to_weight(what), *given, out=settings["out"], beta=settings["beta"])


conv2d_weight = of_rank(
    _conv2d_weight, "conv2d_weight", sample="x, (2, 3, 3, 3), empty((0, 2, 2, 2))"
)


def _told(
    settings: Windowed, shape: Any = None, block: int | None = None, mode: str = "CRD"
) -> Settings:
    steps = settings["stride"], settings["padding"], settings["dilation"]
    return Settings(*steps, settings["groups"], 0, shape, block, mode, settings["algorithm"])


@looked_up
def _conv_input(
    what: str, input_shape: Sequence[int], w: Any, grad: Any, **settings: Unpack[Windowed]
) -> Array:
    """Returns the gradient of `conv2d` in its input."""
    ndim, groups = rank_of(what), settings["groups"]
    single = unbatched_gradient(input_shape, grad, ndim + 1)
    input_shape = (1, *input_shape) if single else input_shape
    rank = ndim if single else -1
    grad, matrix, _ = operands_of(what, rank, "grad", grad, w, settings["algorithm"])
    shape = given_shape(what, "input_shape", input_shape, ndim + 2)
    found = checked_axes(what, shape, matrix.shape, grad.shape, _told(settings))
    if ndim == 1:
        n, c, size = shape
        given = as_images(grad), as_images(w)
        return _of_rows(to_input(what), given, found[0], (n, c, 1, size), settings, single)
    store: Convolved = {"epilogue": None, "epilogue_args": (), "out": settings["out"],
                        "beta": settings["beta"], "algorithm": settings["algorithm"]}  # fmt: skip
    return volumes(what, spread, (grad, w, None), found, shape, groups, store, single)


conv1d_input = of_rank(
    _conv_input, "conv1d_input", sample="(0, 4, 4), empty((2, 4, 3)), empty((0, 2, 2))"
)
conv3d_input = of_rank(
    _conv_input,
    "conv3d_input",
    sample="(0, 3, 4, 4, 4), empty((2, 3, 2, 2, 2)), empty((0, 2, 3, 3, 3))",
)


@looked_up
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
    found = checked_axes(what, x.shape, shape, grad.shape, _told(settings))
    if ndim == 1:
        outputs, channels, size = shape
        given = as_images(x), as_images(grad)
        image = (outputs, channels, 1, size)
        return _of_rows(to_weight(what), given, found[0], image, settings, False)
    dtype, _ = product_dtypes(what, device, x.dtype, grad.dtype)
    check_result(what, out, device, shape, dtype, inputs=(x, grad), extras=(), beta=beta)
    if out is None:
        out = new_dense(shape, dtype)
    if not math.prod(shape):
        return out
    told = Told(found, settings["groups"], None, (), beta, algorithm)
    return correlate(x, grad, out, told)


conv1d_weight = of_rank(
    _conv_weight, "conv1d_weight", sample="x[:, 0], (2, 4, 3), empty((0, 2, 2))"
)
conv3d_weight = of_rank(
    _conv_weight, "conv3d_weight", sample="image(3), (2, 3, 2, 2, 2), empty((0, 2, 3, 3, 3))"
)


def _of_rows(
    primitive: ContractionPrimitive,
    given: tuple[Any, Any],
    axis: Axis,
    shape: Any,
    settings: Windowed,
    single: bool,
) -> Any:
    """Runs a gradient of images on rows."""
    told = Settings(*across(axis), settings["groups"])
    told = told._replace(shape=shape, algorithm=settings["algorithm"])
    out = settings["out"]
    place = out_as_images(primitive.what, out, single)
    y = contract(primitive, *given, (), told, told.key, out=place, beta=settings["beta"])
    return out if out is not None else as_rows(y, single)


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
    return SUM(grad, axis=(1, 2) if rank == 3 else (0, 2, 3), out=out, beta=beta)
