"""Statistics whose squares do not fit where the results do, beside NumPy in float64."""

import numpy as np
import pytest
from support import BFLOAT16

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")


@pytest.fixture
def doubles(device):
    """A device that adds squares of float32 up in float64."""
    if not (device.traits.is_cpu and device.traits.fp64):
        pytest.skip("squares are added up in float32")
    return device


LARGE = [
    [1e20, 2e20],
    [1e19, 2e19, 3e19, 4e19],
    [1e-30, 2e-30],
    [3e38, -3e38, 1e38],
    [1e-44, 3e-44],
    [1.0, 1.0, 1e30, 1.0, 1.0, 1.0],
]


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("values", LARGE, ids=str)
def test_deviations_of_the_largest_and_the_least_numbers(doubles, values):
    host = np.float32([values, values[::-1]])
    exact = host.astype(np.float64)
    for axis in (None, 1):
        found = ops.std(cp.asarray(host), axis).get()
        np.testing.assert_allclose(found, exact.std(axis, ddof=1), rtol=3e-7, atol=1e-45)
    deviation, mean = ops.std_mean(cp.asarray(host), 1, correction=0)
    np.testing.assert_allclose(deviation.get(), exact.std(1), rtol=3e-7, atol=1e-45)
    np.testing.assert_allclose(mean.get(), exact.mean(1), rtol=1e-6, atol=1e-45)
    variance = ops.var(cp.asarray(host), 1).get()
    with np.errstate(over="ignore", under="ignore"):
        expected = exact.var(1, ddof=1).astype(np.float32)
    np.testing.assert_allclose(variance, expected, rtol=3e-7, atol=1e-45)


def test_no_variance_is_minus_zero(device):
    for values in ([1e-30, 2e-30], [1e-25, 1e-25, 3e-25], [7, 7], [0, 0, 0]):
        x = cp.asarray(np.float32(values))
        for found in (ops.var(x), ops.std(x), *ops.batch_norm_stats(x.reshape(1, 1, 1, -1))):
            assert not np.signbit(found.get()).any()


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16], ids=str)
def test_variances_that_overflow_16_bits_are_no_step_of_a_deviation(device, dtype):
    host = np.array([[400, -400, 600], [3e4, -3e4, 2e4]], np.float32).astype(dtype)
    x, exact = cp.asarray(host), host.astype(np.float64)

    def close(found, expected):
        assert found.dtype == dtype
        wide = found.get().astype(np.float64)
        np.testing.assert_allclose(wide, expected, rtol=2.0 ** -(11 if dtype == np.float16 else 8))

    close(ops.std(x, 1), exact.std(1, ddof=1))
    close(ops.std(x), exact.std(ddof=1))
    deviation, mean = ops.std_mean(x, 1, keepdims=True)
    close(deviation, exact.std(1, ddof=1, keepdims=True))
    close(mean, exact.mean(1, keepdims=True))
    close(cp.std(x, axis=0), exact.std(0))
    close(ops.corrcoef(x), np.corrcoef(exact))
    close(ops.cov(x / 200), np.cov((x / 200).get().astype(np.float64)))
    out = cp.empty((2,), dtype)
    assert ops.std(x, 1, out=out) is out
    close(out, exact.std(1, ddof=1))
