"""Every family's strategies: examples, which of them rules choose, and tiles that tables keep."""

import pytest

from clprim.plan.families import FAMILIES

EXAMPLES = [(family, *example) for family in FAMILIES for example in family.examples()]
each_example = pytest.mark.parametrize(
    ("family", "strategy", "one"),
    [(family, *rest) for family, _, *rest in EXAMPLES],
    ids=[f"{family.name}: {name}" for family, name, *_ in EXAMPLES],
)
#: Families in which a rule, not what they cost, chooses each strategy for its own examples.
RULED = {
    "grouped": ("grouped/runs", "grouped/lanes", "grouped/items", "grouped/passes"),
    "attention": ("fused/attention_matrix", "fused/attention"),
    "attention of few queries": ("fused/attention_few",),
    "gate": ("fused/gate",),
    "gradients of attention": ("fused/attention_gradient",),
    "gradients of attention by units": ("fused/attention_matrix_gradient",),
    "inverted residual": ("fused/inverted_residual",),
    "lines": ("index/lines",),
    "pointwise": (
        "pointwise/transpose",
        "pointwise/rows",
        "pointwise/periodic",
        "pointwise/elements",
    ),
    "pieces": ("index/pieces",),
    "first": ("sort/select",),
    "order": ("sort/rank", "sort/lines", "sort/count", "sort/group"),
    "fourier": ("fourier/lines",),
    "decomposition": ("decomposition/matrices",),
    "scan": ("scan/group", "scan/vectors", "scan/columns"),
}


@each_example
def test_an_example_is_planned_by_its_strategy_and_again_with_its_tile(family, strategy, one):
    plan = strategy.planned(one.problem, one.traits, one.tile)
    assert plan.stages and plan.choice.strategy == strategy.name
    again = strategy.tuned(one.problem, one.traits, plan.choice.numbers)
    assert again == plan
    assert strategy.tuned(one.problem, one.traits, (0,) * len(plan.choice.numbers)) is None or (
        not plan.choice.numbers
    )


@pytest.mark.parametrize("name", RULED)
def test_rules_choose_each_strategy_for_its_own_examples(name):
    (family,) = (f for f in FAMILIES if f.name == name)
    assert tuple(s.name for s, _ in family.own()) == RULED[name]
    for _, strategy, one in family.examples():
        chosen = family.plan(one.problem, one.traits).choice
        assert chosen.strategy == strategy.name
        candidates = family.candidates(one.problem, one.traits)
        assert candidates[0] == chosen and len({*candidates}) == len(candidates)
        for choice in candidates:
            found = family.tuned(one.problem, one.traits, choice)
            assert found.choice == choice and found.stages
