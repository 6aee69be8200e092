"""Elementwise nodes run in the groups and reductions beside them, and results keep their bits."""

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim import ops
from clprim.runtime.device import current_device

pytestmark = pytest.mark.usefixtures("device")
PLUS = "float plus(float x) { return x + 1; }"
own = cp.Grouped(
    "y0 = plus(x0);",
    init="reduce_y0 = 0;",
    step="reduce_y0 += y0;",
    finalize="group_y0 = reduce_y0 / count * w0;",
    each="y0 = x0 - group_y0 * x1;",
    preamble=PLUS,
)
mean = cp.Reduction(
    "",
    init="reduce_y0 = 0;",
    step="reduce_y0 += x0 * w0;",
    combine="reduce_y0 += other_y0;",
    finalize="y0 = reduce_y0 / count;",
)


@pytest.fixture(autouse=True)
def _checked(monkeypatch):
    monkeypatch.setenv("CLPRIM_CHECK", "passes")


def arrays(*shapes):
    # No whole numbers: products that are rounded otherwise have other bits.
    rng = np.random.default_rng(1)
    return [cp.asarray(rng.standard_normal(s).astype(np.float32)) for s in shapes]


def check(function, given, nodes):
    compiled = cp.jit(function)
    graph = compiled.graph(*given)
    if nodes is not None:
        assert len(graph.nodes) == nodes, graph
    found, expected = compiled(*given), function(*given)
    for a, b in zip(as_tuple(found), as_tuple(expected), strict=True):
        equal(a, b.get())
    return graph


def as_tuple(found):
    return found if isinstance(found, tuple) else (found,)


def residual(x, y, w):
    return ops.layer_norm(x + y, (96,), w[:, 0])


def residual_again(x, y, w):
    added = x + y * 2
    return ops.layer_norm(added, (96,)), added


def scores(x, y, w):
    return ops.softmax(x * 0.25 + y[:1], axis=1)


def scores_again(x, y, w):
    added = x * 0.25 + y
    return ops.softmax(added, axis=1), added


def products(x, y, w):
    return ops.sum(x * y - 1, axis=1)


def own_mean(x, y, w):
    return mean(x * y + 0.5, 0.5, axis=(0, 1), keepdims=True) * 2


def own_groups(x, y, w):
    return own(x * y, ops.tanh(y[:, :1]), 3.0, axis=1)


def behind_own(x, y, w):
    found = own(x, y[:, :1], 3.0, axis=1)
    return ops.maximum(found, 0) * y * 0.5, found


def behind_softmax(x, y, w):
    return ops.softmax(x, axis=1) * 3 - y[:, :1]


def behind_softmax_again(x, y, w):
    found = ops.softmax(x, axis=1)
    return found * y, found + 1


@pytest.mark.parametrize(
    ("function", "nodes"),
    [
        (residual, 1),
        (residual_again, 1),
        (scores, 1),
        (scores_again, 1),
        (products, 1),
        (own_mean, 2),
        (own_groups, 1),
        (behind_own, 1),
        (behind_softmax, 1),
        (behind_softmax_again, None),
    ],
)
@pytest.mark.parametrize("rows", [7, 200])
def test_they_are_one_kernel(function, nodes, rows):
    # What few rows are computed by depends on the device.
    some = nodes if current_device().traits.is_cpu and rows == 200 else None
    check(function, arrays((rows, 96), (rows, 96), (96, 1)), some)


@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
@pytest.mark.parametrize("activation", [ops.relu6, ops.hardswish])
def test_activations_run_in_batch_norms(activation, memory_format):

    x, grad = (
        ops.contiguous(a, memory_format=memory_format) for a in arrays((2, 16, 9, 7), (2, 16, 9, 7))
    )
    w, b = arrays((16,), (16,))

    def network(x, w, b):
        y = ops.batch_norm_train(x, w, b)[0]
        return activation(y), y

    graph = check(network, [x, w, b], None)
    assert any("run in groups" in note for note in graph.notes), graph.notes
    value, grads = cp.value_and_grad(
        lambda x, w, b: ops.sum(activation(ops.batch_norm_train(x, w, b)[0]) * grad),
        wrt=(0, 1, 2),
    )(x, w, b)
    wide = [a.get().astype(np.float64) for a in (x, w, b, grad)]
    wanted = reference(activation, *wide)
    for found, expected in zip((value, *grads), wanted, strict=True):
        np.testing.assert_allclose(found.get(), expected, rtol=2e-4, atol=2e-4)


