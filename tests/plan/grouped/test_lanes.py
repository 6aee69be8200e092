"""Plans of short groups side by side: which groups, and what they cover."""

import dataclasses

import numpy as np
import pytest
from planning import CPU, GPU, array, numbers

from clprim.language.grouped_definition import define_grouped
from clprim.plan.grouped.family import GROUPS
from clprim.plan.grouped.problem import Groups

TWO = dataclasses.replace(CPU, compute_units=2)
FLOAT = np.dtype(np.float32)
STRINGS = {
    "init": "reduce_y0 = 0;",
    "step": "reduce_y0 += y0;",
    "combine": None,
    "finalize": "group_y0 = 1 / reduce_y0;",
    "each": "y0 = exp(x0 - group_y0) * x1;",
}


def problem(x, axes=(1,), extra=None, **strings):
    definition = define_grouped("y0 = x0;", **(STRINGS | strings), name="group", preamble="")
    more = array(x.shape[-1:]) if extra is None else extra
    kept = array(tuple(1 if d in axes else n for d, n in enumerate(x.shape)))
    out = dataclasses.replace(x, offset=0)
    return Groups(definition, x.shape, axes, FLOAT, (x, more), (), (out,), (kept,))


def lanes_of(given, traits):
    """The kernel, if the strategy takes groups."""
    found = GROUPS.strategy("grouped/lanes").decide(given, traits)
    return found and found.plan().main


def test_rows_of_a_few_classes():
    given = problem(array((1000, 21)))
    found = lanes_of(given, TWO)
    assert found.template == "grouped/lanes"
    assert GROUPS.plan(given, TWO).main.template == "grouped/lanes"
    seen = numbers(found)
    assert (seen["groups"], seen["n"], seen["x0_group"], seen["x1_group"]) == (1000, 21, 21, 0)
    assert seen["groups_an_item"] % found.code.vector == 0
    assert (found.global_size[0] - 1) * seen["groups_an_item"] < 1000
    assert found.global_size[0] * seen["groups_an_item"] >= 1000
    # The key holds no sizes.
    assert lanes_of(problem(array((5000, 9))), TWO).code == found.code


def test_groups_of_two_vectors_are_runs():
    width = lanes_of(problem(array((1000, 21))), TWO).code.vector
    for size, template in ((2 * width, "grouped/runs"), (2 * width - 1, "grouped/lanes")):
        assert GROUPS.plan(problem(array((1000, size))), TWO).main.template == template


def test_results_that_are_begun_near_need_two_vectors():
    near = {"begin": "y0 = x0 * x1;", "step": "reduce_y0 += y0;", "finish": "y0 *= group_y0;"}
    width = lanes_of(problem(array((1000, 21))), TWO).code.vector
    for size, template in ((2 * width, "grouped/runs"), (2 * width - 1, "grouped/lanes")):
        main = GROUPS.plan(problem(array((1000, size)), near=near), TWO).main
        assert main.template == template
        assert main.code.begun >= size and main.code.each_part == "near_finish"


@pytest.mark.parametrize(
    ("shape", "axes", "traits", "strings"),
    [
        ((1000, 21), (1,), GPU, {}),
        ((1000, 64), (1,), TWO, {}),  # vectors of its own
        ((30, 21), (1,), TWO, {}),  # too few for the cores
        ((21, 1000), (0,), TWO, {}),  # groups are neighbours, and no runs
        ((1000, 3, 7), (1,), TWO, {}),
        # A number of all lanes, which a vector's arithmetic is not known to agree with.
        ((1000, 21), (1,), TWO, {"finalize": "group_y0 = reduce_y0 / count;"}),
        ((1000, 21), (1,), TWO, {"each": "if (x0 > 0) y0 = x0 * x1; else y0 = group_y0;"}),
    ],
)
def test_what_is_left_to_others(shape, axes, traits, strings):
    assert lanes_of(problem(array(shape), axes, **strings), traits) is None
