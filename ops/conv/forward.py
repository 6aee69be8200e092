"""Convolution, forward, in whichever memory format the input has."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array, view_of
from clprim.arrays.formats import order_like
from clprim.arrays.validation import checked
from clprim.call.forms import register_form
from clprim.call.packed import PackedWeight, matrix_of
from clprim.call.primitive import Request, Target, request_of
from clprim.dtypes import AnyDType
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.language.epilogue_snippet import define_epilogue
from clprim.ops.conv.arguments import (
    batched,
    bias_place,
    check_groups,
    check_shapes,
    place_of,
    placed,
    result_of,
    unbatched,
)
from clprim.ops.conv.pixels import check_shuffle, shuffle_of
from clprim.ops.conv.settings import Settings
from clprim.ops.conv.windows import Padding, Pair, Windows, windows
from clprim.ops.product.arguments import (
    check_operands,
    check_result,
    product_dtypes,
    split_bias,
)
from clprim.ops.registry import operator
from clprim.ops.shared.epilogue import check_epilogue, split_arguments
from clprim.options import current_options
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.conv.problem import Convolution
from clprim.plan.epilogue import NO_EPILOGUE, Epilogue, is_position
from clprim.plan.place import Place
from clprim.plan.strides import Operand, is_channels_last
from clprim.primitives.product import Contracted, ContractionPrimitive, contract
from clprim.runtime.device import current_device


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
    check_groups("pack_weight", groups)
    if not w.ndim or w.shape[0] % groups:
        raise ShapeError(f"pack_weight: w of shape {w.shape} has not {groups} groups of outputs")
    return PackedWeight(view_of(w, w.shape, w.strides, w.offset).copy())


def convolve(
    what: str,
    x: Any,
    w: Any,
    bias: Any,
    settings: Settings,
    epilogue_args: Any,
    *,
    out: Any,
    beta: float,
) -> Array:
    """Does the work of `conv2d`, and of `conv1d` on images one pixel high; see there.

    Args:
        what: The operator, for messages.
        x: Images.
        w: The weight.
        bias: Of outputs.
        settings: All else that it is told.
        epilogue_args: Arrays and numbers.
        out: Where the result goes.
        beta: What the old result is multiplied with.
    """
    extras, numbers = split_arguments(epilogue_args)
    if bias is not None:
        extras = (bias, *extras)
    told = settings, settings.key
    return contract(_primitive(what), x, w, extras, *told, out=out, beta=beta, numbers=numbers)


@lru_cache(maxsize=16)
def _primitive(what: str) -> ContractionPrimitive:
    def lower(request: Request, target: Target) -> Contracted:
        return _lower(what, request, target)

    names = ("x", "w", "bias")
    return ContractionPrimitive(what, lambda told: names[: 2 + told.bias], lower, "conv")


register_form("conv", _primitive, Settings)


@checked
def _checked(
    what: str,
    *,
    stride: Pair,
    padding: Padding,
    dilation: Pair,
    groups: int,
    depth_to_space: int | None,
    mode: str,
    algorithm: str,
    epilogue: str | None,
    beta: float,
    **others: Any,
) -> Settings:
    """Returns settings that are of the kinds that they should be."""
    del what, beta
    given = stride, padding, dilation, groups
    return Settings(
        *given,
        depth_to_space=depth_to_space,
        mode=mode,
        algorithm=algorithm,
        epilogue=epilogue,
        **others,
    )


def _lower(what: str, request: Request, target: Target) -> Contracted:
    """Checks a convolution, and returns it as a problem."""
    beta, *numbers = request.numbers
    told = _checked(what, **request.options._asdict(), beta=beta)
    x, w = request.operands[:2]
    bias, extras = split_bias(request, told.bias)
    extras, first = _split(what, told, extras)
    out, *others = request.outs or (None,)
    CONVOLUTIONS.check(what, told.algorithm)
    check_shuffle(what, told.depth_to_space, told.mode)
    check_operands(what, target, x=x, w=w)
    groups = told.groups
    outputs, _ = check_shapes(what, x.shape, w.shape, groups)
    windows_ = {"stride": told.stride, "padding": told.padding, "dilation": told.dilation}
    found = windows(what, x.shape[2:], w.shape[2:], **windows_)
    like = out if out is not None and out.ndim == 4 else x
    last = is_channels_last(like.shape, like.strides)
    shuffle = shuffle_of(what, told.depth_to_space, told.mode, outputs, groups, last=last)
    dtype, value = product_dtypes(what, target, x.dtype, w.dtype)
    shape = (x.shape[0], outputs, found.y.windows, found.x.windows)
    biases = bias_place(what, target, bias, shape, value)
    if shuffle is not None:
        shape = shuffle.result(shape)
    given = (*extras, *numbers)
    read = check_epilogue(
        what, target, told.epilogue, given, shape, value, axes=told.axes, others=others
    )
    read_there = request.operands[2 : len(request.operands) - len(first)]
    inputs = (x, w, *first)
    for result in (out, *others):
        check_result(
            what, result, target, shape, dtype, inputs=inputs, extras=read_there, beta=beta
        )
    y, result = result_of("y", out, shape, dtype, order_like(x))
    problem = Convolution(
        name="conv2d",
        direction="forward",
        images=x.shape[0],
        channels=x.shape[1],
        outputs=outputs,
        groups=groups,
        rows=found.y,
        columns=found.x,
        value=value,
        x=place_of("x", x),
        w=place_of("w", w),
        y=y,
        epilogue=placed(read, biases, shape, beta),
        shuffle=shuffle,
        prologue=_read(what, target, told, found, first, x, value),
        error=current_options().convolution_error,
        kept="w" in request.kept,
    )
    problems = (problem,) if result.size else ()
    return Contracted(CONVOLUTIONS, problems, result, told.algorithm, tuple(others))


def _split(
    what: str, told: Settings, arrays: Sequence[Operand]
) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """Returns the arrays of the epilogue and those of the prologue, which come last."""
    if told.prologue is None:
        return tuple(arrays), ()
    snippet = define_epilogue(what, told.prologue, part="prologue")
    count = len(arrays) - max(snippet.numbers("x"), default=-1) - 1
    return tuple(arrays[:count]), tuple(arrays[count:])


def _read(
    what: str,
    target: Target,
    told: Settings,
    of: Windows,
    arrays: Sequence[Operand],
    x: Operand,
    value: AnyDType,
) -> Epilogue[Place]:
    """Returns what becomes of an element of x where it is read."""
    if told.prologue is None:
        return NO_EPILOGUE
    pixels = all(axis.kernel == 1 and not axis.leaves for axis in (of.y, of.x))
    if told.algorithm != "in_place" or told.depth_to_space is not None or not pixels:
        raise DefinitionError(f"{what}: no prologue runs with {told}")
    if any(a.dtype != value for a in (x, *arrays)):
        raise DTypeError(f"{what}: a prologue of arrays that are not all {value}")
    found = check_epilogue(what, target, told.prologue, arrays, x.shape, value, part="prologue")
    if any(is_position(a.name) for a in found.arrays):
        raise DefinitionError(f"{what}: a prologue does not know where it is")
    return found.placed(lambda array: Place.of(f"p{array.name[1:]}", array.operand, x.shape))


class _Conv2d:
    """`conv2d`; see `__call__`."""

    __name__ = "conv2d"

    def __call__(
        self,
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
        depth_to_space: int | None = None,
        mode: str = "CRD",
        out: Any = None,
        beta: float = 0,
        algorithm: str = "auto",
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
        settings = Settings(
            stride,
            padding,
            dilation,
            groups,
            0,
            None,
            depth_to_space,
            mode,
            algorithm,
            epilogue,
            bias is not None,
            (1, 2, 3) if single else (0, 1, 2, 3),
        )
        y = convolve(
            "conv2d",
            batched(x) if single else x,
            w,
            bias,
            settings,
            epilogue_args,
            out=batched(out) if single and getattr(out, "ndim", 0) == 3 else out,
            beta=beta,
        )
        return out if out is not None else unbatched(y) if single else y

    def algorithms(self, x: Any, w: Any, *args: Any, **options: Any) -> tuple[str, ...]:
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
        primitive, scalars = _primitive("conv2d"), (beta or 0, *numbers)
        request = request_of(primitive, device, arrays, scalars, outs, settings, kept)
        problems = primitive.problem(request, device).problems
        return CONVOLUTIONS.able(problems[0], device.traits) if problems else ()

    def __repr__(self) -> str:
        return "<clprim.ops.conv2d>"


conv2d = operator(
    autocast="lower conv2d convolution",
    onnx="""Conv(x, w, bias) group:groups=1 @windows;
        com.microsoft::FusedConv(x, w, bias, z) group:groups=1 @activated @windows;
        ConvInteger(x, w, x_zero, w_zero) group:groups=1 @integers @windows;
        QLinearConv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias)
            group:groups=1 @requantised @integers @windows;
        com.microsoft::QLinearConv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias)
            group:groups=1 @images @requantised @integers @windows""",
    gradient="`conv2d_input`, `conv2d_weight`, `conv2d_bias`",
    sample="x, empty((2, 3, 3, 3))",
)(_Conv2d())
