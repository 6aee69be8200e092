"""Results take the place of what is read for the last time, and of nothing else."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops
from clprim.graph.graph import buffer_of

pytestmark = pytest.mark.usefixtures("device")


def arrays(*shapes):
    return [cp.asarray(numbers(shape, seed=n).astype(np.float32)) for n, shape in enumerate(shapes)]


def check(function, shapes, overwritten):
    """Compares a compiled function with the function, and counts nodes that work in place."""
    compiled = cp.jit(function)
    graph = compiled.graph(*arrays(*shapes))
    found = [
        node
        for node in graph.nodes
        if {buffer_of(r) for r in node.reads} & {buffer_of(w) for w in node.writes}
    ]
    assert len(found) == overwritten, graph
    for _ in range(2):
        first, second = arrays(*shapes), arrays(*shapes)
        results, expected = compiled(*first), function(*second)
        pairs = zip(results, expected, strict=True) if isinstance(results, tuple) else ()
        for a, b in pairs or [(results, expected)]:
            equal(a, b.get())


def test_nodes_that_cannot_be_joined_write_over_what_they_read():
    def function(x):
        for _ in range(4):
            x = ops.tanh(ops.cumsum(x, 1)) * 2
        return ops.cumsum(ops.exp(ops.cumsum(x, 0) / 100), 1)

    check(function, [(6, 7)], overwritten=5)


def test_a_residual_is_written_over():
    def block(x, w):
        y = ops.softmax(x, 1)
        return ops.softmax(ops.relu(ops.conv2d(ops.tanh(y), w, padding=1) + y), 1)

    shapes = (2, 4, 5, 6), (4, 4, 3, 3)
    check(block, shapes, overwritten=1)
    replay = cp.jit(block)._compiled(arrays(*shapes), {}).replay
    assert replay.allocations.live < 3 * 2 * 4 * 5 * 6 * 4


def test_the_operand_of_a_contraction_stays():
    def block(x, w):
        y = ops.softmax(x, 1)
        return ops.softmax(ops.conv2d(y, w, padding=1) + y, 1)

    check(block, [(2, 4, 5, 6), (4, 4, 3, 3)], overwritten=0)


def test_what_is_read_at_coordinates_stays():
    turned = cp.Pointwise("y0 = at_x0(coord(1), coord(0)) + x1;", name="turned")

    def function(x):
        y = ops.softmax(x, 1)
        return ops.sum(turned(y, y), 1)

    check(function, [(5, 5)], overwritten=0)


def test_what_is_read_later_or_returned_stays():
    def function(x):
        y, z = ops.softmax(x, 1), ops.softmax(x, 0)
        return ops.cumsum(ops.exp(y), 1), ops.sum(y, 1), ops.sum(ops.exp(z), 1), z

    check(function, [(5, 6)], overwritten=0)


def test_other_views_of_the_same_array_stay():
    def function(x):
        y = ops.softmax(x, 1)
        return ops.amax(y + y.T, 1), ops.amax(x + 1, 0)  # exact in any order

    check(function, [(5, 5)], overwritten=0)


def test_a_result_is_made_in_the_place_of_what_it_is_made_of():
    check(lambda x: ops.exp(ops.cumsum(x, 1) / 10) - 1, [(5, 6)], overwritten=1)
