"""Order, search and places where values are infinite, NaN, or of other dtypes than their line."""

import itertools

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim import ops

INF, NAN = np.inf, np.nan


def array(values, dtype="f4"):
    return cp.asarray(np.array(values, dtype))


def between(values, q, how):
    """A quantile of numbers in order, an infinity being farther than all."""
    line = np.sort(np.float64(values))
    place = q * (len(line) - 1)
    at = int(place)
    low, high, part = line[at], line[min(at + 1, len(line) - 1)], place - at
    if how == "nearest":
        return high if part > 0.5 or (part == 0.5 and at % 2) else low
    if not part or how == "lower":
        return low
    part = 0.5 if how == "midpoint" else part
    with np.errstate(invalid="ignore"):
        return high if how == "higher" else low * (1 - part) + high * part


@pytest.mark.parametrize("how", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_of_infinities(device, how):
    for values in itertools.product([-INF, -2, 3, INF, 3e38, -3e38], repeat=3):
        for q in (0, 0.25, 0.5, 1):
            expected = np.float32(between(np.float32(values), q, how))
            for quantile in (ops.quantile, ops.nanquantile):
                found = quantile(array(values), q, interpolation=how).get()
                np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=str((values, q)))


def test_medians_of_infinities(device):
    for values in ([1, 2, INF], [INF, INF, 1, 2], [-INF, INF], [-INF, -INF, 1]):
        with np.errstate(invalid="ignore"):
            expected = np.float32(np.median(values))
        np.testing.assert_array_equal(cp.median(array(values)).get(), expected)


DTYPES = "bool int8 uint32 int64 uint64 float32 float64".split()
INTEGERS = [
    0,
    1,
    2,
    100,
    -1,
    -2,
    2**24 + 1,
    2**31,
    2**53 + 1,
    2**62 + 1,
    2**63 - 1,
    2**63,
    -(2**63),
]
REALS = [
    0.5,
    -0.5,
    1,
    2.5,
    -1.5,
    2.0**24,
    2.0**53,
    2.0**63,
    2.0**64,
    -(2.0**63),
    1e30,
    INF,
    -INF,
    NAN,
]


def values_of(dtype, rng, count):
    if dtype == "bool":
        return rng.random(count) < 0.5
    if dtype[:5] == "float":
        with np.errstate(over="ignore"):
            return rng.choice(REALS, count).astype(dtype)
    info = np.iinfo(dtype)
    known = [n for n in [*INTEGERS, info.max, info.min] if info.min <= n <= info.max]
    return np.array([known[n] for n in rng.integers(0, len(known), count)], dtype)


def exact(value):
    """A number as one that compares by value with all others, NaN behind them."""
    return (1, 0) if value != value else (0, value.item())


@pytest.mark.parametrize("of", DTYPES)
def test_search_and_membership_go_by_value(device, of, unoptimised):
    rng = np.random.default_rng(DTYPES.index(of))
    for line_of in DTYPES:
        line, wanted = np.sort(values_of(line_of, rng, 9)), values_of(of, rng, 17)
        known = [exact(v) for v in line]
        a, b = cp.asarray(line), cp.asarray(wanted)
        left = [sum(k < exact(v) for k in known) for v in wanted]
        right = [sum(k <= exact(v) for k in known) for v in wanted]
        equal(cp.searchsorted(a, b), np.array(left))
        equal(cp.searchsorted(a, b, side="right"), np.array(right))
        there = np.array([v == v and exact(v) in known for v in wanted])
        equal(cp.isin(b, a), there)
        equal(cp.isin(b, a, invert=True), ~there)


def test_what_the_host_gives_is_not_cut(device):
    equal(cp.isin(array([1, 2, 3], "i8"), 2.5), np.zeros(3, bool))
    equal(cp.isin(array([1, 2, 3], "u1"), [1, 259]), np.array([True, False, False]))
    equal(cp.isin(array([1, 2, 3]), array([1, NAN])), np.array([True, False, False]))
    equal(cp.searchsorted(array([1, 3, 5], "i8"), 3.5), np.array(2))
    equal(cp.searchsorted(array([1, NAN, NAN]), [NAN, 2]), np.array([1, 1]))
    equal(cp.searchsorted(array([1, NAN]), array([NAN]), side="right"), np.array([2]))


def test_unique_merges_nan_as_numpy_does(device):
    x = np.float32([NAN, 1, NAN, -0.0, 0.0, INF, 1])
    values, inverse, counts = cp.unique(cp.asarray(x), return_inverse=True, return_counts=True)
    expected = np.unique(x, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(values.get(), expected[0])
    equal(inverse, expected[1])
    equal(counts, expected[2])
    assert cp.unique(cp.asarray(x), equal_nan=False).size == 5
    assert cp.unique_values(cp.asarray(x)).size == ops.unique(cp.asarray(x)).size == 5


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("points", [7, 3000])
def test_nearest_names_every_point_once(device, points, k):
    rng = np.random.default_rng(k)
    y = rng.integers(-3, 4, (points, 2)).astype(np.float32)
    y[rng.random((points, 2)) < 0.5] = NAN
    y[rng.random((points, 2)) < 0.3] = INF
    x = np.float32([[0, 0], [1, -2], [INF, 0], [NAN, 0]])
    with np.errstate(invalid="ignore"):
        apart = np.sqrt(((x[:, None] - y) ** 2).sum(-1))
    order = np.stack([np.lexsort((np.nan_to_num(row, posinf=INF), row != row)) for row in apart])
    distances, indices = ops.nearest(cp.asarray(x), cp.asarray(y), k)
    equal(indices, order[:, :k])
    expected = np.take_along_axis(apart, order[:, :k], 1)
    np.testing.assert_allclose(distances.get(), expected, rtol=1e-6)


def test_take_refuses_places_out_of_range(device):
    x = array([[1, 2, 3], [4, 5, 6]])
    equal(cp.take(x, [[-6, 5]]), np.float32([[1, 6]]))
    equal(cp.take(x, -1, axis=1), np.float32([3, 6]))
    for place, axis in (([6], None), (-7, None), ([0, 2], 0), (np.array([3]), 1)):
        with pytest.raises(cp.ClprimError, match="out of bounds"):
            cp.take(x, place, axis=axis)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_integers_are_rounded_to_tens(device, dtype):
    info = np.iinfo(dtype)
    known = [0, 4, 5, 15, 25, 44, 45, 95, 105, 114, *([-5, -15, -25, -104] if info.min else [150])]
    x = np.array(known, dtype)
    for decimals in (-1, -2, -3, -19, -20, 0, 1):
        equal(cp.round(cp.asarray(x), decimals), np.round(x, decimals).astype(dtype))


def test_floats_are_rounded_to_tens_exactly(device):
    x = array([31, 15, 25, -25, 5, INF], "f8" if device.traits.fp64 else "f4")
    equal(cp.round(x, -1), np.round(x.get(), -1))


def test_bounds_that_no_integer_passes_bound_nothing(device):
    x = array([0, 7, 200, 255], "u1")
    for least, greatest in ((-1, 300), (5, 1000), (-5, None), (-(2**70), 9)):
        equal(cp.clip(x, least, greatest), np.clip(x.get(), least, greatest))
    for least, greatest in ((300, None), (None, -1)):
        with pytest.raises(cp.ClprimError):
            cp.clip(x, least, greatest)
