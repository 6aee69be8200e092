"""Every recipe of the cookbook computes what the NumPy expression beside it says."""

import re

import numpy as np
import pytest

import clprim as cp
from bench.commands.cookbook import COOKBOOK
from bench.work.cookbook import RECIPES, inputs, page_of, prepared


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


def test_the_page_is_made_from_the_recipes():
    text = COOKBOOK.read_text(encoding="utf-8")
    speeds = dict(
        re.findall(r"^## (.*)\n\n```(?:.|\n)*?```\n\n\*\*(.*?)\*\* of a copy", text, re.M)
    )
    (where,) = re.findall(r"^Measured: (.*)\.$", text, re.M)
    assert set(speeds) == {recipe.title for recipe in RECIPES}
    assert text == page_of(speeds, where), "python -m bench cookbook --ship"
