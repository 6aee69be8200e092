"""Plans depthwise convolutions: every channel is a plane of its own, convolved with its own taps.

    y[n, c, r, q] = Σ_kh,kw  x[n, c / multiplier, r·stride + kh·dilation − before, …] · w[c, kh, kw]

and the *adjoint* of this, which is its gradient in x: there a channel sums up ``multiplier``
channels, and a tap reaches element r from (r + before − kh·dilation) / stride, if that is whole.
With a stride of 1 that is a convolution with the taps in reverse order.

There is one product a tap and nothing to share between channels, so memory decides how fast this
is. The kernels of CPUs differ by what lies side by side there: `depthwise_channels`,
`depthwise_planes`. Other devices, and arrays of any strides, get `depthwise_windows` where a row
of taps fits the registers; what is left is a product, of one channel a group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from clprim.dtypes import AnyDType
from clprim.plan.conv.problem import Axis, Convolution
from clprim.plan.epilogue import NO_EPILOGUE, Epilogue
from clprim.plan.place import Place
from clprim.plan.strides import index_reaching


@dataclass(frozen=True)
class Line:
    """One axis of the planes."""

    inputs: int
    outputs: int
    kernel: int
    stride: int  # From one window to the next
    dilation: int  # From one tap to the next
    # Padding before the first element; of the convolution, also in its adjoint. It may be negative
    before: int

    @property
    def reach(self) -> int:
        """Elements from a window's first tap to its last."""
        return self.dilation * (self.kernel - 1) + 1


@dataclass(frozen=True)
class Depthwise:
    """What to compute."""

    name: str
    images: int
    channels: int
    multiplier: int  # Outputs of a channel of the convolution's input
    adjoint: bool  # Whether it is the gradient in the convolution's input
    rows: Line
    columns: Line
    value: AnyDType  # dtype that sums are added up in
    x: Place  # The operand that windows walk over: the input, or the gradient in the result
    w: Place  # The weight; its images are channels of the convolution's output
    y: Place
    epilogue: Epilogue[Place] = NO_EPILOGUE  # What becomes of a sum before it is stored
    # Whether the weight stays what it is, so that a kernel that packs it runs once
    kept: bool = True

    @property
    def stored(self) -> tuple[Place, ...]:
        """The result, and what the epilogue reads."""
        return (self.y, *self.epilogue.arrays)

    @property
    def groups(self) -> int:
        """Channels of the convolution's input."""
        return self.channels if self.adjoint else self.channels // self.multiplier

    @property
    def inputs(self) -> int:
        """Channels of x."""
        if self.adjoint:
            return self.channels * self.multiplier
        return self.channels // self.multiplier

    @property
    def flops(self) -> int:
        """Operations, products with padding included; a multiply-add counts as two."""
        planes = self.images * self.channels * (self.multiplier if self.adjoint else 1)
        taps = self.rows.kernel * self.columns.kernel
        outputs = self.rows.outputs * self.columns.outputs
        if self.adjoint:
            outputs = self.rows.inputs * self.columns.inputs
        return 2 * planes * taps * outputs

    @property
    def x_end(self) -> int:
        """Elements of memory up to the last one of x."""
        return self.x.end(self.images, self.inputs, self.rows.inputs, self.columns.inputs)

    def simplified(self) -> Depthwise:
        """Returns the same as a convolution, if it is an adjoint of stride and multiplier 1."""
        strides = (self.rows.stride, self.columns.stride)
        if not self.adjoint or self.multiplier > 1 or strides != (1, 1):
            return self
        w, h, v = self.w, self.rows, self.columns
        last = (h.kernel - 1) * w.row + (v.kernel - 1) * w.column
        return replace(
            self,
            adjoint=False,
            rows=replace(h, before=h.reach - 1 - h.before),
            columns=replace(v, before=v.reach - 1 - v.before),
            w=replace(w, start=w.start + last, row=-w.row, column=-w.column),
        )


def planes_of(p: Convolution) -> tuple[Line, Line] | None:
    """Returns the axes of a convolution every channel of which is a plane of its own, else None."""
    single = p.channels == p.groups and p.shuffle is None
    if not single or not (p.images and math.prod(p.x_shape) and math.prod(p.y_shape)):
        return None

    def line(axis: Axis) -> Line:
        sizes = (axis.size, axis.windows)
        inputs, outputs = sizes[::-1] if p.direction == "input" else sizes
        return Line(inputs, outputs, axis.kernel, axis.stride, axis.dilation, axis.before)

    return line(p.rows), line(p.columns)


def depthwise_of(p: Convolution) -> Depthwise | None:
    """Returns a convolution, or the gradient in its input, by planes; None of all others."""
    lines = planes_of(p)
    if lines is None or p.direction == "weight":
        return None
    back = p.direction == "input"
    walked, result = (p.y, p.x) if back else (p.x, p.y)
    return Depthwise(
        name=p.name,
        images=p.images,
        channels=p.channels if back else p.outputs,
        multiplier=p.outputs // p.channels,
        adjoint=back,
        rows=lines[0],
        columns=lines[1],
        value=p.value,
        x=replace(walked, name="x"),
        w=p.w,
        y=replace(result, name="y0"),
        epilogue=p.epilogue,
        kept=p.kept,
    ).simplified()


def index_of(what: Depthwise) -> str:
    """``int`` where 31 bits reach every element, with room for windows that leave the planes."""
    h, v = what.rows, what.columns
    read = (what.images, what.inputs, h.inputs + h.reach + 64, v.inputs + v.reach + 64)
    written = (what.images, what.channels + 64, h.outputs + 64, v.outputs + 64)
    taps = (h.kernel + 1) * (v.kernel + 1) * (max(what.inputs, what.channels) + 64)
    reach = (o.reach(*written) for o in what.stored)
    return index_reaching(what.x.reach(*read), taps, *reach)


def moved_bytes(what: Depthwise) -> int:
    """Returns the bytes of x, the weight and the result, once each."""
    h, v = what.rows, what.columns
    taps = max(what.inputs, what.channels) * h.kernel * v.kernel
    return (
        what.images * what.inputs * h.inputs * v.inputs * what.x.dtype.itemsize
        + taps * what.w.dtype.itemsize
        + what.images * what.channels * h.outputs * v.outputs * what.y.dtype.itemsize
    )
