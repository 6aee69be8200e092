"""Convolutions of rows, images and volumes, and transposed ones: a definition for all ranks.

Rows are images one pixel high; of volumes see `clprim.ops.conv.volumes`.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast

from clprim.arrays.array import Array, view_of
from clprim.call.packed import PackedWeight, matrix_of
from clprim.call.primitive import request_of
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.ops.conv import problem
from clprim.ops.conv.operands import (
    across,
    all_as_images,
    as_images,
    as_rows,
    axes_of,
    batched,
    check_groups,
    check_shapes,
    check_transposed,
    looked_up,
    operands_of,
    out_as_images,
    unbatched,
)
from clprim.ops.conv.problem import convolve
from clprim.ops.conv.settings import Settings
from clprim.ops.conv.volumes import Operands, convolve_volumes, spread, volumes
from clprim.ops.product.arguments import check_operands
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_real
from clprim.ops.shared.epilogue import split_arguments
from clprim.ops.shared.ranks import Convolved, Shuffled, of_rank, rank_of
from clprim.ops.shared.window import Numbers, Padding, axes, numbers, sides, transposed_axes
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.runtime.device import current_device

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

    from clprim.primitives.product import ContractionPrimitive

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
_IMAGES, _IMAGE = (0, 1, 2, 3), (1, 2, 3)


@operator()
def pack_weight(w: Any, *, groups: int = 1, memory_format: str | None = None) -> PackedWeight:
    """Returns a weight that is packed once, when it is first used, and taken wherever ``w`` is.

    Calls that want it in another order, as those with ``depth_to_space=`` do, pack it once more.

    Args:
        w: The weight of a convolution, (O, C / groups, KH, KW), or a matrix.
        groups: Of the convolution it is for.
        memory_format: Of the arrays it will meet; it may be left out.

    Raises:
        DTypeError: Not a device array.
        ShapeError: Outputs that do not divide into groups.

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> ops.pack_weight(cp.full((8, 3, 3, 3), 1.0)).shape
        (8, 3, 3, 3)
    """
    if memory_format not in (None, "contiguous", "channels_last"):
        raise DefinitionError(
            f"pack_weight: memory_format={quoted(memory_format)}; expected 'contiguous' or "
            "'channels_last'"
        )
    check_operands("pack_weight", current_device(), w=w)
    check_real("pack_weight", w)
    check_groups("pack_weight", groups)
    if not w.ndim or w.shape[0] % groups:
        raise ShapeError(f"pack_weight: w of shape {w.shape} has not {groups} groups of outputs")
    return PackedWeight(view_of(w, w.shape, w.strides, w.offset).copy())


def _conv2d(
    what: str,
    x: Any,
    w: Any,
    bias: Any = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    **store: Unpack[Shuffled],
) -> Array:
    """Returns the convolution (cross-correlation, as in PyTorch) of images with kernels.

    Args:
        x: (N, C, H, W), or (C, H, W), of any strides.
        w: (O, C / groups, KH, KW), or what `pack_weight` made of it.
        bias: (O,), added to every pixel.
        stride: A number, or one for height and one for width.
        dilation: Likewise.
        padding: Likewise, or ``(top, bottom, left, right)``, or a word: ``"valid"`` for none,
            or ``"same"``, with a stride of 1, for a result of the size of ``x``.
        groups: Inputs and outputs are divided into so many independent convolutions.
        epilogue: A snippet on ``y0``, the value with its bias, run in the storing kernel; it
            reads arrays ``x0``, …, numbers ``w0``, …, ``index``, ``coord(d)`` and ``size(d)``
            of the result. `epilogue_backward` is its gradient.
        epilogue_args: Those arrays, which broadcast to the result, then the numbers.
        depth_to_space: A block r: outputs become squares of r × r pixels as they are stored, so
            that the result is ``depth_to_space(conv2d(…), r, mode)``, bit for bit. What runs
            at the store then sees that result: ``epilogue_args`` broadcast to its shape.
        mode: Of ``depth_to_space``: ``"CRD"``, PyTorch's order, or ``"DCR"``.
        out: (N, O, OH, OW), where the result goes; (N, O / r², r·OH, r·OW) with a block r.
        beta: ``y = epilogue(x ∗ w + bias) + beta * y_old``; at 0 the old value is not read.
        algorithm: ``"auto"`` or one of `algorithms`. Errors of ``"winograd"`` are not those of
            sums of products: ``cp.options(convolution_error=)`` admits it.

    Returns:
        (N, O, OH, OW) in the memory format of ``x``, with
        OH = ⌊(H + top + bottom − dilation · (KH − 1) − 1) / stride⌋ + 1, likewise OW; with a
        block r (N, O / r², r·OH, r·OW).

    Raises:
        ShapeError: Shapes that do not fit, a kernel larger than the padded input, outputs that
            do not divide into squares, an ``out`` of another shape or overlapping an input.
        DTypeError: No device array, or dtypes that have no product.
        DefinitionError: A wrong epilogue, an unknown mode, an algorithm that is unknown or
            cannot do it.
        DeviceError: An array of another context.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3))
        >>> w = cp.full((1, 1, 2, 2), 1.0)
        >>> ops.conv2d(x, w, epilogue="y0 = y0 < 10 ? 10 : y0;").get()
        array([[[[10., 12.],
                 [20., 24.]]]], dtype=float32)
    """
    single = len(getattr(x, "shape", ())) == 3 and getattr(w, "ndim", 4) == 4
    told = Settings(
        stride,
        padding,
        dilation,
        groups,
        0,
        None,
        store["depth_to_space"],
        store["mode"],
        store["algorithm"],
        store["epilogue"],
        bias is not None,
        _IMAGE if single else _IMAGES,
    )
    primitive, out, args = problem.forward(what), store["out"], store["epilogue_args"]
    if not single:
        return convolve(primitive, x, w, bias, told, args, out=out, beta=store["beta"])
    return _images(primitive, (x, w, bias), told, store)


class _Chosen(Protocol[P, R_co]):
    """An operator that has algorithms, and looks at its settings where they are new."""

    checked: bool

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Computes with one of them."""

    def algorithms(self, x: Any, w: Any, *args: Any, **options: Any) -> tuple[str, ...]:
        """Returns the names of the algorithms that can do a call with these arguments."""


