"""Spectrograms, the mel scale and cepstra, by torchaudio's arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from inspect import signature
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray
from clprim.call.packed import PackedWeight
from clprim.dtypes import real_dtype
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.ops.fft.transforms import numbers
from clprim.ops.fourier.frames import Framing, spectra
from clprim.ops.product.matmul import matmul
from clprim.ops.reduction.extrema import amax
from clprim.ops.registry import operator
from clprim.ops.shape import pad as border
from clprim.ops.shared.checks import dtype_of, real
from clprim.ops.shared.dims import whole
from clprim.ops.shared.strings import kernel
from clprim.runtime import tracing
from clprim.runtime.device import Device, current_device

_POWERS = {1.0: "y0 = abs(x0);", 2.0: "y0 = real(x0) * real(x0) + imag(x0) * imag(x0);"}
_NORMS = (False, True, "window", "frame_length")
# Slaney's scale is linear up to a frequency, from where on so many steps are a factor of 6.4.
_LINEAR, _STEP, _FACTOR = 1000.0, 200 / 3, math.log(6.4) / 27


def _mels(frequency: float, scale: str) -> float:
    """Returns the mels of a frequency: O'Shaughnessy's formula, or M. Slaney's."""
    if scale == "htk":
        return 2595 * math.log10(1 + frequency / 700)
    if frequency < _LINEAR:
        return frequency / _STEP
    return _LINEAR / _STEP + math.log(frequency / _LINEAR) / _FACTOR


def _frequencies(mels: Any, scale: str) -> Any:
    """Returns the frequencies of mels."""
    if scale == "htk":
        return 700 * (10 ** (mels / 2595) - 1)
    above = _LINEAR * np.exp(_FACTOR * np.maximum(mels - _LINEAR / _STEP, 0))
    return np.where(mels < _LINEAR / _STEP, mels * _STEP, above)


