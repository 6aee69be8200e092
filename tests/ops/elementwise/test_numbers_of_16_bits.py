"""A Python number beside an array of 16 bits is rounded to it first, as NumPy does."""

import numpy as np
import pytest
from support import BFLOAT16

import clprim as cp
from clprim import ops
from clprim.dtypes import adapted

DTYPES = [np.dtype(np.float16), BFLOAT16]
OPERATORS = {
    "eq": lambda x: x == 0.1,
    "ne": lambda x: x != 0.1,
    "lt": lambda x: x < 0.1,
    "ge": lambda x: x >= 0.1,
    "remainder": lambda x: x % 0.1,
    "remainder of": lambda x: 0.1 % x,
    "floor_divide": lambda x: x // 0.1,
    "add": lambda x: x + 0.1,
    "difference": lambda x: 0.1 - x,
    "product": lambda x: x * 0.1,
    "in place": lambda x: x.__isub__(0.1),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_as_numpy(device, dtype):
    tenth = dtype.type(0.1)
    host = np.array([tenth, -tenth, 0.25, 1, 7], dtype)
    for name, operator in OPERATORS.items():
        found = operator(cp.asarray(host.copy())).get()
        rounded = _with(operator, host, float(tenth))
        assert found.dtype == rounded.dtype, name
        np.testing.assert_array_equal(found, rounded, err_msg=name)


def _with(operator, host, number):
    """The operator of float32 with the rounded number in place of 0.1, rounded once."""
    name = next(k for k, v in OPERATORS.items() if v is operator)
    x, t = host.astype(np.float32), np.float32(number)
    found = {
        "eq": lambda: x == t,
        "ne": lambda: x != t,
        "lt": lambda: x < t,
        "ge": lambda: x >= t,
        "remainder": lambda: x % t,
        "remainder of": lambda: t % x,
        "floor_divide": lambda: x // t,
        "add": lambda: x + t,
        "difference": lambda: t - x,
        "product": lambda: x * t,
        "in place": lambda: x - t,
    }[name]()
    return found if found.dtype == bool else found.astype(host.dtype)


def test_operators_by_name(device):
    x = cp.asarray(np.float16([0.1, -0.1, 0.5]))
    tenth = float(np.float16(0.1))
    assert ops.fmod(x, 0.1).get().tolist() == [0, -0.0, float(np.float16(0.5 % tenth))]
    assert ops.isclose(x, 0.1, 0, 0).get().tolist() == [True, False, False]
    assert ops.heaviside(x - x, 0.1).get().tolist() == [tenth] * 3
    assert ops.nextafter(x, 0.1).get()[0] == np.float16(0.1)
    # The limit belongs to what shrinks, on both sides of 1 / 10.
    for dtype in DTYPES:
        limit = cp.asarray(np.array([0.1, -0.1], dtype))
        assert not ops.hardshrink(limit, 0.1).get().any()
        assert not ops.hardshrink_backward(limit, limit, 0.1).get().any()


def test_other_numbers_and_arrays_stay():
    half = np.dtype(np.float16)
    assert adapted(0.1, half) == float(np.float16(0.1)) != 0.1
    assert adapted(1e6, half) == np.inf
    assert adapted(2049, half) == 2048
    for value, dtype in ((0.1, np.float32), (7, np.int16), (True, np.float16)):
        assert adapted(value, np.dtype(dtype)) is value
    wide = np.float64(0.1)
    assert adapted(wide, half) is wide
    # NumPy's own number makes the comparison one of float64.
    assert (cp.asarray(np.float16([0.1])) == np.float32(0.1)).get().tolist() == [False]
