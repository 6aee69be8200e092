"""Where temporaries lie: in allocations that those share whose lives do not overlap."""

import random

from clprim.graph.graph import Buffer
from clprim.graph.memory import allocations_of


def lives(seed, count=60):
    draw = random.Random(seed)
    found = {}
    for _ in range(count):
        first = draw.randrange(80)
        found[Buffer(draw.choice([0, 1, 64, 100, 4096, 5000, 1 << 20]))] = (
            first,
            first + draw.randrange(1, 12),
        )
    return found


def test_none_overlaps_another_in_life_and_place():
    for seed in range(20):
        given = lives(seed)
        found = allocations_of(given)
        for one, (first, last) in given.items():
            assert one.nbytes <= found.sizes[found.of[one]]
            for other, (born, dead) in given.items():
                if other is not one and found.of[one] == found.of[other]:
                    assert born > last or dead < first
        assert found.live <= found.nbytes <= sum(max(b.nbytes, 1) for b in given)


def test_a_chain_takes_two():
    chain = {Buffer(100 - n): (n, n + 1) for n in range(9)}
    found = allocations_of(chain)
    assert found.sizes == (100, 99)
    assert found.live == 199


def test_nothing_takes_nothing():
    assert allocations_of({}) == ((), {}, 0, 0)


def test_an_allocation_is_taken_that_is_unused_for_the_shortest_time():
    # The smaller of the two that are free for 40 is wanted by 30 a moment before.
    given = {Buffer(90): (1, 3), Buffer(50): (1, 2), Buffer(40): (5, 6), Buffer(30): (3, 5)}
    found = allocations_of(given)
    assert found.nbytes == 90 + 50
    assert found.live == 140
