"""Classes of depthwise convolutions: those that one kernel and one tile are best for."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.plan.depthwise.problem import Depthwise
from clprim.plan.depthwise.weight.code import DepthwiseGradient
from clprim.plan.kernel import power_of_two

__all__ = ["EXACT", "DepthwiseProblem", "near_size"]

#: Sizes up to this one count as they are, larger ones as the next power of two: a tile is chosen
#: for what it wastes at the end of a line, which long lines hardly notice.
EXACT = 256


def near_size(size: int) -> int:
    """Returns what a size counts as in a class of problems."""
    return size if size <= EXACT else power_of_two(size)


@dataclass(frozen=True)
class DepthwiseProblem:
    """A class of depthwise convolutions, or of gradients.

    Attributes:
        stored, value: dtypes of the input and of sums.
        result: ``forward``, ``input`` or ``weight``. A gradient in the input with a stride of 1 is
            a convolution, and counts as such.
        lanes: What lies side by side: ``channels``, ``columns`` or ``none``.
        multiplier: Outputs of an input channel.
        kernel_rows, kernel_columns, row_stride, column_stride, row_dilation, column_dilation: Of
            the windows.
        images: Rounded up to a power of two.
        channels, rows, columns: Of the result; of a gradient in the weight, of the other gradient.
            Exact up to 256.
    """

    stored: str
    value: str
    result: str
    lanes: str
    multiplier: int
    kernel_rows: int
    kernel_columns: int
    row_stride: int
    column_stride: int
    row_dilation: int
    column_dilation: int
    images: int
    channels: int
    rows: int
    columns: int

    @classmethod
    def of(cls, what: Depthwise | DepthwiseGradient) -> DepthwiseProblem:
        """Returns the class of what is to be computed."""
        if isinstance(what, DepthwiseGradient):
            result, near = "weight", what.grad
        else:
            what = what.simplified()
            result, near = "input" if what.adjoint else "forward", what.y
        h, v = what.rows, what.columns
        channels_last = near.channel == 1 and what.x.channel == 1
        columns_last = near.column == 1 and what.x.column == 1
        return cls(
            stored=what.x.dtype.name,
            value=what.value.name,
            result=result,
            lanes="channels" if channels_last else "columns" if columns_last else "none",
            multiplier=what.multiplier,
            kernel_rows=h.kernel,
            kernel_columns=v.kernel,
            row_stride=h.stride,
            column_stride=v.stride,
            row_dilation=h.dilation,
            column_dilation=v.dilation,
            images=power_of_two(what.images),
            channels=near_size(what.channels),
            rows=near_size(h.outputs),
            columns=near_size(v.outputs),
        )
