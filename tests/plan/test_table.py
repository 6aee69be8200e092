"""Tables of tiles: what stands in one is planned, what does not fit is left to the rule."""

import dataclasses
import json

import pytest
from planning import CPU, GPU, convolution, product

from clprim.plan.product.strategy import STRATEGIES, plan_contraction
from clprim.plan.table import Choice, Origin, Problem, Table, TuningFile, chosen, tile_of
from clprim.runtime.tables import shipped
from clprim.traits import DeviceTraits

CASES = {
    "tiles": (product(512, 512, 512), "tiles", GPU, Choice("tiles", (8, 8, 4, 4, 8))),
    "in place": (convolution(8, 64, 28, 64, last=True), "panels", CPU, Choice("in_place", (4, 2))),
    "columns": (convolution(8, 64, 32, 64), "panels", CPU, Choice("in_place", (7, 1))),
    "panels": (convolution(8, 64, 28, 64, last=True), "panels", CPU, Choice("panels", (4, 2))),
}
each_case = pytest.mark.parametrize(
    ("what", "strategy", "traits", "choice"), CASES.values(), ids=CASES
)


def table(what, strategy, choice):
    return Table({(strategy, Problem.of(what)): choice})


@each_case
def test_the_table_decides(what, strategy, traits, choice):
    rule = plan_contraction(what, traits)
    tuned = plan_contraction(what, traits, "auto", table(what, strategy, choice))
    assert chosen(rule) != choice
    assert chosen(tuned) == choice
    assert tuned.main.code != rule.main.code
    assert plan_contraction(what, traits, strategy, table(what, strategy, choice)) == tuned


@each_case
def test_what_the_rule_chose_is_the_same_plan(what, strategy, traits, choice):
    rule = plan_contraction(what, traits)
    assert plan_contraction(what, traits, "auto", table(what, strategy, chosen(rule))) == rule


@each_case
def test_other_problems_and_strategies_are_the_rules(what, strategy, traits, choice):
    other = product(600, 400, 300)
    known = table(what, strategy, choice)
    assert plan_contraction(other, traits, "auto", known) == plan_contraction(other, traits)
    (another,) = set(STRATEGIES) - {strategy}
    found = plan_contraction(what, traits, another, known)
    assert found == plan_contraction(what, traits, another)


@pytest.mark.parametrize(
    ("case", "numbers"),
    [
        ("tiles", (32, 64, 4, 4, 8)),  # more work-items than a group may have
        ("tiles", (8, 8, 16, 16, 8)),  # more sums than registers
        ("tiles", (16, 16, 8, 8, 64)),  # more local memory than there is
        ("tiles", (8, 8, 6, 4, 8)),  # no whole vectors
        ("tiles", (8, 8, 4, 4, 6)),  # no power of two
        ("tiles", (1, 1, 4, 4, 2)),  # more steps than work-items that note them
        ("tiles", (8, 8, 0, 4, 8)),
        ("tiles", (8, 8, 4, -4, 8)),
        ("in place", (14, 4)),  # more sums than registers
        ("in place", (0, 2)),
        ("panels", (29, 1)),
    ],
)
def test_what_does_not_fit_is_left_to_the_rule(case, numbers):
    what, strategy, traits, choice = CASES[case]
    wrong = table(what, strategy, Choice(choice.kernel, numbers))
    assert plan_contraction(what, traits, "auto", wrong) == plan_contraction(what, traits)


def test_a_tile_is_no_longer_than_a_line():
    what = convolution(8, 64, 12, 64, last=True)
    long = table(what, "panels", Choice("in_place", (14, 1)))
    assert plan_contraction(what, CPU, "auto", long) == plan_contraction(what, CPU)


def test_a_table_serves_devices_that_have_room_for_its_tiles():
    what, strategy, traits, _ = CASES["tiles"]
    choice = Choice("tiles", (8, 8, 8, 8, 8))
    assert tile_of(choice, 4, traits) is not None
    for shrunk in ({"max_work_group_size": 32}, {"local_memory": 2048}, {"register_bytes": 512}):
        small = dataclasses.replace(traits, **shrunk)
        found = plan_contraction(what, small, "auto", table(what, strategy, choice))
        assert found == plan_contraction(what, small)


