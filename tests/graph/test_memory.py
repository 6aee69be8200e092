"""Where temporaries lie: those share memory whose lives do not overlap. Constants have theirs."""

import random

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.errors import DeviceError
from clprim.graph.graph import Buffer, buffer_of
from clprim.graph.memory import allocations_of
from clprim.graph.replay import Replay
from clprim.graph.steps import enqueue, steps_of
from clprim.graph.trace import traced


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


@pytest.mark.parametrize("grain", [0, 1, 128])
def test_none_overlaps_another_in_life_and_place(grain):
    for seed in range(20):
        given = lives(seed)
        found = allocations_of(given, grain)
        places = {}
        for one, (n, begin) in found.of.items():
            size = found.sizes[n] if grain == 0 else max(one.nbytes, 1)
            places[one] = n, begin, begin + size
            assert one.nbytes <= size and begin + size <= found.sizes[n]
            assert begin % max(grain, 1) == 0
        for one, (first, last) in given.items():
            for other, (born, dead) in given.items():
                (n, low, high), (m, begin, end) = places[one], places[other]
                if other is not one and n == m and low < end and begin < high:
                    assert born > last or dead < first
        assert len(found.sizes) == 1 or grain == 0
        assert found.live <= found.nbytes <= sum(b.nbytes + max(grain, 1) for b in given)


def test_a_chain_takes_two():
    chain = {Buffer(100 - n): (n, n + 1) for n in range(9)}
    found = allocations_of(chain)
    assert found.sizes == (100, 99)
    assert found.live == 199


def test_nothing_takes_nothing():
    for grain in (0, 64):
        assert allocations_of({}, grain) == ((), {}, 0, 0)


def test_an_allocation_is_taken_that_is_unused_for_the_shortest_time():
    # The smaller of the two that are free for 40 is wanted by 30 a moment before.
    given = {Buffer(90): (1, 3), Buffer(50): (1, 2), Buffer(40): (5, 6), Buffer(30): (3, 5)}
    found = allocations_of(given)
    assert found.nbytes == 90 + 50
    assert found.live == 140


def test_parts_take_what_lives_at_once():
    # Residuals, of which each lives beside the next; two wide values between lie at one end.
    given = {Buffer(1): (9 * n, 9 * n + 9) for n in range(4)}
    given |= {Buffer(3): (9 * n + k, 9 * n + k + 1) for n in range(4) for k in (2, 3)}
    assert allocations_of(given, 1).nbytes == allocations_of(given).live == 7
    assert allocations_of(given).nbytes == 8


def test_a_graph_computes_the_same_in_parts_of_one_allocation(device):
    def function(x, w):
        for _ in range(3):
            y = ops.softmax(ops.matmul(x, w), -1)
            x = ops.matmul(ops.cat([y, x, y], 0), w)[:48] + ops.sum(y, 1, keepdims=True)[:1]
        return x, ops.amax(x, 1)

    rng = np.random.default_rng(2)
    x, w = (cp.asarray(rng.uniform(-1, 1, s).astype(np.float32)) for s in ((48, 40), (40, 40)))
    compiled = cp.jit(function)
    for _ in range(2):
        for found, wanted in zip(compiled(x, w), function(x, w), strict=True):
            np.testing.assert_array_equal(found.get(), wanted.get())
    memory = compiled._compiled((x, w), {}).replay.allocations
    if device.traits.is_cpu:
        assert memory.nbytes <= 1.1 * memory.live


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("launch", [Replay, lambda d, g: enqueue(d, steps_of(d, g.nodes), {})])
def test_a_constant_without_memory_is_refused(device, launch):
    x = cp.asarray(np.ones(3, np.float32))
    _, graph, _ = traced("f", lambda: x + 1, [])
    (read,) = graph.nodes[0].reads
    assert buffer_of(read).kind == "constant"
    buffer_of(read).memory = None
    with pytest.raises(DeviceError, match="constant of 12 bytes> has no memory"):
        launch(device, graph)
