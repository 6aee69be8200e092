"""Fourier transforms of frames of a signal, and convolution by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import zeros
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.ops.fft.several import fftn, ifftn, irfftn, rfftn
from clprim.ops.fft.transforms import along, numbers
from clprim.ops.registry import operator
from clprim.ops.shape import pad as border
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.dims import several_dims, whole
from clprim.ops.shared.strings import kernel
from clprim.plan.fourier.lengths import is_smooth
from clprim.runtime.tracing import active

_MODES = ("full", "same", "valid")
# Of the sums of squares of a window, below which nothing is divided by them, as PyTorch has it.
_LEAST = 1e-11


def _hop(what: str, n_fft: Any, hop_length: Any) -> tuple[int, int]:
    n = whole(what, "n_fft", n_fft, 1)
    return n, max(1, n // 4) if hop_length is None else whole(what, "hop_length", hop_length, 1)


def _window(what: str, window: Any, win_length: Any, n: int) -> Any:
    """Returns a window of n numbers; None where it is of ones."""
    length = n if win_length is None else whole(what, "win_length", win_length, 1)
    if length > n:
        raise ShapeError(f"{what}: win_length={length}: expected at most n_fft={n}")
    if window is None:
        if length == n:
            return None
        text = "y0 = index >= w0 && index < w0 + w1;"
        return kernel(text, what, np.float32)((n - length) // 2, length, shape=(n,))
    if dtype_of(what, "window", window).kind not in "f":
        raise DTypeError(f"{what}: window is {window.dtype}, expected real floating numbers")
    if window.shape != (length,):
        raise ShapeError(f"{what}: window has shape {window.shape}, expected ({length},)")
    before = (n - length) // 2
    return window if length == n else border.pad(window, (before, n - length - before))


def _sided(what: str, onesided: Any, is_real: bool) -> bool:
    if onesided and not is_real:
        raise DefinitionError(f"{what}: onesided=True of complex numbers: expected False")
    return is_real if onesided is None else bool(onesided)


@operator(sample="x[:, 0, 0], 2")
def stft(
    x: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool = True,
) -> Array:
    """Returns the Fourier transforms of frames of a signal.

    Args:
        x: (length,) or (N, length) of real or complex numbers.
        n_fft: The length of a frame.
        hop_length: From one frame to the next, by default n_fft // 4.
        win_length: The length of the window, which zeros go around; by default n_fft.
        window: (win_length,), what every frame is multiplied by; by default ones.
        center: Whether n_fft // 2 numbers go before and behind x, so that frame t is around
            x[t · hop_length].
        pad_mode: Which, as in `pad`.
        normalized: Whether to divide by √n_fft.
        onesided: Whether to return the first n_fft // 2 + 1 numbers of each alone, by default of
            real x.
        return_complex: True: there are no results as pairs.

    Returns:
        (numbers, frames) or (N, numbers, frames), complex.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.stft(cp.asarray(np.ones(16, np.float32)), 8).shape
        (5, 9)
    """
    what = "stft"
    if not return_complex:
        raise DefinitionError(f"{what}: return_complex={quoted(return_complex)}: expected True")
    x = numbers(what, x)
    if x.ndim not in (1, 2):
        raise ShapeError(f"{what}: x of shape {x.shape}: expected (length,) or (N, length)")
    how = Framing(n_fft, hop_length, win_length, window, center, pad_mode, onesided)
    return spectra(what, x, how, "ortho" if normalized else None).swapaxes(-1, -2)


class Framing(NamedTuple):
    """How a signal is cut into frames, and which numbers of their transforms are wanted.

    As in `stft`.
    """

    n_fft: Any
    hop_length: Any
    win_length: Any
    window: Any
    center: Any
    pad_mode: Any
    onesided: Any


def spectra(
    what: str, x: Any, how: Framing, norm: str | None, store: str | None = None, args: Any = ()
) -> Array:
    """Returns the transforms of frames, (…, frames, numbers), which a string may map."""
    n, hop = _hop(what, how.n_fft, how.hop_length)
    window = _window(what, how.window, how.win_length, n)
    half = _sided(what, how.onesided, x.dtype.kind != "c")
    if how.center:
        x = _around(x, n // 2, how.pad_mode)
    if x.shape[-1] < n:
        raise ShapeError(f"{what}: {x.shape[-1]} numbers: expected at least n_fft={n}")
    shape = (*x.shape[:-1], 1 + (x.shape[-1] - n) // hop, n)
    strides = (*x.strides[:-1], hop * x.strides[-1], x.strides[-1])
    framed = view_of(x, shape, strides, x.offset)
    given = "real" if half else "complex"
    strings = (None if window is None else "y0 = x0 * x1;", () if window is None else window)
    return along(what, framed, n, -1, norm, given=given, strings=(*strings, store, args))


def _around(x: Any, count: int, mode: str) -> Any:
    line = x.reshape((1, -1)) if x.ndim == 1 else x
    padded = border.pad(line, (count, count), mode)
    return padded.reshape((-1,)) if x.ndim == 1 else padded


@operator(sample="x[:, 0], 4")
def istft(
    x: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Array:
    """Returns the signal whose `stft` is given, by least squares where no signal has it.

    Args:
        x: (numbers, frames) or (N, numbers, frames), complex.
        n_fft: As in `stft`.
        hop_length: As in `stft`.
        win_length: As in `stft`.
        window: As in `stft`.
        center: As in `stft`.
        normalized: As in `stft`.
        onesided: Whether x are the first n_fft // 2 + 1 numbers of each frame alone, by default
            where there are as many.
        length: Of the signal, by default what all frames together have.
        return_complex: Whether the signal is complex, for which x are all numbers of each frame.

    Raises:
        DefinitionError: The sum of the squares of windows vanishes somewhere. In a trace, where
            nobody knows the window, the signal is not finite there.
    """
    what = "istft"
    if dtype_of(what, "x", x).kind != "c" or x.ndim not in (2, 3):
        raise DTypeError(
            f"{what}: x is {x.dtype} of shape {x.shape}, expected complex (numbers, frames) or "
            "(N, numbers, frames)"
        )
    n, hop = _hop(what, n_fft, hop_length)
    window = _window(what, window, win_length, n)
    half = x.shape[-2] == n // 2 + 1 if onesided is None else bool(onesided)
    count = n // 2 + 1 if half else n
    if x.shape[-2] != count or not x.shape[-1]:
        raise ShapeError(f"{what}: x of shape {x.shape}: expected {count} numbers, and frames")
    if return_complex and half:
        raise DefinitionError(f"{what}: return_complex=True of one side: expected onesided=False")
    frames, norm = x.swapaxes(-1, -2), "ortho" if normalized else None
    found = along(what, frames, n, -1, norm, inverse=True, given="half" if half else "complex")
    start, whole_length = n // 2 * bool(center), n + hop * (x.shape[-1] - 1)
    stop = whole_length - start if length is None else start + whole(what, "length", length, 1)
    if stop <= start:
        raise ShapeError(f"{what}: x of shape {x.shape}: no numbers are left between the borders")
    kept = min(stop, whole_length)
    _check_overlap(what, window, n, hop, x.shape[-1], (start, kept))
    parts = [found.real, found.imag] if return_complex else [found if half else found.real]
    sums = [_added(what, part, window, hop, (start, kept)) for part in parts]
    if stop > kept:
        sums = [border.pad(part, (0, stop - kept)) for part in sums]
    return sums[0] if len(sums) == 1 else kernel("y0 = complex(x0, x1);", what, x.dtype)(*sums)


def _check_overlap(
    what: str, window: Any, n: int, hop: int, frames: int, span: tuple[int, int]
) -> None:
    if window is not None and active.now is not None:
        return
    squares = np.ones(n) if window is None else window.get().astype(float) ** 2
    sums = np.zeros(n + hop * (frames - 1))
    for k in range(frames):
        sums[k * hop : k * hop + n] += squares
    if (least := sums[slice(*span)].min()) < _LEAST:
        raise DefinitionError(
            f"{what}: the squares of windows sum up to {least:.3g} somewhere: expected a window "
            f"that leaves no gaps, {hop} numbers from one to the next"
        )


def _added(what: str, framed: Any, window: Any, hop: int, span: tuple[int, int]) -> Any:
    """Adds frames up where they overlap, over the sum of the squares of windows."""
    lines = framed.reshape((-1, *framed.shape[-2:]))
    lead = framed.shape[:-2]
    if active.now is not None and active.now.spans is not None:  # by steps that have gradients
        squares = kernel("y0 = 1;" if window is None else "y0 = x0 * x0;", what, framed.dtype)
        below = squares(*([] if window is None else [window]), shape=(1, *lines.shape[1:]))
        above = lines if window is None else lines * window
        above, below = (_laid(each, hop)[:, slice(*span)] for each in (above, below))
        return (above / below).reshape((*lead, -1))
    weight = "1" if window is None else "at_x1(place - k * w0)"
    text = f"""long place = coord(1) + w1;
