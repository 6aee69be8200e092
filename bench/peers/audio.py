"""torchaudio, whose extension fits one version of PyTorch: its Python code runs without."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock


def torchaudio() -> Any:
    """Return the package; None where it is not installed."""
    with mock.patch.object(Path, "glob", return_value=[]):  # finds no extension to load
        try:
            import torchaudio
        except ImportError:
            return None
    return torchaudio