def _chosen(function: Callable[P, R_co]) -> _Chosen[P, R_co]:
    found = cast("_Chosen[P, R_co]", function)
    found.checked, found.algorithms = True, _algorithms  # type: ignore[method-assign]
    return found


def _algorithms(x: Any, w: Any, *args: Any, **options: Any) -> tuple[str, ...]:
    """Returns the names of the algorithms that can do a call with these arguments."""
    device = current_device()
    x = batched(x) if getattr(x, "ndim", 0) == 3 else x
    given = inspect.signature(conv2d).bind(x, w, *args, **options).arguments
    bias, out, beta = (given.pop(n, None) for n in ("bias", "out", "beta"))
    extras, numbers = split_arguments(given.pop("epilogue_args", ()))
    arrays = (x, matrix_of(w), *(() if bias is None else (bias,)), *extras)
    del given["x"], given["w"]
    settings = Settings(**given, bias=bias is not None)
    kept = {"w": w} if isinstance(w, PackedWeight) else {}
    outs = () if out is None else (out,)
    primitive, scalars = problem.forward("conv2d"), (beta or 0, *numbers)
    request = request_of(primitive, device, arrays, scalars, outs, settings, kept)
    problems = primitive.problem(request, device).problems
    return CONVOLUTIONS.able(problems[0], device.traits) if problems else ()


conv2d = _chosen(
    of_rank(
        _conv2d,
        "conv2d",
        autocast="lower conv2d convolution",
        onnx="""Conv(x, w, bias) group:groups=1 @windows;
            com.microsoft::FusedConv(x, w, bias, z) group:groups=1 @activated @windows;
            ConvInteger(x, w, x_zero, w_zero) group:groups=1 @integers @windows;
            QLinearConv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias)
                group:groups=1 @requantised @integers @windows;
            com.microsoft::QLinearConv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero,
                bias)
                group:groups=1 @images @requantised @integers @windows""",
        gradient="`conv2d_input`, `conv2d_weight`, `conv2d_bias`",
        sample="x, empty((2, 3, 3, 3))",
    )
)


