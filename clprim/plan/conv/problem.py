"""A convolution, in whichever direction: forward, or one of its gradients.

    y[n, o, r, q] = Σ_c,kh,kw  x[n, c, r·stride + kh·dilation − before, …] · w[o, c, kh, kw]

Forward the result is y; ``input`` sums up what reaches an element of x, which is the gradient in
the input and the transposed convolution; ``weight`` sums up what an element of w was multiplied
with. The three arrays mean the same in each.
"""

from __future__ import annotations

from dataclasses import dataclass

from clprim.dtypes import AnyDType
from clprim.plan.conv.pixels import Shuffle
from clprim.plan.epilogue import NO_EPILOGUE, Epilogue
from clprim.plan.place import Place
from clprim.plan.table import near_size, power


@dataclass(frozen=True)
class Axis:
    """Windows along one axis."""

    size: int
    kernel: int
    stride: int  # From one window to the next
    dilation: int  # From one tap to the next
    before: int
    after: int

    @property
    def padded(self) -> int:
        """Size of the input with its padding."""
        return self.size + self.before + self.after

    @property
    def reach(self) -> int:
        """Elements from a window's first tap to its last."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def windows(self) -> int:
        """How many windows there are: the size of the output."""
        return (self.padded - self.reach) // self.stride + 1

    @property
    def leaves(self) -> bool:
        """Whether a window reaches into the padding."""
        last = (self.windows - 1) * self.stride - self.before + self.reach
        return self.before > 0 or last > self.size


@dataclass(frozen=True)
class Convolution:
    """What to compute."""

    name: str
    direction: str  # ``forward``, ``input`` or ``weight``: which array is the result
    images: int
    channels: int
    outputs: int  # Of y; both divide into ``groups``
    groups: int  # Independent convolutions, each of some channels and some outputs
    rows: Axis
    columns: Axis
    value: AnyDType  # dtype that sums are added up in
    x: Place  # The input, (images, channels, rows, columns)
    w: Place  # The weight, (outputs, channels of a group, taps down, taps across)
    y: Place  # The output; with ``shuffle`` the large picture
    # What becomes of a sum before it is stored; its arrays broadcast to the result
    epilogue: Epilogue[Place] = NO_EPILOGUE
    # How outputs become pixels of y, or None where they stay what they are
    shuffle: Shuffle | None = None
    # What becomes of an element of x where it is read, written as an epilogue is; its arrays
    # broadcast to x. Of windows of one pixel alone
    prologue: Epilogue[Place] = NO_EPILOGUE
    # Relative root mean square error that the algorithm may have, of random numbers; 0 for sums of
    # products only
    error: float = 0.0
    precision: str = "highest"  # Of products of float32: ``highest``, ``high`` or ``medium``
    kept: bool = True  # Whether the weight stays what it is, and what kernels make of it once

    def __str__(self) -> str:
        h, v = self.rows, self.columns
        pixels = "" if self.shuffle is None else f", depth_to_space={self.shuffle.block}"
        return (
            f"groups={self.groups} with a weight of shape {self.w_shape} of {self.w.dtype}, "
            f"stride={(h.stride, v.stride)}, dilation={(h.dilation, v.dilation)}{pixels}"
        )

    @property
    def result(self) -> Place:
        """Where the result goes."""
        return {"forward": self.y, "input": self.x, "weight": self.w}[self.direction]

    @property
    def x_shape(self) -> tuple[int, int, int, int]:
        """Of the input."""
        return self.images, self.channels, self.rows.size, self.columns.size

    @property
    def w_shape(self) -> tuple[int, int, int, int]:
        """Of the weight."""
        return self.outputs, self.channels // self.groups, self.rows.kernel, self.columns.kernel

    @property
    def y_shape(self) -> tuple[int, int, int, int]:
        """Of the output, before pixels are made of it."""
        return self.images, self.outputs, self.rows.windows, self.columns.windows


@dataclass(frozen=True)
class ConvolutionClass:
    """A class of convolutions: those that one strategy and one tile are best for."""

    stored: str  # dtypes of what windows walk over and of sums
    value: str
    # Of the convolution. A gradient in the input with a stride of 1 is a convolution of the other
    # gradient, and counts as such
    direction: str
    # What lies side by side in it and in the result: ``channels``, ``columns``, ``none``
    lanes: str
    kernel_rows: int
    kernel_columns: int
    row_stride: int
    column_stride: int
    row_dilation: int
    column_dilation: int
    padded: bool  # Whether windows reach into padding
    images: int  # Rounded up to a power of two
    channels: int  # Of a group; exact up to 256, as is what follows
    outputs: int
    groups: int
    rows: int  # Of the result; of a gradient in the weight, of the other gradient
    columns: int
    kept: bool = True  # Whether the weight stays what it is, and so what is packed of it

    @classmethod
    def of(cls, problem: Convolution) -> ConvolutionClass:
        """Returns the class of a convolution."""
        p, h, v = problem, problem.rows, problem.columns
        back = p.direction == "input"
        walked, other = (p.y, p.x) if back else (p.x, p.y)
        turned = back and h.stride == v.stride == 1
        depths = (p.outputs, p.channels) if turned else (p.channels, p.outputs)
        channels = walked.channel == 1 and other.channel == 1
        columns = walked.column == 1 and other.column == 1
        return cls(
            stored=walked.dtype.name,
            value=p.value.name,
            direction="forward" if turned else p.direction,
            lanes="channels" if channels else "columns" if columns else "none",
            kernel_rows=h.kernel,
            kernel_columns=v.kernel,
            row_stride=h.stride,
            column_stride=v.stride,
            row_dilation=h.dilation,
            column_dilation=v.dilation,
            padded=h.leaves or v.leaves,
            images=power(p.images),
            channels=near_size(depths[0] // p.groups),
            outputs=near_size(depths[1] // p.groups),
            groups=near_size(p.groups),
            rows=near_size(h.size if back else h.windows),
            columns=near_size(v.size if back else v.windows),
            kept=p.kept or p.direction == "weight",
        )
