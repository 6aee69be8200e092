"""Frames of signals and convolutions, against PyTorch and SciPy."""

import numpy as np
import pytest
import scipy.signal

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
HANN = np.hanning(17)[:16].astype(np.float32)
SETTINGS = [
    {"window": np.ones(16, np.float32)},
    {"hop_length": 3, "window": HANN},
    {"win_length": 12, "window": HANN[2:14], "normalized": True},
    {"win_length": 12, "hop_length": 4, "window": np.ones(12, np.float32)},
    {"center": False, "window": HANN + 0.1, "hop_length": 5},
    {"pad_mode": "constant", "onesided": False, "window": HANN + 0.1},
]


def told(settings, upload):
    return {k: upload(v) if k == "window" else v for k, v in settings.items()}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("shape", [(50,), (3, 61)])
def test_frames_there_and_back(device, settings, shape):
    x = RNG.normal(size=shape).astype(np.float32)
    expected = torch.stft(
        torch.from_numpy(x), 16, **told(settings, torch.from_numpy), return_complex=True
    )
    how = told(settings, cp.asarray)
    found = ops.stft(cp.asarray(x), 16, **how)
    assert found.shape == tuple(expected.shape) and found.dtype == np.complex64
    np.testing.assert_allclose(found.get(), expected.numpy(), atol=1e-5)
    how.pop("pad_mode", None)
    settings = {k: v for k, v in settings.items() if k != "pad_mode"}
    for length in (None, 40):
        back = torch.istft(expected, 16, **told(settings, torch.from_numpy), length=length)
        signal = ops.istft(found, 16, **how, length=length)
        np.testing.assert_allclose(signal.get(), back.numpy(), atol=1e-5)


def test_complex_signals(device):
    z = (RNG.normal(size=(2, 64)) + 1j * RNG.normal(size=(2, 64))).astype(np.complex64)
    expected = torch.stft(
        torch.from_numpy(z), 16, window=torch.from_numpy(HANN), center=False, return_complex=True
    )
    w = cp.asarray(HANN + 0.1)
    found = ops.stft(cp.asarray(z), 16, window=cp.asarray(HANN), center=False)
    np.testing.assert_allclose(found.get(), expected.numpy(), atol=1e-5)
    found = ops.stft(cp.asarray(z), 16, window=w, center=False)
    back = ops.istft(found, 16, window=w, center=False, onesided=False, return_complex=True)
    np.testing.assert_allclose(back.get(), z, atol=1e-5)


def test_no_window_is_ones(device):
    x = cp.asarray(RNG.normal(size=(2, 40)).astype(np.float32))
    for length in (12, 16):
        plain = ops.stft(x, 16, 4, length)
        ones = cp.asarray(np.ones(length, np.float32))
        np.testing.assert_array_equal(plain.get(), ops.stft(x, 16, 4, length, ones).get())
        np.testing.assert_allclose(ops.istft(plain, 16, 4, length).get(), x.get(), atol=1e-6)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(
    ("a", "b", "axes"),
    [((30,), (7,), None), ((4, 9, 12), (4, 3, 5), (1, -1)), ((5, 6), (5, 6), None)],
)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_convolution(device, mode, a, b, axes, dtype):
    x, y = RNG.normal(size=a).astype(dtype), RNG.normal(size=b).astype(dtype)
    expected = scipy.signal.fftconvolve(x, y, mode, axes)
    found = ops.fftconvolve(cp.asarray(x), cp.asarray(y), mode, axes)
    assert found.shape == expected.shape and found.dtype == dtype
    np.testing.assert_allclose(found.get(), expected, atol=2e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, z: ops.stft(x, 0), "ShapeError", "n_fft=0"),
        (lambda x, z: ops.stft(x, 4, 0), "ShapeError", "hop_length=0"),
        (lambda x, z: ops.stft(x, 4, win_length=5), "ShapeError", "at most n_fft=4"),
        (lambda x, z: ops.stft(x, 4, window=x[0]), "ShapeError", r"expected \(4,\)"),
        (lambda x, z: ops.stft(x, 12, center=False), "ShapeError", "at least n_fft=12"),
        (lambda x, z: ops.stft(z, 4, onesided=True), "DefinitionError", "onesided=True"),
        (lambda x, z: ops.stft(x, 4, return_complex=False), "DefinitionError", "expected True"),
        (lambda x, z: ops.istft(x, 4), "DTypeError", "expected complex"),
        (lambda x, z: ops.istft(z, 8), "ShapeError", "expected 8 numbers"),
        (lambda x, z: ops.istft(z, 4, 4, window=x[0, :4] * 0), "DefinitionError", "no gaps"),
        (lambda x, z: ops.istft(z, 4, return_complex=True), "DefinitionError", "one side"),
        (lambda x, z: ops.fftconvolve(x, x[0]), "ShapeError", "as many dimensions"),
        (lambda x, z: ops.fftconvolve(x, x, "all"), "DefinitionError", "mode='all'"),
        (lambda x, z: ops.fftconvolve(x[:1], x[:, :2], "valid"), "ShapeError", "within"),
    ],
)
def test_errors(device, call, error, message):
    with pytest.raises(getattr(cp, error), match=message):
        call(cp.full((3, 10), 1.0), cp.zeros((3, 9), np.complex64))
