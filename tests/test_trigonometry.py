"""Sines of vectors are those of their components, however large one of them is."""

import dataclasses

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.plan.snippets import unified_functions

SMALL = np.linspace(-3, 3, 512).astype(np.float32).reshape(16, 32)
ANGLES = SMALL.copy()
# One large component in every vector.
ANGLES[:, ::7] = np.float32([1e5, 3e7, 1e10, 1e20, -1e30] * 16).reshape(16, 5)

pytestmark = pytest.mark.optimised


def close(found, function=np.sin):
    expected = function(ANGLES.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_large_angles_do_not_spoil_small_ones(device, name):
    close(cp.Pointwise(f"y0 = {name}(x0);")(cp.asarray(ANGLES)).get(), getattr(np, name))
    close(getattr(ops, name)(cp.asarray(ANGLES)).get(), getattr(np, name))


def test_in_every_kind_of_kernel(device):
    x = cp.asarray(ANGLES)
    close(ops.matmul(x, cp.asarray(np.eye(32, dtype=np.float32)), epilogue="y0 = sin(y0);").get())
    one = cp.full((1, 1, 1, 1), 1.0)
    images = cp.asarray(ANGLES.reshape(1, 1, 16, 32))
    close(ops.conv2d(images, one, epilogue="y0 = sin(y0);").get()[0, 0])
    strings = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
    for axis in (0, 1):
        sums = cp.Reduction("y0 = sin(x0);", **strings)(x, axis=axis).get()
        np.testing.assert_allclose(sums, np.sin(ANGLES.astype(float)).sum(axis), atol=1e-5)
        scan = cp.Scan("y0 = sin(x0);", init="scan_y0 = 0;", step="scan_y0 += y0;")
        expected = np.sin(ANGLES.astype(float)).cumsum(axis)
        np.testing.assert_allclose(scan(x, axis=axis).get(), expected, atol=1e-5)
    group = cp.Grouped("y0 = sin(x0);", **strings, each="y0 = sin(x0) - group_y0;")
    wanted = np.sin(ANGLES.astype(float))
    wanted = wanted - wanted.sum(1, keepdims=True)
    np.testing.assert_allclose(group(x, axis=1).get(), wanted, atol=1e-5)


def test_only_where_a_compiler_needs_it(device):
    snippet = cp.Pointwise("y0 = sin(x0);").definition.expr
    even = dataclasses.replace(device.traits, function_bytes=0, estimate_bytes=0)
    able = dataclasses.replace(even, vector_trigonometry=True)
    unable = dataclasses.replace(even, vector_trigonometry=False)
    assert unified_functions([snippet], "", able) == ()
    assert unified_functions([snippet], "", unable) == (("sin", 1, 0),)
    written = cp.Pointwise("y0 = erfc(x0);").definition.expr
    assert unified_functions([written], "", able) == (("erfc", 1, 0),)


def test_the_way_round_is_right_on_every_compiler(device, monkeypatch):
    traits = dataclasses.replace(device.traits, vector_trigonometry=False)
    monkeypatch.setitem(device.__dict__, "traits", traits)
    close(cp.Pointwise("y0 = tan(x0) + 0;")(cp.asarray(ANGLES)).get(), np.tan)
