"""Reductions of `clprim.ops` against NumPy in float64, and PyTorch where it is installed."""

import numpy as np
import pytest
from support import BFLOAT16, DTYPES, VIEWS, numbers, pair, roundoff, same_bits, wide

import clprim as cp
from clprim import ops
from clprim.call.signature import Calls
from clprim.ops.reduction import extrema, reduce

NUMPY = {
    name: getattr(np, name)
    for name in "sum prod amax amin argmax argmin any all count_nonzero".split()
}
FORMATS = ["contiguous", "channels_last"]
AXES = [None, 0, -1, (2, 3), (0, 2, 3), (0, 1)]
# Compiling takes most of the time here: where one operator stands for its kin, it has all cases.
FEW_DTYPES = [np.dtype(t) for t in (bool, np.int8, np.uint64, np.float16)] + [BFLOAT16]
REALS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BFLOAT16]


def random(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def is_channels_last(array):
    _, c, h, w = array.shape
    size = array.dtype.itemsize
    return array.strides == (h * w * c * size, size, w * c * size, c * size)


# --- all of them against NumPy --------------------------------------------------------------------


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("name", NUMPY)
def test_exact_along_axes_in_both_formats(device, name, memory_format):
    host = numbers((3, 5, 4, 6), low=-2, high=3)
    x = cp.asarray(host, memory_format=memory_format)
    axes = {"amax": AXES, "argmax": [None, 0, 1, 2, 3], "argmin": [None, 1]}.get(name, [(0, 2, 3)])
    for axis in axes:
        expected = NUMPY[name](host.astype(np.float64), axis=axis)
        found = getattr(ops, name)(x, axis).get()
        assert found.shape == np.shape(expected)
        np.testing.assert_array_equal(found, expected, err_msg=f"axis={axis}")
    kept = getattr(ops, name)(x, 2, keepdims=True)
    assert kept.shape == (3, 5, 1, 6)
    assert is_channels_last(kept) == (memory_format == "channels_last")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for n in NUMPY for d in (DTYPES if n in ("amax", "argmax") else FEW_DTYPES)],
    ids=str,
)
def test_every_dtype(device, name, dtype):
    host = numbers((7, 12), dtype, **({"low": 1, "high": 3} if name == "prod" else {}))
    found = getattr(ops, name)(cp.asarray(host), 1)
    expected = NUMPY[name](wide(host), axis=1)
    kinds = NUMPY[name](np.ones((1, 1), np.float16 if dtype == BFLOAT16 else dtype), axis=1).dtype
    assert found.dtype == (dtype if kinds == np.float16 else kinds)
    np.testing.assert_array_equal(wide(found.get()), wide(expected))


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("name", ["sum", "mean", "prod"])
def test_elements_are_converted_to_the_dtype_given(device, name):
    torch = pytest.importorskip("torch")
    host = np.float32([[2.5, 1.7, -0.6], [3, -1.2, 1.9]])
    cases = [(host, np.float64), (host.astype(np.int32), np.float32)]
    cases += [] if name == "mean" else [(host, np.int32), (host.astype(np.int8), np.int16)]
    for given, dtype in cases:
        if dtype == np.float64 and not device.traits.fp64:
            continue
        kind = getattr(torch, np.dtype(dtype).name)
        expected = getattr(torch, name)(torch.from_numpy(given), 1, dtype=kind).numpy()
        found = getattr(ops, name)(cp.asarray(given), 1, dtype=dtype)
        assert found.dtype == dtype
        np.testing.assert_allclose(found.get(), expected, rtol=1e-6)
    with pytest.raises(cp.DTypeError, match="dtype=int32: expected floating"):
        ops.mean(cp.asarray(host), dtype=np.int32)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["amax", "argmax"])
def test_views(device, name, view):
    host, x = pair(numbers((6, 8, 10), low=0, high=4), VIEWS[view])
    for axis in (None, 0):
        expected = NUMPY[name](host, axis=axis)
        np.testing.assert_array_equal(getattr(ops, name)(x, axis).get(), expected)


@pytest.mark.parametrize("name", [*NUMPY, "mean", "logsumexp"])
def test_out_and_keepdims(device, name):
    x = cp.asarray(numbers((4, 9)))
    operator = getattr(ops, name)
    expected = operator(x, 1, keepdims=True)
    assert expected.shape == (4, 1)
    out = cp.empty((4, 1), expected.dtype)
    assert operator(x, axis=1, keepdims=True, out=out) is out
    assert same_bits(out, expected)
    with pytest.raises(cp.ShapeError):
        operator(x, axis=1, out=out)
    with pytest.raises(cp.ShapeError):
        operator(x, axis=2)
    with pytest.raises(cp.DTypeError):
        operator(x.get())


