"""Copies that are left run in the store of a convolution that has their shape."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

pytestmark = pytest.mark.usefixtures("device")


def arrays(*shapes):
    return [cp.asarray(numbers(shape, seed=n).astype(np.float32)) for n, shape in enumerate(shapes)]


def check(function, given, kernels, what=("conv2d",)):
    """Compares a compiled function with the function, and says what it launches."""
    compiled = cp.jit(function)
    graph = compiled.graph(*given)
    assert [node.primitive.what for node in graph.nodes] == [*what] * kernels, graph
    wanted = function(*given)
    for _ in range(2):
        found = compiled(*given)
        pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
        for a, b in pairs:
            assert a.strides == b.strides
            equal(a, b.get())


def shuffled(x, y):
    n, c, h, w = x.shape
    both = ops.cat([x, y], 1)
    return both.reshape(n, 2, c, h, w).transpose(0, 2, 1, 3, 4).copy().reshape(n, 2 * c, h, w)


def test_channels_that_pass_by_are_copied_by_a_convolution():
    def units(x, w, b):
        for _ in range(2):
            y = ops.relu(ops.conv2d(x[:, 4:], w, b))
            x = shuffled(x[:, :4], y)
        return x

    check(units, arrays((2, 8, 5, 7), (4, 4, 1, 1), (4,)), kernels=2)


@pytest.mark.parametrize("groups", [1, 4])
def test_a_window_stores_both_results(groups):
    def unit(x, w):
        return shuffled(x[:, :4], ops.conv2d(x[:, 4:], w, padding=1, groups=groups))

    check(unit, arrays((2, 8, 6, 18), (4, 4 // groups, 3, 3)), kernels=1)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_every_algorithm_stores_both_results(kernel, layout):
    given = arrays((2, 24, 9, 11), (20, 24, kernel, kernel), (2, 20, 9, 11))
    if layout == "channels_last":
        given = [a.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2) for a in given]
    x, w = given[:2]
    padding = kernel // 2
    with cp.options(convolution_error=1e-3):
        for name in ops.conv2d.algorithms(x, w, padding=padding):

            def both(x, w, other, name=name):
                kept = cp.empty_like(other)
                y = ops.conv2d(x, w, padding=padding, algorithm=name)
                kept[...] = other
                return y, kept

            found, wanted = cp.jit(both)(*given), both(*given)
            assert len(cp.jit(both).graph(*given).nodes) == 1, name
            for a, b in zip(found, wanted, strict=True):
                equal(a, b.get())


def test_a_copy_of_what_the_convolution_overwrites_or_makes_stays_apart():
    def written(x, w):
        before = cp.zeros_like(x)
        before[...] = x
        ops.conv2d(before, w, out=x)
        return before, x

    given = arrays((2, 4, 5, 6), (4, 4, 1, 1))
    compiled, (x, w) = cp.jit(written), given
    wanted = [a.get() for a in written(x.copy(), w)]
    for a, b in zip(compiled(x.copy(), w), wanted, strict=True):
        equal(a, b)


def test_copies_that_are_interleaved_are_one_kernel():
    def function(x, y):
        z = cp.empty((2, 8, 5, 7), np.float32)
        z[:, ::2], z[:, 1::2] = (ops.softmax(a, 1).transpose(0, 3, 1, 2) for a in (x, y))
        return ops.softmax(z, 3)

    what = "softmax", "softmax", "copy", "softmax"
    check(function, arrays((2, 5, 7, 4), (2, 5, 7, 4)), 1, what)


def test_copies_of_what_a_copy_writes_stay_apart():
    def function(x):
        y = ops.softmax(x, 1)
        y[:, :2] = y[:, 2:4]
        y[:, 2:4] = y[:, :2]
        return y

    x = arrays((3, 5))[0]
    equal(cp.jit(function)(x), function(x).get())


def test_other_shapes_stay_apart():
    def unit(x, w):
        return ops.cat([x, ops.conv2d(x, w)], 1)

    x, w = arrays((2, 4, 5, 6), (3, 4, 1, 1))
    graph = cp.jit(unit).graph(x, w)
    assert {node.primitive.what for node in graph.nodes} == {"conv2d", "copy"}
    equal(cp.jit(unit)(x, w), unit(x, w).get())
