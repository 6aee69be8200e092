"""Cumulative sums and the like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.torch.copying import cast, duplicate
from clprim.torch.kernels.elementwise import floating
from clprim.torch.kernels.reduction import sum_dtype
from clprim.torch.layout import contiguous
from clprim.torch.memory import kind_of
from clprim.torch.table import kernel


def _cumulative(name: str) -> None:
    operator: Callable[..., Any] = getattr(ops, name)

    @kernel(name, lies=contiguous)
    def run(x: Array, dim: int, *, dtype: torch.dtype | None = None) -> Any:
        wanted = sum_dtype(x, dtype)
        if x.ndim:
            return operator(x, dim, dtype=wanted)
        return duplicate(x) if wanted is None else x.astype(wanted)


_cumulative("cumsum")
_cumulative("cumprod")


@kernel("logcumsumexp", lies=contiguous)
def _logcumsumexp(x: Array, dim: int) -> Any:
    x = cast(x, floating(kind_of(x.dtype)))
    return ops.logcumsumexp(x, dim) if x.ndim else duplicate(x)
