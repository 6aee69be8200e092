"""Arithmetic by PyTorch's names against PyTorch."""

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim import DefinitionError, DTypeError, ops

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("unoptimised")

INTEGERS = (np.array([7, -7, 7, -7, 0, 6], np.int32), np.array([2, 2, -2, -2, 3, 4], np.int32))


def both(name, a, b, **options):
    """The operator's result and PyTorch's."""
    given = (cp.asarray(v) if isinstance(v, np.ndarray) else v for v in (a, b))
    wanted = (torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in (a, b))
    found = getattr(ops, name)(*given, **options)
    return found, getattr(torch, name)(*wanted, **options).numpy()


@pytest.mark.parametrize("mode", [None, "trunc", "floor"])
@pytest.mark.parametrize("dtype", [np.int32, np.float32], ids=lambda t: t.__name__)
def test_rounding_modes(device, mode, dtype):
    a, b = (v.astype(dtype) for v in INTEGERS)
    equal(*both("div", a, b, rounding_mode=mode))
    equal(*both("div", a, 2, rounding_mode=mode))
    if dtype is np.float32:
        inf = np.float32([1, -1, 0, np.inf, -np.inf, np.nan, 5, -5])
        by = np.float32([0, 0, 0, 2, 2, 1, np.inf, np.inf])
        found, wanted = both("div", inf, by, rounding_mode=mode)
        np.testing.assert_array_equal(found.get(), wanted)


def test_a_number_may_be_on_the_left(device):
    a = cp.asarray(INTEGERS[1])
    equal(ops.div(7, a, rounding_mode="floor"), 7 // INTEGERS[1])
    equal(ops.sub(1, a, alpha=2), 1 - 2 * INTEGERS[1])
    equal(ops.pow(2, a), np.int32([4, 4, 0, 0, 8, 16]))


@pytest.mark.parametrize("name", ["add", "sub"])
def test_alpha(device, name):
    a, b = INTEGERS
    equal(*both(name, a, b, alpha=3))
    equal(*both(name, a, b))
    floats = a.astype(np.float32), b.astype(np.float32)
    equal(*both(name, *floats, alpha=0.5))
    equal(*both(name, floats[0], 2, alpha=0.5))


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide", "mul"])
def test_the_others(device, name):
    a, b = INTEGERS
    equal(*both(name, a, b))
    found, wanted = both(name, a.astype(np.float32), b.astype(np.float32))
    np.testing.assert_array_equal(found.get(), wanted)


def test_powers(device):
    a = np.array([0, 1, -1, -1, 2, -3], np.int32)
    equal(*both("pow", a, np.array([-1, -2, -3, -2, -1, 3], np.int32)))
    equal(*both("pow", a, 3))
    with pytest.raises(DTypeError, match="-1 of int32: a negative power is no integer"):
        ops.pow(cp.asarray(a), -1)


def test_results_go_where_they_are_wanted(device):
    x = cp.asarray(np.float32([4, 9]))
    assert ops.add(x, 1, alpha=2, out=x) is x
    equal(x, np.float32([6, 11]))


def test_refusals(device):
    x = cp.zeros(3, np.int32)
    with pytest.raises(DefinitionError, match="rounding_mode='up': expected None, 'trunc'"):
        ops.div(x, x, rounding_mode="up")
    with pytest.raises(DTypeError, match=r"alpha=0.5 beside int32: expected an integer"):
        ops.add(x, x, alpha=0.5)
    with pytest.raises(DTypeError, match="beside bool"):
        ops.add(cp.zeros(3, bool), cp.zeros(3, bool), alpha=2)
    with pytest.raises(DTypeError, match="expected a device array"):
        ops.mul(1, 2)
    with pytest.raises(DTypeError, match="expected a number"):
        ops.mul(x, "two")


@pytest.mark.parametrize("call", [ops.add, ops.div, lambda a, b: a * b])
def test_dtypes_are_promoted_once(device, monkeypatch, call):
    a, b = cp.asarray(np.float32([1, 2])), cp.asarray(np.int16([3, 4]))
    expected = call(a, b).get()

    def asked(*_):
        raise AssertionError("NumPy was asked again")

    with monkeypatch.context() as patch:
        patch.setattr(np, "result_type", asked)
        found = call(a, b)
    equal(found, expected)
