"""Tables of depthwise tiles: what stands in one is planned, what does not fit is the rule's."""

import dataclasses
import itertools
import json

import pytest
from planning import CPU, GPU, numbers

from clprim.plan.conv.dense import dense_convolution, dense_depthwise
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.conv.problem import ConvolutionClass
from clprim.plan.families import FAMILIES
from clprim.plan.kernel import Choice
from clprim.plan.table import Entry, Table, TuningFile

BACK = {"adjoint": True, "stride": 2}
plan, tuned = CONVOLUTIONS.plan, CONVOLUTIONS.tuned
problem_of = ConvolutionClass.of


def depthwise(*shape, adjoint=False, **options):
    return dense_depthwise(*shape, direction="input" if adjoint else "forward", **options)


def depthwise_weight(*shape, **options):
    return dense_depthwise(*shape, direction="weight", **options)


def convolution(*shape, **options):
    return dense_convolution(*shape, **options)


CASES = {
    "channels": (depthwise(8, 96, 56, last=True), CPU, (1, 8, 2)),
    "channels, by input": (depthwise(8, 96, 56, last=True, **BACK), CPU, (2, 4, 2)),
    "runs": (depthwise(8, 96, 56, stride=2), CPU, (5, 2)),
    "planes": (depthwise(8, 96, 56, padding=0), CPU, (2, 10, 4)),
    "planes, by input": (depthwise(8, 96, 56, **BACK), CPU, (4, 6, 2)),
    "windows": (depthwise(8, 96, 56, last=True), GPU, (2, 1, 64)),
    "windows, by input": (depthwise(8, 96, 56, **BACK), GPU, (2, 4, 64)),
    "weight channels": (depthwise_weight(8, 96, 56, last=True), CPU, (4, 5, 2)),
    "weight planes": (depthwise_weight(8, 96, 56), CPU, (7, 2)),
    "weight windows": (depthwise_weight(8, 96, 56), GPU, (2, 2, 3, 32)),
}
each_case = pytest.mark.parametrize(("what", "traits", "tile"), CASES.values(), ids=CASES)


def table(what, choice):
    return Table({("conv", problem_of(what)): choice})


def choice_of(what, traits, tile):
    return Choice(plan(what, traits).choice.strategy, tile)


@each_case
def test_the_table_decides(what, traits, tile):
    rule, choice = plan(what, traits), choice_of(what, traits, tile)
    found = plan(what, traits, "auto", table(what, choice))
    assert rule.choice != choice == found.choice
    assert (found.main.code, found.main.arguments) != (rule.main.code, rule.main.arguments)
    assert tuned(what, traits, choice) == found


@each_case
def test_what_the_rule_chose_is_the_same_plan(what, traits, tile):
    rule = plan(what, traits)
    assert plan(what, traits, "auto", table(what, rule.choice)) == rule


@each_case
def test_other_problems_are_the_rules(what, traits, tile):
    known = table(what, choice_of(what, traits, tile))
    for problem in (dataclasses.replace(what, images=3), convolution(8, 64, 28, 64)):
        found = plan(problem, traits, "auto", known)
        assert found == plan(problem, traits)


@each_case
@pytest.mark.parametrize("wrong", [0, -3, 1 << 20])
def test_what_does_not_fit_is_left_to_the_rule(what, traits, tile, wrong):
    rule = plan(what, traits)
    kernel = rule.choice.strategy
    tile_type = CONVOLUTIONS.strategy(kernel).tile
    for n, name in enumerate(field.name for field in dataclasses.fields(tile_type)):
        if wrong > 0 and name == "items":
            continue  # any number does
        choice = Choice(kernel, (*tile[:n], wrong, *tile[n + 1 :]))
        assert tuned(what, traits, choice) is None, name
        assert plan(what, traits, "auto", table(what, choice)) == rule, name


def test_a_tile_that_cannot_be_is_left_to_the_rule():
    back = CASES["channels, by input"][0]
    assert tuned(back, CPU, Choice("depthwise/channels", (1, 8, 2))) is None
    assert tuned(back, CPU, Choice("depthwise/channels", (2, 7, 2))) is None
    rolled = depthwise(8, 96, 56, kernel=4, last=True)
    assert tuned(rolled, CPU, Choice("depthwise/channels", (2, 4, 2))) is None
    planes = CASES["planes"][0]
    assert tuned(planes, CPU, Choice("depthwise/planes", (4, 10, 2))) is None


