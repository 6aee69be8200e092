"""Choices and combinations of several arrays against NumPy and PyTorch."""

import numpy as np
import pytest
from support import BFLOAT16, DTYPES, equal, numbers

import clprim as cp
from clprim import ops

NAN = np.array([1, np.nan, 3, np.nan, -np.inf], np.float32)
OTHER = np.array([2, 2, np.nan, np.nan, np.inf], np.float32)


# --- where ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_where_keeps_every_dtype(device, dtype):
    condition = numbers((4, 5), bool)
    a, b = numbers((4, 5), dtype, seed=1), numbers((5,), dtype, seed=2)
    found = ops.where(cp.asarray(condition), cp.asarray(a), cp.asarray(b))
    equal(found, np.where(condition, a, b), dtype)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float32"])
def test_the_condition_is_not_promoted(device, dtype):
    condition = numbers((9,), dtype, low=0, high=2)
    x = numbers((9,), np.float16)
    found = ops.where(cp.asarray(condition), cp.asarray(x), 0)
    equal(found, np.where(condition, x, np.float16(0)), np.float16)
    equal(ops.where(cp.asarray(condition), 1000, -1), np.where(condition, 1000, -1), np.int64)


def test_where_of_numbers(device):
    condition = numbers((3, 4), bool)
    c = cp.asarray(condition)
    equal(ops.where(c, 1.5, 2), np.where(condition, 1.5, 2), np.float32)
    equal(ops.where(c, 1, 2.5), np.where(condition, 1, 2.5), np.float32)
    equal(ops.where(c, True, 2), np.where(condition, 1, 2), np.int64)
    equal(ops.where(c, 1.5, 2.0), np.where(condition, 1.5, 2.0), np.float32)
    equal(ops.where(c, True, False), condition, np.bool_)
    x = numbers((3, 4), np.int16)
    equal(ops.where(c, -7, cp.asarray(x)), np.where(condition, np.int16(-7), x), np.int16)
    equal(ops.where(c, cp.asarray(x), 0.5), np.where(condition, x, 0.5), np.float64)
    with pytest.raises(cp.DTypeError, match="out of bounds"):
        ops.where(c, cp.asarray(x), 1 << 20)
    with pytest.raises(cp.DTypeError, match="condition"):
        ops.where(True, cp.asarray(x), 0)
    with pytest.raises(cp.DTypeError, match="expected a number"):
        ops.where(c, cp.asarray(x), "0")


def test_where_broadcasts_and_keeps_the_memory_format(device):
    host = numbers((2, 3, 4, 5))
    x = cp.asarray(host, memory_format="channels_last")
    mask = numbers((4, 1), bool)
    found = ops.where(cp.asarray(mask), x, 0)
    equal(found, np.where(mask, host, 0))
    assert found.strides == x.strides
    assert ops.where(x > 0, x, 0, out=x) is x
    equal(x, np.where(host > 0, host, 0))


def test_where_hides_nan(device):
    condition = cp.asarray(np.isnan(NAN))
    equal(ops.where(condition, 0, cp.asarray(NAN)), np.nan_to_num(NAN, neginf=-np.inf))


# --- clamp, maximum, minimum ----------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(-2, 3), (None, 1.5), (-1.5, None), (3, -2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_clamp_to_numbers(device, bounds, dtype):
    host = numbers((50,), dtype)
    low, high = bounds
    expected = host
    if low is not None:
        expected = np.maximum(expected, low)
    if high is not None:
        expected = np.minimum(expected, high)
    equal(ops.clamp(cp.asarray(host), low, high), expected, expected.dtype)


def test_clamp_to_arrays(device):
    host, low = numbers((2, 3, 4, 5)), numbers((3, 1, 1), low=-5, high=0)
    high = numbers((5,), low=0, high=5, seed=3)
    x = cp.asarray(host, memory_format="channels_last")
    equal(ops.clamp(x, cp.asarray(low), cp.asarray(high)), host.clip(low, high))
    equal(ops.clamp(x, min=cp.asarray(low)), np.maximum(host, low))
    found = ops.clamp(x, cp.asarray(low), max=1)
    equal(found, np.minimum(np.maximum(host, low), 1))
    assert found.strides == x.strides


