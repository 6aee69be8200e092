"""`bench compare`: the same rows of two checkouts, each with its own clprim."""

import re
import shutil
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.compare import _Child

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A checkout whose products are no longer there."""
    folder = tmp_path_factory.mktemp("other")
    for name in ("clprim", "ops", "templates"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    start = folder / "clprim" / "__init__.py"
    start.write_text(f"{start.read_text()}\n__version__ = 'other'\n")
    return folder


def test_rows_mean_and_worst(other, capsys):
    words = ["compare", "pointwise", "--against", str(other), "--quick", "--repeats", "3"]
    assert main([*words, "--only", "x1"]) == 0
    said = capsys.readouterr().out
    assert f"## pointwise: times as fast as {other}" in said
    ratios = [float(n) for n in re.findall(r"^\| y0.*\| +([\d.]+) \|$", said, re.M)]
    assert len(ratios) == 2 and all(0.02 < ratio < 50 for ratio in ratios)
    assert re.search(r"^\| pointwise +\| +2 \| +[\d.]+ \| +[\d.]+ \|", said, re.M)


def test_a_child_has_its_own_clprim(other):
    child = _Child(other)
    try:
        assert child.ask("version") == "other"
        assert [len(row) for row in child.ask("list", "pointwise", "", True)] == [2, 2]
        assert "error" in child.ask("prepare", 7)
    finally:
        child.end()


def test_what_is_no_checkout_is_refused(tmp_path, capsys):
    assert main(["compare", "gemm", "--against", str(tmp_path)]) == 2
    assert "expected a checkout" in capsys.readouterr().err
