"""The example that lays out digits: like ones come together, and the same again."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import clprim as cp

FILE = Path(__file__).parents[2] / "examples" / "tsne_digits.py"

pytestmark = [pytest.mark.optimised, pytest.mark.alone]  # CI runs the script on others


@pytest.fixture(scope="module")
def example():
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("tsne_digits", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["tsne_digits"] = module
    spec.loader.exec_module(module)
    return module


def test_neighbourhoods_are_as_large_as_asked_for(device, example):
    x = np.random.default_rng(0).standard_normal((80, 5)).astype(np.float32)
    beta, total = example.precisions(cp.asarray(x), 12)
    d = ((x[:, None].astype(np.float64) - x[None]) ** 2).sum(2)
    p = np.where(d > 0, np.exp(-d * beta[:, None]), 0)
    np.testing.assert_allclose(total, p.sum(1), rtol=1e-4)
    p /= p.sum(1, keepdims=True)
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(1)
    np.testing.assert_allclose(np.exp(entropy), 12, rtol=1e-3)


def test_like_ones_come_together(device, example, tmp_path):
    datasets = pytest.importorskip("sklearn.datasets")
    images, labels = datasets.load_digits(return_X_y=True)
    x = cp.asarray((images[:300] / 16).astype(np.float32))
    points = example.embed(x, steps=150)
    assert example.agreement(points, labels[:300]) > 0.85
    assert np.array_equal(points, example.embed(x, steps=150))
    pytest.importorskip("matplotlib")
    example.draw(tmp_path / "digits.png", points, labels[:300])
    assert (tmp_path / "digits.png").read_bytes()[:4] == b"\x89PNG"


def test_a_hint_where_data_are_missing(example, monkeypatch, capsys):
    monkeypatch.setattr(example.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["tsne_digits.py"])
    example.main()
    assert "clprim[examples]" in capsys.readouterr().out
