"""What convolutions share: checks of their arguments, and how each is a contraction.

Forward, the windows of the input are the lanes; in the weight's gradient they are the depth. The
input's gradient gathers from the result's gradient, one phase of the stride at a time, so that no
product with a zero is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clprim.arrays.memory import operand_of
from clprim.dtypes import AnyDType
from clprim.errors import ShapeError, quoted
from clprim.language.snippet import Snippet
from clprim.ops.conv.pixels import Shuffle
from clprim.ops.conv.windows import Axis, Pair, Windows, is_channels_last, windows
from clprim.ops.product.arguments import check_operands, elements, output, span, start
from clprim.plan.product.problem import Bounds, Contraction, Gathered, Packed
from clprim.plan.strides import Operand, dense_strides
from clprim.runtime.device import Device

__all__ = [
    "Shape4",
    "bias_operand",
    "check_rank",
    "check_shapes",
    "check_whole",
    "checked_windows",
    "forward",
    "given_shape",
    "input_phases",
    "result_of",
    "weight_gradient",
]

Shape4 = tuple[int, int, int, int]


def check_whole(what: str, label: str, value: Any) -> None:
    """Refuses what is no whole number of at least 1.

    Raises:
        ShapeError: Quotes it.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ShapeError(f"{what}: {label}={quoted(value)}: expected a whole number of at least 1")


def check_rank(what: str, label: str, shape: Sequence[int], rank: int = 4) -> None:
    """Refuses a shape that has not so many dimensions.

    Raises:
        ShapeError: Quotes it.
    """
    if len(shape) != rank:
        raise ShapeError(f"{what}: {label} has shape {tuple(shape)}, expected {rank} dimensions")


def given_shape(what: str, label: str, shape: Any) -> Shape4:
    """Returns a shape of 4 sizes that a user gave.

    Raises:
        ShapeError: Something else.
    """
    try:
        a, b, c, d = (int(n) for n in shape)
    except (TypeError, ValueError):
        raise ShapeError(f"{what}: {label}={shape!r}: expected 4 sizes") from None
    if min(a, b, c, d) < 0:
        raise ShapeError(f"{what}: {label}={quoted(shape)}: expected 4 sizes of at least 0")
    return a, b, c, d


def check_shapes(
    what: str, x: Sequence[int], w: Sequence[int], groups: Any, rank: int = 4
) -> tuple[int, int]:
    """Returns outputs in all and inputs of a group, of shapes that fit.

    Raises:
        ShapeError: They do not.
    """
    check_rank(what, "x", x, rank)
    check_rank(what, "w", w, rank)
    check_whole(what, "groups", groups)
    if x[1] % groups or w[0] % groups:
        raise ShapeError(
            f"{what}: {x[1]} channels of x (shape {tuple(x)}) and {w[0]} outputs of w (shape "
            f"{tuple(w)}) do not both divide into groups={groups}"
        )
    if x[1] // groups != w[1]:
        raise ShapeError(
            f"{what}: x of shape {tuple(x)} with groups={groups} needs a weight of shape "
            f"{(w[0], x[1] // groups, *w[2:])}, got {tuple(w)}"
        )
    return w[0], w[1]


def checked_windows(
    what: str,
    x: Shape4,
    w: Shape4,
    grad: Sequence[int],
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    shuffle: Shuffle | None = None,
) -> Windows:
    """Returns the windows of a convolution whose result has the gradient ``grad``.

    Raises:
        ShapeError: Shapes that do not fit.
    """
    check_rank(what, "grad", grad)
    check_shapes(what, x, w, groups)
    found = windows(what, x[2:], w[2:], stride=stride, padding=padding, dilation=dilation)
    expected = (x[0], w[0], found.y.windows, found.x.windows)
    if shuffle is not None:
        expected = shuffle.result(expected)
    if tuple(grad) != expected:
        raise ShapeError(f"{what}: grad has shape {tuple(grad)}, expected {expected}")
    return found


def bias_operand(what: str, device: Device, bias: Any, outputs: int) -> Operand | None:
    """Returns the bias as an operand that broadcasts to the result."""
    if bias is None:
        return None
    check_operands(what, device, bias=bias)
    if bias.shape != (outputs,):
        raise ShapeError(f"{what}: bias has shape {bias.shape}, expected ({outputs},)")
    return Operand((outputs, 1, 1), (bias.strides[0], 0, 0), bias.offset, bias.dtype)