# --- nothing to reduce ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "prod", "any", "all", "count_nonzero"])
def test_of_nothing(device, name):
    host = np.zeros((3, 0, 2), np.float32)
    np.testing.assert_array_equal(
        getattr(ops, name)(cp.asarray(host), 1).get(), NUMPY[name](host, axis=1)
    )


def test_means_of_nothing_are_nan(device):
    x = cp.zeros((3, 0))
    assert np.isnan(ops.mean(x, 1).get()).all()
    assert all(np.isnan(r.get()).all() for r in ops.var_mean(x, 1))
    assert (ops.logsumexp(x, 1).get() == -np.inf).all()


@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin"])
def test_no_extreme_of_nothing(device, name):
    operator = getattr(ops, name)
    with pytest.raises(cp.ShapeError, match=r"\(3, 0\) has no elements along axis=1"):
        operator(cp.zeros((3, 0)), 1)
    with pytest.raises(cp.ShapeError):
        operator(cp.zeros((0, 3)))
    assert operator(cp.zeros((3, 0)), 0).shape == (0,)


# --- extrema --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin"])
def test_nan_wins_wherever_it_is(device, name):
    host = random((4, 1000)).astype(np.float32)
    host[0, 0] = host[1, 500] = host[1, 700] = host[2, 999] = np.nan
    host[3, 10], host[3, 20] = np.inf, -np.inf
    x = cp.asarray(host)
    np.testing.assert_array_equal(getattr(ops, name)(x, 1).get(), NUMPY[name](host, axis=1))
    np.testing.assert_array_equal(getattr(ops, name)(x).get(), NUMPY[name](host))


@pytest.mark.parametrize("value", [-np.inf, np.inf, 0.0])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_of_equals_the_first(device, name, value):
    x = cp.full((3, 5, 300), value, np.float32)
    for axis in (None, 0, 1, 2, (0, 2)):
        assert not getattr(ops, name)(x, axis).get().any()


@pytest.mark.parametrize("memory_format", FORMATS)
def test_of_equals_the_first_in_c_order(device, memory_format):
    host = numbers((2, 33, 9, 10), low=0, high=2)
    x = cp.asarray(host, memory_format=memory_format)
    assert ops.argmax(x).item() == host.argmax()
    expected = host.reshape(2, -1).argmax(axis=1)
    np.testing.assert_array_equal(ops.argmax(x, (1, 2, 3)).get(), expected)
    expected = host[:, :, ::-1].reshape(2, -1).argmin(axis=1)
    np.testing.assert_array_equal(ops.argmin(x[:, :, ::-1], (1, 2, 3)).get(), expected)


def test_extremes_of_extreme_integers(device):
    for dtype in (np.int32, np.int64, np.uint64):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        x = cp.asarray(np.array([[low, low, low], [high, high - 1, high], [low, high, 0]], dtype))
        np.testing.assert_array_equal(ops.amax(x, 1).get(), np.array([low, high, high], dtype))
        np.testing.assert_array_equal(ops.amin(x, 1).get(), np.array([low, high - 1, low], dtype))
        np.testing.assert_array_equal(ops.argmax(x, 1).get(), [0, 0, 1])
        np.testing.assert_array_equal(ops.argmin(x, 1).get(), [0, 1, 0])


# --- means and variances --------------------------------------------------------------------------


@pytest.mark.parametrize("memory_format", FORMATS)
def test_mean_and_variance_along_axes(device, memory_format):
    host = random((3, 5, 8, 9)).astype(np.float32)
    x = cp.asarray(host, memory_format=memory_format)
    exact = host.astype(np.float64)
    for axis in AXES:
        variance, mean = ops.var_mean(x, axis)
        terms = host.size // mean.size
        error = roundoff(np.float32, terms, np.abs(exact).mean(axis=axis))
        assert (np.abs(mean.get() - exact.mean(axis=axis)) <= 2 * error).all()
        assert (np.abs(ops.mean(x, axis).get() - exact.mean(axis=axis)) <= error).all()
        # Short sums are about their first element, here up to four deviations from the mean.
        check_variance(variance, exact, axis, terms, condition=1 + 4**2)
    for result in ops.var_mean(x, 1, keepdims=True):
        assert result.shape == (3, 1, 8, 9)


