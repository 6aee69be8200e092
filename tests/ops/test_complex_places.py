"""Places, draws and order of complex numbers, against NumPy."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops


def numbers(shape, seed=0):
    re, im = np.random.default_rng(seed).standard_normal((2, *shape))
    return re + 1j * im


@pytest.mark.refusal
@pytest.mark.parametrize("name", "sort argsort median".split())
def test_what_needs_an_order_says_so(device, name):
    z = cp.asarray(np.complex64([[1 + 2j, 3], [0, 1j]]))
    with pytest.raises(cp.DTypeError, match=f"^{name}: expected real numbers.*, got complex64"):
        getattr(ops, name)(z)


@pytest.mark.refusal
@pytest.mark.parametrize("name", "maximum minimum hypot atan2 copysign logaddexp".split())
def test_what_is_of_two_real_numbers_says_so(device, name):
    z, r = cp.asarray(np.complex64([1 + 2j, 3])), cp.asarray(np.float32([1, 2]))
    for a, b in ((z, z), (r, z), (z, 1.0)):
        label = "a" if a is z else "b"
        told = f"^{name}: expected real numbers for {label}, got complex64"
        with pytest.raises(cp.DTypeError, match=told):
            getattr(ops, name)(a, b)


def test_places_are_written_and_added_to(device):
    z, source = numbers((4, 5), 2).astype(np.complex64), numbers((4, 3), 3).astype(np.complex64)
    index = np.array([3, 0, 3])
    x, s, i = map(cp.asarray, (z, source, index))
    expected = z.copy()
    np.add.at(expected, (slice(None), index), source)
    np.testing.assert_allclose(ops.index_add(x, 1, i, s).get(), expected, rtol=1e-6)
    whole = cp.asarray(np.broadcast_to(index, (4, 3)).copy())
    np.testing.assert_allclose(ops.scatter_add(x, 1, whole, s).get(), expected, rtol=1e-6)
    expected = z.copy()
    expected[:, index] = source
    np.testing.assert_array_equal(ops.scatter(x, 1, whole, s).get(), expected)
    x[:, i] = s
    np.testing.assert_array_equal(x.get(), expected)
    np.testing.assert_array_equal(cp.take(x, i, axis=1).get(), expected[:, index])
    turned, expected = cp.asarray(z).T[::-1], z.T[::-1].copy()
    np.add.at(expected, index, source.T)
    found = ops.index_add(turned, 0, i, cp.asarray(source).T)
    np.testing.assert_allclose(found.get(), expected, rtol=1e-6)
    _, (gx, gs) = cp.value_and_grad(lambda x, s: (abs(ops.index_add(x, 1, i, s)) ** 2).sum())(
        cp.asarray(z), s
    )
    expected = z.copy()
    np.add.at(expected, (slice(None), index), source)
    np.testing.assert_allclose(gx.get(), 2 * expected, rtol=1e-5)
    np.testing.assert_allclose(gs.get(), 2 * expected[:, index], rtol=1e-5)


def test_distinct_numbers(device):
    z = np.random.default_rng(0).integers(0, 3, (50, 2)) @ np.array([1, 1j])
    expected = np.unique(z, return_index=True, return_inverse=True, return_counts=True)
    found = ops.unique(
        cp.asarray(z.astype(np.complex64)),
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_array_equal(f.get(), e)


def test_numbers_are_made(device):
    for ends in ((1j, 2 + 3j), (0, 1j), (2, -1)):
        found = cp.linspace(*ends, 7, dtype=np.complex64)
        np.testing.assert_allclose(found.get(), np.linspace(*ends, 7), rtol=1e-6, atol=1e-7)
    assert cp.linspace(0, 1j, 3).dtype == np.complex64
    with pytest.raises(cp.DTypeError, match="linspace: dtype=float32 of complex numbers"):
        cp.linspace(0, 1j, 3, dtype=np.float32)
    m = cp.asarray(np.array([True, False]))
    z = cp.asarray(np.complex64([1 + 2j, 3]))
    np.testing.assert_array_equal(cp.where(m, z, 1j).get(), [1 + 2j, 1j])


def test_random_numbers(device):
    cp.random.seed(3)
    z = cp.random.normal((20000,), 1.0, 2.0, dtype=np.complex64).get()
    assert z.dtype == np.complex64
    assert abs(z.mean() - 1) < 0.05 and abs(z.real.var() - 2) < 0.1 and abs(z.imag.var() - 2) < 0.1
    assert abs(np.mean((z.real - 1) * z.imag)) < 0.1
    u = cp.random.uniform((3, 1000), -1, 1, dtype=np.complex64).get()
    for part in (u.real, u.imag):
        assert -1 <= part.min() < -0.9 and 0.9 < part.max() < 1
    with pytest.raises(cp.DTypeError, match="expected a floating one"):
        cp.random.exponential((3,), dtype=np.complex64)