def reference(activation, x, w, b, grad):
    axes, column = (0, 2, 3), (1, -1, 1, 1)
    deviation = np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    hat = (x - x.mean(axes, keepdims=True)) / deviation
    y = hat * w.reshape(column) + b.reshape(column)
    if activation is ops.relu6:
        value, slope = np.clip(y, 0, 6), ((y > 0) & (y < 6)).astype(float)
    else:
        value = y * np.clip(y + 3, 0, 6) / 6
        slope = np.where(y <= -3, 0, np.where(y >= 3, 1, (2 * y + 3) / 6))
    of_y = grad * slope
    of_hat = of_y * w.reshape(column)
    means = of_hat.mean(axes, keepdims=True), (of_hat * hat).mean(axes, keepdims=True)
    of_x = (of_hat - means[0] - hat * means[1]) / deviation
    return (value * grad).sum(), of_x, (of_y * hat).sum(axes), of_y.sum(axes)


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("channels", [32, 48])
def test_what_others_want_is_computed_again_of_what_is_read_anyway(channels, slow):
    """A backward pass that computes what was activated again, for a weight and for a norm."""

    def backward(x, grad, kernel, w, b, mean, invstd):
        column = [v.reshape(-1, 1, 1) for v in (mean, invstd, w, b)]
        normed = (x - column[0]) * (column[1] * column[2]) + column[3]
        normed = ops.exp(normed) if slow else normed
        made = ops.conv2d(ops.relu(normed), kernel)
        found = ops.batch_norm_backward(
            ops.threshold_backward(grad, normed, 0.0), x, w, mean, invstd
        )
        return made, *found

    size, vector = (2, channels, 28, 28), (channels,)
    x, grad, kernel, *vectors = arrays(size, size, (8, channels, 3, 3), *(vector,) * 4)
    x, grad = (ops.contiguous(a, memory_format="channels_last") for a in (x, grad))
    graph = check(backward, [x, grad, kernel, *vectors], None)
    maps = [n for n in graph.nodes if isinstance(n.primitive, cp.Pointwise)]
    stored = [len(n.writes) for n in maps if n.writes[0].size == x.size]
    norm = next(n for n in graph.nodes if n.primitive.what == "batch_norm_backward")
    large = [r for r in norm.reads if r.memory[0].nbytes >= x.nbytes]
    if current_device().traits.is_cpu:
        assert (stored, len(large)) == (([2], 3) if slow else ([1], 2)), str(graph)


def test_what_is_written_between_is_not_computed_again():
    def function(x, y, z):
        added = x - 1
        found = ops.softmax(added * y, axis=1), added
        x[...] = z
        return *found, ops.softmax(ops.tanh(added) * x, axis=1), ops.softmax(added + x, axis=1)

    shapes = ((200, 96),) * 3
    given, plain = arrays(*shapes), arrays(*shapes)
    for a, b in zip(cp.jit(function)(*given), function(*plain), strict=True):
        equal(a, b.get())


def test_what_does_not_fit_stays_apart():
    places = cp.Pointwise("y0 = x0 + index;")

    def function(x, y):
        halves = x.astype(np.float16)
        return (
            ops.softmax(places(x), axis=1),
            places(ops.softmax(y, axis=1)),
            ops.sum(halves, axis=1),
            ops.softmax(x * y[::2].repeat(2, axis=0), axis=1) + places(y),
        )

    check(function, arrays((200, 96), (200, 96)), None)


def test_what_is_overwritten_between_keeps_its_time():
    def function(x, y):
        added = x + y
        y[...] = 0
        return ops.softmax(added, axis=1)

    compiled, given, plain = cp.jit(function), *(arrays((200, 96), (200, 96)) for _ in range(2))
    equal(compiled(*given), function(*plain).get())
    equal(given[1], np.zeros((200, 96), np.float32))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "function", [residual, residual_again, scores, products, behind_softmax, behind_softmax_again]
)
def test_halves_are_not_rounded_between(function, dtype):
    given = arrays((200, 96), (200, 96), (96, 2))
    halves = [a.astype(dtype) for a in given]
    compiled = cp.jit(function)
    graph = compiled.graph(*halves)
    assert len(graph.nodes) == len(cp.jit(function).graph(*given).nodes), graph
    wide = as_tuple(function(*(a.astype(np.float32) for a in halves)))
    for a, b in zip(as_tuple(compiled(*halves)), wide, strict=True):
        assert a.dtype.name == dtype
        ulp = 2.0 ** (-10 if dtype == "float16" else -7)
        scale = np.abs(b.get()).max()
        np.testing.assert_allclose(a.astype(np.float32).get(), b.get(), rtol=ulp, atol=ulp * scale)


def test_conversions_run_in_groups():
    def function(x, y):
        found = ops.softmax(x.astype(np.float32), axis=1).astype(np.float16)
        return found, ops.sum(y, axis=0).astype(np.float16)

    x, y = arrays((200, 96), (200, 96))
    check(function, [x.astype(np.float16), y], 2)


def test_what_is_asked_to_be_rounded_is():
    def function(x):
        return ops.sum(x.astype(np.float16).astype(np.float32), axis=1)

    (x,) = arrays((200, 96))
    rounded = x.get().astype(np.float16).astype(np.float64).sum(1)
    np.testing.assert_allclose(cp.jit(function)(x).get(), rounded, rtol=1e-5, atol=1e-5)
