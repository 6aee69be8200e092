"""Every dtype stored, calculated with and promoted as in NumPy; sixteen-bit floats bit by bit."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from support import BFLOAT16, DTYPES, FLOATS, INTEGERS, equal, numbers, wide

import clprim as cp
from clprim import dtypes
from clprim.errors import DTypeError
from clprim.traits import DeviceTraits

ADD = cp.Pointwise("y0 = x0 + x1;")
COPY = cp.Pointwise("y0 = x0;")
SUM_AND_MAX = cp.Reduction(
    "y0 = x0; y1 = x0;",
    init="reduce_y0 = 0; reduce_y1 = lowest_reduce_y1;",
    step="reduce_y0 += y0; reduce_y1 = max(reduce_y1, y1);",
)
pytestmark = pytest.mark.optimised
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)


# --- promotion, without a device --------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"), [*itertools.combinations_with_replacement(DTYPES[:-1], 2)], ids=lambda d: d.name
)
def test_promotion_is_numpys(a, b):
    assert dtypes.promote([a, b]) == dtypes.promote([b, a]) == np.result_type(a, b)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (np.bool_, BFLOAT16),
        (np.int8, BFLOAT16),
        (np.uint8, BFLOAT16),
        (np.int16, np.float32),
        (np.int32, np.float64),
        (np.float16, np.float32),
        (BFLOAT16, BFLOAT16),
        (np.float32, np.float32),
        (np.float64, np.float64),
    ],
    ids=str,
)
def test_bfloat16_promotes_as_float16_does(other, expected):
    for given in ([BFLOAT16, np.dtype(other)], [np.dtype(other), BFLOAT16]):
        assert dtypes.promote(given) == expected


@pytest.mark.parametrize(
    "dtype",
    [
        *("clongdouble", "O", "S3", "U3", "M8[s]", "m8[s]", "V4", "longdouble"),
        *(">f4", ">i8", [("a", "f4")]),
        ml_dtypes.float8_e5m2,
        ml_dtypes.int4,
    ],
    ids=str,
)
def test_what_no_kernel_can_store_is_refused(dtype):
    with pytest.raises(DTypeError, match=r"is not supported; supported are bool, int8, .* float64"):
        dtypes.as_dtype(dtype)


@pytest.mark.parametrize("dtype", ["nonsense", 5, pytest.param(object(), id="object")], ids=str)
def test_what_is_no_dtype_is_refused(dtype):
    with pytest.raises(DTypeError, match="is not a dtype"):
        dtypes.as_dtype(dtype)


@each_dtype
def test_every_way_to_name_a_dtype(dtype):
    for name in (dtype, dtype.type, dtype.name):
        assert dtypes.as_dtype(name) == dtype
    stored = dtypes.stored_type(dtype)
    assert (stored.name, stored.size) == (dtype.name, dtype.itemsize)


def test_a_device_without_double_refuses_only_double():
    lacking = DeviceTraits(fp64=False)
    dtypes.require_supported([d for d in DTYPES if d != np.float64], lacking, "it")
    with pytest.raises(DTypeError, match="float64 is not supported by it: it lacks cl_khr_fp64"):
        dtypes.require_supported([np.dtype(np.float64)], lacking, "it")


@pytest.mark.parametrize(
    ("value", "arrays", "expected"),
    [
        (2, np.int8, np.int8),
        (2, np.float16, np.float16),
        (2, np.bool_, np.int64),
        (2, None, np.int64),
        (2.0, np.float32, np.float32),
        (2.0, BFLOAT16, BFLOAT16),
        (2.0, np.int8, np.float64),
        (True, np.int8, np.int8),
        (True, None, np.bool_),
        (np.float64(2), np.float32, np.float64),
        (np.int8(2), np.float32, np.int8),
    ],
    ids=str,
)
def test_scalars_adapt_as_in_numpy(value, arrays, expected):
    arrays = None if arrays is None else np.dtype(arrays)
    assert dtypes.scalar_dtype(value, arrays) == expected


@pytest.mark.parametrize(("value", "dtype"), [(300, "uint8"), (-1, "uint8"), (2**31, "int32")])
def test_an_int_that_does_not_fit_is_refused(value, dtype):
    with pytest.raises(DTypeError, match=f"the scalar {value} is out of bounds for {dtype}"):
        dtypes.scalar_dtype(value, np.dtype(dtype))


@pytest.mark.parametrize("value", ["1", None, [1], np.array(1), np.clongdouble(1)], ids=str)
def test_a_scalar_that_is_no_number_is_refused(value):
    with pytest.raises(DTypeError):
        dtypes.scalar_dtype(value, np.dtype(np.float32))


# --- on devices -------------------------------------------------------------------------------


@each_dtype
def test_every_dtype_is_added(device, dtype):
    a, b = numbers((3, 21), dtype, 1), numbers((3, 21), dtype, 2)
    expected = a + b if dtype.kind == "b" else wide(a) + wide(b)
    equal(ADD(cp.asarray(a), cp.asarray(b)), expected, dtype)


@each_dtype
def test_every_dtype_is_reduced(device, dtype):
    a = numbers((5, 37), dtype)
    sums = np.zeros(1, dtype).sum().dtype if dtype != BFLOAT16 else BFLOAT16
    for axis in (0, 1):
        s, m = SUM_AND_MAX(cp.asarray(a), axis=axis)
        equal(s, wide(a).sum(axis), sums)
        equal(m, wide(a).max(axis), dtype)


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
def test_integers_keep_all_their_bits_and_wrap(device, dtype):
    bounds = np.iinfo(dtype)
    a = np.array([bounds.min, bounds.min + 1, bounds.max - 1, bounds.max], dtype)
    equal(COPY(cp.asarray(a)), a, dtype)
    with np.errstate(over="ignore"):
        equal(ADD(cp.asarray(a), cp.asarray(a)), a + a, dtype)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("int8", "uint8"),
        ("int32", "uint32"),
        ("uint8", "int64"),
        ("bool", "int16"),
        ("float32", "int16"),
        ("float32", "int32"),
        ("float16", "float32"),
        ("float64", "bool"),
        ("float16", "int8"),
    ],
)
def test_mixed_dtypes(device, a, b):
    x, y = numbers(33, a, 1), numbers(33, b, 2)
    equal(ADD(cp.asarray(x), cp.asarray(y)), x + y, np.result_type(a, b))
    equal(ADD(cp.asarray(y), cp.asarray(x)), x + y, np.result_type(a, b))


def test_bfloat16_next_to_others(device):
    x = numbers(33, BFLOAT16, 1)
    for other, expected in (("float16", "float32"), ("int8", BFLOAT16), ("float64", "float64")):
        y = numbers(33, other, 2)
        equal(ADD(cp.asarray(x), cp.asarray(y)), wide(x) + wide(y), expected)


def test_signed_next_to_unsigned_keeps_its_sign(device):
    a, b = np.array([-5, 5], np.int32), np.array([3, 4294967295], np.uint32)
    equal(ADD(cp.asarray(a), cp.asarray(b)), [-2, 4294967300], np.int64)
    less = cp.Pointwise("y0 = x0 < x1;", result_type=bool)
    equal(less(cp.asarray(a), cp.asarray(b)), [True, True])


def test_integers_stay_integers_next_to_floats(device):
    shift = cp.Pointwise("y0 = (x0 >> 1) * x1 + x0 % 3;")
    a, b = np.arange(10, dtype=np.int16), numbers(10, np.float32)
    equal(shift(cp.asarray(a), cp.asarray(b)), (a >> 1) * b + a % 3, np.float32)


def test_double_next_to_float_is_double(device):
    third = cp.Pointwise("y0 = x0 + x1 / 3.0;")
    a, b = np.zeros(4, np.float64), np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(third(cp.asarray(a), cp.asarray(b)).get(), b / np.float64(3))


def test_bool_holds_truth_alone(device):
    truth = cp.Pointwise("y0 = x0;", result_type=bool)
    a = np.array([0, 1, 2, -3, 256], np.int32)
    result = truth(cp.asarray(a))
    assert result.get().view(np.uint8).tolist() == [0, 1, 1, 1, 1]
    odd = cp.asarray(np.array([0, 1, 2, 255], np.uint8).view(bool))
    equal(ADD(odd, odd), [0, 1, 1, 1], bool)
    count = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    assert int(count(odd)) == 3


# --- sixteen bits -----------------------------------------------------------------------------

PATTERNS = np.arange(1 << 16, dtype=np.uint16)
TO_FLOAT = cp.Pointwise("y0 = x0;", result_type=np.float32)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=lambda d: d.name)
@pytest.mark.parametrize("step", [1, 2])
def test_every_pattern_is_read(device, dtype, step):
    a = PATTERNS.view(dtype)
    found = TO_FLOAT(cp.asarray(a)[::step]).get()
    np.testing.assert_array_equal(found, a[::step].astype(np.float32))  # NaN equals NaN here


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=lambda d: d.name)
@pytest.mark.parametrize("step", [1, 2])
def test_every_pattern_is_written_as_it_was(device, dtype, step):
    a = PATTERNS.view(dtype)
    found = COPY(cp.asarray(a)[::step]).get()
    number = ~np.isnan(a.astype(np.float32))[::step]
    np.testing.assert_array_equal(found.view(np.uint16)[number], PATTERNS[::step][number])
    assert np.isnan(found.astype(np.float32)[~number]).all()


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=lambda d: d.name)
@pytest.mark.parametrize("step", [1, 2])
def test_floats_are_rounded_to_nearest_even(device, dtype, step):
    rng = np.random.default_rng(0)
    # Neighbours, the middles between them, and what lies just beside a middle.
    exact = PATTERNS.view(dtype).astype(np.float32)
    exact = np.sort(exact[np.isfinite(exact)])
    middle = (exact[:-1].astype(np.float64) + exact[1:]) / 2
    picked = rng.choice(middle, 4000, replace=False).astype(np.float32)
    bits = rng.integers(0, 1 << 32, 4000, np.uint32).view(np.float32)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.99, 65520, 1e-8, 3e38])
    beside = [np.nextafter(picked, np.float32(s)) for s in (np.inf, -np.inf)]
    values = np.concatenate([picked, *beside, bits, special.astype(np.float32)])
    if dtype == np.float16:
        with np.errstate(over="ignore"):
            expected = values.astype(np.float16)
    else:
        with np.errstate(all="ignore"):
            expected = values.astype(dtype)
    narrow = cp.Pointwise("y0 = x0;", result_type=dtype)
    found = narrow(cp.asarray(values)[::step]).get()
    expected = expected[::step]
    number = ~np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(found.view(np.uint16)[number], expected.view(np.uint16)[number])
    assert np.isnan(found.astype(np.float32)[~number]).all()


@pytest.mark.parametrize("narrow", ["int8", "uint16", "int32", "bool"])
def test_conversions_to_narrow_integers_are_those_of_the_docs(device, narrow):
    # Of integers the low bits; of floating values what is left without the fraction, where that
    # fits; and where it does not, what saturates.
    dtype = np.dtype(narrow)
    near = [0, 1, -1, 44, 127, 128, -128, -129, 255, 256, 300, -300, 65535, 2**31, -(2**40) + 3]
    integers = np.array(near, np.int64)
    assigned = cp.zeros(integers.shape, dtype)
    assigned[:] = cp.asarray(integers)
    copied = cp.Pointwise("y0 = x0;", result_type=dtype)(cp.asarray(integers))
    for found in (copied, assigned):
        equal(found, integers.astype(dtype), dtype)

    floating = np.array([0.9, 1, -2.5, 99.99, 127.9, 1e9, -1e9, np.nan, np.inf, -np.inf, 0])
    x = cp.asarray(floating.astype(np.float32))
    if narrow == "bool":
        equal(cp.Pointwise("y0 = x0;", result_type=dtype)(x), floating != 0, dtype)
        return
    word = {"int8": "char", "uint16": "ushort", "int32": "int"}[narrow]
    plain, saturated = cp.Pointwise(
        f"y0 = x0; y1 = convert_{word}_sat(x0);", result_type=(dtype, dtype)
    )(x)
    limits = np.iinfo(dtype)
    whole = np.trunc(np.where(np.isnan(floating), 0, floating))
    kept = np.clip(whole, limits.min, limits.max)
    equal(saturated, kept.astype(dtype), dtype)
    fits = (kept == whole) & ~np.isnan(floating)
    np.testing.assert_array_equal(plain.get()[fits], kept[fits].astype(dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_infinities_and_nan_go_through(device, dtype):
    a = np.array([np.inf, -np.inf, np.nan, -0.0, 1], dtype)
    found = ADD(cp.asarray(a), cp.asarray(a)).get().astype(np.float64)
    np.testing.assert_array_equal(found, [np.inf, -np.inf, np.nan, -0.0, 2])
    assert np.signbit(found[3])


def test_halves_are_calculated_in_float(device):
    # 60000 + 60000 overflows a half; 2048 + 1 cannot be told from 2048 by one.
    a = np.array([60000, 2048], np.float16)
    b = np.array([60000, 1], np.float16)
    average = cp.Pointwise("y0 = (x0 + x1) / 2; y1 = (x0 + x1) - x0;")
    mean, rest = average(cp.asarray(a), cp.asarray(b))
    equal(mean, [60000, 1024])
    equal(rest, [60000, 1])