@lru_cache(maxsize=64)
def _filters(
    n_freqs: int, f_min: float, f_max: float, n_mels: int, rate: int, norm: str | None, scale: str
) -> Any:
    """Triangles around frequencies that are even steps of mels, in float64."""
    points = _frequencies(np.linspace(_mels(f_min, scale), _mels(f_max, scale), n_mels + 2), scale)
    there = np.linspace(0, rate // 2, n_freqs)
    steps, slopes = np.diff(points), points - there[:, None]
    lower, upper = -slopes[:, :-2] / steps[:-1], slopes[:, 2:] / steps[1:]
    found = np.maximum(0, np.minimum(lower, upper)) + 0.0  # no -0
    return found * (2 / (points[2:] - points[:-2])) if norm else found


@lru_cache(maxsize=64)
def _kept(make: Any, told: tuple[Any, ...], dtype: str, device: Device) -> PackedWeight:
    """A matrix that stays on a device, packed for products."""
    with tracing.switched_to(None):  # what is kept here belongs to no trace
        return PackedWeight(asarray(make(*told).astype(dtype), device=device))


def _of_mels(
    what: str, n_freqs: Any, f_min: Any, f_max: Any, n_mels: Any, rate: Any, norm: Any, scale: Any
) -> tuple[Any, ...]:
    """Returns the checked arguments of `_filters`."""
    count, rate = whole(what, "n_mels", n_mels, 1), whole(what, "sample_rate", rate, 2)
    low = real(what, "f_min", f_min)
    high = float(rate // 2) if f_max is None else real(what, "f_max", f_max)
    if not 0 <= low < high:
        raise DefinitionError(f"{what}: f_min={low}, f_max={high}: expected 0 <= f_min < f_max")
    if norm not in (None, "slaney"):
        raise DefinitionError(f"{what}: norm={quoted(norm)}: expected None or slaney")
    if scale not in ("htk", "slaney"):
        raise DefinitionError(f"{what}: mel_scale={quoted(scale)}: expected htk or slaney")
    return whole(what, "n_freqs", n_freqs, 1), low, high, count, rate, norm, scale


@operator()
def mel_filterbank(
    n_freqs: int,
    f_min: float,
    f_max: float,
    n_mels: int,
    sample_rate: int,
    norm: str | None = None,
    mel_scale: str = "htk",
) -> Array:
    """Returns the triangles that make mels of frequencies, by which a spectrogram is multiplied.

    Args:
        n_freqs: How many frequencies there are, from 0 to half the rate.
        f_min: The lowest frequency, in Hz.
        f_max: The highest one.
        n_mels: How many triangles.
        sample_rate: Numbers a second.
        norm: ``"slaney"`` divides each triangle by half its width.
        mel_scale: ``"htk"``, 2595 · log₁₀(1 + f / 700), or ``"slaney"``, linear up to 1000 Hz.

    Returns:
        (n_freqs, n_mels), float32.

    Example:
        >>> from clprim import ops
        >>> ops.mel_filterbank(5, 0.0, 4000.0, 2, 8000).get().round(2)
        array([[0.  , 0.  ],
               [0.68, 0.32],
               [0.  , 0.91],
               [0.  , 0.45],
               [0.  , 0.  ]], dtype=float32)
    """
    what = "mel_filterbank"
    told = _of_mels(what, n_freqs, f_min, f_max, n_mels, sample_rate, norm, mel_scale)
    return asarray(_filters(*told).astype(np.float32))


@operator(sample="x[:, 0, 0], 4")
def spectrogram(
    x: Any,
    n_fft: int = 400,
    win_length: int | None = None,
    hop_length: int | None = None,
    pad: int = 0,
    window: Any = None,
    power: float | None = 2.0,
    normalized: bool | str = False,
    center: bool = True,
    pad_mode: str = "reflect",
    onesided: bool = True,
) -> Array:
    """Returns how much there is of each frequency in frames of a signal.

    Args:
        x: (…, length).
        n_fft: As in `stft`.
        win_length: As in `stft`.
        hop_length: From one frame to the next, by default win_length // 2.
        pad: How many zeros go before and behind x.
        window: (win_length,), by default Hann's, periodic.
        power: Of the absolute values; None for the complex numbers.
        normalized: ``"window"`` or True divides by the root of the sum of the window's squares,
            ``"frame_length"`` by √n_fft.
        center: As in `stft`.
        pad_mode: As in `stft`.
        onesided: As in `stft`.

    Returns:
        (…, frequencies, frames).

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.spectrogram(cp.asarray(np.ones((2, 16), np.float32)), 8).shape
        (2, 5, 5)
    """
    how = Framing(n_fft, hop_length, win_length, window, center, pad_mode, onesided)
    return _powers("spectrogram", x, how, pad, power, normalized).swapaxes(-1, -2)


def _powers(what: str, x: Any, how: Framing, pad: Any, power: Any, normalized: Any) -> Array:
    """Returns spectrograms as (…, frames, frequencies)."""
    x = numbers(what, x)
    n = whole(what, "n_fft", how.n_fft, 1)
    length = n if how.win_length is None else whole(what, "win_length", how.win_length, 1)
    hop = max(1, length // 2) if how.hop_length is None else how.hop_length
    if not isinstance(normalized, bool | str) or normalized not in _NORMS:
        raise DefinitionError(f"{what}: normalized={quoted(normalized)}: expected one of {_NORMS}")
    exponent = None if power is None else real(what, "power", power)
    if exponent is not None and exponent <= 0:
        raise DefinitionError(f"{what}: power={power}: expected a positive number, or None")
    window = how.window
    if window is None:
        window = _kept(_hann, (length,), str(real_dtype(x.dtype)), current_device()).array
    if normalized in (True, "window"):
        dtype_of(what, "window", window)
        window = window / (window * window).sum() ** 0.5
    lead, count = x.shape[:-1], whole(what, "pad", pad, 0)
    lines = x.reshape((-1, x.shape[-1])) if x.ndim > 2 else x
    lines = border.pad(lines, (count, count)) if count else lines
    store = None if exponent is None else _POWERS.get(exponent, "y0 = pow(abs(x0), w0);")
    args = (exponent,) if store is not None and exponent not in _POWERS else ()
    framing = how._replace(hop_length=hop, window=window)
    norm = "ortho" if normalized == "frame_length" else None
    found = spectra(what, lines, framing, norm, store, args)
    return found.reshape((*lead, *found.shape[-2:])) if x.ndim > 2 else found


def _hann(length: int) -> Any:
    return np.sin(np.pi * np.arange(length) / length) ** 2 if length > 1 else np.ones(1)


@operator(sample="x[:, 0, 0], n_fft=4, n_mels=1")
def mel_spectrogram(
    x: Any,
    sample_rate: int = 16000,
    n_fft: int = 400,
    win_length: int | None = None,
    hop_length: int | None = None,
    f_min: float = 0.0,
    f_max: float | None = None,
    pad: int = 0,
    n_mels: int = 128,
    window: Any = None,
    power: float = 2.0,
    normalized: bool | str = False,
    center: bool = True,
    pad_mode: str = "reflect",
    norm: str | None = None,
    mel_scale: str = "htk",
) -> Array:
    """Returns a spectrogram whose frequencies are steps of the mel scale.

    Args:
        x: (…, length).
        sample_rate: Numbers a second.
        n_fft: As in `spectrogram`.
        win_length: As in `spectrogram`.
        hop_length: As in `spectrogram`.
        f_min: The lowest frequency, in Hz.
        f_max: The highest one, by default half the rate.
        pad: As in `spectrogram`.
        n_mels: How many steps.
        window: As in `spectrogram`.
        power: As in `spectrogram`.
        normalized: As in `spectrogram`.
        center: As in `spectrogram`.
        pad_mode: As in `spectrogram`.
        norm: As in `mel_filterbank`.
        mel_scale: As in `mel_filterbank`.

    Returns:
        (…, n_mels, frames).

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.sin(np.arange(16000, dtype=np.float32)))
        >>> ops.mel_spectrogram(x, n_mels=40).shape
        (40, 81)
    """
    what = "mel_spectrogram"
    if power is None:
        raise DefinitionError(f"{what}: power=None: expected a positive number")
    how = Framing(n_fft, hop_length, win_length, window, center, pad_mode, True)
    powers = _powers(what, numbers(what, x, "real"), how, pad, power, normalized)
    rest = f_min, f_max, n_mels, sample_rate, norm, mel_scale
    told = _of_mels(what, powers.shape[-1], *rest)
    bank = _kept(_filters, told, str(powers.dtype), current_device())
    return matmul(powers, bank).swapaxes(-1, -2)


@operator(sample="x")
def amplitude_to_db(
    x: Any,
    multiplier: float = 10.0,
    amin: float = 1e-10,
    db_multiplier: float = 0.0,
    top_db: float | None = None,
) -> Array:
    """Returns decibels: multiplier · (log₁₀(max(x, amin)) - db_multiplier).

    Args:
        x: (…, channels, frequencies, frames), or less dimensions.
        multiplier: 10 for powers, 20 for amplitudes.
        amin: What less is taken as.
        db_multiplier: The logarithm of what is 0 decibels.
        top_db: By how much results may be below the highest one of all channels; None as much as
            they are.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.amplitude_to_db(cp.asarray(np.float32([1, 10, 0])), top_db=80).get()
        array([  0.,  10., -70.], dtype=float32)
    """
    what = "amplitude_to_db"
    x = numbers(what, x, "real")
    named = {"multiplier": multiplier, "amin": amin, "db_multiplier": db_multiplier}
    factor, least, reference = (real(what, name, value) for name, value in named.items())
    if least <= 0:
        raise DefinitionError(f"{what}: amin={amin}: expected a positive number")
    most = None if top_db is None else real(what, "top_db", top_db)
    text = "y0 = w0 * (log10(max(x0, w1)) - w2);"
    found: Array = kernel(text, what, x.dtype)(x, factor, least, reference)
    if most is None or not x.size:
        return found
    highest = amax(found, tuple(range(-min(x.ndim, 3), 0)), True)
    limited = kernel("y0 = max(x0, x1 - w0);", what, x.dtype)
    return limited(found, highest, most)


def _cosines(n_mels: int, count: int, norm: str | None) -> Any:
    """The discrete cosine transform of type II, (n_mels, count)."""
    found = 2 * np.cos(np.pi / n_mels * (np.arange(n_mels)[:, None] + 0.5) * np.arange(count))
    return (
        found * np.where(np.arange(count), 1, 0.5**0.5) * (0.5 / n_mels) ** 0.5 if norm else found
    )


@operator(sample="x[:, 0, 0], n_mfcc=1, melkwargs={'n_fft': 4, 'n_mels': 1}")
def mfcc(
    x: Any,
    sample_rate: int = 16000,
    n_mfcc: int = 40,
    norm: str | None = "ortho",
    log_mels: bool = False,
    melkwargs: Mapping[str, Any] | None = None,
) -> Array:
    """Returns mel-frequency cepstral coefficients: the cosine transform of a mel spectrogram's log.

    Args:
        x: (…, length).
        sample_rate: Numbers a second.
        n_mfcc: How many coefficients, at most n_mels.
        norm: ``"ortho"``, or None for twice the sums of cosines.
        log_mels: Whether the logarithm is ln(mels + 1e-6), not decibels, 80 below the highest one.
        melkwargs: Further arguments of `mel_spectrogram`.

    Returns:
        (…, n_mfcc, frames).

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.sin(np.arange(16000, dtype=np.float32)))
        >>> ops.mfcc(x, n_mfcc=13).shape
        (13, 81)
    """
    what = "mfcc"
    if melkwargs is not None and not isinstance(melkwargs, Mapping):
        raise DefinitionError(f"{what}: melkwargs={quoted(melkwargs)}: expected a mapping")
    further = [*signature(mel_spectrogram).parameters][2:]
    if not {*further}.issuperset(melkwargs or ()):
        raise DefinitionError(f"{what}: melkwargs={quoted(melkwargs)}: expected some of {further}")
    if norm not in (None, "ortho"):
        raise DefinitionError(f"{what}: norm={quoted(norm)}: expected None or ortho")
    mels = mel_spectrogram(numbers(what, x, "real"), sample_rate, **(melkwargs or {}))
    count = whole(what, "n_mfcc", n_mfcc, 1)
    if count > mels.shape[-2]:
        raise ShapeError(f"{what}: n_mfcc={count}: expected at most n_mels={mels.shape[-2]}")
    if log_mels:
        logs = kernel("y0 = log(x0 + w0);", what, mels.dtype)(mels, 1e-6)
    else:
        logs = amplitude_to_db(mels, top_db=80.0)
    cosines = _kept(_cosines, (mels.shape[-2], count, norm), str(mels.dtype), current_device())
    return matmul(logs.swapaxes(-1, -2), cosines).swapaxes(-1, -2)