@looked_up
def _conv(
    what: str,
    x: Any,
    w: Any,
    bias: Any = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    **store: Unpack[Convolved],
) -> Array:
    """Returns the convolution (cross-correlation, as in PyTorch) with kernels (O, C / groups, …).

    ``padding`` is a number, one for each axis, one for each side, ``"same"`` or ``"valid"``. The
    epilogue of a volume reads no coordinates. Everything else is as in `conv2d`.
    """
    ndim = rank_of(what)
    x, matrix, single = operands_of(what, ndim, "x", x, w, store["algorithm"])
    outputs, _ = check_shapes(what, x.shape, matrix.shape, groups, rank=ndim + 2)
    found = axes(what, x.shape[2:], matrix.shape[2:], stride, padding, dilation)
    if ndim == 1:
        told = Settings(*across(found[0]), groups)
        told = _with_store(told, bias, store, axes_of(single))
        return _rows(problem.forward(what), (x, w, bias), told, store, single)
    shape = (x.shape[0], outputs, *(axis.windows for axis in found))
    return volumes(what, convolve_volumes, (x, w, bias), found, shape, groups, store, single)


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
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
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
    if rank_of(what) != 2:
        given = stride, padding, output_padding, groups, dilation
        return _transposed(what, x, w, bias, *given, **store)
    single = getattr(x, "ndim", 0) == 3 and getattr(w, "ndim", 0) == 4
    told = Settings(stride, padding, dilation, groups, output_padding)
    told = _with_store(told, bias, store, _IMAGE if single else _IMAGES)
    primitive, out, args = problem.transposed(what), store["out"], store["epilogue_args"]
    if not single:
        return convolve(primitive, x, w, bias, told, args, out=out, beta=store["beta"])
    return _images(primitive, (x, w, bias), told, store)


@looked_up
def _transposed(
    what: str, x: Any, w: Any, bias: Any, *settings: Any, **store: Unpack[Convolved]
) -> Array:
    """Returns the transposed convolution of rows or volumes."""
    stride, padding, output_padding, groups, dilation = settings
    ndim = rank_of(what)
    x, matrix, single = operands_of(what, ndim, "x", x, w, store["algorithm"])
    check_transposed(what, x.shape, matrix.shape, groups, ndim + 2)
    if ndim == 1:
        (more,) = numbers(what, "output_padding", output_padding, 1, 0)
        pads = sides(what, "padding", padding, 1)
        (axis,) = axes(what, (1 << 24,), matrix.shape[2:], stride, pads, dilation)
        told = Settings(*across(axis), groups, (0, more))
        told = _with_store(told, bias, store, axes_of(single))
        return _rows(problem.transposed(what), (x, w, bias), told, store, single)
    sizes = x.shape[2:], matrix.shape[2:]
    found = transposed_axes(what, *sizes, stride, padding, output_padding, dilation)
    shape = (x.shape[0], matrix.shape[1] * groups, *(axis.size for axis in found))
    return volumes(what, spread, (x, w, bias), found, shape, groups, store, single)


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


def _with_store(told: Settings, bias: Any, store: Convolved, axes: tuple[int, ...]) -> Settings:
    how = {"algorithm": store["algorithm"], "epilogue": store["epilogue"]}
    return told._replace(**how, bias=bias is not None, axes=axes)


def _images(primitive: ContractionPrimitive, operands: Operands, told: Settings, store: Any) -> Any:
    """Runs what takes images on one without a batch."""
    (x, w, bias), out, args = operands, store["out"], store["epilogue_args"]
    place = batched(out) if getattr(out, "ndim", 0) == 3 else out
    y = convolve(primitive, batched(x), w, bias, told, args, out=place, beta=store["beta"])
    return unbatched(y) if out is None else out


def _rows(
    primitive: ContractionPrimitive, operands: Operands, told: Settings, store: Any, single: bool
) -> Any:
    """Runs what takes images on rows, which are a batch already."""
    (x, w, bias), out = operands, store["out"]
    given = as_images(x), as_images(w), bias, told, all_as_images(store["epilogue_args"])
    place = out_as_images(primitive.what, out, single)
    y = convolve(primitive, *given, out=place, beta=store["beta"])
    return as_rows(y, single) if out is None else out
