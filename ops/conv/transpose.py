"""Transposed convolution: what a convolution does to gradients, done to images."""

from __future__ import annotations

import math
from typing import Any

from clprim.arrays.array import Array
from clprim.arrays.formats import order_like
from clprim.call.call import Call
from clprim.call.packed import PackedWeight, matrix_of
from clprim.call.product import Planned, run_contraction
from clprim.call.signature import Calls
from clprim.errors import ShapeError
from clprim.ops.conv.arguments import (
    batched,
    bias_place,
    check_groups,
    check_rank,
    place_of,
    placed,
    result_of,
    unbatched,
)
from clprim.ops.conv.windows import Pair, Windows, keys, transposed_axes
from clprim.ops.product.arguments import check_operands, check_result, product_dtypes
from clprim.ops.shared.epilogue import check_epilogue, split_arguments
from clprim.options import current_options
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.conv.problem import Convolution
from clprim.runtime.device import Device

__all__ = ["conv_transpose2d"]

_calls: Calls[Call] = Calls()


def conv_transpose2d(
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
    """Returns the transposed convolution: what `conv2d` does to gradients, done to images.

    Args:
        x: (N, C, H, W), or (C, H, W).
        w: (C, O / groups, KH, KW), or what `pack_weight` made of it.
        bias: (O,).
        stride: Of the convolution that it is the transpose of.
        padding: Likewise.
        dilation: Likewise.
        groups: Likewise.
        output_padding: Added to the result's height and width, below and to the right; less than
            stride or dilation.
        epilogue: As in `conv2d`.
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
    single = getattr(x, "ndim", 0) == 3 and getattr(w, "ndim", 0) == 4
    y = transposed(
        "conv_transpose2d",
        batched(x) if single else x,
        w,
        bias,
        stride=stride,
        padding=padding,
        output_padding=output_padding,
        groups=groups,
        dilation=dilation,
        epilogue=epilogue,
        epilogue_args=epilogue_args,
        out=batched(out) if single and getattr(out, "ndim", 0) == 3 else out,
        beta=beta,
        algorithm=algorithm,
        axes=(1, 2, 3) if single else (0, 1, 2, 3),
    )
    return out if out is not None else unbatched(y) if single else y


def transposed(
    what: str,
    x: Any,
    w: Any,
    bias: Any,
    *,
    stride: Pair,
    padding: Pair,
    output_padding: Pair,
    groups: int,
    dilation: Pair,
    epilogue: str | None,
    epilogue_args: Any,
    out: Any,
    beta: float,
    algorithm: str,
    axes: tuple[int, ...] = (0, 1, 2, 3),
) -> Any:
    """Does the work of `conv_transpose2d`, and of rows as images one pixel high; see there."""
    arrays, numbers = split_arguments(epilogue_args)
    extras = arrays if bias is None else (bias, *arrays)
    settings = keys(stride, padding, output_padding, groups, dilation)
    options = (what, settings, algorithm, epilogue, bias is None, axes)

    def prepare(device: Device) -> Planned:
        CONVOLUTIONS.check(what, algorithm)
        matrix = matrix_of(w)
        check_operands(what, device, x=x, w=matrix)
        check_rank(what, "x", x.shape)
        check_rank(what, "w", matrix.shape)
        check_groups(what, groups)
        if x.shape[1] != matrix.shape[0] or x.shape[1] % groups:
            raise ShapeError(
                f"{what}: x of shape {x.shape} and w of shape {matrix.shape} with groups={groups}: "
                "expected as many channels in x as outputs in w, a multiple of groups"
            )
        found = Windows(
            *transposed_axes(
                what, x.shape[2:], matrix.shape[2:], stride, padding, output_padding, dilation
            )
        )
        shape = (x.shape[0], matrix.shape[1] * groups, found.y.size, found.x.size)
        dtype, value = product_dtypes(what, device, x.dtype, matrix.dtype)
        biases = bias_place(what, device, bias, shape, value)
        read = check_epilogue(what, device, epilogue, epilogue_args, shape, value, axes=axes)
        check_result(what, out, device, shape, dtype, inputs=(x, matrix), extras=extras, beta=beta)
        result, described = result_of("x", out, shape, dtype, order_like(x))
        problem = Convolution(
            name=what,
            direction="input",
            images=x.shape[0],
            channels=shape[1],
            outputs=x.shape[1],
            groups=groups,
            rows=found.y,
            columns=found.x,
            value=value,
            x=result,
            w=place_of("w", matrix),
            y=place_of("y", x),
            epilogue=placed(read, biases, shape, beta),
            error=current_options().convolution_error,
            kept=isinstance(w, PackedWeight),
        )
        problems = (problem,) if math.prod(shape) else ()
        return Planned(CONVOLUTIONS, problems, described, algorithm)

    return run_contraction(
        _calls, what, x, w, extras, options, prepare, out=out, beta=beta, numbers=numbers
    )
