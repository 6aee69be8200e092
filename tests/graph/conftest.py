"""Fixtures of graphs."""

import pytest

from clprim.graph import explain
from clprim.runtime.ceilings import Measurement


@pytest.fixture
def peaks(monkeypatch):
    """The peaks of a device, which would take seconds to measure."""
    monkeypatch.setattr(explain, "ceilings_of", lambda device: Measurement(8e9, 8e9, 1e11))
