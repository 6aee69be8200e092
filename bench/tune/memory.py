"""How much memory the operands and the result of a contraction take."""

from __future__ import annotations

from collections.abc import Iterable

from clprim.dtypes import AnyDType
from clprim.plan.depthwise.problem import Depthwise, Place, Taps
from clprim.plan.depthwise.weight.code import DepthwiseGradient
from clprim.plan.product.problem import Contraction

__all__ = ["memory_of"]

Memory = tuple[int, AnyDType]


def memory_of(what: Contraction | Depthwise | DepthwiseGradient) -> tuple[Memory, Memory, Memory]:
    """Returns elements and dtypes of the result and of both operands, as kernels take them.

    Args:
        what: The contraction.
    """
    if isinstance(what, Contraction):
        return _of_contraction(what)
    h, v = what.rows, what.columns
    if isinstance(what, DepthwiseGradient):
        x = _images(what.x, what, what.channels // what.multiplier, h.inputs, v.inputs)
        grad = _images(what.grad, what, what.channels, h.outputs, v.outputs)
        return _taps(what.y, what, what.channels), x, grad
    x = _images(what.x, what, what.inputs, h.inputs, v.inputs)
    y = _images(what.y, what, what.channels, h.outputs, v.outputs)
    return y, x, _taps(what.w, what, max(what.inputs, what.channels))


def _of_contraction(what: Contraction) -> tuple[Memory, Memory, Memory]:
    x, w, y = what.gathered, what.packed, what.y
    inner = [(y.lane[d], what.lanes[d]) for d in range(3)]
    outer = [(y.output, what.outputs), (y.group, what.groups)]
    depths = zip(w.depth, what.depths, strict=True)
    steps = [*depths, (w.output, what.outputs), (w.group, what.groups)]
    return (
        (_end(y.start, [*inner, *outer]), y.dtype),
        (x.size, x.dtype),
        (_end(w.start, steps), w.dtype),
    )


def _images(
    place: Place, what: Depthwise | DepthwiseGradient, channels: int, rows: int, columns: int
) -> Memory:
    strides = (place.image, place.channel, place.row, place.column)
    steps = zip(strides, (what.images, channels, rows, columns), strict=True)
    return _end(place.start, steps), place.dtype


def _taps(taps: Taps, what: Depthwise | DepthwiseGradient, channels: int) -> Memory:
    strides = (taps.channel, taps.row, taps.column)
    sizes = (channels, what.rows.kernel, what.columns.kernel)
    return _end(taps.start, zip(strides, sizes, strict=True)), taps.dtype


def _end(start: int, steps: Iterable[tuple[int, int]]) -> int:
    """Elements of memory up to the last one."""
    return start + sum(max(0, stride * (size - 1)) for stride, size in steps) + 1
