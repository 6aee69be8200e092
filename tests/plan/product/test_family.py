"""Strategies whose planner chooses the tile itself: one plan answers all that a family asks."""

from dataclasses import replace

import pytest
from planning import CPU, GPU, convolution, product

from clprim.plan.product import family
from clprim.plan.product.family import PRODUCTS
from clprim.plan.product.in_place import plan_in_place
from clprim.plan.product.panels import plan_panels
from clprim.plan.product.tiles import plan_tiles

PLANNERS = {"in_place": plan_in_place, "panels": plan_panels, "tiles": plan_tiles}


@pytest.mark.parametrize(
    ("what", "traits", "planner"),
    [
        (convolution(1, 13, 20, 24, last=True), CPU, family._in_place),
        (convolution(1, 13, 20, 24), CPU, family._in_place),
        (product(64, 64, 20_000, transposed=(True, False)), CPU, family._panels),
        (convolution(2, 13, 20, 24), GPU, family._tiles),
    ],
)
def test_a_problem_is_planned_once(what, traits, planner, monkeypatch):
    tiles, plan = [], planner._plan

    def counted(problem, traits, tile):
        tiles.append(tile)
        return plan(problem, traits, tile)

    monkeypatch.setattr(planner, "_last", None)
    monkeypatch.setattr(planner, "_plan", counted)
    found = PRODUCTS.plan(what, traits)
    assert PLANNERS[found.choice.strategy] is plan and tiles == [None]
    # The table's tile, and the same problem on another device, are other plans.
    other = PRODUCTS.plan(what, replace(traits, compute_units=64))
    assert other == PRODUCTS.plan(what, replace(traits, compute_units=64)) and len(tiles) == 2
    strategy = PRODUCTS.strategy(found.choice.strategy)
    near = next(iter(strategy.near(strategy.rule(what, traits), what, traits)))
    assert strategy.planned(what, traits, near).main == plan(what, traits, near).main
    assert PRODUCTS.plan(what, traits) == found


@pytest.mark.parametrize("name", PLANNERS)
def test_the_tile_that_the_rule_chooses_gives_the_same_plan(name):
    strategy, plan = PRODUCTS.strategy(name), PLANNERS[name]
    for example in strategy.examples():
        tile = strategy.rule(example.problem, example.traits)
        given = example.problem, example.traits
        assert plan(*given) == plan(*given, tile), example.name
