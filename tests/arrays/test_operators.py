"""Operators of arrays where C leaves open what a result is, or settles it otherwise than NumPy."""

import operator

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim import DTypeError

COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
LEAST = {t: np.iinfo(t).min for t in (np.int8, np.int16, np.int32, np.int64)}


def same(result, expected):
    """Equal to the bit, but for the bits of NaN."""
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result.get(), expected)
    if expected.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(result.get()), np.signbit(expected))


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("signed", [np.int8, np.int64], ids=lambda t: t.__name__)
def test_unsigned_and_negative_numbers_compare_as_numbers(device, signed):
    # 64 bits without a sign beside a sign: no integer holds both, and C calls -1 the greatest.
    a = np.array([0, 1, 2**63, 2**64 - 1, 5, 127], np.uint64)
    b = np.array([-1, 1, LEAST[signed], -1, 6, 127], signed)
    x, y = cp.asarray(a), cp.asarray(b)
    for op in COMPARISONS:
        equal(op(x, y), op(a, b))
        equal(op(y, x), op(b, a))


@pytest.mark.usefixtures("unoptimised")
def test_numbers_out_of_bounds_compare_as_numbers(device):
    a = np.array([0, 1, 2**64 - 1], np.uint64)
    b = np.array([-128, 127], np.int8)
    for op in COMPARISONS:
        equal(op(cp.asarray(a), -1), op(a, -1))
        equal(op(cp.asarray(b), 300), op(b, 300))
    equal(cp.asarray(a) > np.int64(-1), a > np.int64(-1))
    equal(cp.asarray(b) < np.uint64(5), b < np.uint64(5))


@pytest.mark.usefixtures("unoptimised")
def test_large_integers_compare_with_floats_as_numbers(device):
    if not device.traits.fp64:
        pytest.skip("NumPy compares in float64, which the device lacks")
    a = np.array([2**24 + 1, 2**24, -(2**24) - 1], np.int32)
    b = np.array([2**24, 2**24, -(2**24)], np.float32)
    for op in COMPARISONS:
        equal(op(cp.asarray(a), cp.asarray(b)), op(a, b))


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("dtype", LEAST, ids=lambda t: t.__name__)
def test_the_least_integer_by_minus_one(device, dtype):
    a = np.array([LEAST[dtype], LEAST[dtype], 5, -5, LEAST[dtype], 0], dtype)
    b = np.array([-1, 3, -1, 2, 0, -1], dtype)
    x, y = cp.asarray(a), cp.asarray(b)
    with np.errstate(all="ignore"):
        same(x % y, a % b)
        same(x // y, a // b)
        same(x % -1, a % dtype(-1))
        same(x // -1, a // dtype(-1))


@pytest.mark.usefixtures("unoptimised")
def test_unsigned_division(device):
    a = np.array([5, 255, 254, 0, 7], np.uint8)
    b = np.array([255, 255, 255, 0, 0], np.uint8)
    with np.errstate(all="ignore"):
        same(cp.asarray(a) % cp.asarray(b), a % b)
        same(cp.asarray(a) // cp.asarray(b), a // b)


@pytest.mark.usefixtures("unoptimised")
def test_float_division_at_zero_and_infinity(device):
    inf, nan = np.inf, np.nan
    values = [1, -1, 0.0, -0.0, inf, -inf, nan, 5, -5, 7.5, -1e-30, 1e30]
    a, b = (v.ravel() for v in np.meshgrid(np.float32(values), np.float32(values)))
    x, y = cp.asarray(a), cp.asarray(b)
    with np.errstate(all="ignore"):
        whole, rest = a // b, a % b
    found = (x // y).get()
    np.testing.assert_array_equal(found, whole)
    np.testing.assert_array_equal(np.signbit(found)[whole == 0], np.signbit(whole)[whole == 0])
    np.testing.assert_allclose((x % y).get(), rest, rtol=1e-6)


@pytest.mark.usefixtures("unoptimised")
def test_negative_powers_of_integers(device):
    # PyTorch's: what is whole of them.
    a = cp.asarray(np.array([0, 1, -1, -1, 2, -3, 3], np.int32))
    e = cp.asarray(np.array([-1, -2, -3, -2, -1, -1, 3], np.int32))
    equal(a**e, [0, 1, -1, 1, 0, 0, 27], np.int32)
    with pytest.raises(DTypeError, match="a negative power is no integer"):
        a**-1


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64], ids=lambda t: t.__name__
)
@pytest.mark.usefixtures("unoptimised")
def test_shifts_by_all_bits_and_more(device, dtype):
    bits = 8 * np.dtype(dtype).itemsize
    counts = [0, 1, bits - 1, bits, bits + 1, 100, *([-1] if np.dtype(dtype).kind == "i" else ())]
    values = [1, 5, 100, *([-7, LEAST[dtype]] if np.dtype(dtype).kind == "i" else (2**bits - 1,))]
    a, b = (v.ravel() for v in np.meshgrid(np.array(values, dtype), np.array(counts, dtype)))
    a, b = np.tile(a, 4), np.tile(b, 4)  # whole vectors
    x, y = cp.asarray(a), cp.asarray(b)
    same(x << y, a << b)
    same(x >> y, a >> b)
    same(x << 100, a << dtype(100))
    same(x >> 100, a >> dtype(100))
