"""Reductions as a family: which strategies take them, what is timed of them, and classes."""

import dataclasses

import pytest
from planning import ARGMAX, CPU, GPU

from clprim.plan.machine import CHAIN, UPDATES
from clprim.plan.reduction.family import REDUCTIONS, dense_reduction
from clprim.plan.reduction.problem import ReductionClass

SIMD = dataclasses.replace(CPU, sub_group_size=16)
ROWS, COLUMNS = dense_reduction((64, 5000), axes=(1,)), dense_reduction((5000, 640), axes=(0,))
LONG = dense_reduction((3, 1 << 20), axes=(1,))
PAIRS = dense_reduction((200, 1, 64), (1, 300, 64), axes=(2,), expr="y0 = max(x0 - x1, x1 - x0);")
NARROW = dense_reduction((8, 3, 40, 40), axes=(0, 2, 3), order=(0, 2, 3, 1))


@pytest.mark.parametrize(
    ("problem", "traits", "name"),
    [
        (ROWS, CPU, "reduction/inner"),
        (COLUMNS, CPU, "reduction/columns"),
        (NARROW, CPU, "reduction/narrow"),
        (PAIRS, CPU, "reduction/pairs"),
        (ROWS, GPU, "reduction/inner"),
        (COLUMNS, GPU, "reduction/lanes"),
        (dense_reduction((40, 6, 7), axes=(0, 2)), GPU, "reduction/lanes"),
    ],
)
def test_the_rule_chooses(problem, traits, name):
    plan = REDUCTIONS.plan(problem, traits)
    assert plan.choice.strategy == name == plan.schedule.template.replace("_local", "")
    assert REDUCTIONS.tuned(problem, traits, plan.choice) == plan


@pytest.mark.parametrize("traits", [CPU, SIMD, GPU], ids=["cpu", "simd", "gpu"])
@pytest.mark.parametrize("problem", [ROWS, COLUMNS, LONG, NARROW], ids=str)
def test_candidates_differ_and_are_planned_as_they_say(problem, traits):
    found = REDUCTIONS.candidates(problem, traits)
    assert len(found) == len(set(found)) > 2
    for choice in found:
        plan = REDUCTIONS.tuned(problem, traits, choice)
        s = plan.schedule
        assert choice.numbers == (s.vector, s.unroll, s.lanes, s.rows, s.splits, s.per_group)
        assert s.groups * s.per_group >= s.groups
        assert s.splits * s.chunk >= problem.inputs[0].size // problem.operands[0].size
        assert s.lanes * s.rows <= traits.max_work_group_size


def test_a_gpu_has_both_ways_to_take_rows():
    found = {choice.strategy for choice in REDUCTIONS.candidates(ROWS, GPU)}
    assert found == {"reduction/inner", "reduction/lanes"}


def test_pairs_have_one_tile():
    assert len(REDUCTIONS.candidates(PAIRS, CPU)) == 1


def test_accuracy_decides_before_tiles():
    choice = REDUCTIONS.plan(LONG, CPU).choice
    assert choice.numbers[4] * CHAIN * choice.numbers[0] * choice.numbers[1] >= 1 << 20
    long_rows = dense_reduction((2, 1 << 24), axes=(1,))
    few = dataclasses.replace(choice, numbers=(16, 4, 1, 1, 1, 1))
    assert REDUCTIONS.tuned(long_rows, CPU, few) is None  # 262,144 additions in a row
    updates = dataclasses.replace(
        dense_reduction((5000, 640), axes=(0,)),
        definition=ARGMAX,
        partials=(COLUMNS.partials[0],) * 2,
    )
    wide = REDUCTIONS.plan(updates, CPU)
    assert wide.schedule.splits >= 5000 // UPDATES


def test_classes_tell_memory_apart_and_batches_not():
    def of(*shape, **options):
        return ReductionClass.of(dense_reduction(shape, **options))

    assert of(60, 100, axes=(1,)) == of(64, 100, axes=(1,))
    assert of(60, 100, axes=(1,)) != of(60, 101, axes=(1,))
    assert of(60, 100, axes=(1,)) != of(60, 100, axes=(0,))
    assert of(60, 100, axes=(1,), order=(1, 0)) == of(100, 60, axes=(0,))
    assert of(4, 60, 100, axes=(1, 2)).row == 8192  # 6000 elements side by side
    assert of(4, 60, 100, axes=(1,)).row == 100
