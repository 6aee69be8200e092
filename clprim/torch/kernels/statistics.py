"""Reductions that leave numbers out or return more than one result."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.torch.kernels.norm import _SLOPES, _batch_norm, _batch_norm_backward
from clprim.torch.table import kernel


@kernel("_batch_norm_with_update")
def _with_update(
    x: Array, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> Any:
    found = _batch_norm(x, weight, bias, mean, var, True, momentum, eps)
    return (*found, empty((0,), np.dtype(np.uint8)))


@kernel("batch_norm_backward", lies=_SLOPES)
def _with_update_backward(*given: Any) -> Any:
    return _batch_norm_backward(*given[:-1])  # all but what is reserved for other libraries
