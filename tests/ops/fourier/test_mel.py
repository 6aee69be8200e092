"""Spectrograms, mels and cepstra, against NumPy in float64 and torchaudio."""

import numpy as np
import pytest

import clprim as cp
from bench.peers.audio import torchaudio
from clprim import ops

RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def hann(n):
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)


def frames(x, n, hop, window, center=True):
    """Windowed frames of a signal, (…, frames, n)."""
    if center:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n // 2, n // 2)], "reflect")
    before = (n - len(window)) // 2
    padded = np.pad(window, (before, n - len(window) - before))
    return np.lib.stride_tricks.sliding_window_view(x, n, axis=-1)[..., ::hop, :] * padded


def close(found, expected, tolerance=1e-5):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.get(), expected, rtol=0, atol=tolerance * abs(expected).max())


@pytest.mark.parametrize("power", [None, 0.5, 1, 2, 3.0])
@pytest.mark.parametrize("shape", [(500,), (3, 500), (2, 3, 400)])
def test_spectrograms(device, shape, power):
    x, w = drawn(*shape), drawn(20)
    found = ops.spectrogram(cp.asarray(x), 30, 20, window=cp.asarray(w), power=power)
    spectrum = np.fft.rfft(frames(x.astype(float), 30, 10, w)).swapaxes(-1, -2)
    close(found, spectrum if power is None else abs(spectrum) ** power)
    found = ops.spectrogram(cp.asarray(x), 32, normalized=True, center=False, pad=7)
    padded = np.pad(x.astype(float), [(0, 0)] * (x.ndim - 1) + [(7, 7)])
    spectrum = np.fft.rfft(frames(padded, 32, 16, hann(32), False)).swapaxes(-1, -2)
    close(found, abs(spectrum) ** 2 / (hann(32) ** 2).sum())
    found = ops.spectrogram(cp.asarray(x), 32, normalized="frame_length", onesided=False)
    spectrum = np.fft.fft(frames(x.astype(float), 32, 16, hann(32))).swapaxes(-1, -2)
    close(found, abs(spectrum) ** 2 / 32)


def test_triangles(device):
    """A filter is 1 at its own frequency and 0 at its neighbours', in equal steps of mels."""
    mels = np.linspace(0, 2595 * np.log10(1 + 4000 / 700), 12)
    points = 700 * (10 ** (mels / 2595) - 1)
    found = ops.mel_filterbank(4001, 0, 4000, 10, 8000).get()
    assert found.shape == (4001, 10) and found.min() == 0
    for k, (low, middle, high) in enumerate(zip(points, points[1:], points[2:], strict=False)):
        expected = np.interp(np.arange(4001), [low, middle, high], [0, 1, 0])
        np.testing.assert_allclose(found[:, k], expected, atol=1e-6)
    wide = ops.mel_filterbank(4001, 0, 4000, 10, 8000, "slaney", "slaney").get()
    np.testing.assert_allclose(wide.sum(0), 1, rtol=1e-3)


def test_a_mel_spectrogram_is_a_product(device):
    x = drawn(2, 3000)
    found = ops.mel_spectrogram(cp.asarray(x), 8000, 256, n_mels=20, f_min=50)
    bank = ops.mel_filterbank(129, 50, 4000, 20, 8000)
    powers = ops.spectrogram(cp.asarray(x), 256).get().astype(float)
    close(found, np.einsum("nft,fm->nmt", powers, bank.get()))


def test_decibels(device):
    x = abs(drawn(2, 3, 4, 5)) ** 4
    expected = 20 * (np.log10(np.maximum(x, 1e-3)) - 1)
    close(ops.amplitude_to_db(cp.asarray(x), 20, 1e-3, 1), expected)
    limited = np.maximum(expected, expected.max((1, 2, 3), keepdims=True) - 9)
    close(ops.amplitude_to_db(cp.asarray(x), 20, 1e-3, 1, 9), limited)


@pytest.mark.parametrize("norm", ["ortho", None])
@pytest.mark.parametrize("log_mels", [False, True])
def test_cepstra(device, norm, log_mels):
    x, told = drawn(2, 3000), {"n_fft": 256, "n_mels": 20}
    mels = ops.mel_spectrogram(cp.asarray(x), 8000, **told).get().astype(float)
    decibels = 10 * np.log10(mels)
    logs = np.log(mels + 1e-6) if log_mels else np.maximum(decibels, decibels.max() - 80)
    k, n = np.arange(13)[:, None], np.arange(20)
    cosines = 2 * np.cos(np.pi / 20 * (n + 0.5) * k)
    if norm:
        cosines *= np.where(k, np.sqrt(1 / 40), np.sqrt(1 / 80))
    found = ops.mfcc(cp.asarray(x), 8000, 13, norm, log_mels, told)
    close(found, np.einsum("kn,bnt->bkt", cosines, logs))


