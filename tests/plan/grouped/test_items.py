"""Plans of groups whose elements work-items of a GPU share: which groups, and how many do."""

import dataclasses

import numpy as np
import pytest
from planning import GPU, array, numbers

from clprim.language.grouped_definition import define_grouped
from clprim.plan.grouped.family import GROUPS
from clprim.plan.grouped.problem import Groups

WIDE = dataclasses.replace(GPU, compute_units=100, max_work_group_size=1024, local_memory=48 << 10)
FLOAT = np.dtype(np.float32)
STRINGS = {
    "init": "reduce_y0 = 0;",
    "step": "reduce_y0 += y0;",
    "combine": None,
    "finalize": "group_y0 = 1 / reduce_y0;",
    "each": "y0 = x0 * group_y0;",
}


def problem(x, axes=(1,)):
    definition = define_grouped("y0 = x0;", **STRINGS, name="group", preamble="")
    kept = array(tuple(1 if d in axes else n for d, n in enumerate(x.shape)))
    return Groups(definition, x.shape, axes, FLOAT, (x,), (), (x,), (kept,))


def items_of(given, traits):
    """The kernel, if the strategy takes groups."""
    found = GROUPS.strategy("grouped/items").decide(given, traits)
    return found and found.plan().main


@pytest.mark.parametrize(
    ("length", "items"),
    [(32, (32, 4)), (49, (32, 4)), (400, (128, 1)), (1000, (256, 1)), (4096, (256, 1))],
)
def test_rows_of_any_length(length, items):
    found = items_of(problem(array((1000, length))), WIDE)
    assert found.code.items == found.local_size == items
    groups = found.global_size[0] // items[0]
    assert found.global_size[1] == items[1]
    assert (groups - 1) * items[1] < 1000 <= groups * items[1]
    seen = numbers(found)
    assert (seen["groups"], seen["rows"], seen["n"]) == (1000, 1, length)
    # The kernel's key holds no sizes.
    assert items_of(problem(array((7, length))), WIDE).code == found.code


def test_runs_of_several_rows():
    found = items_of(problem(array((8, 120, 10, 10)), (0, 2, 3)), WIDE)
    seen = numbers(found)
    assert (seen["groups"], seen["rows"], seen["n"], seen["x0_row"]) == (120, 8, 100, 12000)
    assert found.code.items == (128, 1)


@pytest.mark.parametrize(
    ("x", "axes"),
    [
        (array((1000, 31)), (1,)),  # too short to read lines of memory
        (array((50, 1000)), (0,)),  # neighbours are of other groups
        (array((10, 100_000)), (1,)),  # too few to keep the device busy
        (array((1000, 1 << 20)), (1,)),  # no cache has what is under way
    ],
)
def test_others_go_pass_by_pass(x, axes):
    assert items_of(problem(x, axes), WIDE) is None
    assert GROUPS.plan(problem(x, axes), WIDE).main.template != "grouped/items"


def test_small_work_groups_and_little_local_memory():
    for traits in (
        dataclasses.replace(WIDE, max_work_group_size=24),
        dataclasses.replace(WIDE, local_memory=100),
    ):
        found = items_of(problem(array((1000, 400))), traits)
        assert found.code.items == (16, 1)
