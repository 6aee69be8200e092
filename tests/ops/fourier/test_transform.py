"""Discrete Fourier transforms against NumPy in float64."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.ops.fourier.transform import framed_dft

RNG = np.random.default_rng(0)


def pairs(z):
    return np.stack([z.real, z.imag], -1)


@pytest.mark.parametrize("n", [None, 5, 12])
@pytest.mark.parametrize("dim", [1, -2])
def test_dft_there_and_back(device, n, dim):
    z = RNG.normal(size=(2, 7, 3)) + 1j * RNG.normal(size=(2, 7, 3))
    x = cp.asarray(pairs(z).astype(np.float32))
    axis = 1 if dim == 1 else 2
    for inverse, name in ((False, "fft"), (True, "ifft")):
        expected = getattr(np.fft, name)(z, n, axis)
        found = ops.dft(x, n, dim, inverse=inverse).get()
        np.testing.assert_allclose(found, pairs(expected), rtol=1e-5, atol=2e-5)
    real = cp.asarray(z.real[..., None].astype(np.float32))
    expected = np.fft.rfft(z.real, n, axis)
    found = ops.dft(real, n, dim, onesided=True)
    np.testing.assert_allclose(found.get(), pairs(expected), rtol=1e-5, atol=2e-5)
    back = ops.dft(found, n or z.shape[axis], dim, inverse=True, onesided=True).get()
    expected = np.fft.irfft(expected, n or z.shape[axis], axis)
    np.testing.assert_allclose(back, expected[..., None], rtol=1e-5, atol=1e-5)


def test_dft_keeps_the_dtype(device):
    z = RNG.normal(size=(1, 64))
    found = ops.dft(cp.asarray(z[..., None]), onesided=True)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found.get(), pairs(np.fft.rfft(z)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("parts", [0, 1, 2])
def test_frames(device, parts, onesided):
    x = RNG.normal(size=(2, 50, max(parts, 1))).astype(np.float32)
    window = np.hanning(16).astype(np.float32)
    given = x[..., 0] if not parts else x
    z = x.astype(float) @ np.array([1, 1j])[: max(parts, 1)]
    for by in (None, window):
        frames = np.stack([z[:, k : k + 16] for k in range(0, 35, 7)], 1)
        frames = frames if by is None else frames * by
        expected = np.fft.fft(frames)[..., : 9 if onesided else 16]
        w = None if by is None else cp.asarray(by)
        found = framed_dft(cp.asarray(given), 16, 7, w, onesided=onesided)
        np.testing.assert_allclose(found.get(), pairs(expected), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (ops.dft, "ShapeError", r"expected \(…, 1\)"),
        (lambda x: ops.dft(x[..., :2], dim=-1), "ShapeError", "another dimension"),
        (lambda x: ops.dft(x[..., :2], 0), "ShapeError", "n=0"),
        (lambda x: ops.dft(x[..., :2].astype(np.int32)), "DTypeError", "floating"),
        (lambda x: framed_dft(x, 4, 1), "ShapeError", "at least 4"),
        (lambda x: framed_dft(x[..., 0], 3, 0), "ShapeError", "hop_length=0"),
        (lambda x: framed_dft(x[..., 0], 3, 1, x[0, 0]), "ShapeError", r"expected \(3,\)"),
    ],
)
def test_errors(device, call, error, message):
    with pytest.raises(getattr(cp, error), match=message):
        call(cp.zeros((2, 3, 4)))
