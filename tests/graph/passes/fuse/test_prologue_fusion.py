"""Elementwise operators run where a convolution of pixels reads, where that changes nothing."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops
from clprim.runtime.device import current_device

pytestmark = pytest.mark.usefixtures("device")


def arrays(*shapes, last=True, dtype=np.float32):
    found = [cp.asarray(numbers(s, seed=n).astype(dtype)) for n, s in enumerate(shapes)]
    if last:
        found[0] = found[0].transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2)
    return found


def norm(x, w, mean, scale, shift):
    return ops.conv2d(ops.relu(ops.batch_norm(x, mean, scale, scale, shift)), w)


def gated(x, w, gate):
    return ops.conv2d(x * gate, w)


def kernels(compiled, *given):
    return [node.primitive.what for node in compiled.graph(*given).nodes]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [(2, 40, 7, 9), (3, 17, 2, 5), (1, 256, 14, 14)])
def test_a_norm_goes_into_the_convolution(size, dtype):
    channels = size[1]
    shapes = size, (24, channels, 1, 1), (channels,), (channels,), (channels,)
    given = arrays(*shapes, dtype=dtype)
    given[3] = ops.square(given[3]) + 1
    compiled = cp.jit(norm, constants=("w", "mean", "scale", "shift"))
    if current_device().traits.is_cpu:
        assert kernels(compiled, *given) == ["conv2d"]
    equal(compiled(*given), norm(*given).get())


@pytest.mark.parametrize("size", [(2, 40, 7, 9), (3, 16, 12, 5)])
def test_a_gate_goes_into_the_convolution(size):
    given = arrays(size, (24, size[1], 1, 1), (*size[:2], 1, 1))
    compiled = cp.jit(gated, constants=("w",))
    if current_device().traits.is_cpu:
        assert kernels(compiled, *given) == ["conv2d"]
    equal(compiled(*given), gated(*given).get())


@pytest.mark.parametrize(("operator", "size"), [(ops.conv1d, (9,)), (ops.conv3d, (2, 3, 5))])
def test_a_norm_goes_into_convolutions_of_rows_and_volumes(operator, size):
    def layer(x, w, mean, scale, shift):
        return operator(ops.relu(ops.batch_norm(x, mean, scale, scale, shift)), w)

    x, w, mean, scale, shift = arrays(
        (2, *size, 40), (24, 40, *[1] * len(size)), (40,), (40,), (40,), last=False
    )
    x = x.transpose(0, x.ndim - 1, *range(1, x.ndim - 1))
    given = x, w, mean, ops.square(scale) + 1, shift
    compiled = cp.jit(layer, constants=("w", "mean", "scale", "shift"))
    if current_device().traits.is_cpu:
        assert [node.primitive.kind for node in compiled.graph(*given).nodes] == ["conv"]
    equal(compiled(*given), layer(*given).get())
    column = (1, -1, *[1] * len(size))
    a, m, v, b = (t.get().astype(np.float64) for t in (x, *given[2:]))
    m, v, b = (t.reshape(column) for t in (m, v, b))
    seen = np.maximum((a - m) / np.sqrt(v + 1e-5) * v + b, 0)
    expected = np.einsum("nc...,oc->no...", seen, w.get().reshape(24, 40).astype(np.float64))
    np.testing.assert_allclose(compiled(*given).get(), expected, rtol=1e-4, atol=1e-3)


def test_it_reads_a_part_of_channels_with_a_stride_and_stores():
    def function(x, w, shift, y):
        part = x[:, 8:40] + shift
        return ops.relu(ops.conv2d(ops.relu(part), w, stride=2) + y)

    given = arrays((2, 48, 9, 8), (16, 32, 1, 1), (32, 1, 1), (2, 16, 5, 4))
    compiled = cp.jit(function, constants=("w", "shift"))
    if current_device().traits.is_cpu:
        assert kernels(compiled, *given) == ["conv2d"]
    equal(compiled(*given), function(*given).get())


def test_what_others_read_and_larger_windows_stay():
    def several(x, w, shift):
        y = ops.relu(x + shift)
        return ops.conv2d(y, w), y

    def wide(x, w, shift):
        return ops.conv2d(ops.relu(x + shift), w, padding=1)

    x, w, shift, w3 = arrays((2, 16, 6, 6), (8, 16, 1, 1), (16, 1, 1), (8, 16, 3, 3))
    for function, weight in ((several, w), (wide, w3)):
        compiled = cp.jit(function, constants=("w", "shift"))
        assert len(kernels(compiled, x, weight, shift)) == 2
        found, expected = compiled(x, weight, shift), function(x, weight, shift)
        found, expected = (r if isinstance(r, tuple) else (r,) for r in (found, expected))
        for a, b in zip(found, expected, strict=True):
            equal(a, b.get())


def test_infinities_and_nan_are_what_they_were():
    x, w, shift = arrays((1, 32, 5, 7), (16, 32, 1, 1), (32, 1, 1))
    host = x.get()
    host[0, 3, 2, 2], host[0, 4, 1, 1], host[0, 5, 0, 0] = np.nan, np.inf, -0.0
    x[...] = cp.asarray(host)

    def function(x, w, shift):
        return ops.conv2d(ops.relu(x * shift), w)

    equal(cp.jit(function, constants=("w", "shift"))(x, w, shift), function(x, w, shift).get())


def test_it_is_saved(tmp_path):
    given = arrays((2, 40, 7, 9), (24, 40, 1, 1), (40,), (40,), (40,))
    given[3] = ops.square(given[3]) + 1
    compiled = cp.jit(norm, constants=("w", "mean", "scale", "shift"))
    compiled.graph(*given).save(tmp_path / "net.clprim")
    found = cp.Graph.load(tmp_path / "net.clprim")(given[0])
    equal(found, compiled(*given).get())
