"""Every family of kernels."""

from __future__ import annotations

from typing import Any

from clprim.plan.conv.family import CONVOLUTIONS, WINDOWS
from clprim.plan.decomposition.family import DECOMPOSITIONS
from clprim.plan.fourier.family import FOURIER
from clprim.plan.fused.family import (
    ATTENTION_FEW,
    ATTENTION_GRADIENTS,
    ATTENTION_UNIT_GRADIENTS,
    ATTENTIONS,
    GATES,
    RESIDUALS,
)
from clprim.plan.grouped.family import GROUPS
from clprim.plan.index.family import LINES, PIECES
from clprim.plan.pointwise.family import POINTWISE
from clprim.plan.product.family import PRODUCTS
from clprim.plan.quantized.family import CODED
from clprim.plan.reduction.family import REDUCTIONS
from clprim.plan.scan.family import SCANS
from clprim.plan.sort.family import ORDERS
from clprim.plan.sort.select import FIRST
from clprim.plan.strategy import Family

FAMILIES: tuple[Family[Any], ...] = (
    CONVOLUTIONS,
    WINDOWS,
    PRODUCTS,
    CODED,
    REDUCTIONS,
    POINTWISE,
    GROUPS,
    SCANS,
    ORDERS,
    FIRST,
    LINES,
    PIECES,
    ATTENTIONS,
    ATTENTION_FEW,
    ATTENTION_GRADIENTS,
    ATTENTION_UNIT_GRADIENTS,
    GATES,
    RESIDUALS,
    FOURIER,
    DECOMPOSITIONS,
)
