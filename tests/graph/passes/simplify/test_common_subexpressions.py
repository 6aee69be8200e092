"""What was computed already is not computed again."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

pytestmark = pytest.mark.usefixtures("device")


def array(*shape, seed=0):
    return cp.asarray(numbers(shape, seed=seed).astype(np.float32))


def whats(function, *given):
    return [node.primitive.what for node in cp.jit(function).graph(*given).nodes]


def check(function, *given):
    for found, wanted in zip(cp.jit(function)(*given), function(*given), strict=True):
        equal(found, wanted.get())


def test_the_same_calls_are_one():
    def function(x, w):
        a, b = (ops.matmul(ops.softmax(x, 1), w) for _ in range(2))
        return ops.softmax(a, 0), ops.softmax(b, 1)

    given = array(8, 8), array(8, 8, seed=1)
    assert whats(function, *given) == ["softmax", "matmul", "softmax", "softmax"]
    check(function, *given)


def test_results_have_memory_of_their_own():
    def function(x):
        return ops.softmax(x, 0), ops.softmax(x, 0)

    first, second = cp.jit(function)(array(4, 5))
    wanted = second.get()
    first[...] = 0
    equal(second, wanted)


def test_what_was_written_between_is_computed_again():
    def function(x, y):
        x = x.copy()
        a = ops.softmax(x, 1)
        x[...] = y
        return ops.softmax(a, 0), ops.softmax(ops.softmax(x, 1), 0)

    check(function, array(4, 5), array(4, 5, seed=1))


def test_draws_and_other_numbers_stay():
    def function(x):
        a, b = (ops.softmax(cp.random.uniform((3,)), 0) for _ in range(2))
        return a, b, ops.softmax(x * 2, 0) - ops.softmax(x * 3, 0)

    cp.random.seed(3)
    found = [a.get() for a in cp.jit(function)(array(3))]
    cp.random.seed(3)
    for a, b in zip(found, function(array(3)), strict=True):
        equal(b, a)
