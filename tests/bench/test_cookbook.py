"""Every recipe of the cookbook computes what the NumPy expression beside it says."""

import numpy as np
import pytest

import clprim as cp
from bench.__main__ import main
from bench.cookbook import COOKBOOK, inputs, prepared, recipes

RECIPES = recipes()


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_recipe(recipe, device):
    hosts = inputs(37)
    arrays = {name: cp.asarray(host) for name, host in hosts.items()}
    exact = {n: h.astype(np.float64) if h.dtype == np.float32 else h for n, h in hosts.items()}
    expected = eval(recipe.numpy, {"np": np, **exact})
    found = prepared(recipe, arrays)()
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(found) == len(expected)
    for mine, reference in zip(found, expected, strict=True):
        assert mine.shape == np.shape(reference)
        # Sums of 37 numbers, of size 4 at most; to integers, half a step where both round.
        allowed = 37 * 4 * np.finfo(np.float32).eps if mine.dtype.kind == "f" else 0
        assert np.abs(mine.get() - np.float64(reference)).max() <= allowed


def test_every_heading_is_a_recipe():
    text = COOKBOOK.read_text(encoding="utf-8")
    assert [recipe.title for recipe in RECIPES] == [
        line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")
    ]
    assert text.startswith(f"# Cookbook\n\n{len(RECIPES)} operators")


def test_the_command_writes_speeds_and_leaves_the_rest(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bench.cookbook.recipes", lambda: RECIPES[:2])
    options = ["--quick", "--repeats", "1", "--output", str(tmp_path)]
    assert main(["cookbook", *options]) == 0
    text = (tmp_path / "cookbook.md").read_text(encoding="utf-8").splitlines()
    before = COOKBOOK.read_text(encoding="utf-8").splitlines()
    changed = [new for old, new in zip(before, text, strict=True) if old != new]
    assert len(changed) <= 3 and any(line.startswith("Measured: ") for line in changed)
    assert RECIPES[1].title in capsys.readouterr().out
