"""Cases of crossed parameters run in turns: no turn misses a value, and no case all turns."""

import doctest
from itertools import product

import pytest
import turns
from turns import of_other_turns


def crossed(*sizes):
    cases = product(*(range(size) for size in sizes))
    return [(case, [f"{axis} {value}" for axis, value in enumerate(case)]) for case in cases]


def kept(family, turn):
    others = set(of_other_turns(family, turn))
    return [(case, values) for case, values in family if case not in others]


@pytest.mark.parametrize(
    ("sizes", "part"),
    [((1, 5), 1), ((2, 10), 2), ((1, 2, 2), 2), ((3, 4), 3), ((6, 1, 5), 3), ((2, 2, 2), 2)],
    ids=str,
)
def test_of_a_product_every_value_has_each_turn_and_every_case_one(sizes, part):
    family = crossed(*sizes)
    values = {value for _, case in family for value in case}
    seen = set()
    for turn in range(6):
        now = kept(family, turn)
        assert len(now) == -(-len(family) // part)
        assert {value for _, case in now for value in case} == values
        seen.update(case for case, _ in now)
    assert len(seen) == len(family)


def test_of_many_cases_of_one_parameter_some_have_a_turn():
    family = crossed(1, 9)
    assert [case for case, _ in kept(family, 0)] == [(0, n) for n in range(0, 9, 2)]
    assert [case for case, _ in kept(family, 1)] == [(0, n) for n in range(1, 9, 2)]
    assert [case for case, _ in kept(crossed(1, 12), 1)] == [(0, n) for n in range(2, 12, 3)]


def test_a_part_of_a_product_misses_no_value_either():
    family = [case for case in crossed(3, 4) if sum(case[0]) % 3 == 1 or case[0] == (0, 0)]
    for turn in range(6):
        assert {v for _, case in kept(family, turn) for v in case} == {
            v for _, case in family for v in case
        }


def test_examples():
    assert doctest.testmod(turns).failed == 0
