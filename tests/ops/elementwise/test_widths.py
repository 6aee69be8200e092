"""A function of the same number has the same bits, in a vector, in its tail and in a view."""

import dataclasses

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.plan.snippets import unified_functions

pytestmark = pytest.mark.optimised

# The numbers of which runtimes' scalar functions gave other bits than their vectors.
GIVEN = np.random.default_rng(38).uniform(0.01, 1, 1024).astype(np.float32)


def bits(array):
    return array.get().ravel().view(np.uint32)


def agrees(function):
    """Whether elements are what they are in any order, length, stride and kernel."""
    x = cp.asarray(GIVEN)
    found = bits(function(x))
    order = np.random.default_rng(1).permutation(GIVEN.size)
    np.testing.assert_array_equal(bits(function(cp.asarray(GIVEN[order]))), found[order])
    np.testing.assert_array_equal(bits(function(x[::3])), found[::3])
    np.testing.assert_array_equal(bits(function(x.reshape(32, 32).T)), found.reshape(32, 32).T.flat)
    for n in (1, 3, 17, 31):
        np.testing.assert_array_equal(bits(function(x[5 : 5 + n])), found[5 : 5 + n])


@pytest.mark.everywhere
@pytest.mark.parametrize("name", ["exp", "log1p", "rsqrt", "atan", "lgamma", "sigmoid", "gelu"])
def test_bits_do_not_depend_on_the_place(device, name):
    agrees(getattr(ops, name))


@pytest.mark.everywhere
def test_nor_on_the_place_do_those_of_two_arguments(device):
    agrees(lambda x: ops.pow(x, 1.7))
    agrees(lambda x: ops.atan2(x, 0.3))


def test_simple_powers_are_what_they_say(device):
    x = cp.asarray(GIVEN)
    powers = (lambda v: v**2, x * x), (lambda v: v**0.5, ops.sqrt(x)), (lambda v: v**-1, 1 / x)
    for power, wanted in powers:
        np.testing.assert_array_equal(bits(power(x)), bits(wanted))
        np.testing.assert_array_equal(bits(cp.jit(power)(x)), bits(wanted))


@pytest.mark.everywhere
def test_a_constant_stays_one(device):
    for value in (0.23833656, 0.3, -2.7):
        for n in (1, 5, 16, 17, 33, 40):
            assert len(set(bits(ops.exp(cp.full(n, value))))) == 1


@pytest.mark.everywhere
@pytest.mark.parametrize("name", ["exp", "rsqrt"])
def test_reductions_find_elements(device, name):
    most = cp.Reduction(
        f"y0 = {name}(x0);",
        init="reduce_y0 = -INFINITY;",
        step="reduce_y0 = max(reduce_y0, y0);",
    )
    function = getattr(ops, name)
    for shape in ((1024,), (3, 341), (341, 3), (31, 33), (64, 16)):
        x = cp.asarray(GIVEN[: np.prod(shape)].reshape(shape))
        for axis in range(len(shape)):
            wanted = function(x).get().max(axis)
            np.testing.assert_array_equal(most(x, axis=axis).get(), wanted)


def test_only_what_differs_is_widened(device):
    snippet = cp.Pointwise("y0 = exp(x0) + rsqrt(x0) + sqrt(x0) + sin(x0);").definition.expr
    even = dataclasses.replace(
        device.traits, function_bytes=0, estimate_bytes=0, vector_trigonometry=True
    )
    assert unified_functions([snippet], "", even) == ()
    for functions, estimates, expected in (
        (16, 0, (("exp", 1, 16),)),
        (0, 64, (("rsqrt", 1, 64),)),
        (32, 16, (("exp", 1, 32), ("rsqrt", 1, 16))),
    ):
        uneven = dataclasses.replace(even, function_bytes=functions, estimate_bytes=estimates)
        assert unified_functions([snippet], "", uneven) == expected


@pytest.mark.parametrize("least", [16, 64])
def test_widened_functions_are_right(device, monkeypatch, least):
    traits = dataclasses.replace(device.traits, function_bytes=least, estimate_bytes=least)
    monkeypatch.setitem(device.__dict__, "traits", traits)
    monkeypatch.setattr(device, "index", f"{device.index} widened")
    for dtype in (np.float32, np.float64) if device.traits.fp64 else (np.float32,):
        x = np.linspace(0.1, 3, 37).astype(dtype)
        found = cp.Pointwise("y0 = exp(x0) + pow(x0, 2.5f) * rsqrt(x0);")(cp.asarray(x)).get()
        np.testing.assert_allclose(
            found, np.exp(x) + x**2, rtol=2e-6 if dtype == np.float32 else 1e-14
        )


def test_epilogues_store_elements_too(device):
    a, b = (cp.asarray(np.full(shape, 0.25, np.float32)) for shape in ((3, 5), (5, 19)))
    found = ops.matmul(a, b, epilogue="y0 = exp(-y0) + rsqrt(y0);")
    wanted = cp.Pointwise("y0 = exp(-x0) + rsqrt(x0);")(ops.matmul(a, b))
    np.testing.assert_array_equal(bits(found), bits(wanted))
    assert len(set(bits(found))) == 1
