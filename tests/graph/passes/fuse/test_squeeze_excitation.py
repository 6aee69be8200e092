"""Squeeze and excitation is one kernel where it is one of constants, and what it was elsewhere."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.runtime.device import current_device

pytestmark = pytest.mark.usefixtures("device")


def arrays(channels=40, rows=6, planes=(6, 5), images=3, dtype=np.float32, last=False):
    rng = np.random.default_rng(1)
    shapes = (images, channels, *planes), (rows, channels, 1, 1), (rows,), (channels, rows, 1, 1)
    found = [cp.asarray(rng.standard_normal(s).astype(dtype)) for s in (*shapes, (channels,))]
    if last:
        found[0] = found[0].transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2)
    return found


def squeeze(x, w1, b1, w2, b2):
    mean = ops.mean(x, axis=(2, 3), keepdims=True)
    gate = ops.sigmoid(ops.conv2d(ops.silu(ops.conv2d(mean, w1, b1)), w2, b2))
    return x * gate


def expected(*given):
    x, w1, b1, w2, b2 = (a.get().astype(np.float64) for a in given)
    between = x.mean((2, 3)) @ w1[:, :, 0, 0].T + b1
    between = between / (1 + np.exp(-between))
    return x / (1 + np.exp(-(between @ w2[:, :, 0, 0].T + b2)))[:, :, None, None]


def compiled(function=squeeze):
    return cp.jit(function, constants=("w1", "b1", "w2", "b2"))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "sizes", [{}, {"channels": 16, "rows": 1, "planes": (2, 1)}, {"planes": (37, 41), "rows": 17}]
)
def test_it_is_one_kernel_and_a_product(sizes, dtype, last):
    given, function = arrays(dtype=dtype, last=last, **sizes), compiled()
    names = [node.primitive.what for node in function.graph(*given).nodes]
    if current_device().traits.is_cpu:
        assert names[0] == "gate", names
        assert len(names) == 2, names
    tolerance = 2e-6 if dtype == np.float32 else 1e-13
    for _ in range(2):
        np.testing.assert_allclose(
            function(*given).get(), expected(*given), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize(("operator", "planes"), [(ops.conv1d, (30,)), (ops.conv3d, (2, 3, 5))])
def test_rows_and_volumes_are_gated_by_one_kernel_too(operator, planes):
    def squeeze(x, w1, b1, w2, b2):
        mean = ops.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)
        return x * ops.sigmoid(operator(ops.silu(operator(mean, w1, b1)), w2, b2))

    images = arrays(planes=(6, 5))
    ones = (1,) * len(planes)
    x, w1, b1, w2, b2 = images
    given = x.reshape(3, 40, *planes), w1.reshape(6, 40, *ones), b1, w2.reshape(40, 6, *ones), b2
    function = compiled(squeeze)
    names = [node.primitive.what for node in function.graph(*given).nodes]
    if current_device().traits.is_cpu:
        assert names[0] == "gate", names
        assert len(names) == 2, names
    wanted = expected(*images).reshape(3, 40, *planes)
    np.testing.assert_allclose(function(*given).get(), wanted, rtol=2e-6, atol=2e-6)


def test_no_activations_are_needed():
    def plain(x, w1, b1, w2, b2):
        mean = ops.mean(x, axis=(2, 3), keepdims=True)
        return ops.conv2d(ops.conv2d(mean, w1, b1), w2, b2)

    given = arrays()
    np.testing.assert_allclose(compiled(plain)(*given).get(), plain(*given).get(), rtol=1e-4)


def test_a_mean_that_others_read_stays():
    def both(x, w1, b1, w2, b2):
        mean = ops.mean(x, axis=(2, 3), keepdims=True)
        return ops.conv2d(ops.relu(ops.conv2d(mean, w1, b1)), w2, b2), mean

    given = arrays()
    function = compiled(both)
    assert "mean" in [node.primitive.what for node in function.graph(*given).nodes]
    for a, b in zip(function(*given), both(*given), strict=True):
        np.testing.assert_allclose(a.get(), b.get(), rtol=1e-4, atol=1e-5)


def test_weights_that_change_stay_apart():
    given = arrays()
    names = [node.primitive.what for node in cp.jit(squeeze).graph(*given).nodes]
    assert "gate" not in names


def test_it_is_saved(tmp_path):
    given, function = arrays(), compiled()
    function.graph(*given).save(tmp_path / "net.clprim")
    found = cp.Graph.load(tmp_path / "net.clprim")(given[0])
    np.testing.assert_array_equal(found.get(), function(*given).get())
