"""`torch.fft`, `torch.stft` and `torch.istft`: results and gradients beside the CPU's."""

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("strict")

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = tuple(name + end for name in ONE for end in ("2", "n"))


def agree(function, *given, tolerance=1e-10):
    found, wanted = function(*[t.to("opencl") for t in given]), function(*given)
    torch.testing.assert_close(
        found.cpu().resolve_conj(), wanted.resolve_conj(), rtol=tolerance, atol=tolerance
    )


def slope(function):
    def run(x, *rest):
        x = x.detach().clone().requires_grad_()
        found = function(x, *rest)
        weights = torch.arange(found.numel(), device=x.device).view(found.shape)
        (found * weights).abs().square().sum().sqrt().backward()
        return x.grad

    return run


def numbers(name, *shape, dtype=torch.complex128):
    is_real = name.startswith(("rfft", "ihfft"))
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator, dtype=dtype.to_real() if is_real else dtype)


@pytest.mark.parametrize("name", ONE + SEVERAL)
def test_transforms_agree(name):
    transform = getattr(torch.fft, name)
    x = numbers(name, 3, 6, 5)
    how = {"n": 7, "dim": 1} if name in ONE else {"s": (4, 7), "dim": (0, 2)}
    for norm in ("backward", "ortho", "forward"):
        agree(lambda x, norm=norm: transform(x, norm=norm), x)
        agree(lambda x, norm=norm: transform(x, norm=norm, **how), x)
    agree(slope(transform), x)
    agree(slope(lambda x: transform(x, **how)), x)
    agree(transform, numbers(name, 4, 6, dtype=torch.complex64), tolerance=1e-5)


def test_frequencies_shifts_and_other_dtypes():
    x = torch.arange(12.0).view(3, 4)
    for function in (torch.fft.fftshift, torch.fft.ifftshift, torch.fft.fft):
        agree(function, x, tolerance=1e-5)
    agree(lambda x: torch.fft.fftfreq(7, device=x.device), x)
    agree(lambda x: torch.fft.rfftfreq(7, d=2.0, device=x.device), x)
    agree(torch.fft.fft, torch.arange(5), tolerance=1e-5)
    agree(lambda x: torch.fft.fft(torch.fft.fft(x).conj()), x, tolerance=1e-4)
    agree(lambda x: torch.fft.fftn(x, dim=()), x.to(torch.complex64))


SETTINGS = [{}, {"onesided": False}, {"normalized": True}, {"hop_length": 10}, {"win_length": 50}]


@pytest.mark.parametrize(
    "settings", SETTINGS, ids=["plain", *(next(iter(s)) for s in SETTINGS[1:])]
)
def test_frames_agree(settings):
    signal = torch.randn(2, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    window = torch.hann_window(settings.get("win_length", 64), dtype=torch.float64)

    def there(x, w):
        return torch.stft(x, 64, window=w, return_complex=True, **settings)

    def back(x, w):
        return torch.istft(there(x, w), 64, window=w, **settings)

    agree(there, signal, window)
    agree(back, signal, window)
    agree(slope(there), signal, window)
    agree(slope(back), signal, window)
    agree(lambda x, w: torch.stft(x, 64, window=w, center=False, return_complex=True, **settings),
          signal, window)  # fmt: skip
