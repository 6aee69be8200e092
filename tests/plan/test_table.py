"""Tables of tiles: what stands in one is planned, what does not fit is left to the rule."""

import dataclasses
import json

import pytest
from planning import CPU, GPU, convolution, product

from clprim.plan.conv.family import WINDOWS, WindowsClass
from clprim.plan.conv.winograd.tile import winograd_tile
from clprim.plan.families import FAMILIES
from clprim.plan.kernel import Choice
from clprim.plan.product.family import PRODUCTS, ContractionClass
from clprim.plan.table import Entry, Table, TuningFile

plan = PRODUCTS.plan
PANELS = {"family": "product", "strategy": "panels"}
CASES = {
    "tiles": (product(512, 512, 512), GPU, Choice("tiles", (8, 8, 4, 4, 4, 8))),
    "in place": (convolution(8, 64, 28, 64, last=True), CPU, Choice("in_place", (4, 2))),
    "columns": (convolution(8, 64, 32, 64), CPU, Choice("in_place", (7, 1))),
    "panels": (convolution(8, 64, 28, 64, last=True), CPU, Choice("panels", (4, 2))),
}
each_case = pytest.mark.parametrize(("what", "traits", "choice"), CASES.values(), ids=CASES)


def table(what, choice):
    return Table({("product", ContractionClass.of(what)): choice})


@each_case
def test_the_table_decides(what, traits, choice):
    rule = plan(what, traits)
    tuned = plan(what, traits, "auto", table(what, choice))
    assert rule.choice != choice == tuned.choice
    assert tuned.main.code != rule.main.code
    assert plan(what, traits, choice.strategy, table(what, choice)) == tuned


@each_case
def test_what_the_rule_chose_is_the_same_plan(what, traits, choice):
    rule = plan(what, traits)
    assert plan(what, traits, "auto", table(what, rule.choice)) == rule


@each_case
def test_other_problems_and_strategies_are_the_rules(what, traits, choice):
    other = product(600, 400, 300)
    known = table(what, choice)
    assert plan(other, traits, "auto", known) == plan(other, traits)
    for another in {"panels", "tiles"} - {choice.strategy}:
        assert plan(what, traits, another, known) == plan(what, traits, another)


@pytest.mark.parametrize(
    ("case", "numbers"),
    [
        ("tiles", (32, 64, 4, 4, 4, 8)),  # more work-items than a group may have
        ("tiles", (8, 8, 16, 16, 4, 8)),  # more sums than registers
        ("tiles", (16, 16, 8, 8, 4, 64)),  # more local memory than there is
        ("tiles", (8, 8, 6, 4, 4, 8)),  # no whole vectors
        ("tiles", (8, 8, 4, 4, 4, 6)),  # no power of two
        ("tiles", (1, 1, 4, 4, 4, 2)),  # more steps than work-items that note them
        ("tiles", (8, 8, 0, 4, 4, 8)),
        ("tiles", (8, 8, 4, -4, 4, 8)),
        ("in place", (14, 4)),  # more sums than registers
        ("in place", (0, 2)),
        ("panels", (29, 1)),
    ],
)
def test_what_does_not_fit_is_left_to_the_rule(case, numbers):
    what, traits, choice = CASES[case]
    wrong = table(what, Choice(choice.strategy, numbers))
    assert plan(what, traits, "auto", wrong) == plan(what, traits)


def test_a_tile_is_no_longer_than_a_line():
    what = convolution(8, 64, 12, 64, last=True)
    long = table(what, Choice("in_place", (14, 1)))
    assert plan(what, CPU, "auto", long) == plan(what, CPU)


def test_a_table_serves_devices_that_have_room_for_its_tiles():
    what, traits, _ = CASES["tiles"]
    choice = Choice("tiles", (8, 8, 8, 8, 4, 8))
    assert PRODUCTS.tuned(what, traits, choice) is not None
    for shrunk in ({"max_work_group_size": 32}, {"local_memory": 2048}, {"register_bytes": 256}):
        small = dataclasses.replace(traits, **shrunk)
        assert plan(what, small, "auto", table(what, choice)) == plan(what, small)


def windows(choice, what):
    return Table({("windows", WindowsClass.of(what)): choice})


def image(error, **options):
    found = convolution(8, 64, 28, 64, last=True, **options)
    return dataclasses.replace(found, error=error)