def check_variance(found, exact, axis=None, terms=1, *, condition=1.0, correction=1, unit=2.0**-24):
    """Errors of a chain of n additions are √n units, times what cancels (`ops.var_mean`)."""
    expected = exact.var(axis=axis, ddof=correction)
    error = (4 + 4 * np.sqrt(min(terms, 8192)) * condition) * unit
    np.testing.assert_allclose(found.get().astype(np.float64), expected, rtol=error, atol=0)


@pytest.mark.parametrize("dtype", [*FEW_DTYPES, *REALS[:2]], ids=str)
def test_mean_and_variance_of_every_dtype(device, dtype):
    host = numbers((6, 50), dtype)
    exact = wide(host).astype(np.float64)
    variance, mean = ops.var_mean(cp.asarray(host), 1, correction=0)
    result = np.dtype(np.float64) if dtype.kind in "biu" else dtype
    assert (variance.dtype, mean.dtype, ops.mean(cp.asarray(host)).dtype) == (result,) * 3
    unit = {"float16": 2.0**-11, BFLOAT16.name: 2.0**-8, "float32": 2.0**-23}.get(
        result.name, 1e-15
    )
    for found, expected in ((variance, exact.var(axis=1)), (mean, exact.mean(axis=1))):
        np.testing.assert_allclose(
            found.get().astype(np.float64), expected, rtol=8 * unit, atol=8 * unit
        )


@pytest.mark.parametrize("correction", [0, 1, 2.5, 3, 7])
def test_correction_is_that_of_torch(device, correction):
    torch = pytest.importorskip("torch")
    host = random((5, 3)).astype(np.float32)
    found = ops.var_mean(cp.asarray(host), 1, correction=correction)
    for mine, theirs in zip(
        found,
        torch.var_mean(torch.from_numpy(host).double(), 1, correction=correction)
        if correction <= 2.5
        else (torch.full((5,), torch.inf), torch.from_numpy(host).double().mean(1)),
        strict=True,
    ):
        np.testing.assert_allclose(mine.get(), theirs.numpy(), rtol=1e-6, atol=1e-7)


def test_variance_of_one_element(device):
    x = cp.full((4, 1), 3.0)
    assert np.isnan(ops.var_mean(x, 1)[0].get()).all()
    assert (ops.var_mean(x, 1, correction=0)[0].get() == 0).all()
    with pytest.raises(cp.DTypeError, match="correction"):
        ops.var_mean(x, correction="all")


@pytest.mark.parametrize("value", [0.0, 3.3, -1e30, 1e-30])
def test_constant_data_has_no_variance_at_all(device, value):
    for shape, axis in (((1_000_003,), None), ((3, 64, 50, 50), (0, 2, 3)), ((129, 65), 0)):
        x = cp.full(shape, value, np.float32)
        variance, mean = ops.var_mean(x, axis)
        assert (variance.get() == 0).all()
        assert (mean.get() == np.float32(value)).all()


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("mean", [1e4, 1e6])
def test_mean_far_above_the_deviation(device, memory_format, mean):
    host = (mean + random((4, 16, 64, 65))).astype(np.float32)
    variance, found = ops.var_mean(cp.asarray(host, memory_format=memory_format), (0, 2, 3))
    exact = host.astype(np.float64)
    # Moving the origin rounds it, by half a unit of the mean: relative to the deviation, squared.
    rounding = (mean * 2.0**-24) ** 2
    error = 4 * np.sqrt(4 * 64 * 65) * 2.0**-24 + rounding
    np.testing.assert_allclose(variance.get(), exact.var(axis=(0, 2, 3), ddof=1), rtol=error)
    np.testing.assert_allclose(found.get(), exact.mean(axis=(0, 2, 3)), rtol=2.0**-23)


@pytest.mark.parametrize("rest", ["noise", "constant"])
@pytest.mark.parametrize("at", ["first", "last"])
def test_an_outlier(device, rest, at):
    """The first element is where sums start from; a chain of n then cancels up to 1 + n / 64."""
    host = random((20_000, 24)) if rest == "noise" else np.ones((20_000, 24))
    host[0 if at == "first" else -1] = 1e6
    host = host.astype(np.float32)
    for axis, data in ((0, host), (1, np.ascontiguousarray(host.T))):
        variance, mean = ops.var_mean(cp.asarray(data), axis)
        exact = data.astype(np.float64)
        check_variance(variance, exact, axis, 8192, condition=1 + 8192 / 64)
        error = roundoff(np.float32, 8192, np.abs(exact).mean(axis=axis))
        assert (np.abs(mean.get() - exact.mean(axis=axis)) <= error).all()


