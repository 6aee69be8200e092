"""Fourier transforms beside PyTorch's and SciPy's on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import clprim as cp
from bench.case import Call, Case, Data, Options, Page, normal
from bench.peers.audio import torchaudio
from clprim import ops

# Lengths of lines: powers of two, products of small primes, primes.
LENGTHS = {
    "powers of two": (64, 1024, 4096, 65536),
    "products": (60, 1000, 3000, 50400),
    "primes": (97, 1009, 4099, 65537),
}
NUMBERS = 1 << 20
WINDOW = "y0 = x0 * x1;"
POWER = "y0 = real(x0) * real(x0) + imag(x0) * imag(x0);"
# Frames' lengths, steps and how many mels.
MELS = (
    (400, 160, 80),
    (400, 100, 128),
    (512, 256, 80),
    (512, 128, 128),
    (1024, 512, 80),
    (1024, 256, 128),
)
RATE = 16_000
CHAIN = "y0 = (x0 * x1 + conj(x0)) * w0 - x1;"


def _data(shape: tuple[int, ...], *, real: bool) -> Data:
    found = normal(shape)
    return Data(found if real else (found + 1j * normal(shape, seed=1)).astype(np.complex64))


def _case(group: str, name: str, shape: tuple[int, ...], axes: int = 1) -> Case:
    """A transform along the last axes, of which an inverse one of real numbers is given half."""
    n = shape[-1]
    given = (*shape[:-1], n // 2 + 1) if name == "irfft" else shape
    points = math.prod(shape[-axes:])
    told: dict[str, Any] = {"n": n} if name == "irfft" else {}

    def ours(data: Data) -> Call:
        return partial(getattr(ops.fft, name), data.device[0], **told)

    def pytorch(data: Data) -> Call:
        import torch

        return partial(getattr(torch.fft, name), data.torch[0], **told)

    def scipy(data: Data) -> Call:
        import scipy.fft

        return partial(getattr(scipy.fft, name), data.host[0], **told, workers=-1)

    return Case(
        group,
        f"{name} of {' × '.join(map(str, shape))}",
        5 * math.prod(shape) * math.log2(points),
        partial(_data, given, real=name.startswith("rfft")),
        {"clprim": ours, "PyTorch": pytorch, "SciPy": scipy},
        tolerance=1e-5,
    )


def _strings(shape: tuple[int, ...]) -> list[Case]:
    def power(data: Data) -> Call:
        x, window = data.device
        return partial(ops.fft.rfft, x, load=WINDOW, load_args=(window,), store=POWER)

    def power_torch(data: Data) -> Call:
        import torch

        x, window = data.torch
        return lambda: torch.view_as_real(torch.fft.rfft(x * window)).square().sum(-1)

    def chain(data: Data) -> Call:
        run = cp.Pointwise(CHAIN)
        return partial(run, *data.device, 0.5)

    def chain_torch(data: Data) -> Call:
        a, b = data.torch
        return lambda: (a * b + a.conj()) * 0.5 - b

    def pair() -> Data:
        a, b = (_data(shape, real=False).host[0] for _ in "ab")
        return Data(a, b * np.complex64(1j))

    def windowed() -> Data:
        return Data(normal(shape), normal(shape[-1:], seed=1))

    told: list[tuple[str, Callable[[], Data], Callable[[Data], Call], Callable[[Data], Call]]] = [
        ("window, rfft, power", windowed, power, power_torch),
        ("a chain of five complex numbers", pair, chain, chain_torch),
    ]
    work = 5 * math.prod(shape) * math.log2(shape[-1])
    title = f" of {' × '.join(map(str, shape))}"
    return [
        Case("strings", f"{name}{title}", work, data, {"clprim": a, "PyTorch": b}, tolerance=1e-5)
        for name, data, a, b in told
    ]


def _mels(n: int, hop: int, count: int, shape: tuple[int, ...]) -> Case:
    """A mel spectrogram as one compiled function, beside torchaudio's or what that calls."""
    told: dict[str, Any] = {"n_fft": n, "hop_length": hop, "n_mels": count}

    def ours(data: Data) -> Call:
        return partial(cp.jit(partial(ops.mel_spectrogram, sample_rate=RATE, **told)), *data.device)

    def pytorch(data: Data) -> Call:
        import torch

        (x,), peer = data.torch, torchaudio()
        if peer is not None:
            return partial(peer.transforms.MelSpectrogram(RATE, **told), x)
        bank = torch.from_numpy(ops.mel_filterbank(n // 2 + 1, 0, RATE // 2, count, RATE).get())
        window = torch.hann_window(n)

        def run() -> Any:
            spectra = torch.stft(x, n, hop, window=window, return_complex=True)
            return (spectra.abs().pow(2).transpose(-1, -2) @ bank).transpose(-1, -2)

        return run

    frames = shape[0] * (shape[1] // hop + 1)
    work = frames * (5 * n * math.log2(n) + 2 * (n // 2 + 1) * count)
    title = f"{count} mels of {shape[0]} × {shape[1]}, frames of {n} every {hop}"
    data = partial(_data, shape, real=True)
    return Case("mels", title, work, data, {"clprim": ours, "PyTorch": pytorch}, tolerance=1e-4)


def fft_cases(args: Options) -> list[Case]:
    cases = []
    for group, lengths in LENGTHS.items():
        for n in lengths[:1] if args.quick else lengths:
            shape = (40 if args.quick else max(1, NUMBERS // n), n)
            cases += [_case(group, name, shape) for name in ("fft", "rfft", "irfft")]
    side, edge = (8, 4) if args.quick else (512, 128)
    for name in ("fft2", "rfft2"):
        cases.append(_case("several dimensions", name, (side, side), 2))
    cases.append(_case("several dimensions", "fftn", (edge, edge, edge), 3))
    shape = (1, 4000) if args.quick else (8, 10 * RATE)
    cases += [_mels(*told, shape) for told in (MELS[:1] if args.quick else MELS)]
    return [*cases, *_strings((8, 400) if args.quick else (2600, 400))]


PAGES = {
    "fft": Page(
        "Fourier transforms: next to PyTorch and SciPy", "GFLOP/s", fft_cases, (),
        "complex64 and float32. 5 n log₂ n operations a line, of real numbers as well, "
        "and what products take. Mels are torchaudio's where it is installed, else what it calls.",
        keep=False,
    )
}  # fmt: skip