def test_classes_tell_apart_what_tiles_depend_on():
    one = convolution(8, 64, 28, 64)
    others = [
        convolution(8, 64, 28, 64, last=True),
        convolution(8, 64, 27, 64),
        convolution(8, 64, 28, 65),
        convolution(8, 129, 28, 64),
        convolution(1, 64, 28, 64),
        convolution(8, 64, 28, 64, kernel=1, padding=0),
        product(784, 64, 576),
    ]
    assert len({Problem.of(what) for what in [one, *others]}) == 8
    # Where nothing is wasted by it, sizes are rounded.
    assert Problem.of(convolution(7, 60, 28, 64)) == Problem.of(one)
    assert Problem.of(product(1000, 900, 700)) == Problem.of(product(1024, 1024, 1024))


def text(**changes):
    found = json.loads(file().text())
    return json.dumps(found | changes)


def file(**changes):
    entries = {
        (strategy, Problem.of(what)): (choice, Origin("measured", 1.25) if n else Origin("rule"))
        for n, (what, strategy, _, choice) in enumerate(CASES.values())
    }
    given = TuningFile(("GeForm",), "Vendor", "1.2", {"compute_units": 8}, entries)
    return dataclasses.replace(given, **changes)


def test_a_file_holds_everything():
    assert TuningFile.parse(file().text()) == file()
    assert len(file().text().splitlines()) == len(file().entries) + 4
    empty = file(entries={})
    assert TuningFile.parse(empty.text()) == empty


def test_a_file_is_for_its_device():
    def fits(name="A GeForm 9", platform="The Vendor", driver="1.2", **changes):
        return file(**changes).is_for(name, platform, driver, GPU)

    assert fits()
    assert fits(name="geform")
    assert not fits(name="another")
    assert not fits(platform="another")
    assert not fits(driver="1.3")
    assert file(driver="").is_for("GeForm", "Vendor", "1.3", GPU)
    assert fits(name="another", names=())
    assert not fits(traits={"compute_units": 9})
    assert fits(traits={})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("", "Expecting value"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "not a table"),
        ('"text"', "not a table"),
        ("{}", "'format' is missing"),
        (text(format=0), "format 0, expected 1"),
        (text(device={}), "'traits' is missing"),
        (text(device={"traits": {"colour": 1}}), "unknown traits colour"),
        (text(tiles=[{}]), "'kernel' is missing"),
        (text(tiles=[{"kernel": "a"}]), "kernel 'a', expected one of in_place"),
        (text(tiles=[{"kernel": "panels", "tile": {"rows": 1}}]), "'vectors' is missing"),
        (
            text(tiles=[{"kernel": "panels", "tile": {"rows": "1", "vectors": 2}}]),
            "expected whole numbers",
        ),
        (text(tiles=[{"kernel": "panels", "tile": 3}]), "not a table"),
        (text(tiles=3), "not a table"),
    ],
)
def test_what_is_no_table_says_why(wrong, message):
    with pytest.raises(ValueError, match=message):
        TuningFile.parse(wrong)


def test_an_old_class_is_no_table():
    old = json.loads(file().text())
    del old["tiles"][0]["problem"]["depth"]
    with pytest.raises(ValueError, match="depth"):
        TuningFile.parse(json.dumps(old))


def test_the_shipped_tables_are_what_the_rule_gives():
    layers = [(64, 56, 64), (128, 28, 128), (256, 14, 256), (512, 7, 512)]
    problems = [convolution(8, *layer, last=last) for layer in layers for last in (False, True)]
    derived = [f for f in shipped() if any(o.word == "rule" for _, o in f.entries.values())]
    assert len(derived) >= 11
    for known in derived:
        traits = dataclasses.replace(DeviceTraits(), **known.traits)
        for what in problems:
            choice, origin = known.entries["tiles", Problem.of(what)]
            assert origin in (Origin("rule"), Origin("measured", origin.gain))
            assert tile_of(choice, 4, traits) is not None
            if origin.word == "rule":
                # `python -m bench tune --catalogue` writes them anew.
                assert choice == chosen(plan_contraction(what, traits, "tiles"))
