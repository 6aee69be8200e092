"""Every family of kernels."""

from __future__ import annotations

from typing import Any

from clprim.plan.conv.family import CONVOLUTIONS, WINDOWS
from clprim.plan.grouped.family import GROUPS
from clprim.plan.product.family import PRODUCTS
from clprim.plan.reduction.family import REDUCTIONS
from clprim.plan.scan.family import SCANS
from clprim.plan.strategy import Family

FAMILIES: tuple[Family[Any], ...] = (CONVOLUTIONS, WINDOWS, PRODUCTS, REDUCTIONS, GROUPS, SCANS)
