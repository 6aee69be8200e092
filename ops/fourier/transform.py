"""Discrete Fourier transforms as products with tables of cosines and sines.

Complex numbers are pairs, real and imaginary part, in the last dimension, as `torch.view_as_real`
has them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray
from clprim.errors import ShapeError
from clprim.ops.elementwise.binary import add, sub
from clprim.ops.product.matmul import matmul
from clprim.ops.registry import operator
from clprim.ops.shape.join import cat, stack
from clprim.ops.shape.pad import pad
from clprim.ops.shape.turn import flip
from clprim.ops.shared.checks import check_floating
from clprim.ops.shared.dims import one_dim, whole
from clprim.ops.shared.strings import kernel


@lru_cache(maxsize=64)
def _tables(n: int, count: int, inverse: bool, dtype: str) -> tuple[Any, Any]:
    """Cosines and sines (n, count) of a transform of n numbers into count."""
    turns = (np.arange(n)[:, None] * np.arange(count)[None, :]) % n
    angles = 2 * np.pi * turns / n * (1 if inverse else -1)
    scale = 1 / n if inverse else 1.0
    return (np.cos(angles) * scale).astype(dtype), (np.sin(angles) * scale).astype(dtype)


def _transformed(re: Any, im: Any, count: int, *, inverse: bool = False) -> tuple[Any, Any]:
    """Returns the transform along the last axis, ``count`` numbers of it, in two parts."""
    tables = _tables(re.shape[-1], count, inverse, str(re.dtype))
    cosines, sines = (asarray(t) for t in tables)
    a, b = matmul(re, cosines), matmul(re, sines)
    if im is None:
        return a, b
    return sub(a, matmul(im, sines)), add(b, matmul(im, cosines))


@operator(
    onnx="DFT(x, n: Number, dim: Number) inverse=0 onesided=0 @along",
    sample="x[..., :2], dim=1",
)
def dft(
    x: Any, n: int | None = None, dim: int = -2, *, inverse: bool = False, onesided: bool = False
) -> Array:
    """Returns the discrete Fourier transform along a dimension.

    Args:
        x: (…, 2) of complex numbers, or (…, 1) of real ones.
        n: How many numbers are transformed: x is cut off, or goes on with zeros.
        dim: The dimension; not the last one, which holds the parts of a number.
        inverse: Whether to transform back, scaled by 1 / n.
        onesided: Whether to return the first n // 2 + 1 numbers alone, of which those behind
            follow where x is real; of an inverse transform x are these, and the result is real.

    Returns:
        (…, 2); of an inverse transform of one side (…, 1).

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([1, 0, 0, 0]).reshape(1, 4, 1))
        >>> ops.dft(x, onesided=True).get()
        array([[[1., 0.],
                [1., 0.],
                [1., 0.]]], dtype=float32)
    """
    what = "dft"
    check_floating(what, "x", x)
    last = x.ndim - 1
    axis = one_dim(what, x.ndim, dim)
    if x.ndim < 2 or x.shape[-1] not in (1, 2) or axis == last or not x.shape[axis]:
        raise ShapeError(
            f"{what}: x of shape {x.shape} along {dim}: expected (…, 1) or (…, 2), and elements "
            "along another dimension"
        )
    real, wanted = x.shape[-1] == 1, None if n is None else whole(what, "n", n, 1)
    x = x.swapaxes(axis, last - 1)
    have = x.shape[-2]
    count = have if wanted is None else wanted
    if inverse and onesided:  # the other half follows from this one
        count = max(2 * (have - 1), 1) if wanted is None else count
        x = _fitted(x, count // 2 + 1)
        rest = flip(x[..., 1 : count - count // 2, :], (last - 1,))
        mirrored = kernel(f"y0 = coord({last}) == 0 ? x0 : -x0;", what, x.dtype)(rest)
        x = cat([x, mirrored], last - 1)
    x = _fitted(x, count)
    kept = count // 2 + 1 if onesided and not inverse else count
    re, im = _transformed(x[..., 0], None if real else x[..., 1], kept, inverse=inverse)
    found = re.reshape((*re.shape, 1)) if inverse and onesided else stack([re, im], last)
    return found.swapaxes(axis, last - 1)


def _fitted(x: Any, count: int) -> Any:
    have = x.shape[-2]
    if have > count:
        return x[..., :count, :]
    return x if have == count else pad(x, (0, 0, 0, count - have))


@operator(
    onnx="STFT(x, hop_length: Number, window, n_fft: Number) onesided=1 @framed",
    sample="x[:, 0, 0], 2, 1",
)
def stft(
    x: Any, n_fft: int, hop_length: int, window: Any = None, *, onesided: bool = True
) -> Array:
    """Returns the Fourier transforms of frames of a signal.

    Args:
        x: (N, length) or (N, length, 1) of real numbers, (N, length, 2) of complex ones.
        n_fft: The length of a frame.
        hop_length: From one frame to the next.
        window: (n_fft,), what every frame is multiplied by.
        onesided: Whether to return the first n_fft // 2 + 1 numbers of each alone.

    Returns:
        (N, frames, numbers, 2).
    """
    what = "stft"
    dtype = check_floating(what, "x", x)
    n, hop = whole(what, "n_fft", n_fft, 1), whole(what, "hop_length", hop_length, 1)
    if x.ndim not in (2, 3) or (x.ndim == 3 and x.shape[2] not in (1, 2)) or x.shape[1] < n:
        raise ShapeError(
            f"{what}: x of shape {x.shape}: expected (N, length), of at least {n}, or with a last "
            "dimension of 1 or 2"
        )
    if window is not None and (check_floating(what, "window", window), window.shape)[1] != (n,):
        raise ShapeError(f"{what}: window has shape {window.shape}, expected ({n},)")
    x = x.reshape((*x.shape, 1)) if x.ndim == 2 else x
    frames = 1 + (x.shape[1] - n) // hop
    by = "" if window is None else " * at_x1(coord(2))"
    given = [x] if window is None else [x, window]
    parts = [
        kernel(f"y0 = at_x0(coord(0), coord(1) * {hop} + coord(2), {part}){by};", what, dtype)(
            *given, shape=(x.shape[0], frames, n)
        )
        for part in range(x.shape[2])
    ]
    kept = n // 2 + 1 if onesided else n
    return stack(_transformed(parts[0], parts[1] if len(parts) > 1 else None, kept), 3)