def result_of(
    out: Any, shape: tuple[int, ...], dtype: AnyDType, like: Any
) -> tuple[Operand, tuple[tuple[int, ...], AnyDType, tuple[int, ...], int]]:
    """Returns the result as an operand, and how to allocate it."""
    if out is not None:
        return operand_of(out), (out.shape, out.dtype, out.strides, out.size)
    order = (0, 2, 3, 1) if is_channels_last(like.shape, like.strides) else (0, 1, 2, 3)
    strides = dense_strides(shape, dtype.itemsize, order)
    return Operand(shape, strides, 0, dtype), (shape, dtype, strides, math.prod(shape))


def _extras(bias: Operand | None, operands: Sequence[Operand]) -> list[tuple[str, Operand]]:
    named = [(f"x{n}", operand) for n, operand in enumerate(operands)]
    return named if bias is None else [("bias", bias), *named]


def forward(
    x: Any,
    w: Any,
    y: Operand,
    found: Windows,
    groups: int,
    value: AnyDType,
    bias: Operand | None,
    operands: Sequence[Operand],
    epilogue: Snippet | None,
    shuffle: Shuffle | None = None,
) -> Contraction:
    """Lanes are windows (image, y, x), depths their elements (y, x, channel)."""
    xn, xc, xh, xw = elements(x)
    wo, wc, wh, ww = elements(w)
    n, h, v = y.shape[0], found.y, found.x
    channels, outputs = w.shape[1], w.shape[0] // groups
    packed = Packed(w.dtype, start(w), outputs * wo, wo, (wh, ww, wc))
    if shuffle is None:
        places = [
            output(name, o, y.shape, group=None, channel=1, lane=(0, 2, 3), channels=outputs)
            for name, o in [("y0", y), *_extras(bias, operands)]
        ]
    else:
        packed = shuffle.weight(packed)
        places = [shuffle.large("y0", y, y.shape)]
        if bias is not None:
            places.append(shuffle.small("bias", bias, bias.in_elements(bias.strides[0])))
        places += [shuffle.large(f"x{k}", o, y.shape) for k, o in enumerate(operands)]
    return Contraction(
        name="conv2d",
        groups=groups,
        lanes=(n, h.windows, v.windows),
        depths=(h.kernel, v.kernel, channels),
        outputs=outputs,
        value=value,
        gathered=Gathered(
            x.dtype,
            start(x) - h.before * xh - v.before * xw,
            channels * xc,
            (xn, h.stride * xh, v.stride * xw),
            (h.dilation * xh, v.dilation * xw, xc),
            span(x),
            _bounds(found),
        ),
        packed=packed,
        y=places[0],
        extras=tuple(places[1:]),
        epilogue=epilogue,
        digits=None if shuffle is None else shuffle.sizes,
        plain=None if shuffle is None else shuffle.plain(y, (n, w.shape[0], h.windows, v.windows)),
    )


def _bounds(found: Windows) -> Bounds | None:
    h, v = found.y, found.x
    if not (h.leaves or v.leaves):
        return None
    return Bounds(
        h.size,
        v.size,
        -h.before,
        -v.before,
        row_lane=(0, h.stride),
        row_depth=(h.dilation, 0),
        column_lane=(0, v.stride),
        column_depth=(v.dilation, 0),
    )


def weight_gradient(
    x: Any,
    grad: Any,
    y: Operand,
    found: Windows,
    groups: int,
    value: AnyDType,
    shuffle: Shuffle | None = None,
    *,
    swap: bool = False,
) -> Contraction:
    """Lanes are elements of a window (y, x, channel), depths the windows (image, y, x).

    Where windows are pixels the gradient may be gathered instead, and ``swap`` asks for that.
    """
    xn, xc, xh, xw = elements(x)
    gn, go, gh, gw = elements(grad)
    h, v = found.y, found.x
    outputs, channels = y.shape[0] // groups, y.shape[1]
    packed = Packed(grad.dtype, start(grad), outputs * go, go, (gn, gh, gw))
    steps = (xn, h.stride * xh, v.stride * xw)
    place = output("y0", y, y.shape, group=None, channel=0, lane=(2, 3, 1), channels=outputs)
    if swap:
        return Contraction(
            name="conv2d_weight",
            groups=groups,
            lanes=(1, 1, outputs),
            depths=(x.shape[0], h.windows, v.windows),
            outputs=channels,
            value=value,
            gathered=Gathered(
                grad.dtype, start(grad), outputs * go, (0, 0, go), (gn, gh, gw), span(grad)
            ),
            packed=Packed(x.dtype, start(x), channels * xc, xc, steps),
            y=replace(place, output=place.lane[2], lane=(0, 0, place.output)),
        )
    if shuffle is not None:
        packed = shuffle.gradient(grad, grad.dtype)
        place = shuffle.small("y0", y, place.output, place.lane)
    bounds = _bounds(found)
    if bounds is not None:
        bounds = replace(
            bounds,
            row_lane=(h.dilation, 0),
            row_depth=(0, h.stride),
            column_lane=(v.dilation, 0),
            column_depth=(0, v.stride),
        )
    return Contraction(
        name="conv2d_weight",
        groups=groups,
        lanes=(h.kernel, v.kernel, channels),
        depths=(x.shape[0], h.windows, v.windows),
        outputs=outputs,
        value=value,
        gathered=Gathered(
            x.dtype,
            start(x) - h.before * xh - v.before * xw,
            channels * xc,
            (h.dilation * xh, v.dilation * xw, xc),
            steps,
            span(x),
            bounds,
        ),
        packed=packed,
        y=place,
        digits=None if shuffle is None else shuffle.sizes,
    )


