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
    """Windows along one axis.

    Attributes:
        size: Of the input.
        kernel: Taps of a window.
        stride: From one window to the next.
        dilation: From one tap to the next.
        before, after: Padding.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
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
    """What to compute.

    Attributes:
        name: For kernels and messages.
        direction: ``forward``, ``input`` or ``weight``: which array is the result.
        images: How many.
        channels: Of x.
        outputs: Of y; both divide into ``groups``.
        groups: Independent convolutions, each of some channels and some outputs.
        rows, columns: The windows.
        value: dtype that sums are added up in.
        x: The input, (images, channels, rows, columns).
        w: The weight, (outputs, channels of a group, taps down, taps across).
        y: The output; with ``shuffle`` the large picture.
        epilogue: What becomes of a sum before it is stored; its arrays broadcast to the result.
        shuffle: How outputs become pixels of y, or None where they stay what they are.
        prologue: What becomes of an element of x where it is read, written as an epilogue is; its
            arrays broadcast to x. Of windows of one pixel alone.
        error: Relative root mean square error that the algorithm may have, of random numbers; 0 for
            sums of products only.
        kept: Whether the weight stays what it is, and what kernels make of it once.
    """

    name: str
    direction: str
    images: int
    channels: int
    outputs: int
    groups: int
    rows: Axis
    columns: Axis
    value: AnyDType
    x: Place
    w: Place
    y: Place
    epilogue: Epilogue[Place] = NO_EPILOGUE
    shuffle: Shuffle | None = None
    prologue: Epilogue[Place] = NO_EPILOGUE
    error: float = 0.0
    kept: bool = True

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
    """A class of convolutions: those that one strategy and one tile are best for.

    Attributes:
        stored, value: dtypes of what windows walk over and of sums.
        direction: Of the convolution. A gradient in the input with a stride of 1 is a convolution
            of the other gradient, and counts as such.
        lanes: What lies side by side in it and in the result: ``channels``, ``columns``, ``none``.
        kernel_rows, kernel_columns, row_stride, column_stride, row_dilation, column_dilation: Of
            the windows.
        padded: Whether windows reach into padding.
        images: Rounded up to a power of two.
        channels, outputs: Of a group; exact up to 256, as is what follows.
        groups: How many.
        rows, columns: Of the result; of a gradient in the weight, of the other gradient.
        kept: Whether the weight stays what it is, and so what is packed of it.
    """

    stored: str
    value: str
    direction: str
    lanes: str
    kernel_rows: int
    kernel_columns: int
    row_stride: int
    column_stride: int
    row_dilation: int
    column_dilation: int
    padded: bool
    images: int
    channels: int
    outputs: int
    groups: int
    rows: int
    columns: int
    kept: bool = True

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