long first = place < size_x0(2) ? 0 : (place - size_x0(2)) / w0 + 1;
long last = min(place / w0, size_x0(1) - 1);
float total = 0, sum = 0;
for (long k = first; k <= last; ++k) {{
    float weight = {weight};
    sum += weight * at_x0(coord(0), k, place - k * w0);
    total += weight * weight;
}}
y0 = sum / total;"""
    if framed.dtype == np.float64:
        text = text.replace("float ", "double ")
    arrays = [lines] if window is None else [lines, window]
    shape = (lines.shape[0], span[1] - span[0])
    found = kernel(text, what, framed.dtype)(*arrays, hop, span[0], shape=shape)
    return found.reshape((*lead, shape[1]))


def _laid(lines: Any, hop: int) -> Any:
    """Adds frames up where they overlap, at once every so many-th, which lie apart."""
    count, n = lines.shape[1:]
    found = zeros((len(lines), n + hop * (count - 1)), lines.dtype)
    apart, step = -(-n // hop), found.strides[-1]
    adding = kernel("y0 = x0 + x1;", "istft", lines.dtype)
    for k in range(min(apart, count)):
        some = lines[:, k::apart]
        strides = found.strides[0], apart * hop * step, step
        place = view_of(found, some.shape, strides, found.offset + k * hop * step)
        adding(place, some, out=place)
    return found


@operator(sample="empty((4,)), empty((2,))")
def fftconvolve(
    a: Any, b: Any, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Array:
    """Returns the convolution of two arrays by Fourier transforms, as SciPy's does.

    Args:
        a: An array.
        b: One of as many dimensions; both broadcast along those that are not in axes.
        mode: ``"full"``, ``"same"``, the middle of it as large as a, or ``"valid"``, where one
            is all within the other.
        axes: Along which dimensions, by default all.

    Raises:
        DefinitionError: Another mode.
        ShapeError: Shapes that do not fit, or without numbers.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> a, b = cp.asarray(np.float32([1, 2, 3])), cp.asarray(np.float32([0, 1]))
        >>> ops.fftconvolve(a, b).get().round(4) + 0
        array([0., 1., 2., 3.], dtype=float32)
    """
    what = "fftconvolve"
    a, b = numbers(what, a), numbers(what, b)
    if mode not in _MODES:
        raise DefinitionError(f"{what}: mode={quoted(mode)}: expected one of {', '.join(_MODES)}")
    if a.ndim != b.ndim:
        raise ShapeError(f"{what}: shapes {a.shape} and {b.shape}: expected as many dimensions")
    dims = several_dims(what, a.ndim, tuple(range(a.ndim)) if axes is None else axes)
    if not dims or not a.size or not b.size:
        raise ShapeError(f"{what}: shapes {a.shape} and {b.shape}: expected numbers to convolve")
    within = [all(one.shape[d] <= other.shape[d] for d in dims) for one, other in ((b, a), (a, b))]
    if mode == "valid" and not any(within):
        raise ShapeError(f"{what}: {a.shape} and {b.shape}: expected one within the other")
    sizes = [a.shape[d] + b.shape[d] - 1 for d in dims]
    fast = [_fast(size) for size in sizes]
    real = a.dtype.kind != "c" and b.dtype.kind != "c"
    there, back = (rfftn, irfftn) if real else (fftn, ifftn)
    found = back(there(a, fast, dims) * there(b, fast, dims), fast, dims)
    index: list[slice] = [slice(None)] * a.ndim
    for d, size in zip(dims, sizes, strict=True):
        wanted = {"full": size, "same": a.shape[d]}.get(mode, abs(a.shape[d] - b.shape[d]) + 1)
        start = (size - wanted) // 2
        index[d] = slice(start, start + wanted)
    return found[tuple(index)]


def _fast(n: int) -> int:
    """The next length that is a product of small primes."""
    while not is_smooth(n):
        n += 1
    return n