def _phase(axis: Axis, remainder: int) -> tuple[int, int, int, int, int]:
    """One phase of the transpose: input elements ``remainder + stride · u``.

    Tap k reaches such an element from output (remainder + stride · u + before − k · dilation) /
    stride, for those k for which this is whole.

    Returns:
        (elements u, first tap, step of taps, how many taps, output of u = 0 and the first tap); the
        next tap's output lies step · dilation / stride before.
    """
    s, d = axis.stride, axis.dilation
    step = s // math.gcd(s, d)
    count = -(-(axis.size - remainder) // s)
    for first in range(min(step, axis.kernel)):
        whole, rest = divmod(remainder + axis.before - first * d, s)
        if not rest:
            return count, first, step, -(-(axis.kernel - first) // step), whole
    return count, 0, step, 0, 0


def input_phases(
    grad: Any,
    w: Any,
    y: Operand,
    found: Windows,
    groups: int,
    value: AnyDType,
    bias: Operand | None,
    operands: Sequence[Operand],
    epilogue: Snippet | None,
) -> list[Contraction]:
    """Lanes are input elements (image, y, x) of one phase, depths (tap y, tap x, output)."""
    gn, go, gh, gw = elements(grad)
    wo, wc, wh, ww = elements(w)
    outputs, channels = w.shape[0] // groups, w.shape[1]
    h, v = found.y, found.x
    places = [
        output(name, o, y.shape, group=None, channel=1, lane=(0, 2, 3), channels=channels)
        for name, o in [("y0", y), *_extras(bias, operands)]
    ]
    phases = []
    for a in range(min(h.stride, h.size)):
        rows, first_y, step_y, taps_y, whole_y = _phase(h, a)
        back_y = step_y * h.dilation // h.stride
        for b in range(min(v.stride, v.size)):
            columns, first_x, step_x, taps_x, whole_x = _phase(v, b)
            back_x = step_x * v.dilation // v.stride
            moved = [
                replace(
                    p,
                    start=p.start + a * p.lane[1] + b * p.lane[2],
                    lane=(p.lane[0], h.stride * p.lane[1], v.stride * p.lane[2]),
                )
                for p in places
            ]
            # Taps reach back; counted from the last one, depths walk upwards.
            top, left = whole_y - (taps_y - 1) * back_y, whole_x - (taps_x - 1) * back_x
            last_y, last_x = first_y + (taps_y - 1) * step_y, first_x + (taps_x - 1) * step_x
            phases.append(
                Contraction(
                    name="conv2d_input",
                    groups=groups,
                    lanes=(grad.shape[0], rows, columns),
                    depths=(taps_y, taps_x, outputs),
                    outputs=channels,
                    value=value,
                    gathered=Gathered(
                        grad.dtype,
                        start(grad) + top * gh + left * gw,
                        outputs * go,
                        (gn, gh, gw),
                        (back_y * gh, back_x * gw, go),
                        span(grad),
                        Bounds(
                            grad.shape[2],
                            grad.shape[3],
                            top,
                            left,
                            row_lane=(0, 1),
                            row_depth=(back_y, 0),
                            column_lane=(0, 1),
                            column_depth=(back_x, 0),
                        ),
                    ),
                    packed=Packed(
                        w.dtype,
                        start(w) + last_y * wh + last_x * ww,
                        outputs * wo,
                        wc,
                        (-step_y * wh, -step_x * ww, wo),
                    ),
                    y=moved[0],
                    extras=tuple(moved[1:]),
                    epilogue=epilogue,
                )
            )
    return phases
