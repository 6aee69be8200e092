"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.arrays.array import Array
from clprim.ops.fft.transforms import along
from clprim.torch.copying import duplicate
from clprim.torch.table import kernel

# By what PyTorch divides: nothing, √n, n. `along` divides inverse transforms by n itself.
_NORMS = {False: ("backward", "ortho", "forward"), True: ("forward", "ortho", "backward")}


@kernel("_fft_c2c")
def _c2c(x: Array, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    norm = _NORMS[not forward][normalization]
    for d in reversed(dim):
        x = along("fft", x, None, d, norm, inverse=not forward)
    return x if dim else duplicate(x)


@kernel("_fft_r2c")
def _r2c(x: Array, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    norm, (*others, last) = _NORMS[False][normalization], dim
    given = "real" if onesided else "complex"
    return _c2c(along("rfft", x, None, last, norm, given=given), others, normalization, True)


@kernel("_fft_c2r")
def _c2r(x: Array, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    *others, last = dim
    if others:
        x = _c2c(x, others, normalization, False)
    norm = _NORMS[True][normalization]
    return along("irfft", x, last_dim_size, last, norm, inverse=True, given="half")
