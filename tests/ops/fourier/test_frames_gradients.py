"""Gradients of frames and convolutions, against PyTorch's autograd in float64."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)


def drawn(device, *shape, real=True):
    x = RNG.normal(size=shape) + 1j * RNG.normal(size=shape)
    x = x.real.copy() if real else x
    return x if device.traits.fp64 else x.astype(np.float32 if real else np.complex64)


def check(device, function, *arrays, other=None):
    """A function of a library and arrays: PyTorch's autograd is the reference."""
    tensors = [torch.from_numpy(np.array(a)).requires_grad_() for a in arrays]
    (abs((other or (lambda *t: function(torch, *t)))(*tensors)) ** 2).sum().backward()
    found = cp.value_and_grad(
        lambda *a: (abs(function(ops, *a)) ** 2).sum(), wrt=tuple(range(len(arrays)))
    )(*map(cp.asarray, arrays))[1]
    close = 1e-12 if device.traits.fp64 else 1e-5
    for f, t in zip(found, tensors, strict=True):
        g = t.grad.resolve_conj().numpy()
        assert (f.dtype, f.shape) == (g.dtype, g.shape)
        np.testing.assert_allclose(f.get(), g, rtol=0, atol=close * max(1, abs(g).max()))


SETTINGS = [
    {},
    {"hop_length": 3, "center": False},
    {"normalized": True, "onesided": False},
    {"hop_length": 1, "pad_mode": "constant"},
    {"hop_length": 11, "pad_mode": "replicate"},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("real", [True, False])
def test_frames(device, settings, real):
    x, w = drawn(device, 2, 37, real=real), drawn(device, 8)
    check(device, lambda m, x, w: m.stft(x, 8, window=w, return_complex=True, **settings), x, w)


def test_frames_without_a_window(device):
    x = drawn(device, 30)
    ones = torch.ones(8, dtype=torch.from_numpy(x).dtype)
    check(
        device,
        lambda m, x: m.stft(
            x, 8, window=ones if m is torch else None, center=False, return_complex=True
        ),
        x,
    )


@pytest.mark.filterwarnings("ignore:The length of signal")
@pytest.mark.parametrize(
    "settings", [{}, {"length": 35}, {"hop_length": 3}, {"normalized": True, "length": 50}]
)
def test_signals_of_frames(device, settings):
    z, w = drawn(device, 2, 5, 9, real=False), abs(drawn(device, 8)) + 0.5
    check(device, lambda m, z, w: m.istft(z, 8, window=w, **settings), z, w)


def test_complex_signals_of_frames(device):
    z, w = drawn(device, 8, 9, real=False), abs(drawn(device, 8)) + 0.5

    def function(m, z, w):
        w = w + 0j if m is torch else w
        return m.istft(z, 8, window=w, onesided=False, return_complex=True)

    check(device, function, z, w)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("real", [True, False])
def test_convolutions(device, mode, real):
    a, b = drawn(device, 6, 9, real=real), drawn(device, 3, 4)

    def other(a, b):
        sizes = [p + q - 1 for p, q in zip(a.shape, b.shape, strict=True)]
        y = torch.fft.ifftn(torch.fft.fftn(a, sizes) * torch.fft.fftn(b, sizes))
        for d, (n, p, q) in enumerate(zip(sizes, a.shape, b.shape, strict=True)):
            wanted = {"full": n, "same": p}.get(mode, p - q + 1)
            y = y.narrow(d, (n - wanted) // 2, wanted)
        return y if y.is_complex() and not real else y.real

    check(device, lambda m, a, b: m.fftconvolve(a, b, mode), a, b, other=other)


@pytest.mark.parametrize("steps", [((2, 1), (3, 2)), ((3, 1), (5, 5)), ((1, 4), (9, 2))])
def test_views_whose_elements_lie_over_one_another(device, steps):
    """As sliding windows do: each element's gradient is the sum of its windows'."""
    (n, hop), (m, other) = steps
    x = drawn(device, 7, 12)

    def windows(x):
        if isinstance(x, torch.Tensor):
            return x.unfold(0, n, hop).unfold(1, m, other)
        return cp.windows(x, (n, m), (hop, other))

    weights = drawn(device, *windows(torch.from_numpy(x)).shape)
    t = torch.from_numpy(x).requires_grad_()
    (windows(t) ** 2 * torch.from_numpy(weights)).sum().backward()
    given = cp.asarray(weights)
    _, found = cp.value_and_grad(lambda x: (windows(x) ** 2 * given).sum(), wrt=0)(cp.asarray(x))
    close = 1e-12 if device.traits.fp64 else 1e-5
    np.testing.assert_allclose(found.get(), t.grad.numpy(), rtol=close, atol=close)