def test_a_step_after_the_first_elements(device):
    host = np.where(np.arange(300_000) < 100, 1e6, random(300_000)).astype(np.float32)
    variance, _ = ops.var_mean(cp.asarray(host))
    check_variance(variance, host.astype(np.float64), None, 8192, condition=1 + 8192 / 64)


def test_ten_million_elements(device):
    host = random(10_000_000).astype(np.float32)
    for offset in (0, 1e4):
        data = host + np.float32(offset)
        exact = data.astype(np.float64)
        variance, mean = ops.var_mean(cp.asarray(data))
        check_variance(variance, exact, None, 8192)
        error = 2.0**-24 * (abs(exact.mean()) + 4 * np.sqrt(8192) * exact.std())
        assert abs(float(mean) - exact.mean()) <= error


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=str)
def test_variance_of_half_precision(device, dtype):
    host = (10 + random((8, 4000))).astype(dtype)
    exact = host.astype(np.float64)
    variance, mean = ops.var_mean(cp.asarray(host), 1)
    unit = 2.0**-11 if dtype == np.float16 else 2.0**-8
    check_variance(variance, exact, 1, 4000, unit=2.0**-24 + unit / 256)
    np.testing.assert_allclose(mean.get().astype(np.float64), exact.mean(axis=1), rtol=unit * 1.01)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_a_deviation_of_few_units_along_any_axis(device, axis):
    host = (1e4 + 1e-2 * random((5000, 300))).astype(np.float32)
    variance, _ = ops.var_mean(cp.asarray(host), axis)
    expected = host.astype(np.float64).var(axis=axis, ddof=1)
    np.testing.assert_allclose(variance.get(), expected, rtol=1e-6)


@pytest.mark.parametrize("places", [[0], [0, 50], [0, 50, 99], [99], [20]], ids=str)
def test_the_mean_beside_infinities_depends_on_no_order(device, places):
    host = np.ones((2, 100), np.float32)
    host[0, places] = np.inf
    for data, axis in ((host, 1), (np.ascontiguousarray(host.T), 0)):
        variance, mean = ops.var_mean(cp.asarray(data), axis)
        np.testing.assert_array_equal(mean.get(), [np.inf, 1])
        assert np.isnan(variance.get()[0])


def test_variance_knows_nan_and_infinity(device):
    host = np.ones((3, 100), np.float32)
    host[0, 50], host[1, 50] = np.nan, np.inf
    variance, mean = ops.var_mean(cp.asarray(host), 1)
    assert np.isnan(variance.get()[:2]).all()
    assert np.isnan(mean.get()[0])
    assert mean.get()[1] == np.inf
    assert (variance.get()[2], mean.get()[2]) == (0, 1)


def test_variance_into_given_memory(device):
    x = cp.asarray(random((5, 40)).astype(np.float32))
    out = cp.empty((5,)), cp.empty((5,))
    found = ops.var_mean(x, 1, out=out)
    assert found[0] is out[0] and found[1] is out[1]
    for mine, again in zip(out, ops.var_mean(x, 1), strict=True):
        assert same_bits(mine, again)


def test_schedules_of_other_devices_agree(traits):
    """Wherever partials end, merged lane by lane or in a tree, results are the same."""
    host = random((40, 33, 70)).astype(np.float32)
    host[0, 0, 0], host[3, 4, 5] = 1e6, -5000
    x = cp.asarray(host)
    Calls.forget()  # what was planned for the device as it is
    lse = cp.Reduction("", **reduce._LOGSUMEXP)
    position = extrema._position.__wrapped__("argmin", "highest", "LESS", False, host.dtype)
    exact = host.astype(np.float64)
    for axis in (2, (0, 1)) if traits.is_cpu else [(0, 1)]:
        check_variance(ops.var_mean(x, axis)[0], exact, axis, 2800, condition=1 + 2800 / 64)
        expected = np.logaddexp.reduce(exact, axis=axis)
        np.testing.assert_allclose(lse(x, axis=axis).get(), expected, rtol=1e-5)
        flat = host.reshape(-1, 70).argmin(0) if axis == (0, 1) else host.argmin(2)
        np.testing.assert_array_equal(position(x, axis=axis).get(), flat)


# --- logarithms of sums ---------------------------------------------------------------------------