def test_one_graph(device):
    x, w = cp.asarray(drawn(2, 3000)), cp.asarray(hann(256).astype(np.float32))
    for center in (False, True):
        told = {"n_fft": 256, "n_mels": 20, "center": center}
        run = cp.jit(lambda x, w, told=told: ops.mel_spectrogram(x, 8000, window=w, **told))
        close(run(x, w), ops.mel_spectrogram(x, 8000, window=w, **told).get())
        found = [node.primitive.what for node in run.graph(x, w).nodes]
        assert found == ["pad"] * center + ["fourier", "matmul"]


def test_gradients(device):
    x = drawn(600)
    given = np.random.default_rng(1).normal(size=(10, 19)).astype(np.float32)

    def loss(x):
        return (ops.mfcc(x, 8000, 10, melkwargs={"n_fft": 64, "n_mels": 10}) * weight).sum()

    weight = cp.asarray(given)
    _, gradient = cp.value_and_grad(loss, 0)(cp.asarray(x))
    found, step = gradient.get(), 1e-3
    for _ in range(4):
        way = RNG.normal(size=600).astype(np.float32)
        up, down = (float(loss(cp.asarray(x + s * step * way)).get()) for s in (1, -1))
        assert abs((up - down) / (2 * step) - found @ way) < 0.02 * abs(found).sum() ** 0.5 + 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ops.spectrogram(x, 0), "n_fft"),
        (lambda x: ops.spectrogram(x, 16, power=-1), "power"),
        (lambda x: ops.spectrogram(x, 16, normalized="sum"), "normalized"),
        (lambda x: ops.spectrogram(x, 16, window=x), "window"),
        (lambda x: ops.mel_spectrogram(x, power=None), "power"),
        (lambda x: ops.mel_spectrogram(x, n_fft=16, f_min=9000.0), "f_max"),
        (lambda x: ops.mel_spectrogram(x, n_fft=16, norm="l2"), "norm"),
        (lambda x: ops.mel_spectrogram(x, n_fft=16, mel_scale="bark"), "mel_scale"),
        (lambda x: ops.mfcc(x, n_mfcc=9, melkwargs={"n_fft": 16, "n_mels": 8}), "n_mfcc"),
        (lambda x: ops.mfcc(x, melkwargs=3), "melkwargs"),
        (lambda x: ops.mfcc(x, melkwargs={"nmels": 8}), "nmels"),
        (lambda x: ops.amplitude_to_db(x[:0], top_db="loud"), "top_db"),
        (lambda x: ops.mfcc(x, norm="l2"), "norm"),
        (lambda x: ops.amplitude_to_db(x, amin=0), "amin"),
        (lambda x: ops.mel_filterbank(5, 0, 4000, 0, 8000), "n_mels"),
    ],
)
def test_errors(device, call, message):
    with pytest.raises(cp.ClprimError, match=message):
        call(cp.zeros((2, 100)))


SETTINGS = [
    {},
    {"n_fft": 512, "hop_length": 160, "win_length": 400, "n_mels": 80, "f_min": 20.0},
    {"n_fft": 1024, "norm": "slaney", "mel_scale": "slaney", "power": 1.0, "f_max": 7000.0},
    {"n_fft": 300, "center": False, "normalized": True, "pad": 10, "n_mels": 40},
]


@pytest.mark.parametrize("told", SETTINGS)
@pytest.mark.filterwarnings("ignore:At least one mel filterbank")
def test_torchaudio(device, told):
    torch, peer = pytest.importorskip("torch"), torchaudio()
    if peer is None:
        pytest.skip("without torchaudio")
    x = drawn(2, 4000)
    host = torch.from_numpy(x)
    rest = told.get("f_min", 0.0), told.get("f_max", 8000.0), told.get("n_mels", 128), 16000
    kinds = {k: v for k, v in told.items() if k in ("norm", "mel_scale")}
    bank = peer.functional.melscale_fbanks(201, *rest, **kinds)
    close(ops.mel_filterbank(201, *rest, **kinds), bank.numpy(), 1e-4)
    mels = peer.transforms.MelSpectrogram(16000, **told)(host)
    close(ops.mel_spectrogram(cp.asarray(x), 16000, **told), mels.numpy(), 1e-4)
    cepstra = peer.transforms.MFCC(16000, 20, melkwargs=told)(host)
    close(ops.mfcc(cp.asarray(x), 16000, 20, melkwargs=told), cepstra.numpy(), 1e-3)
