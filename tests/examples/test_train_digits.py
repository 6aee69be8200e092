"""The example that learns digits: it learns, says the same again, and draws its curve."""

import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "examples" / "train_digits.py"

pytestmark = [pytest.mark.optimised, pytest.mark.alone]  # CI runs the script on others


@pytest.fixture(scope="module")
def example():
    """The example as a module."""
    pytest.importorskip("sklearn")
    spec = importlib.util.spec_from_file_location("train_digits", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_digits"] = module
    spec.loader.exec_module(module)
    return module


def test_it_learns_and_repeats(device, example, tmp_path, capsys):
    first = example.train(3, 0)
    assert first == example.train(3, 0)
    losses, accuracies = first
    assert losses[2] < losses[1] < losses[0]
    assert accuracies[-1] > 0.9
    pytest.importorskip("matplotlib")
    example.draw(tmp_path / "curve.png", losses, accuracies)
    assert (tmp_path / "curve.png").read_bytes()[:4] == b"\x89PNG"
    assert "66/66 steps" in capsys.readouterr().out


def test_a_hint_where_data_are_missing(example, monkeypatch, capsys):
    monkeypatch.setattr(example.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["train_digits.py"])
    example.main()
    assert "clprim[examples]" in capsys.readouterr().out
