"""Depthwise convolutions, where every group has one input channel: which they are, and as plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.dtypes import AnyDType
from clprim.errors import DefinitionError
from clprim.language.snippet import Snippet
from clprim.ops.conv.windows import Axis, Windows
from clprim.ops.product.arguments import check_algorithm, elements, start
from clprim.plan.depthwise.problem import Depthwise, Line, Place, Taps
from clprim.plan.depthwise.weight.code import DepthwiseGradient
from clprim.plan.product.strategy import WINOGRAD
from clprim.plan.strides import Operand, broadcast_strides

__all__ = [
    "DEPTHWISE",
    "depthwise_forward",
    "depthwise_input",
    "depthwise_weight",
    "is_depthwise",
    "wants_depthwise",
]

#: The algorithm's name.
DEPTHWISE = "depthwise"


def is_depthwise(w: Sequence[int], groups: int) -> bool:
    """Whether a weight of shape (O, C / groups, KH, KW) has one input channel a group."""
    return w[1] == 1 and w[0] >= groups


def wants_depthwise(what: str, algorithm: Any, w: Sequence[int], groups: int) -> bool:
    """Whether a convolution is to be computed plane by plane, for which its shapes must be checked.

    ``auto`` does so wherever there are planes; one channel that many outputs read is as well a
    product of matrices.

    Raises:
        DefinitionError: ``algorithm`` is unknown, or cannot do the job.
    """
    if algorithm == DEPTHWISE:
        if not is_depthwise(w, groups):
            raise DefinitionError(
                f"{what}: algorithm={algorithm!r} needs a group for every channel of the input, "
                f"got groups={groups} and a weight of shape {tuple(w)}"
            )
        return True
    check_algorithm(what, algorithm, DEPTHWISE, WINOGRAD)
    return algorithm == "auto" and is_depthwise(w, groups) and (groups > 1 or w[0] == 1)


def depthwise_forward(
    x: Any,
    w: Any,
    y: Operand,
    found: Windows,
    value: AnyDType,
    bias: Operand | None,
    operands: Sequence[Operand],
    epilogue: Snippet | None,
) -> Depthwise:
    """Returns the convolution of images with one kernel a channel, or several."""
    return Depthwise(
        name="conv2d",
        images=x.shape[0],
        channels=w.shape[0],
        multiplier=w.shape[0] // x.shape[1],
        adjoint=False,
        rows=_line(found.y),
        columns=_line(found.x),
        value=value,
        x=_place("x", x),
        w=_taps(w),
        y=_broadcast("y0", y, y.shape),
        extras=_extras(bias, operands, y.shape),
        epilogue=epilogue,
    )


def depthwise_input(
    grad: Any,
    w: Any,
    y: Operand,
    found: Windows,
    value: AnyDType,
    bias: Operand | None = None,
    operands: Sequence[Operand] = (),
    epilogue: Snippet | None = None,
) -> Depthwise:
    """Returns the gradient in the input, which is also the transposed convolution."""
    return Depthwise(
        name="conv2d_input",
        images=grad.shape[0],
        channels=y.shape[1],
        multiplier=grad.shape[1] // y.shape[1],
        adjoint=True,
        rows=_adjoint(found.y),
        columns=_adjoint(found.x),
        value=value,
        x=_place("x", grad),
        w=_taps(w),
        y=_broadcast("y0", y, y.shape),
        extras=_extras(bias, operands, y.shape),
        epilogue=epilogue,
    )


def depthwise_weight(
    x: Any, grad: Any, y: Operand, found: Windows, value: AnyDType
) -> DepthwiseGradient:
    """Returns the gradient in the weight."""
    strides = [y.in_elements(s) for s in y.strides]
    return DepthwiseGradient(
        name="conv2d_weight",
        images=x.shape[0],
        channels=grad.shape[1],
        multiplier=grad.shape[1] // x.shape[1],
        rows=_line(found.y),
        columns=_line(found.x),
        value=value,
        x=_place("x", x),
        grad=_place("grad", grad),
        y=Taps(y.dtype, y.in_elements(y.offset), strides[0], strides[2], strides[3]),
    )


def _line(axis: Axis) -> Line:
    return Line(axis.size, axis.windows, axis.kernel, axis.stride, axis.dilation, axis.before)


def _adjoint(axis: Axis) -> Line:
    return Line(axis.windows, axis.size, axis.kernel, axis.stride, axis.dilation, axis.before)


def _place(name: str, array: Any) -> Place:
    return Place(name, array.dtype, start(array), *elements(array))


def _taps(w: Any) -> Taps:
    channel, _, row, column = elements(w)
    return Taps(w.dtype, start(w), channel, row, column)


def _broadcast(name: str, operand: Operand, shape: tuple[int, ...]) -> Place:
    strides = broadcast_strides(operand, shape)
    return Place(name, operand.dtype, operand.in_elements(operand.offset), *strides)


def _extras(
    bias: Operand | None, operands: Sequence[Operand], shape: tuple[int, ...]
) -> tuple[Place, ...]:
    found = [_broadcast(f"x{n}", operand, shape) for n, operand in enumerate(operands)]
    return tuple(found if bias is None else [_broadcast("bias", bias, shape), *found])
