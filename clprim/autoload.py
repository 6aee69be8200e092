"""What PyTorch calls at its own import, so that ``import clprim.torch`` may be left out.

PyTorch (2.5 or newer) loads every entry point of the group ``torch.backends``;
``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` in the environment forbids it.
"""

from __future__ import annotations

import warnings


def load() -> None:
    """Registers the device ``opencl``; where that fails, warns, and leaves PyTorch usable."""
    try:
        import clprim.torch  # noqa: F401
    except Exception as error:  # whatever it is, PyTorch itself works without the device
        warnings.warn(
            f"clprim could not register the device 'opencl': {error} "
            "(TORCH_DEVICE_BACKEND_AUTOLOAD=0 leaves it out)",
            stacklevel=2,
        )
