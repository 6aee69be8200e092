"""What public reports ask of means, variances, softmax and the order of NaN."""

import numpy as np
import pytest
from support import BFLOAT16

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
import clprim.torch as ct  # noqa: E402

HALVES = [np.float16, BFLOAT16]


def both(host, call, reference):
    """A result by `clprim.ops` and on the PyTorch device, which are the same."""
    x = cp.asarray(host)
    found = call(x).get().astype(np.float64)
    np.testing.assert_array_equal(reference(ct.tensor(x)).double().cpu().numpy(), found)
    return found


def test_logarithms_of_softmax_along_a_middle_axis_are_finite(device):
    host = np.random.default_rng(0).uniform(-20260, -19740, (18, 1, 2, 2, 21, 2))
    host = host.astype(np.float16)
    found = both(host, lambda x: ops.log_softmax(x, 2), lambda t: t.log_softmax(2))
    wide = host.astype(np.float64)
    exact = wide - np.logaddexp.reduce(wide, axis=2, keepdims=True)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, exact, rtol=2**-11 * 1.01, atol=2**-24)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_softmax_of_equal_numbers_is_uniform_and_leaves_them(device, dtype):
    host = np.full((1, 64, 12416), 0.0598, dtype)
    x = cp.asarray(host)
    np.testing.assert_allclose(ops.softmax(x, -1).get(), 1 / 12416, rtol=1e-3)
    np.testing.assert_array_equal(x.get(), host)


@pytest.mark.parametrize("size", [257, 512, 4096])
def test_sums_of_many_ones_in_bfloat16_do_not_stick(device, size):
    host = np.ones((2, size), BFLOAT16)
    share = float(np.float32(1 / size).astype(BFLOAT16))
    assert (both(host, lambda x: ops.softmax(x, 1), lambda t: t.softmax(1)) == share).all()
    assert (both(host, lambda x: ops.mean(x, 1), lambda t: t.mean(1)) == 1).all()
    total = float(np.float32(size).astype(BFLOAT16))
    assert (both(host, lambda x: ops.sum(x, 1), lambda t: t.sum(1)) == total).all()
    logs = both(host, lambda x: ops.log_softmax(x, 1), lambda t: t.log_softmax(1))
    np.testing.assert_allclose(logs, -np.log(size), rtol=2**-8)


def test_logarithms_of_sums_of_infinities(device):
    a = np.float32([-np.inf, np.inf, 1, np.inf, 0])
    b = np.float32([-np.inf, np.inf, np.inf, 2, -np.inf])
    found = both(a, lambda x: ops.logaddexp(x, cp.asarray(b)),
                 lambda t: torch.logaddexp(t, torch.tensor(b, device="opencl")))  # fmt: skip
    assert found.tolist() == [-np.inf, np.inf, np.inf, np.inf, 0]
    x = torch.tensor(a[2:], device="opencl", requires_grad=True)
    y = torch.tensor(b[2:], device="opencl", requires_grad=True)
    torch.logaddexp(x, y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([0, 1, 1], [1, 0, 0])
    rows = torch.full((2, 3), -np.inf, device="opencl", requires_grad=True)
    logs = torch.logsumexp(rows, 1)
    logs.sum().backward()
    assert logs.tolist() == [-np.inf] * 2 and not rows.grad.any()
    assert np.isnan(ops.softmax(cp.asarray(a[:1]), 0).get()).all()


def test_a_sum_of_ten_thousand_uniforms_in_bfloat16_is_rounded_once(device):
    host = np.random.default_rng(1).random(10000).astype(BFLOAT16)
    found = both(host, ops.sum, torch.sum)
    assert found == np.float64(np.float32(host.astype(np.float64).sum()).astype(BFLOAT16))


def test_means_of_float16_whose_sums_overflow_it(device):
    assert both(np.ones(100_000, np.float16), ops.mean, torch.mean) == 1
    host = np.full(3, 40000, np.float16)
    assert both(host, ops.mean, torch.mean) == 40000
    assert both(host, ops.var, torch.var) == 0


def test_a_mean_is_a_sum_by_a_count_and_beside_a_variance_it_is_not(device):
    x = cp.asarray(np.float32([3e38] * 3))
    assert np.isinf(ops.mean(x).get())  # as NumPy's and PyTorch's: the sum overflows
    variance, mean = ops.var_mean(x)
    assert variance.get() == 0 and mean.get() == np.float32(3e38)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16, np.float64], ids=str)
def test_nans_of_either_sign_come_last(device, dtype):
    if dtype == np.float64 and not device.traits.fp64:
        pytest.skip("the device has no float64")
    host = np.array([1, np.nan, -np.nan, 2, -np.inf, np.inf], dtype)
    host[2] = np.copysign(host[2], -1)
    values, places = ops.sort(cp.asarray(host), stable=True)
    assert places.get().tolist() == [4, 0, 3, 5, 1, 2]
    assert np.isnan(values.get().astype(np.float32)).tolist() == [False] * 4 + [True] * 2
    top = ops.topk(cp.asarray(host), 3)[0].get().astype(np.float32)
    assert np.isnan(top[:2]).all() and top[2] == np.inf
    there = torch.tensor(host.astype(np.float32), device="opencl").sort(stable=True)[1]
    assert there.tolist() == [4, 0, 3, 5, 1, 2]


@pytest.mark.parametrize("correction", [0, 1])
def test_variances_of_ranges_in_bfloat16(device, correction):
    host = np.arange(60).reshape(3, 4, 5).astype(BFLOAT16)
    exact = host.astype(np.float64)
    for axis in (None, 0, (1, 2)):
        for name in ("var", "std"):
            found = both(
                host,
                lambda x, n=name, a=axis: getattr(ops, n)(x, a, correction=correction),
                lambda t, n=name, a=axis: getattr(torch, n)(t, a, correction=correction),
            )
            expected = getattr(np, name)(exact, axis=axis, ddof=correction)
            np.testing.assert_allclose(found, expected, rtol=2**-8)
