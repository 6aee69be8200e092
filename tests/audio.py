"""torchaudio, whose extension fits one version of PyTorch: its Python code runs without."""

from pathlib import Path
from unittest import mock

import pytest


def torchaudio():
    """The package, or skips what asks for it."""
    pytest.importorskip("torch")
    with mock.patch.object(Path, "glob", return_value=[]):  # finds no extension to load
        return pytest.importorskip("torchaudio")