def test_clamp_and_nan(device):
    x = cp.asarray(NAN)
    np.testing.assert_array_equal(ops.clamp(x, -1, 2).get(), [1, np.nan, 2, np.nan, -1])
    assert np.isnan(ops.clamp(cp.asarray(OTHER), min=float("nan")).get()).all()
    with pytest.raises(cp.DefinitionError, match="min, max"):
        ops.clamp(x)
    with pytest.raises(cp.DTypeError):
        ops.clamp(x, "0")


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_choices(device, name):
    reference, operator = getattr(np, name), getattr(ops, name)
    equal(operator(cp.asarray(NAN), cp.asarray(OTHER)), reference(NAN, OTHER), np.float32)
    equal(operator(cp.asarray(NAN), 2), reference(NAN, np.float32(2)), np.float32)
    equal(operator(2, cp.asarray(NAN)), reference(NAN, np.float32(2)), np.float32)
    equal(operator(cp.asarray(NAN), np.nan), reference(NAN, np.float32(np.nan)), np.float32)
    a, b = numbers((3, 4), np.int32), numbers((4,), np.uint32, seed=1)
    equal(operator(cp.asarray(a), cp.asarray(b)), reference(a, b), np.int64)
    out = cp.zeros((5,))
    assert operator(cp.asarray(NAN), 0, out=out) is out
    with pytest.raises(cp.DTypeError):
        operator(1, 2)


# --- combinations ---------------------------------------------------------------------------------


def test_addcmul_and_addcdiv(device):
    x, a, b = (numbers((2, 3, 4, 5), seed=s, low=1, high=9) for s in range(3))
    device_arrays = [cp.asarray(v, memory_format="channels_last") for v in (x, a, b)]
    found = ops.addcmul(*device_arrays, value=0.5)
    equal(found, x + np.float32(0.5) * a * b, np.float32)
    assert found.strides == device_arrays[0].strides
    found = ops.addcdiv(*device_arrays, value=2).get()
    np.testing.assert_allclose(found, x + 2 * a.astype(np.float64) / b, rtol=2.0**-22)
    whole = [cp.asarray(v.astype(np.int32)) for v in (x, a, b)]
    equal(ops.addcmul(*whole, value=3), x + 3 * a * b, np.int32)
    with pytest.raises(cp.DTypeError, match="floats"):
        ops.addcdiv(*whole)


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64), BFLOAT16], ids=str)
def test_lerp(device, dtype):
    a, b = numbers((40,), dtype), numbers((40,), dtype, seed=1)
    x, y = cp.asarray(a), cp.asarray(b)
    equal(ops.lerp(x, y, 0), a, dtype)
    equal(ops.lerp(x, y, 1.0), b, dtype)
    equal(ops.lerp(x, y, 0.25), a.astype(float) + 0.25 * (b.astype(float) - a), dtype)
    weight = (numbers((40,), low=0, high=5) / 4).astype(dtype)
    expected = a.astype(float) + weight.astype(float) * (b.astype(float) - a)
    equal(ops.lerp(x, y, cp.asarray(weight)), expected, dtype)


def test_lerp_of_integers(device):
    a, b, weight = (cp.asarray(np.int32(v)) for v in ([1, 2, 3], [5, 9, 1], [0, 1, 0]))
    equal(ops.lerp(a, b, weight), [1.0, 9.0, 3.0], np.float32)


def test_lerp_meets_its_end_exactly(device):
    torch = pytest.importorskip("torch")
    a, b = np.float32([1e8, 3.3]), np.float32([1.1, -7.7])
    for weight in (0.0, 0.3, 0.7, 1.0):
        found = ops.lerp(cp.asarray(a), cp.asarray(b), weight).get()
        expected = torch.lerp(torch.from_numpy(a), torch.from_numpy(b), weight).numpy()
        # What cancels is as exact as its terms; PyTorch may fuse other operations.
        assert (np.abs(found - expected) <= 2.0**-21 * np.maximum(abs(a), abs(b))).all()
    assert (found == b).all()
