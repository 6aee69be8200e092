"""Determinants against NumPy in float64."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

SHAPES = [(3, 2, 2), (1, 1), (2, 3, 5, 5), (16, 16), (2, 20, 20), (31, 31)]


@pytest.mark.parametrize("shape", SHAPES)
def test_det(device, shape):
    a = np.random.default_rng(0).normal(size=shape)
    found = ops.det(cp.asarray(a.astype(np.float32)))
    assert found.shape == shape[:-2]
    expected = np.linalg.det(a)
    np.testing.assert_allclose(found.get(), expected, rtol=2e-4, atol=2e-4 * np.abs(expected).max())
    np.testing.assert_allclose(ops.det(cp.asarray(a)).get(), expected, rtol=1e-10)


def test_matrices_that_are_singular_or_need_pivots(device):
    for n in (3, 18):
        a = np.zeros((3, n, n))
        a[0], a[1] = np.eye(n)[::-1], np.ones((n, n))
        found = ops.det(cp.asarray(a)).get()
        np.testing.assert_array_equal(found, [-1, 0, 0])


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_errors(device, shape):
    with pytest.raises(cp.ShapeError, match="square"):
        ops.det(cp.zeros(shape))
    with pytest.raises(cp.DTypeError, match="floating"):
        ops.det(cp.zeros((2, 2), np.int32))
