"""Discrete Fourier transforms of pairs.

Complex numbers are pairs, real and imaginary part, in the last dimension, as `torch.view_as_real`
has them.
"""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array, view_of
from clprim.errors import ShapeError
from clprim.ops.registry import add_onnx, operator
from clprim.ops.shared.checks import check_floating
from clprim.ops.shared.dims import one_dim, whole
from clprim.ops.shared.strings import kernel
from clprim.primitives.fourier import Options, transform


def _of_pairs(x: Any, options: Options, scale: float = 1.0) -> Any:
    """Transforms pairs, in float32 where their dtype has 16 bits."""
    if x.dtype.itemsize > 2:
        return transform(x, options, scale)
    return transform(x.astype("float32"), options, scale).astype(x.dtype)


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
    wanted, have = None if n is None else whole(what, "n", n, 1), x.shape[axis]
    half = inverse and onesided
    count = (max(2 * (have - 1), 1) if half else have) if wanted is None else wanted
    kept = count // 2 + 1 if onesided and not inverse else count
    options = Options(count, axis, inverse, kept, half=half, real=half, pairs=True)
    return _of_pairs(x, options, 1 / count if inverse else 1.0)


def framed_dft(
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
    frames, parts = 1 + (x.shape[1] - n) // hop, x.shape[2]
    if window is None:
        strides = x.strides[0], hop * x.strides[1], *x.strides[1:]
        framed = view_of(x, (x.shape[0], frames, n, parts), strides, x.offset)
    else:
        text = f"y0 = at_x0(coord(0), coord(1) * {hop} + coord(2), coord(3)) * at_x1(coord(2));"
        framed = kernel(text, what, dtype)(x, window, shape=(x.shape[0], frames, n, parts))
    kept = n // 2 + 1 if onesided else n
    options = Options(n, 2, inverse=False, kept=kept, half=False, real=False, pairs=True)
    return _of_pairs(framed, options)


add_onnx("STFT(x, hop_length: Number, window, n_fft: Number) onesided=1 @framed", framed_dft)
