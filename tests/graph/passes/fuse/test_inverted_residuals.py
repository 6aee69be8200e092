"""Depthwise convolutions with 1 × 1 ones around them are one kernel where weights are constants."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.runtime.device import current_device

pytestmark = pytest.mark.usefixtures("device")

WEIGHTS = ("a", "b", "c", "d", "e", "f")


def arrays(n=2, channels=16, middle=48, outputs=16, size=9, kernel=3, dtype=np.float32):
    rng = np.random.default_rng(3)
    shapes = [
        (n, size, size + 1, channels),
        *((middle, channels, 1, 1), (middle,), (middle, 1, kernel, kernel), (middle,)),
        *((outputs, middle, 1, 1), (outputs,)),
    ]
    x, *weights = (cp.asarray(rng.uniform(-1, 1, s).astype(dtype)) for s in shapes)
    return [x.transpose(0, 3, 1, 2), *weights]


def block(x, a, b, c, d, e, f, *, stride=1, first=ops.relu6, second=ops.relu6, last=None):
    padding = (c.shape[2] // 2, c.shape[3] // 2)
    y = first(ops.conv2d(x, a, b))
    y = second(ops.conv2d(y, c, d, stride=stride, padding=padding, groups=c.shape[0]))
    y = ops.conv2d(y, e, f)
    return y if last is None else last(y, x)


def check(function, given, kernels=None):
    compiled = cp.jit(function, constants=WEIGHTS)
    names = [node.primitive.what for node in compiled.graph(*given).nodes]
    if kernels is not None and current_device().traits.is_cpu:
        assert names == kernels
    exact = function(*(a.astype(np.float64) for a in given)).get()
    atol = 3e-6 * np.abs(exact).max()
    for _ in range(2):
        np.testing.assert_allclose(compiled(*given).get(), exact, rtol=1e-5, atol=atol)
    return names


def same(y):
    return y


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ({}, {"last": lambda y, x: y + x}),
        ({"outputs": 24, "kernel": 5}, {"stride": 2, "first": ops.hardswish}),
        ({"size": 6}, {"second": same, "last": lambda y, _: ops.relu(y)}),
        ({"middle": 40, "n": 1}, {"first": same, "second": ops.silu}),
        ({}, {"last": lambda y, x: ops.relu(y + 2 * x) * 3}),
        ({}, {"first": lambda y: ops.clamp(y, -0.25, 1e-3), "second": same}),
    ],
)
def test_they_are_one_kernel(sizes, options):
    def function(x, a, b, c, d, e, f):
        return block(x, a, b, c, d, e, f, **options)

    check(function, arrays(**sizes), ["inverted_residual"])


def test_blocks_one_behind_another():
    def function(x, a, b, c, d, e, f):
        y = block(x, a, b, c, d, e, f, last=lambda y, x: y + x)
        return block(y, a, b, c, d, e, f, last=lambda y, x: y + x)

    check(function, arrays(), ["inverted_residual"] * 2)


def test_what_others_read_stays():
    def function(x, a, b, c, d, e, f):
        y = ops.relu(ops.conv2d(x, a, b))
        z = ops.conv2d(y, c, d, padding=1, groups=c.shape[0])
        return ops.conv2d(z, e, f), y

    given = arrays()
    compiled = cp.jit(function, constants=WEIGHTS)
    first, second = compiled(*given)
    for found, wanted in zip((first, second), function(*given), strict=True):
        np.testing.assert_allclose(found.get(), wanted.get(), rtol=1e-5, atol=1e-5)


def test_large_weights_stay_three_kernels():
    given = arrays(n=1, channels=64, middle=1200, outputs=64, size=4)
    names = check(block, given)
    assert names == ["conv2d"] * 3 or current_device().traits.l2_bytes > 2**22


def test_contiguous_images_stay_three_kernels():
    given = arrays()
    given[0] = cp.asarray(np.ascontiguousarray(given[0].get()))
    check(block, given)


def test_weights_that_are_no_constants_are_read_at_each_call():
    given = arrays()
    compiled = cp.jit(block)
    compiled(*given)
    given[1][:] = 0
    np.testing.assert_allclose(compiled(*given).get(), block(*given).get(), rtol=1e-5, atol=1e-5)


def middle_bytes(given):
    x, a = given[:2]
    return x.shape[0] * a.shape[0] * x.shape[2] * x.shape[3] * x.dtype.itemsize


@pytest.mark.parametrize(
    "sizes", [{}, {"middle": 40, "size": 80, "n": 17}, {"size": 60, "n": 25, "kernel": 5}]
)
@pytest.mark.parametrize("stride", [1, 2])
def test_blocks_need_no_last_convolution(sizes, stride):
    def function(x, a, b, c, d):
        y = ops.silu(ops.conv2d(x, a, b))
        padding = (c.shape[2] // 2, c.shape[3] // 2)
        y = ops.conv2d(y, c, d, stride=stride, padding=padding, groups=c.shape[0])
        return ops.relu6(y)

    given = arrays(**sizes)[:5]
    compiled = cp.jit(function, constants=("a", "b", "c", "d"))
    names = [node.primitive.what for node in compiled.graph(*given).nodes]
    # Where what lies between stays in caches, two kernels are faster.
    traits = current_device().traits
    if traits.is_cpu:
        large = middle_bytes(given) > (traits.cores or traits.compute_units) * traits.l2_bytes
        assert names == (["inverted_residual"] if large else ["conv2d", "conv2d"])
    exact = function(*(a.astype(np.float64) for a in given)).get()
    atol = 3e-6 * np.abs(exact).max()
    np.testing.assert_allclose(compiled(*given).get(), exact, rtol=1e-5, atol=atol)
