"""Convolutions as contractions, for strategies that know nothing but these.

Forward, the windows of the input are the lanes; in the weight's gradient they are the depth. The
input's gradient gathers from the result's gradient, one phase of the stride at a time, so that no
product with a zero is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from clprim.plan.conv.problem import Axis, Convolution
from clprim.plan.epilogue import Epilogue
from clprim.plan.place import Place
from clprim.plan.product.problem import Bounds, Contraction, Gathered, Output, Packed


def contractions(p: Convolution) -> Sequence[Contraction]:
    """Returns the contractions that together are a convolution, to be run in any order."""
    if p.direction == "input":
        found = _input_phases(p)
    else:
        found = [_forward(p) if p.direction == "forward" else _weight_gradient(p)]
    return [replace(c, error=p.error, precision=p.precision, kept=p.kept) for c in found]


def forward(p: Convolution) -> Contraction:
    """Returns a convolution in its own direction as the one contraction that it is."""
    (found,) = contractions(p)
    return found


def _forward(p: Convolution) -> Contraction:
    """Lanes are windows (image, y, x), depths their elements (y, x, channel)."""
    h, v, outputs, channels = p.rows, p.columns, p.outputs // p.groups, p.channels // p.groups
    w, shuffle = p.w, p.shuffle
    packed = Packed(w.dtype, w.start, outputs * w.image, w.image, (w.row, w.column, w.channel))
    if shuffle is None:
        y, epilogue = _stored(p, lambda place: _place(place, outputs))
    else:
        packed = shuffle.weight(packed)

        def large(place: Place) -> Output:
            if place.name == "bias":
                return shuffle.small("bias", place, place.channel)
            return shuffle.large(place.name, place)

        y, epilogue = _stored(p, large)
    return Contraction(
        name=p.name,
        groups=p.groups,
        lanes=(p.images, h.windows, v.windows),
        depths=(h.kernel, v.kernel, channels),
        outputs=outputs,
        value=p.value,
        gathered=Gathered(
            p.x.dtype,
            p.x.start - h.before * p.x.row - v.before * p.x.column,
            channels * p.x.channel,
            (p.x.image, h.stride * p.x.row, v.stride * p.x.column),
            (h.dilation * p.x.row, v.dilation * p.x.column, p.x.channel),
            p.x.end(*p.x_shape),
            _bounds(p),
        ),
        packed=packed,
        y=y,
        epilogue=epilogue,
        prologue=p.prologue.placed(
            lambda place: Output(
                place.name,
                place.dtype,
                place.start,
                channels * place.channel,
                place.channel,
                (place.image, h.stride * place.row, v.stride * place.column),
            )
        ),
        digits=None if shuffle is None else shuffle.sizes,
        plain=None if shuffle is None else shuffle.plain(p.y, p.y_shape),
    )


def _stored(p: Convolution, place: Callable[[Place], Output]) -> tuple[Output, Epilogue[Output]]:
    """The result and the epilogue, their arrays as a contraction knows them."""
    return place(replace(p.result, name="y0")), p.epilogue.placed(place)


def _place(place: Place, outputs: int) -> Output:
    """Where outputs as channels lie; groups have so many each."""
    lane, group = (place.image, place.row, place.column), place.channel * outputs
    return Output(place.name, place.dtype, place.start, group, place.channel, lane)


def _bounds(p: Convolution) -> Bounds | None:
    h, v = p.rows, p.columns
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


def _weight_gradient(p: Convolution) -> Contraction:
    """Lanes are elements of a window (y, x, channel), depths the windows (image, y, x)."""
    x, grad, y, h, v = p.x, p.y, p.w, p.rows, p.columns
    outputs, channels = p.outputs // p.groups, p.channels // p.groups
    place = Output("y0", y.dtype, y.start, y.image * outputs, y.image, (y.row, y.column, y.channel))
    # Where windows are pixels, the larger one of both arrays is gathered where it lies.
    pixels = (h.kernel, v.kernel) == (1, 1) and not any(
        (h.before, h.after, v.before, v.after, p.shuffle)
    )
    if pixels and channels > 1 and math.prod(p.y_shape) > math.prod(p.x_shape):
        return _pixel_gradient(p, place)
    packed = Packed(
        grad.dtype,
        grad.start,
        outputs * grad.channel,
        grad.channel,
        (grad.image, grad.row, grad.column),
    )
    if p.shuffle is not None:
        packed = p.shuffle.gradient(grad)
        place = p.shuffle.small("y0", y, y.image, place.lane)
    bounds = _bounds(p)
    if bounds is not None:
        bounds = replace(
            bounds,
            row_lane=(h.dilation, 0),
            row_depth=(0, h.stride),
            column_lane=(v.dilation, 0),
            column_depth=(0, v.stride),
        )
    return Contraction(
        name=p.name,
        groups=p.groups,
        lanes=(h.kernel, v.kernel, channels),
        depths=(p.images, h.windows, v.windows),
        outputs=outputs,
        value=p.value,
        gathered=Gathered(
            x.dtype,
            x.start - h.before * x.row - v.before * x.column,
            channels * x.channel,
            (h.dilation * x.row, v.dilation * x.column, x.channel),
            (x.image, h.stride * x.row, v.stride * x.column),
            x.end(*p.x_shape),
            bounds,
        ),
        packed=packed,
        y=place,
        epilogue=Epilogue(beta=p.epilogue.beta),
        digits=None if p.shuffle is None else p.shuffle.sizes,
    )


def _pixel_gradient(p: Convolution, place: Output) -> Contraction:
    """Likewise of pixels, but lanes are outputs."""
    x, grad, y = p.x, p.y, p.w
    outputs, channels = p.outputs // p.groups, p.channels // p.groups
    steps = (x.image, p.rows.stride * x.row, p.columns.stride * x.column)
    return Contraction(
        name=p.name,
        groups=p.groups,
        lanes=(1, 1, outputs),
        depths=(p.images, p.rows.windows, p.columns.windows),
        outputs=channels,
        value=p.value,
        gathered=Gathered(
            grad.dtype,
            grad.start,
            outputs * grad.channel,
            (0, 0, grad.channel),
            (grad.image, grad.row, grad.column),
            grad.end(*p.y_shape),
            buffer="w",
        ),
        packed=Packed(x.dtype, x.start, channels * x.channel, x.channel, steps, buffer="x"),
        y=replace(place, output=y.channel, lane=(0, 0, y.image)),
        epilogue=Epilogue(beta=p.epilogue.beta),
    )


def _phase(axis: Axis, remainder: int) -> tuple[int, int, int, int, int]:
    """Elements u of one phase, first tap, step of taps, how many, output of u = 0 and that tap."""
    # Tap k reaches element ``remainder + stride · u`` from the output at
    # (remainder + stride · u + before − k · dilation) / stride, where that is whole.
    s, d = axis.stride, axis.dilation
    step = s // math.gcd(s, d)
    count = -(-(axis.size - remainder) // s)
    for first in range(min(step, axis.kernel)):
        whole, rest = divmod(remainder + axis.before - first * d, s)
        if not rest:
            return count, first, step, -(-(axis.kernel - first) // step), whole
    return count, 0, step, 0, 0


def _input_phases(p: Convolution) -> list[Contraction]:
    """Lanes are input elements (image, y, x) of one phase, depths (tap y, tap x, output)."""
    grad, w, h, v = p.y, p.w, p.rows, p.columns
    outputs, channels = p.outputs // p.groups, p.channels // p.groups
    phases = []
    for a in range(min(h.stride, h.size)):
        rows, first_y, step_y, taps_y, whole_y = _phase(h, a)
        back_y = step_y * h.dilation // h.stride
        for b in range(min(v.stride, v.size)):
            columns, first_x, step_x, taps_x, whole_x = _phase(v, b)
            back_x = step_x * v.dilation // v.stride

            def moved(place: Place, a: int = a, b: int = b) -> Output:
                o = _place(place, channels)
                start = o.start + a * o.lane[1] + b * o.lane[2]
                lane = (o.lane[0], h.stride * o.lane[1], v.stride * o.lane[2])
                return replace(o, start=start, lane=lane)

            y, epilogue = _stored(p, moved)
            # Taps reach back; counted from the last one, depths walk upwards.
            top, left = whole_y - (taps_y - 1) * back_y, whole_x - (taps_x - 1) * back_x
            last_y, last_x = first_y + (taps_y - 1) * step_y, first_x + (taps_x - 1) * step_x
            bounds = Bounds(
                h.windows,
                v.windows,
                top,
                left,
                row_lane=(0, 1),
                row_depth=(back_y, 0),
                column_lane=(0, 1),
                column_depth=(back_x, 0),
            )
            leaves = (
                min(top, left) < 0 or whole_y + rows > h.windows or whole_x + columns > v.windows
            )
            phases.append(
                Contraction(
                    name=p.name,
                    groups=p.groups,
                    lanes=(p.images, rows, columns),
                    depths=(taps_y, taps_x, outputs),
                    outputs=channels,
                    value=p.value,
                    gathered=Gathered(
                        grad.dtype,
                        grad.start + top * grad.row + left * grad.column,
                        outputs * grad.channel,
                        (grad.image, grad.row, grad.column),
                        (back_y * grad.row, back_x * grad.column, grad.channel),
                        grad.end(*p.y_shape),
                        bounds if leaves else None,
                    ),
                    packed=Packed(
                        w.dtype,
                        w.start + last_y * w.row + last_x * w.column,
                        outputs * w.image,
                        w.channel,
                        (-step_y * w.row, -step_x * w.column, w.image),
                    ),
                    y=y,
                    epilogue=epilogue,
                )
            )
    return phases
