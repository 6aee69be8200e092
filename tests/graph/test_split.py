"""`jit(fallback=True)`: what reads on the host is split there, and launches what it did."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops
from clprim.graph.split import MOST_CONTENTS
from clprim.runtime.stats import counters

pytestmark = pytest.mark.usefixtures("device")


def array(*shape, seed=0):
    return cp.asarray(numbers(shape, seed=seed).astype(np.float32))


class Counted:
    """A function, and how often it was called."""

    def __init__(self, function):
        self.function, self.calls = function, 0
        self.compiled = cp.jit(self, fallback=True)

    def __call__(self, *args):
        self.calls += 1
        return self.function(*args)

    def check(self, *args):
        """Compares a call with the function; returns how many times it was called for it."""
        wanted, before = self.function(*args), self.calls
        found = self.compiled(*args)
        pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
        for a, b in pairs:
            if isinstance(b, cp.Array):
                equal(a, b.get())
            else:
                assert a == b
        return self.calls - before


def branches(x):
    y = ops.relu(x * 2 + 1)
    if bool(ops.amax(y) > 10):
        return ops.sum(y, 1) - 3
    return ops.exp(-y) * y


def test_each_branch_is_traced_once():
    function, small = Counted(branches), array(4, 5)
    small[...] = 0.5
    assert function.check(small) == 2  # the trace that ends, and the one that goes on
    assert function.check(small) == 0
    assert function.check(small * 100) == 1
    for scale in (1, 100, 1, 200):
        assert function.check(small * scale) == 0


def test_known_branches_launch_no_more_than_their_kernels():
    function, x = Counted(branches), array(4, 5)
    x[...] = 0.5
    for _ in range(2):
        function.check(x)
    before = counters.launches
    function.compiled(x)
    # Before the read what is held, its maximum and the comparison; behind it one kernel.
    assert counters.launches - before == 4


def test_reads_follow_each_other():
    def collatz(x):
        steps = 0
        while int(x[0]) > 1:
            x = ops.where(x % 2 == 0, x // 2, 3 * x + 1)
            steps += 1
        return x, steps

    function = Counted(collatz)
    for n in (6, 6, 3, 5):
        function.check(cp.asarray(np.array([n, n + 1], np.int32)))
    assert function.check(cp.asarray(np.array([5, 6], np.int32))) == 0


def test_what_was_held_before_a_read_is_there_behind_it():
    def function(x, y):
        a, b = ops.tanh(x), ops.cos(y)
        c = a + b
        c += 1
        view = c[1:]
        del b
        if bool(ops.any(c > 1)):
            return view * 2, a, c
        return view, c, x

    split = Counted(function)
    for n in range(4):
        split.check(array(3, 4, seed=n), array(3, 4, seed=n + 9))
    x = array(3, 4)
    x[...] = -30.0
    split.check(x, x * 0 + np.pi)
    assert split.check(x, x * 0 + np.pi) == 0
    equal(split.compiled(x, x * 0 + np.pi)[2], x.get())


def test_inputs_may_be_read_and_returned():
    def function(x):
        if int(x[0, 0]) == 0:
            return x
        return x + cp.asarray(np.float32([1, 2, 3, 4]))

    split, x = Counted(function), array(3, 4)
    for first in (0, 1, 0, 1):
        x[0, 0] = first
        split.check(x)


def test_constants_are_frozen_in_every_part():
    def function(x, w):
        y = x @ w
        return y * 2 if bool(ops.amax(y) > 0) else y @ w

    x, w = array(4, 4), array(4, 4, seed=1)
    compiled = cp.jit(function, constants="w", fallback=True)
    wanted = function(x, w).get()
    for _ in range(3):
        equal(compiled(x, w), wanted)
        w = w * 1


def test_effects_before_a_read_run_as_they_are():
    def function(x):
        x += 1
        return x * 2 if bool(ops.amax(x) > 0) else x

    x, compiled = array(3, 4), cp.jit(function, fallback=True)
    expected = x.get()
    for _ in range(3):
        expected = expected + 1
        equal(compiled(x), expected * 2)
        equal(x, expected)
    with pytest.raises(cp.ClprimError, match="run uncompiled"):
        compiled.explain(x)


def test_effects_behind_a_read_happen_once():
    def function(x):
        if bool(ops.amax(x) > 1000):
            return x
        x += 1
        return x * 2

    x, compiled = array(3, 4), cp.jit(function, fallback=True)
    expected = x.get()
    for _ in range(3):
        expected = expected + 1
        equal(compiled(x), expected * 2)
        equal(x, expected)


def test_many_contents_run_as_they_are():
    function = Counted(lambda x: x * float(ops.sum(x)))
    calls = [function.check(array(5) + n) for n in range(MOST_CONTENTS + 4)]
    assert calls[-1] == 1
    function.check(array(2000) * 0 + 3)


def test_explain_shows_the_parts():
    compiled, x = cp.jit(branches, fallback=True), array(4, 5)
    assert compiled.explain(x) == "branches: not called yet"
    compiled(x * 0)
    compiled(x * 0 + 50)
    text = compiled.explain(x)
    assert text.count("calls traced") == 3
    assert "the host reads bool[] at " in text
    assert "test_split.py" in text
    with pytest.raises(cp.ClprimError, match="several graphs"):
        compiled.graph(x)
