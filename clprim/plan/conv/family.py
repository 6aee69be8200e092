"""The strategies of convolutions in every direction, in order of preference.

One list serves `conv2d`, both of its gradients and the transposed convolution. What is no
convolution by planes, nor any other of its own, is a product, or several of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from clprim.plan.conv.lowering import contractions
from clprim.plan.conv.problem import Convolution, ConvolutionClass
from clprim.plan.conv.winograd.image import image_of
from clprim.plan.conv.winograd.strategy import WINOGRAD, WINOGRAD_LOCAL
from clprim.plan.conv.winograd.weight import WINOGRAD_WEIGHT
from clprim.plan.depthwise.family import GRADIENTS, PLANES
from clprim.plan.depthwise.problem import depthwise_of
from clprim.plan.depthwise.weight.code import gradient_of
from clprim.plan.product.family import PRODUCTS, ContractionClass
from clprim.plan.product.problem import Contraction
from clprim.plan.strategy import Family, Lowered, Via
from clprim.plan.table import near_size


@dataclass(frozen=True)
class WindowsClass(ContractionClass):
    """A class of contractions whose best algorithm depends on their windows."""

    # The error that is allowed is none of it: a choice whose error is larger does not fit.

    kernel_rows: int
    kernel_columns: int
    channels: int  # That are summed up, exact up to 256
    pixelwise: bool  # Whether windows move pixel by pixel
    kept: bool  # Whether the weight stays what it is

    @classmethod
    def of(cls, problem: Contraction) -> WindowsClass:
        """Returns the class of a contraction."""
        rows, columns, channels = problem.depths
        image = image_of(problem)
        return cls(
            **asdict(ContractionClass.of(problem)),
            kernel_rows=rows,
            kernel_columns=columns,
            channels=near_size(channels),
            pixelwise=image is not None and image.strides == (1, 1),
            kept=problem.kept,
        )


#: What is left of a convolution, or of each phase of its stride, that is no planes.
WINDOWS: Family[Contraction] = Family(
    "windows",
    WindowsClass,
    (WINOGRAD, WINOGRAD_LOCAL, Via(PRODUCTS, lambda problem: (problem,))),
)
CONVOLUTIONS: Family[Convolution] = Family(
    "conv",
    ConvolutionClass,
    (
        Lowered(PLANES, depthwise_of),
        Lowered(GRADIENTS, gradient_of),
        WINOGRAD_WEIGHT,
        Via(WINDOWS, contractions),
    ),
)
