"""The strategies of convolutions in every direction, in order of preference.

One list serves `conv2d`, both of its gradients and the transposed convolution. What is no
convolution by planes, nor any other of its own, is a product, or several of them.
"""

from __future__ import annotations

from clprim.plan.conv.lowering import contractions
from clprim.plan.conv.problem import Convolution, ConvolutionClass
from clprim.plan.conv.winograd.strategy import WINOGRAD
from clprim.plan.conv.winograd.weight import WINOGRAD_WEIGHT
from clprim.plan.depthwise.family import GRADIENTS, PLANES
from clprim.plan.depthwise.problem import depthwise_of, is_product
from clprim.plan.depthwise.weight.code import gradient_of
from clprim.plan.product.family import PRODUCTS, ContractionClass
from clprim.plan.product.problem import Contraction
from clprim.plan.strategy import Family, Via, lowered

__all__ = ["CONVOLUTIONS", "WINDOWS"]

#: What is left of a convolution, or of each phase of its stride, that is no planes.
WINDOWS: Family[Contraction] = Family(
    "windows", ContractionClass, (WINOGRAD, Via(PRODUCTS, lambda problem: (problem,)))
)
CONVOLUTIONS: Family[Convolution] = Family(
    "conv",
    ConvolutionClass,
    (
        *(lowered(strategy, depthwise_of, is_product) for strategy in PLANES),
        *(lowered(strategy, gradient_of, is_product) for strategy in GRADIENTS),
        WINOGRAD_WEIGHT,
        Via(WINDOWS, contractions),
    ),
)
