"""Frequencies of a transform's numbers, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray
from clprim.errors import DefinitionError
from clprim.ops.shape.turn import roll
from clprim.ops.shared.checks import dtype_of, real
from clprim.ops.shared.dims import named_once, several_dims, whole

Dims = int | Sequence[int] | None


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = np.float32) -> Array:
    """Returns the frequencies of the n numbers of a transform, in cycles per unit of ``d``.

    Args:
        n: How many.
        d: From one number of what is transformed to the next.
        dtype: Of the result.

    Example:
        >>> from clprim import ops
        >>> ops.fft.fftfreq(4).get()
        array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    return _frequencies("fft.fftfreq", np.fft.fftfreq, n, d, dtype)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = np.float32) -> Array:
    """Returns the frequencies of the n // 2 + 1 numbers of `rfft`; arguments as in `fftfreq`."""
    return _frequencies("fft.rfftfreq", np.fft.rfftfreq, n, d, dtype)


def _frequencies(what: str, host: Any, n: Any, d: Any, dtype: Any) -> Array:
    count, step = whole(what, "n", n, 1), real(what, "d", d)
    if not step:
        raise DefinitionError(f"{what}: d=0: expected another number")
    return asarray(host(count, step).astype(dtype))


def fftshift(x: Any, dim: Dims = None, *, axes: Dims = None) -> Array:
    """Returns a transform with frequency 0 in the middle.

    Args:
        x: An array.
        dim: The dimensions, by default all.
        axes: The same, by NumPy's name.
    """
    return _shifted("fft.fftshift", x, named_once("fft.fftshift", dim, axes), 1)


def ifftshift(x: Any, dim: Dims = None, *, axes: Dims = None) -> Array:
    """Returns what `fftshift` was given; arguments as there."""
    return _shifted("fft.ifftshift", x, named_once("fft.ifftshift", dim, axes), -1)


def _shifted(what: str, x: Any, dim: Any, sign: int) -> Array:
    dtype_of(what, "x", x)
    dims = several_dims(what, x.ndim, tuple(range(x.ndim)) if dim is None else dim)
    shifts = [x.shape[d] // 2 if sign > 0 else -(x.shape[d] // 2) for d in dims]
    return roll(x, shifts, dims) if dims else x
