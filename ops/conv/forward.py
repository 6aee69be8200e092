"""Convolution, forward, in whichever memory format the input has."""

from __future__ import annotations

import inspect
import math
from typing import Any

from clprim.arrays.array import Array, view_of
from clprim.arrays.formats import order_like
from clprim.arrays.memory import Described
from clprim.call.call import Call
from clprim.call.door import checked
from clprim.call.packed import PackedWeight, matrix_of
from clprim.call.product import Planned, run_contraction
from clprim.call.signature import Calls
from clprim.errors import DefinitionError, ShapeError, quoted
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
from clprim.ops.conv.windows import Padding, Pair, keys, windows
from clprim.ops.product.arguments import check_operands, check_result, product_dtypes
from clprim.ops.shared.epilogue import check_epilogue, split_arguments
from clprim.options import current_options
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.conv.problem import Convolution
from clprim.plan.strides import is_channels_last
from clprim.runtime.device import Device, current_device

__all__ = ["conv2d", "pack_weight"]

_calls: Calls[Call] = Calls()

# What a convolution is given beside arrays, in the order of `convolve`.
_SETTINGS = (
    "stride",
    "padding",
    "dilation",
    "groups",
    "depth_to_space",
    "mode",
    "epilogue",
    "algorithm",
    "epilogue_args",
)


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
    settings: tuple[Any, ...],
    *,
    out: Any,
    beta: float,
    axes: tuple[int, ...] = (0, 1, 2, 3),
) -> Array:
    """Does the work of `conv2d`, and of `conv1d` on images one pixel high; see there.

    What is known by its signature is not looked at again: a repeated call costs what is here.

    Args:
        what: The operator, for messages.
        x: Images.
        w: The weight.
        bias: Of outputs.
        settings: As `_SETTINGS` names them.
        out: Where the result goes.
        beta: What the old result is multiplied with.
        axes: Of the result, as the epilogue counts them.
    """
    extras, numbers = split_arguments(settings[-1])
    if bias is not None:
        extras = (bias, *extras)
    options = (what, keys(*settings[:-1]), bias is None, axes)

    given = (what, x, w, bias, settings, out, beta, axes)
    return run_contraction(
        _calls, what, x, w, extras, options, _planned, given, out=out, beta=beta, numbers=numbers
    )


def _planned(
    device: Device,
    what: str,
    x: Any,
    w: Any,
    bias: Any,
    settings: tuple[Any, ...],
    out: Any,
    beta: float,
    axes: tuple[int, ...],
) -> Planned:
    """Returns what `convolve` is to run."""
    given = dict(zip(_SETTINGS, settings, strict=True))
    problem, described = _problem(what, device, x, w, bias, **given, out=out, beta=beta, axes=axes)
    problems = (problem,) if math.prod(described[0]) else ()
    return Planned(CONVOLUTIONS, problems, described, given["algorithm"])


@checked
def _problem(
    what: str,
    device: Device,
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    epilogue: str | None = None,
    epilogue_args: Any = (),
    depth_to_space: int | None = None,
    mode: str = "CRD",
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
    axes: tuple[int, ...] = (0, 1, 2, 3),
) -> tuple[Convolution, Described]:
    """Checks everything, and returns what to compute and how to allocate the result."""
    CONVOLUTIONS.check(what, algorithm)
    check_shuffle(what, depth_to_space, mode)
    matrix = matrix_of(w)
    check_operands(what, device, x=x, w=matrix)
    outputs, _ = check_shapes(what, x.shape, matrix.shape, groups)
    found = windows(
        what, x.shape[2:], matrix.shape[2:], stride=stride, padding=padding, dilation=dilation
    )
    like = out if getattr(out, "ndim", 0) == 4 else x
    last = is_channels_last(like.shape, like.strides)
    shuffle = shuffle_of(what, depth_to_space, mode, outputs, groups, last=last)
    dtype, value = product_dtypes(what, device, x.dtype, matrix.dtype)
    shape = (x.shape[0], outputs, found.y.windows, found.x.windows)
    biases = bias_place(what, device, bias, shape, value)
    if shuffle is not None:
        shape = shuffle.result(shape)
    read = check_epilogue(what, device, epilogue, epilogue_args, shape, value, axes=axes)
    arrays, _ = split_arguments(epilogue_args)
    extras = arrays if bias is None else (bias, *arrays)
    check_result(what, out, device, shape, dtype, inputs=(x, matrix), extras=extras, beta=beta)
    y, described = result_of("y", out, shape, dtype, order_like(x))
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
        w=place_of("w", matrix),
        y=y,
        epilogue=placed(read, biases, shape, beta),
        shuffle=shuffle,
        error=current_options().convolution_error,
        kept=isinstance(w, PackedWeight),
    )
    return problem, described


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
        y = convolve(
            "conv2d",
            batched(x) if single else x,
            w,
            bias,
            (
                stride,
                padding,
                dilation,
                groups,
                depth_to_space,
                mode,
                epilogue,
                algorithm,
                epilogue_args,
            ),
            out=batched(out) if single and getattr(out, "ndim", 0) == 3 else out,
            beta=beta,
            axes=(1, 2, 3) if single else (0, 1, 2, 3),
        )
        return out if out is not None else unbatched(y) if single else y

    def algorithms(self, x: Any, w: Any, *args: Any, **options: Any) -> tuple[str, ...]:
        """Returns the names of the algorithms that can do a call with these arguments."""
        device = current_device()
        x = batched(x) if getattr(x, "ndim", 0) == 3 else x
        given = inspect.signature(conv2d).bind(x, w, *args, **options).arguments
        problem, _ = _problem("conv2d", device, **given)
        return CONVOLUTIONS.able(problem, device.traits)

    def __repr__(self) -> str:
        return "<clprim.ops.conv2d>"


conv2d = _Conv2d()