def test_an_algorithm_is_taken_where_its_error_is_allowed():
    what = image(5e-6)
    rule = WINDOWS.plan(what, CPU).choice
    four = dataclasses.replace(winograd_tile(what, CPU).tile, outputs=4, tiles=56)
    two = dataclasses.replace(four, outputs=2)
    choices = [Choice("winograd", dataclasses.astuple(tile)) for tile in (two, four)]
    assert rule not in choices
    small, large = (WINDOWS.error(what, CPU, choice) for choice in choices)
    assert 0 < small < large < 5e-6
    between = (small + large) / 2
    for error, taken in ((5e-6, choices), (between, choices[:1]), (small / 2, []), (0, [])):
        given = image(error)
        for choice in choices:
            found = WINDOWS.plan(given, CPU, "auto", windows(choice, what))
            assert (found.choice == choice) == (choice in taken)
            if choice not in taken:
                assert found == WINDOWS.plan(given, CPU)
    assert WINDOWS.plan(image(0), CPU).choice.strategy == "in_place"


def test_a_table_prefers_sums_of_products_to_an_algorithm():
    what = image(5e-6)
    choice = Choice("in_place", (4, 2))
    assert WINDOWS.error(what, CPU, choice) == 0
    known = windows(choice, what)
    assert WINDOWS.plan(what, CPU, "auto", known).choice == choice
    # Where no error is allowed, the table of products decides.
    assert WINDOWS.plan(image(0), CPU, "auto", known) == WINDOWS.plan(image(0), CPU)
    # Who names an algorithm gets it, and no other window's choice.
    assert WINDOWS.plan(what, CPU, "winograd", windows(choice, what)).choice != choice
    for other in (image(5e-6, kernel=5, padding=2), dataclasses.replace(what, kept=False)):
        assert WINDOWS.plan(other, CPU, "auto", windows(choice, what)) == WINDOWS.plan(other, CPU)


def test_a_file_holds_choices_between_algorithms():
    what = image(5e-6)
    for choice in WINDOWS.candidates(what, CPU):
        entries = {("windows", WindowsClass.of(what)): Entry(choice, 1.5)}
        given = file(entries=entries)
        assert TuningFile.parse(given.text(FAMILIES), FAMILIES) == given


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
    assert len({ContractionClass.of(what) for what in [one, *others]}) == 8
    # Where nothing is wasted by it, sizes are rounded.
    assert ContractionClass.of(convolution(7, 60, 28, 64)) == ContractionClass.of(one)
    large = [product(1000, 900, 700), product(1024, 1024, 1024)]
    assert len({ContractionClass.of(what) for what in large}) == 1


def text(**changes):
    found = json.loads(file().text(FAMILIES))
    return json.dumps(found | changes)


def file(**changes):
    entries = {
        ("product", ContractionClass.of(what)): Entry(choice, 1.25)
        for what, _, choice in CASES.values()
    }
    given = TuningFile(("GeForm",), "Vendor", "1.2", {"compute_units": 8}, entries)
    return dataclasses.replace(given, **changes)


def test_a_file_holds_everything():
    assert TuningFile.parse(file().text(FAMILIES), FAMILIES) == file()
    assert len(file().text(FAMILIES).splitlines()) == len(file().entries) + 4
    empty = file(entries={})
    assert TuningFile.parse(empty.text(FAMILIES), FAMILIES) == empty


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
        (text(format=0), "format 0, expected 2"),
        (text(device={}), "'traits' is missing"),
        (text(device={"traits": {"colour": 1}}), "unknown traits colour"),
        (text(tiles=[{}]), "'family' is missing"),
        (text(tiles=[{"family": "a", "strategy": "b"}]), "family 'a', expected one of conv"),
        (text(tiles=[{**PANELS, "strategy": "a"}]), "strategy 'a', which family 'product' has not"),
        (text(tiles=[{**PANELS, "tile": {"rows": 1}}]), "'vectors' is missing"),
        (text(tiles=[{**PANELS, "tile": {"rows": "1", "vectors": 2}}]), "expected whole numbers"),
        (text(tiles=[{**PANELS, "tile": 3}]), "not a table"),
        (text(tiles=3), "not a table"),
    ],
)
def test_what_is_no_table_says_why(wrong, message):
    with pytest.raises(ValueError, match=message):
        TuningFile.parse(wrong, FAMILIES)


def test_an_old_class_is_no_table():
    old = json.loads(file().text(FAMILIES))
    del old["tiles"][0]["problem"]["depth"]
    with pytest.raises(ValueError, match="depth"):
        TuningFile.parse(json.dumps(old), FAMILIES)