@pytest.mark.parametrize("memory_format", FORMATS)
def test_logsumexp(device, memory_format):
    host = (100 * random((3, 5, 8, 40))).astype(np.float32)
    x = cp.asarray(host, memory_format=memory_format)
    for axis in (None, 1, 3, (2, 3)):
        expected = np.asarray(host.astype(np.float64))
        for a in sorted({None: (0, 1, 2, 3)}.get(axis, np.atleast_1d(axis)), reverse=True):
            expected = np.logaddexp.reduce(expected, axis=a)
        found = ops.logsumexp(x, axis).get()
        # The sum is right to some units a term, and its logarithm to as many absolute ones.
        error = 2.0**-23 * np.abs(expected) + 8 * 2.0**-24 * (host.size // found.size)
        assert (np.abs(found - expected) <= error).all()


def test_logsumexp_of_infinities(device):
    inf, nan = np.inf, np.nan
    rows = [
        [-inf] * 4,
        [-inf, 2, -inf, -inf],
        [1, inf, 2, inf],
        [-inf, inf, 0, 0],
        [0, nan, inf, 1],
    ]
    for width in (4, 100):
        host = np.array([row + [row[0]] * (width - 4) for row in rows], np.float32)
        found = ops.logsumexp(cp.asarray(host), 1).get()
        many = np.float32(np.log(width - 3)) if width > 4 else 0
        np.testing.assert_array_equal(found, [-inf, 2, inf, inf, nan], err_msg=f"{many}")


@pytest.mark.parametrize("dtype", [*REALS, np.dtype(np.int8), np.dtype(np.int64)], ids=str)
def test_logsumexp_of_dtypes(device, dtype):
    host = numbers((4, 30), dtype)
    found = ops.logsumexp(cp.asarray(host), 1)
    assert found.dtype == (np.float32 if dtype.kind == "i" else dtype)
    expected = np.logaddexp.reduce(host.astype(np.float64), axis=1)
    unit = {"float16": 2.0**-11, BFLOAT16.name: 2.0**-8, "float64": 2.0**-52}.get(
        dtype.name, 2**-21
    )
    np.testing.assert_allclose(found.get().astype(np.float64), expected, rtol=2 * unit)


# --- truth ----------------------------------------------------------------------------------------


def test_truth_of_nan(device):
    x = cp.asarray(np.array([[0, np.nan, 0], [1, np.nan, 1], [0, -0.0, 0]], np.float32))
    np.testing.assert_array_equal(ops.any(x, 1).get(), [True, True, False])
    np.testing.assert_array_equal(ops.all(x, 1).get(), [False, True, False])
    np.testing.assert_array_equal(ops.count_nonzero(x, 1).get(), [1, 3, 0])


def test_counts_beyond_what_a_float_counts(device):
    assert ops.count_nonzero(cp.full((1 << 24) + 1, 1, np.int8)).item() == (1 << 24) + 1


@pytest.mark.parametrize(
    "name", "sum mean prod count_nonzero var_mean amax amin argmax argmin logsumexp any all".split()
)
def test_dim_is_axis(device, name):
    x = cp.asarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 5)
    reduce = getattr(ops, name)
    for given in (1, (0, -1), None):
        by_dim, by_axis = reduce(x, dim=given, keepdims=True), reduce(x, given, keepdims=True)
        pairs = zip(*(r if isinstance(r, tuple) else (r,) for r in (by_dim, by_axis)), strict=True)
        for a, b in pairs:
            np.testing.assert_array_equal(a.get(), b.get())
    with pytest.raises(cp.ShapeError, match="are one argument"):
        reduce(x, 1, dim=1)


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_the_last_of_equal_elements(device, dtype):
    a = np.array([[3, 1, 3, 0], [0, 0, 0, 0], [-5, 2, -5, 2]], dtype)
    for name in ("argmax", "argmin"):
        last = [3 - getattr(np, name)(row[::-1]) for row in a]
        found = getattr(ops, name)(cp.asarray(a), 1, select_last=True)
        np.testing.assert_array_equal(found.get(), last)
        found = getattr(ops, name)(cp.asarray(np.tile(a, (1, 500)).T), 0, select_last=True)
        np.testing.assert_array_equal(found.get(), np.array(last) + 4 * 499)
    if dtype == np.float32:
        x = cp.asarray(np.float32([np.nan, 1, np.nan, -np.inf]))
        assert ops.argmax(x, select_last=True).item() == 2
        assert ops.argmin(cp.full((3,), np.inf), select_last=True).item() == 2
