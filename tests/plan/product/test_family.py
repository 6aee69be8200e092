"""Strategies whose rule finds out more than a tile: one answer is carried from question to plan."""

from dataclasses import replace

import pytest
from planning import CPU, GPU, convolution, product

from clprim.plan.product import family, in_place
from clprim.plan.product.family import PRODUCTS


@pytest.mark.parametrize(
    ("what", "traits", "room", "rule"),
    [
        (convolution(1, 13, 20, 24, last=True), CPU, in_place, "best_outline"),
        (convolution(1, 13, 20, 24), CPU, in_place, "best_outline"),
        (product(64, 64, 20_000, transposed=(True, False)), CPU, family, "panels_tiles"),
        (convolution(2, 13, 20, 24), GPU, family, "tiles_for"),
    ],
)
def test_a_tile_is_found_once(what, traits, room, rule, monkeypatch):
    asked, find = [], getattr(room, rule)

    def counted(*given, **options):
        asked.append(given)
        return find(*given, **options)

    monkeypatch.setattr(room, rule, counted)
    found = PRODUCTS.plan(what, traits)
    assert len(asked) == 1
    strategy = PRODUCTS.strategy(found.choice.strategy)
    tile = strategy.tile(*found.choice.numbers)
    near = next(each for each in strategy.near(tile, what, traits) if each != tile)
    assert strategy.planned(what, traits, near) != found == PRODUCTS.plan(what, traits)
    assert PRODUCTS.plan(what, replace(traits, compute_units=64)).choice is not None


@pytest.mark.parametrize("name", ["in_place", "panels", "tiles"])
def test_the_tile_that_the_rule_chooses_gives_the_same_plan(name):
    strategy = PRODUCTS.strategy(name)
    for example in strategy.examples():
        given = example.problem, example.traits
        tile = strategy.decide(*given).tile
        assert strategy.planned(*given) == strategy.planned(*given, tile), example.name
