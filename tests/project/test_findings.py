"""What other software does otherwise than one would guess: scripts of one form, run by hand."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "findings").iterdir())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_finding_says_what_is_true_and_shows_it_without_this_package(script):
    assert script.suffix == ".sh"
    assert os.access(script, os.X_OK)
    head, _, code = script.read_text(encoding="utf-8").partition("\nset -euo pipefail\n")
    assert all(line.startswith("#") for line in head.splitlines())
    said = re.findall(r"^# (Guess|Truth|Matters): \w", head, re.MULTILINE)
    assert said == ["Guess", "Truth", "Matters"]
    assert "clprim" not in code
    assert "mktemp -d" in code
    assert re.search(r"install\b.*[\w\]]==?v?\d|install\b.*@\d", code.replace("\\\n", " ")), "pins"