@pytest.mark.parametrize(
    "wrong",
    [
        Choice("tiles", (8, 8, 4, 4, 8)),
        Choice("in_place", (4, 2)),
        Choice("depthwise/runs", (5, 2)),
        Choice("depthwise/weight/planes", (7, 2)),
    ],
    ids=str,
)
def test_a_kernel_of_something_else_is_left_to_the_rule(wrong):
    for case in ("channels", "weight channels"):
        what = CASES[case][0]
        assert tuned(what, CPU, wrong) is None
        assert plan(what, CPU, "auto", table(what, wrong)) == (plan(what, CPU))


def test_products_take_no_depthwise_tile():
    product, choice = convolution(8, 64, 28, 64), Choice("depthwise/runs", (5, 2))
    assert tuned(product, CPU, choice) is None
    wrong = table(product, choice)
    assert plan(product, CPU, "auto", wrong) == plan(product, CPU)


def test_a_table_may_choose_another_kernel_that_takes_the_problem():
    what = CASES["runs"][0]
    choice = Choice("depthwise/planes", (2, 10, 4))
    assert plan(what, CPU, "auto", table(what, choice)).choice == choice


@pytest.mark.parametrize("last", [False, True])
def test_work_items_cover_every_row_with_any_tile(last):
    for stride, adjoint in itertools.product((1, 2), (False, True)):
        what = depthwise(3, 33, 30, last=last, stride=stride, adjoint=adjoint)
        for choice in CONVOLUTIONS.candidates(what, CPU):
            main = tuned(what, CPU, choice).main
            if main.template == "depthwise/windows":
                continue
            given = numbers(main)
            rows = given["rows_a_item"] * main.global_size[1]
            outputs = what.rows.size if adjoint else what.rows.windows
            assert rows >= outputs > rows - given["rows_a_item"]
            whole = "planes_a_item", 3 * 33
            if main.template == "depthwise/channels":
                whole = "vectors_a_item", given["vectors"]
            assert given[whole[0]] * main.global_size[0] >= whole[1]


@each_case
def test_candidates_differ_and_fit(what, traits, tile):
    found = CONVOLUTIONS.candidates(what, traits)
    assert len(found) == len(set(found)) > 2
    assert found[0] == plan(what, traits).choice
    for choice in found:
        assert tuned(what, traits, choice).choice == choice


def test_classes_tell_apart_what_tiles_depend_on():
    one = depthwise(8, 64, 28)
    others = [
        depthwise(8, 64, 28, last=True),
        depthwise(8, 64, 27),
        depthwise(8, 65, 28),
        depthwise(1, 64, 28),
        depthwise(8, 64, 28, kernel=5),
        depthwise(8, 64, 28, stride=2),
        depthwise(8, 64, 28, dilation=2),
        depthwise(8, 64, 28, multiplier=2),
        depthwise(8, 64, 28, step=2),
        depthwise(8, 64, 28, stride=2, adjoint=True),
        depthwise_weight(8, 64, 28),
    ]
    assert len({problem_of(what) for what in [one, *others]}) == 12
    # With a stride of 1 the gradient in the input is a convolution; many channels are rounded.
    assert problem_of(depthwise(7, 64, 28, adjoint=True)) == problem_of(one)
    assert problem_of(depthwise(8, 960, 28)) == problem_of(depthwise(8, 1024, 28))


def test_a_file_holds_everything():
    entries = {
        ("conv", problem_of(what)): Entry(choice_of(what, traits, tile), 1.25)
        for what, traits, tile in CASES.values()
    }
    file = TuningFile(("GeForm",), "Vendor", "1.2", {"compute_units": 8}, entries)
    assert len(file.entries) == 7  # what GPUs and CPUs do is of one class
    assert TuningFile.parse(file.text(FAMILIES), FAMILIES) == file
    old = json.loads(file.text(FAMILIES))
    del old["tiles"][0]["problem"]["lanes"]
    with pytest.raises(ValueError, match="lanes"):
        TuningFile.parse(json.dumps(old), FAMILIES)
