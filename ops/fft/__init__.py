"""Fourier transforms of real and complex arrays, by the names and arguments of `torch.fft`."""

from clprim.arrays.validation import check_arguments
from clprim.ops.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from clprim.ops.fft.several import (
    fft2,
    fftn,
    hfft2,
    hfftn,
    ifft2,
    ifftn,
    ihfft2,
    ihfftn,
    irfft2,
    irfftn,
    rfft2,
    rfftn,
)
from clprim.ops.fft.transforms import fft, hfft, ifft, ihfft, irfft, rfft
from clprim.ops.registry import document

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

for _name in __all__:
    document(_name, globals()[_name])
check_arguments(globals(), __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
