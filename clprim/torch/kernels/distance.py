"""Distances between all pairs of rows."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.arrays.array import Array
from clprim.torch.layout import contiguous
from clprim.torch.table import kernel

# PyTorch's numbers for whether matrices are multiplied.
_MODES = {
    None: "use_mm_for_euclid_dist_if_necessary",
    0: "use_mm_for_euclid_dist_if_necessary",
    1: "use_mm_for_euclid_dist",
    2: "donot_use_mm_for_euclid_dist",
}


@kernel("_cdist_forward")
def _cdist(a: Array, b: Array, p: float, mode: int | None = None) -> Any:
    return ops.cdist(a, b, p, _MODES[mode])


@kernel("_cdist_backward", lies=contiguous)
def _cdist_backward(grad: Array, a: Array, b: Array, p: float, found: Array) -> Any:
    return ops.cdist_backward(grad, a, b, p, output_mask=(True, False))[0]
