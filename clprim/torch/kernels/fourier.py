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
    return _complex(x, dim, normalization, forward) if dim else duplicate(x)


def _complex(
    x: Array, dims: Sequence[int], normalization: int, forward: bool, over: bool = False
) -> Array:
    """Transforms along dimensions, the first time already over x where that may be written."""
    norm = _NORMS[not forward][normalization]
    for d in reversed(dims):
        x = along("fft", x, None, d, norm, inverse=not forward, over=over)
        over = True
    return x


@kernel("_fft_r2c")
def _r2c(x: Array, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    norm, (*others, last) = _NORMS[False][normalization], dim
    given = "real" if onesided else "complex"
    x = along("rfft", x, None, last, norm, given=given)
    return _complex(x, others, normalization, True, over=True)


@kernel("_fft_c2r")
def _c2r(x: Array, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    *others, last = dim
    x = _complex(x, others, normalization, False)
    norm = _NORMS[True][normalization]
    return along("irfft", x, last_dim_size, last, norm, inverse=True, given="half")
