"""Images between nodes lie as is cheapest; what is given and returned stays as it is."""

from dataclasses import replace

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.graph.passes.layout.layout_assignment import layout_assignment
from clprim.graph.text import kind_text
from clprim.graph.trace import traced
from clprim.runtime.device import current_device

pytestmark = pytest.mark.usefixtures("device")


def arrays(*shapes, last=False):
    rng = np.random.default_rng(3)
    found = [cp.asarray(rng.standard_normal(s).astype(np.float32)) for s in shapes]
    return [ops.contiguous(a, memory_format="channels_last") for a in found] if last else found


def check(function, given, converted):
    """Compares a compiled function with the function; `converted` says how images lie."""
    compiled = cp.jit(function)
    found, wanted = compiled(*given), function(*given)
    assert found.strides == wanted.strides
    np.testing.assert_allclose(found.get(), wanted.get(), rtol=1e-4, atol=1e-4)
    if current_device().traits.is_cpu:
        nodes = compiled.graph(*given).nodes
        kinds = ["channels_last" in kind_text(node.writes[0]) for node in nodes]
        assert kinds == converted, compiled.graph(*given)


def layers(x, *weights):
    for w in weights:
        x = ops.relu(ops.conv2d(x, w, padding=w.shape[2] // 2))
    return x


def test_a_network_of_contiguous_images_is_channels_last_inside():
    def net(x, *weights):
        return ops.mean(layers(x, *weights), axis=(2, 3))

    shapes = (2, 3, 12, 14), (16, 3, 3, 3), *[(16, 16, 1, 1)] * 8
    check(net, arrays(*shapes), [True] * 9 + [False])


def test_rows_are_channels_last_between_convolutions():
    def net(x, *weights):
        for w in weights:
            x = ops.relu(ops.conv1d(x, w, padding=w.shape[2] // 2))
        return ops.mean(x, axis=2)

    given = arrays((2, 3, 40), (16, 3, 3), *[(16, 16, 3)] * 8)
    compiled = cp.jit(net)
    x, *weights = (a.get().astype(np.float64) for a in given)
    for w in weights:
        padded = np.pad(x, [(0, 0), (0, 0), (1, 1)])
        seen = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=2)
        x = np.maximum(np.einsum("nclk,ock->nol", seen, w), 0)
    scale = np.abs(x.mean(2)).max()
    np.testing.assert_allclose(compiled(*given).get(), x.mean(2), rtol=1e-4, atol=1e-4 * scale)
    if current_device().traits.is_cpu:
        rows = [node.writes[0] for node in compiled.graph(*given).nodes[:9]]
        assert all(y.strides[1] == y.dtype.itemsize for y in rows), compiled.graph(*given)


def test_what_is_returned_stays_contiguous():
    shapes = (2, 16, 12, 14), (16, 16, 3, 3)
    check(layers, arrays(*shapes), [False])


def test_images_of_channels_last_stay():
    def net(x, *weights):
        return ops.mean(layers(x, *weights), axis=(2, 3))

    shapes = (2, 3, 12, 14), (16, 3, 3, 3), (32, 16, 1, 1)
    check(net, arrays(*shapes, last=True), [True, True, False])


def test_positions_are_those_of_the_shape():
    turned = cp.Pointwise("y0 = at_x0(coord(0), coord(1), coord(3), coord(2)) + index;")

    def net(x, *weights):
        return ops.mean(turned(layers(x, *weights), shape=(2, 16, 6, 6)), axis=(2, 3))

    shapes = (2, 8, 6, 6), (16, 8, 3, 3), (32, 16, 1, 1), (16, 32, 1, 1)
    compiled, given = cp.jit(net), arrays(*shapes)
    np.testing.assert_allclose(compiled(*given).get(), net(*given).get(), rtol=1e-4)


def test_reshaped_images_stay():
    def net(x, w):
        y = ops.relu(ops.conv2d(x, w))
        return ops.softmax(y.reshape(2, -1), 1)

    check(net, arrays((2, 8, 6, 6), (8, 8, 1, 1)), [False, False])


def test_joined_images_change_together():
    def net(x, a, b, c):
        y = ops.relu(ops.conv2d(x, a, padding=1))
        z = ops.cat([ops.conv2d(y, b), y], 1)
        return ops.mean(ops.conv2d(ops.max_pool2d(z, 2), c), axis=(2, 3))

    shapes = (2, 3, 12, 14), (16, 3, 3, 3), (16, 16, 1, 1), (16, 32, 3, 3)
    compiled, given = cp.jit(net), arrays(*shapes)
    np.testing.assert_allclose(compiled(*given).get(), net(*given).get(), rtol=1e-3, atol=1e-4)


def test_a_convolution_is_trained_beside_its_optimizer():
    def step(x, w, v):
        y = ops.softmax(ops.relu(ops.conv2d(x, w, padding=1)), 1)
        ops.optim.sgd([w, v], [ops.mean(y) * w, v * 0.5], lr=0.5)
        return ops.mean(ops.conv2d(y, v), axis=(2, 3))

    given, other = (arrays((2, 3, 6, 7), (3, 3, 3, 3), (3, 3, 3, 3)) for _ in range(2))
    np.testing.assert_allclose(cp.jit(step)(*given).get(), step(*other).get(), rtol=1e-4)
    for a, b in zip(given, other, strict=True):
        np.testing.assert_allclose(a.get(), b.get(), rtol=1e-4, atol=1e-5)


def test_group_norms_follow_images_that_a_program_converts():
    """A block of a diffusion network's: what it makes contiguous lies as its neighbours do."""

    def net(x, a, b, weight, bias):
        y = ops.conv2d(x, a, padding=1)
        y = ops.group_norm(ops.contiguous(y), 4, weight, bias)
        y = ops.conv2d(ops.silu(y), b)
        return ops.mean(y, axis=(2, 3))

    images = arrays((2, 8, 6, 7), (16, 8, 3, 3), (8, 16, 1, 1), last=True)
    check(net, [*images, *arrays((16,), (16,))], [True, False, True, False])


def test_what_is_copied_into_a_joined_image_follows_it():
    """A block of a U-Net: a skip of the other format, and norms and products of pixels as rows."""

    def net(x, a, b, weight, c, d):
        y = ops.conv2d(ops.contiguous(ops.conv2d(x, a)), b)
        rows = y.reshape(2, 8, 42).transpose(0, 2, 1)
        rows = ops.layer_norm(rows, (8,), return_stats=True)[0]
        z = ops.matmul(rows, weight).transpose(0, 2, 1).reshape(2, 8, 6, 7)
        z = ops.cat([ops.contiguous(z), x], 1)
        y = ops.conv2d(ops.group_norm(z, 4), c) + ops.conv2d(z, d)
        return ops.mean(y, axis=(2, 3))

    images = arrays((2, 8, 6, 7), (8, 8, 1, 1), (8, 8, 1, 1), last=True)
    given = [*images, *arrays((8, 8), (8, 16, 1, 1), (8, 16, 1, 1))]
    compiled = cp.jit(net)
    np.testing.assert_allclose(compiled(*given).get(), net(*given).get(), rtol=1e-3, atol=1e-4)
    if current_device().traits.is_cpu:
        for node in compiled.graph(*given).nodes:
            images = [o for o in (*node.writes, *node.reads) if o.shape[2:] == (6, 7)]
            assert all(o.strides[1] == o.dtype.itemsize for o in images), node


def lie_alike(graph, shape):
    """Checks that all images of a shape, whole or some channels of them, are channels-last."""
    if current_device().traits.is_cpu:
        for node in graph.nodes:
            for o in (*node.writes, *node.reads):
                if o.ndim == 4 and o.shape[2:] == shape and 0 not in o.strides:
                    assert o.strides[1] < o.strides[3], (node, o)


def test_gradients_of_convolutions_follow_the_images():
    """A mean's gradient lies in C order, and with it what it is handed on to."""

    def gradients(x, y, w, v, slope):
        dy = cp.Pointwise("y0 = x0;")(slope, shape=y.shape) * y
        dv = ops.conv2d_weight(y, v.shape, dy, padding=1)
        dy = ops.conv2d_input(y.shape, v, dy, padding=1) * y
        return dv, ops.conv2d_weight(x, w.shape, dy), ops.mean(ops.conv2d_input(x.shape, w, dy))

    images = arrays((2, 4, 6, 7), (2, 8, 6, 7), last=True)
    given = [*images, *arrays((8, 4, 1, 1), (8, 8, 3, 3), (2, 8, 1, 1))]
    compiled = cp.jit(gradients)
    for found, wanted in zip(compiled(*given), gradients(*given), strict=True):
        assert found.strides == wanted.strides
        np.testing.assert_allclose(found.get(), wanted.get(), rtol=1e-3, atol=1e-4)
    lie_alike(compiled.graph(*given), (6, 7))


def test_channels_are_shuffled_where_they_lie():
    def net(x, a, b):
        y = ops.conv2d(x, a)
        y = ops.contiguous(y.reshape(2, 2, 8, 6, 7).transpose(0, 2, 1, 3, 4)).reshape(y.shape)
        return ops.mean(ops.conv2d(y[:, :8], b) * y[:, 8:], axis=(2, 3))

    given = [*arrays((2, 8, 6, 7), last=True), *arrays((16, 8, 1, 1), (8, 8, 1, 1))]
    compiled = cp.jit(net)
    np.testing.assert_allclose(compiled(*given).get(), net(*given).get(), rtol=1e-3, atol=1e-4)
    lie_alike(compiled.graph(*given), (6, 7))


def test_pixels_as_rows_stay_rows():
    """What a convolution sees through a turned view is channels-last as it is."""

    def net(x, a, b):
        y = ops.layer_norm(ops.conv2d(x, a).transpose(0, 2, 3, 1), (8,), return_stats=True)[0]
        return ops.mean(ops.conv2d(y.transpose(0, 3, 1, 2), b), axis=(2, 3))

    given = [*arrays((2, 8, 6, 7), last=True), *arrays((8, 8, 1, 1), (4, 8, 3, 3))]
    compiled = cp.jit(net)
    np.testing.assert_allclose(compiled(*given).get(), net(*given).get(), rtol=1e-3, atol=1e-4)
    for node in compiled.graph(*given).nodes:
        for o in (*node.writes, *node.reads):
            assert o.shape != (2, 6, 7, 8) or o.strides[3] == o.dtype.itemsize, node


def test_free_outputs_follow():
    def net(x, a, b):
        y = ops.relu(ops.contiguous(ops.conv2d(x, a)))
        return ops.mean(ops.conv2d(y, b), axis=(2, 3)), y

    given = [*arrays((2, 8, 6, 7), (8, 8, 1, 1), (8, 8, 1, 1), last=True)]
    _, graph, _ = traced("net", lambda: net(*given), given)
    device = current_device()
    kept, moved = (
        layout_assignment(replace(graph, free=frozenset(free)), device).outputs
        for free in ((), (1,))
    )
    assert kept == graph.outputs
    assert moved[0] == graph.outputs[0]
    if device.traits.is_cpu:
        assert moved[1].strides == given[0].strides


def test_halves_are_channels_last_where_units_convolve_them(units):
    def net(x, *weights):
        return ops.mean(layers(x, *weights), axis=(2, 3))

    shapes = (2, 3, 12, 14), (16, 3, 3, 3), *[(16, 16, 3, 3)] * 3
    floats = arrays(*shapes)
    given = [a.astype(np.float16) for a in floats]
    for unit in ((), ("mma.sync/m16n8k16/float16/32",)):
        units(*unit, is_cpu=False)
        compiled = cp.jit(net)
        for arguments, last in ((given, bool(unit)), (floats, False)):
            nodes = compiled.graph(*arguments).nodes
            kinds = ["channels_last" in kind_text(node.writes[0]) for node in nodes]
            assert kinds == [last] * 4 + [False], compiled.graph(*arguments)
    wanted = net(*(a.astype(np.float32) for a in given)).get()
    found = compiled(*given).astype(np.float32).get()
    np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-2 * abs(wanted).max())
