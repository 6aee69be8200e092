"""Transforms along one dimension.

X[k] = Σ x[j] exp(-2πi jk / n), and back with the other sign. ``norm`` says which of the two is
divided by n: ``"backward"``, the default, the inverse one; ``"forward"`` the other; ``"ortho"``
both by √n.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import zeros
from clprim.dtypes import complex_dtype, real_dtype
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.dims import named_once, one_dim, whole
from clprim.primitives.fourier import Options, transform

_POWERS = {None: 0.0, "backward": 0.0, "ortho": 0.5, "forward": 1.0}


def fft(
    x: Any, n: int | None = None, dim: int | None = None, norm: str | None = None, *,
    axis: int | None = None,
) -> Array:  # fmt: skip
    """Returns the Fourier transform along a dimension.

    Args:
        x: An array of complex or real numbers; float16, bfloat16 and integers are computed with in
            float32.
        n: How many numbers are transformed: x is cut off, or goes on with zeros. By default all.
        dim: The dimension, by default the last one.
        norm: ``"backward"``, ``"ortho"`` or ``"forward"``: 1, 1 / √n or 1 / n times the sum.
        axis: The same as ``dim``, by NumPy's name.

    Returns:
        complex64, or complex128 of float64 and complex128.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.fft.fft(cp.asarray(np.float32([1, 0, -1, 0]))).get()
        array([0.+0.j, 2.+0.j, 0.+0.j, 2.+0.j], dtype=complex64)
    """
    return along("fft.fft", x, n, named_once("fft.fft", dim, axis, -1), norm)


def ifft(
    x: Any, n: int | None = None, dim: int | None = None, norm: str | None = None, *,
    axis: int | None = None,
) -> Array:  # fmt: skip
    """Returns the inverse Fourier transform along a dimension; arguments as in `fft`."""
    return along("fft.ifft", x, n, named_once("fft.ifft", dim, axis, -1), norm, inverse=True)


def rfft(
    x: Any, n: int | None = None, dim: int | None = None, norm: str | None = None, *,
    axis: int | None = None,
) -> Array:  # fmt: skip
    """Returns the first n // 2 + 1 numbers of the transform of real numbers, which give the rest.

    Arguments as in `fft`.
    """
    what = "fft.rfft"
    return along(what, x, n, named_once(what, dim, axis, -1), norm, given="real")


def irfft(
    x: Any, n: int | None = None, dim: int | None = None, norm: str | None = None, *,
    axis: int | None = None,
) -> Array:  # fmt: skip
    """Returns the real numbers whose `rfft` is given; n of them, by default 2 · (numbers - 1).

    Imaginary parts at 0 and n / 2 are ignored. Arguments as in `fft`.
    """
    what = "fft.irfft"
    return along(what, x, n, named_once(what, dim, axis, -1), norm, inverse=True, given="half")


def hfft(
    x: Any, n: int | None = None, dim: int | None = None, norm: str | None = None, *,
    axis: int | None = None,
) -> Array:  # fmt: skip
    """Returns the transform, which is real, of numbers of which half is given: x[-k] = conj(x[k]).

    There are n results, by default 2 · (numbers - 1). Arguments as in `fft`.
    """
    return along("fft.hfft", x, n, named_once("fft.hfft", dim, axis, -1), norm, given="half")


def ihfft(
    x: Any, n: int | None = None, dim: int | None = None, norm: str | None = None, *,
    axis: int | None = None,
) -> Array:  # fmt: skip
    """Returns the numbers whose `hfft` is given, n // 2 + 1 of them; arguments as in `fft`."""
    what = "fft.ihfft"
    return along(what, x, n, named_once(what, dim, axis, -1), norm, inverse=True, given="real")


def along(
    what: str,
    x: Any,
    n: Any,
    dim: Any,
    norm: Any,
    *,
    inverse: bool = False,
    given: str = "complex",
) -> Array:
    """Returns transforms of ``complex`` or ``real`` numbers, or of ``half`` a spectrum."""
    x = numbers(what, x, given)
    axis = one_dim(what, x.ndim, dim)
    have, half = x.shape[axis], given == "half"
    if n is None and (have if not half else have - 1) < 1:
        raise ShapeError(
            f"{what}: n={2 * (have - 1) if half else have} of shape {x.shape}: expected at least 1"
        )
    count = (2 * (have - 1) if half else have) if n is None else whole(what, "n", n, 1)
    power = power_of(what, norm)
    scale = count ** (power - 1 if inverse else -power)
    kept = count // 2 + 1 if given == "real" else count
    if not have:
        shape = (*x.shape[:axis], kept, *x.shape[axis + 1 :])
        return zeros(shape, real_dtype(x.dtype) if half else complex_dtype(x.dtype))
    return transform(x, Options(count, axis, inverse, kept, half, real=half, pairs=False), scale)


def power_of(what: str, norm: Any) -> float:
    """Returns by which power of n a forward transform is divided."""
    if (norm is not None and not isinstance(norm, str)) or norm not in _POWERS:
        raise DefinitionError(f"{what}: norm={quoted(norm)}: expected backward, ortho or forward")
    return _POWERS[norm]


def numbers(what: str, x: Any, given: str = "complex") -> Any:
    """Returns an array of float32 or float64, or of complex numbers of these."""
    dtype = dtype_of(what, "x", x)
    if given == "real" and dtype.kind == "c":
        raise DTypeError(f"{what}: x is {dtype}, expected real numbers")
    known = dtype.kind == "c" or dtype in (np.float32, np.float64)
    if not x.ndim:
        raise ShapeError(f"{what}: x has no dimensions, expected at least one")
    return x if known else x.astype(np.float32)
