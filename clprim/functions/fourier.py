"""Fourier transforms by NumPy's names and arguments: ``cp.fft``.

They are those of `clprim.ops.fft`. Integers are computed with in float64 where the device has it,
as NumPy does, and frequencies are float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.ops import fft as transforms
from clprim.runtime.device import current_device

Axes = Sequence[int] | None


def _wide(a: Any) -> Any:
    whole = getattr(getattr(a, "dtype", None), "kind", "?") in "biu"
    return a.astype(np.float64) if whole and current_device().traits.fp64 else a


def _one(name: str) -> Callable[..., Array]:
    run = getattr(transforms, name)

    def function(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
        found: Array = run(_wide(a), n, axis, norm)
        return found

    return _named(function, name)


def _several(name: str, default: Axes) -> Callable[..., Array]:
    run = getattr(transforms, name)

    def function(a: Any, s: Axes = None, axes: Axes = default, norm: str | None = None) -> Array:
        found: Array = run(_wide(a), s, axes, norm)
        return found

    return _named(function, name)


def _named(function: Any, name: str) -> Callable[..., Array]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"See `numpy.fft.{name}`; `clprim.ops.fft.{name}` computes it."
    found: Callable[..., Array] = function
    return found


fft, ifft, rfft, irfft, hfft, ihfft = map(_one, "fft ifft rfft irfft hfft ihfft".split())
fftn, ifftn, rfftn, irfftn = (_several(name, None) for name in "fftn ifftn rfftn irfftn".split())
fft2, ifft2, rfft2, irfft2 = (
    _several(name, (-2, -1)) for name in "fft2 ifft2 rfft2 irfft2".split()
)


def fftfreq(n: int, d: float = 1.0) -> Array:
    """See `numpy.fft.fftfreq`; `clprim.ops.fft.fftfreq` computes it."""
    return transforms.fftfreq(n, d, dtype=np.float64)


def rfftfreq(n: int, d: float = 1.0) -> Array:
    """See `numpy.fft.rfftfreq`; `clprim.ops.fft.rfftfreq` computes it."""
    return transforms.rfftfreq(n, d, dtype=np.float64)


def fftshift(x: Any, axes: Axes = None) -> Array:
    """See `numpy.fft.fftshift`; `clprim.ops.fft.fftshift` computes it."""
    return transforms.fftshift(x, axes)


def ifftshift(x: Any, axes: Axes = None) -> Array:
    """See `numpy.fft.ifftshift`; `clprim.ops.fft.ifftshift` computes it."""
    return transforms.ifftshift(x, axes)
