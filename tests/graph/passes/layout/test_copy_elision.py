"""Copies become views: results keep their bits, nothing is copied, and hazards keep copies."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops
from clprim.graph.passes.layout.moves import moves_of

pytestmark = pytest.mark.usefixtures("device")
FORMATS = pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])


def arrays(*shapes, memory_format="contiguous"):
    found = [cp.asarray(numbers(s, seed=n).astype(np.float32)) for n, s in enumerate(shapes)]
    return [ops.contiguous(a, memory_format=memory_format) if a.ndim == 4 else a for a in found]


def check(function, make, copies, nodes=None):
    """Compares a compiled function with the function, and counts what it still copies."""
    compiled = cp.jit(function)
    given = make()
    graph = compiled.graph(*given)
    assert sum(len(moves_of(node) or ()) for node in graph.nodes) == copies, graph
    if nodes is not None:
        assert len(graph.nodes) == nodes, graph
    for _ in range(2):
        first, second = make(), make()
        found, expected = compiled(*first), function(*second)
        for a, b in zip(as_tuple(found), as_tuple(expected), strict=True):
            equal(a, b.get())
            assert a.strides == b.strides
        for a, b in zip(first, second, strict=True):
            equal(a, b.get())
    return graph


def as_tuple(found):
    return found if isinstance(found, tuple) else (found,)


def conv(x, w):
    return ops.relu(ops.conv2d(x, w, padding=w.shape[2] // 2))


@FORMATS
def test_a_dense_block_copies_nothing(memory_format):
    def block(x, *weights):
        features = [ops.relu(x)]
        for w in weights:
            features.append(conv(ops.cat(features, 1), w))
        return ops.cat(features, 1) * 2

    def make():
        weights = [(4, 8 + 4 * n, 3, 3) for n in range(9)]
        return arrays((2, 8, 5, 6), *weights, memory_format=memory_format)

    check(block, make, copies=0, nodes=11)


@FORMATS
def test_branches_write_to_their_place(memory_format):
    def block(x, w1, w3, w5):
        pooled = ops.max_pool2d(x, 3, 1, 1)
        parts = [conv(x, w1), conv(conv(x, w1), w3), pooled, ops.tanh(x), ops.conv2d(x, w5)]
        return ops.max_pool2d(ops.cat(parts, 1), 2)

    shapes = (2, 8, 6, 7), (8, 8, 1, 1), (4, 8, 3, 3), (3, 8, 1, 1)
    check(block, lambda: arrays(*shapes, memory_format=memory_format), copies=0, nodes=6)


@FORMATS
def test_skip_connections_are_written_where_they_are_joined(memory_format):
    def net(x, w0, w1, w2, w3):
        a = conv(x, w0)
        b = conv(ops.max_pool2d(a, 2), w1)
        c = conv(ops.max_pool2d(b, 2), w1)
        up = ops.cat([b, ops.interpolate(c, scale_factor=2)], 1)
        up = ops.interpolate(conv(up, w2), scale_factor=2)
        return conv(ops.cat([a, up], 1), w3)

    shapes = (1, 3, 8, 12), (4, 3, 3, 3), (4, 4, 3, 3), (4, 8, 3, 3), (2, 8, 3, 3)
    check(net, lambda: arrays(*shapes, memory_format=memory_format), copies=0, nodes=9)


@FORMATS
def test_parts_of_one_array_joined_in_order_are_it(memory_format):
    def function(x):
        y = ops.tanh(x)
        a, b, c = ops.split(y, 2, dim=1)
        return ops.cumsum(ops.cat([a, b, c], 1), 1)

    check(function, lambda: arrays((2, 6, 3, 4), memory_format=memory_format), copies=0, nodes=2)


def test_parts_in_another_order_are_copied():
    def function(x):
        y = ops.tanh(x)
        a, b = ops.split(y, 3, dim=1)
        return ops.softmax(ops.cat([b, a], 1), 1)

    check(function, lambda: arrays((2, 6, 3, 4)), copies=2)


@FORMATS
def test_contiguous_parts_are_read_where_they_lie(memory_format):
    def function(x, w):
        part = x[:, 2:5, 1:]
        return ops.conv2d(ops.contiguous(part, memory_format=memory_format), w)

    shapes = (2, 6, 6, 5), (4, 3, 2, 2)
    check(function, lambda: arrays(*shapes, memory_format=memory_format), copies=0, nodes=1)


def test_another_layout_is_copied():
    def function(x, w):
        return ops.conv2d(ops.contiguous(ops.tanh(x), memory_format="channels_last"), w)

    graph = check(function, lambda: arrays((2, 6, 6, 5), (4, 6, 2, 2)), copies=0)
    assert not any("copy elision" in note for note in graph.notes)


@FORMATS
def test_joined_arrays_are_joined(memory_format):
    def function(x, y):
        inner = ops.cat([ops.tanh(x), ops.exp(y)], 1)
        outer = ops.cat([ops.abs(x), inner, ops.tanh(y)], 1)
        return ops.softmax(outer, 1), ops.sum(inner, 1)

    shapes = (2, 3, 4, 5), (2, 2, 4, 5)
    check(function, lambda: arrays(*shapes, memory_format=memory_format), copies=0, nodes=6)


def test_an_array_joined_twice_is_copied_once():
    def function(x):
        y = ops.tanh(x)
        return ops.softmax(ops.cat([y, y], 1), 1)

    check(function, lambda: arrays((2, 3, 4)), copies=1, nodes=3)


def test_inputs_are_copied_by_one_kernel():
    def function(x, y, z):
        return ops.softmax(ops.cat([x, y, ops.tanh(z)], 1), 1)

    def make():
        return arrays((2, 32, 40), (2, 32, 40), (2, 32, 40))

    joined = make()
    compiled = cp.jit(lambda x, y, z: ops.cat([x, y, z], 1))
    compiled(*joined)
    before = cp.stats().launches
    compiled(*joined)
    kernels = cp.stats().launches - before
    check(function, make, copies=3 if kernels == 1 else 2)


def test_an_input_is_copied_beside_what_is_written_there():
    def function(x, y):
        return ops.softmax(ops.cat([x, ops.tanh(y)], 1), 1)

    check(function, lambda: arrays((2, 3, 4), (2, 5, 4)), copies=1, nodes=3)


def test_a_result_of_parts_keeps_its_layout():
    def function(x, y):
        return ops.cat([ops.tanh(x), ops.exp(y)], 1)

    check(function, lambda: arrays((2, 3, 4), (2, 5, 4)), copies=0, nodes=2)


def test_a_returned_part_stays_an_array_of_its_own():
    def function(x, y):
        a = ops.tanh(x)
        return ops.cat([a, ops.exp(y)], 1), a

    check(function, lambda: arrays((2, 3, 4), (2, 5, 4)), copies=1)


def test_a_returned_copy_stays_an_array_of_its_own():
    check(lambda x: (x[:, 1:].copy(), x[:, :2].copy()), lambda: arrays((3, 4)), copies=2)


def test_parts_of_what_was_joined():
    def function(x, y):
        joined = ops.cat([ops.tanh(x), ops.exp(y)], 1)
        return ops.softmax(joined[:, 1:5].copy(), 1), ops.sum(joined[:, ::2], 1)

    check(function, lambda: arrays((2, 3, 4), (2, 5, 4)), copies=0, nodes=4)


def test_what_changes_after_it_was_joined_is_copied():
    def function(x, y):
        a, b = ops.tanh(x), ops.exp(y)
        joined = ops.cat([a, b], 1)
        joined[:, :2] += 1
        return ops.softmax(joined, 1), ops.sum(a, 1), ops.sum(b, 1)

    check(function, lambda: arrays((2, 3, 4), (2, 5, 4)), copies=1)


def test_what_its_source_changes_after_is_copied():
    def function(x, y):
        a, b = ops.tanh(x), ops.exp(y)
        joined = ops.cat([a, b], 1)
        b[0] *= 2
        return ops.softmax(joined, 1), ops.sum(b, 1)

    check(function, lambda: arrays((2, 3, 4), (2, 5, 4)), copies=1)


def test_what_is_read_before_it_is_overwritten_is_kept():
    def function(x):
        a = ops.tanh(x)
        old = ops.softmax(x, 1)
        x[:, 1:3] = a[:, 1:3]
        return old

    check(function, lambda: arrays((3, 5)), copies=1)


def test_an_argument_is_written_at_once_where_nobody_reads_it_before():
    def function(x, y):
        y[:, 1:4] = ops.softmax(x, 1)

    compiled = cp.jit(function)
    for _ in range(2):
        (x, y), (p, q) = arrays((3, 3), (3, 6)), arrays((3, 3), (3, 6))
        compiled(x, y)
        function(p, q)
        equal(y, q.get())
    assert len(compiled.graph(x, y).nodes) == 1


def test_a_view_of_what_changes_is_copied():
    def function(x):
        a = ops.tanh(x)
        old = a[:, 1:3].copy()
        a[0] *= 0.5
        return ops.softmax(old, 1), ops.sum(a, 1)

    check(function, lambda: arrays((3, 4)), copies=1)


@FORMATS
def test_shuffled_channels_are_written_where_they_go(memory_format):
    def function(x, y, w):
        joined = ops.cat([x, conv(y, w)], 1)
        n, c, h, w = joined.shape
        if memory_format == "contiguous":
            pairs = joined.reshape(n, 2, c // 2, h, w).transpose(0, 2, 1, 3, 4).copy(order="C")
            return ops.softmax(pairs.reshape(n, c, h, w), 1)
        pairs = joined.transpose(0, 2, 3, 1).reshape(n, h, w, 2, c // 2)
        pairs = pairs.transpose(0, 1, 2, 4, 3).copy(order="C")
        return ops.softmax(pairs.reshape(n, h, w, c), 3)

    shapes = (2, 4, 3, 5), (2, 4, 3, 5), (4, 4, 1, 1)
    # What passes by is copied by the convolution, where both lie alike.
    copies = int(memory_format == "channels_last")
    make = lambda: arrays(*shapes, memory_format=memory_format)  # noqa: E731
    check(function, make, copies=copies, nodes=2 + copies)


def test_whatever_is_drawn_keeps_what_the_function_does():
    """Random programs of joins, slices, copies and writes equal the functions themselves."""
    gone = 0
    for seed in range(12):

        def program(*given, seed=seed):
            rng = np.random.default_rng(seed)
            known = [ops.tanh(a) for a in given[:2]] + [*given]
            for _ in range(8):
                a, b = (known[n] for n in rng.integers(len(known), size=2))
                cut = sorted(rng.choice(np.arange(0, a.shape[1] + 1), 2, replace=False))
                match rng.integers(6):
                    case 0:
                        known.append(ops.cat([a, b], 1))
                    case 1:
                        known.append(a[:, cut[0] : cut[1]].copy())
                    case 2:
                        known.append(ops.exp(a[:, cut[0] : cut[1]]) * 0.1)
                    case 3:
                        a[:, cut[0] : cut[1]] *= 0.5
                    case 4:
                        known.append(ops.softmax(a, 1))
                    case 5:
                        size = min(a.shape[1], b.shape[1])
                        known.append(ops.cat([a[:, :size] + b[:, :size], b, a], 1))
            kept = rng.choice(len(known), 3, replace=False)
            return *(ops.softmax(known[n] * 1.5, 1) for n in kept), known[-1]

        def make():
            return arrays((2, 3, 2, 2), (2, 4, 2, 2), (2, 2, 2, 2), memory_format="channels_last")

        compiled = cp.jit(program)
        (first, second) = make(), make()
        for a, b in zip(compiled(*first), program(*second), strict=True):
            equal(a, b.get())
        for a, b in zip(first, second, strict=True):
            equal(a, b.get())
        gone += any("copy elision" in note for note in compiled.graph(*first).notes)
    assert gone > 3


_copy = cp.Pointwise("y0 = x0;")


def cached(cache, index, new, w):
    """What a decoder does at a step: lines are taken into a cache, which attention reads."""
    found = ops.index_copy(cache, 1, index, new)
    y = ops.matmul(found, w)
    _copy(found, out=cache)
    return y


def test_lines_are_taken_in_where_a_cache_lies(device):
    if not device.traits.is_cpu:
        pytest.skip("GPUs sort positions, and scatter to another array")

    def make():
        cache, new, w = arrays((3, 16, 8), (3, 2, 8), (8, 4))
        return cache, cp.asarray(np.array([9, 3])), new, w

    check(cached, make, copies=0, nodes=2)


def test_a_cache_that_is_read_later_as_it_was_is_copied(device):
    if not device.traits.is_cpu:
        pytest.skip("GPUs sort positions, and scatter to another array")

    def both(cache, index, new, w):
        before = ops.index_copy(cache, 1, index, new)
        y = ops.matmul(cache, w)
        _copy(before, out=cache)
        return y, ops.matmul(before, w)

    def make():
        cache, new, w = arrays((3, 16, 8), (3, 2, 8), (8, 4))
        return cache, cp.asarray(np.array([9, 3])), new, w

    check(both, make, copies=2)


def test_nothing_that_is_padded_is_no_copy():
    def function(x):
        return ops.pad(ops.relu(x), (0, 0, 0, 0)) * ops.max_pool2d(x, 3, 1, 1)

    check(function, lambda: arrays((2, 3, 5, 6)), copies=0)
