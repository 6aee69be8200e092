"""`bench regret`: draws repeat, candidates are timed, a page is written; times say nothing here."""

import random

import pytest

from bench import regret
from bench.__main__ import main
from bench.regret import GROUPS, Row, tables_of
from clprim.plan.kernel import Choice
from clprim.tune.measure import Tuned


@pytest.mark.parametrize("group", GROUPS)
def test_a_seed_draws_the_same_again(group):
    rngs = [random.Random(3) for _ in range(2)]
    titles = [[GROUPS[group](rng)[0] for _ in range(20)] for rng in rngs]
    assert titles[0] == titles[1]
    assert len(set(titles[0])) > 10


def _row(group, gain):
    choices = Choice("tiles", (1,)), Choice("tiles", (2,))
    return Row(group, f"of {gain}", Tuned(None, *choices, (1.0, 1 / gain), gain, 5))


def test_the_page_tells_the_mean_and_the_worst():
    rows = [_row("products", 1.0), _row("products", 4.0), _row("depthwise", 1.5)]
    (_, _, summary), (_, _, worst) = tables_of(rows)
    assert summary == [
        ["products", "2", "2.000", "2.500", "4.000", "4.000"],
        ["depthwise", "1", "1.500", "1.500", "1.500", "1.500"],
    ]
    assert [row[1] for row in worst] == ["of 4.0", "of 1.5", "of 1.0"]
    assert worst[0][3:7] == ["1000.000", "tiles 2", "250.000", "4.00×"]


def test_what_was_best_by_luck_counts_as_the_same(monkeypatch):
    rule, other = Choice("tiles", (1,)), Choice("tiles", (2,))
    found = Tuned(None, rule, other, (1.0, 0.8), 1.25, 5)
    for again, expected in ((1.1, 1.1), (0.98, 1.0)):
        monkeypatch.setattr(regret, "_gain", lambda *_, again=again: again)
        confirmed = regret.confirmed(found)
        assert confirmed.gain == expected
        assert confirmed.best == (other if expected > 1 else rule)


@pytest.mark.parametrize("group", ["products", "reductions"])
def test_the_command(tmp_path, group):
    options = ["regret", "--quick", "--seed", "1", "--minutes", "0.001", "--group", group]
    assert main([*options, "--output", str(tmp_path)]) == 0
    (page,) = tmp_path.glob("*.md")
    text = page.read_text(encoding="utf-8")
    assert f"| {group} |        1 |" in text and "by seed 1;" in text
    assert main(["regret", "--group", "nothing"]) == 2
