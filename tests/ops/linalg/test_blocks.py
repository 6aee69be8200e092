"""Spectra by blocks, as devices apart from the host take them, against NumPy in float64."""

import numpy as np
import pytest

import clprim as cp
from clprim.ops.linalg import spectra

RNG = np.random.default_rng(0)


@pytest.fixture
def apart(device, monkeypatch):
    monkeypatch.setattr(spectra, "by_blocks", lambda a: True)


def unitary(n, imaginary=0):
    x = RNG.normal(size=(n, n)) + imaginary * RNG.normal(size=(n, n))
    return np.linalg.qr(x)[0]


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def near(found, expected, by, factor):
    eps = np.finfo(found.dtype).eps
    assert np.abs(found - expected).max() <= factor * eps * by


def is_spectrum(a, w, v):
    w, v = w.get(), v.get()
    by = np.linalg.norm(a.astype(complex), 2, axis=(-2, -1)).max()
    near(w, np.linalg.eigvalsh(a.astype(complex)), by, 20)
    assert (np.diff(w) >= 0).all()
    near(v * w[..., None, :] @ adjoint(v), a, by, 20)
    near(adjoint(v) @ v - np.eye(a.shape[-1], dtype=v.dtype), 0, 1, 20)


def is_decomposition(a, u, s, vh):
    u, s, vh = (x.get() for x in (u, s, vh))
    k = s.shape[-1]
    by = np.linalg.norm(a.astype(complex), 2, axis=(-2, -1)).max()
    near(s, np.linalg.svd(a.astype(complex), compute_uv=False), by, 20)
    assert (np.diff(s) <= 0).all() and (s >= 0).all()
    near(u[..., :k] * s[..., None, :] @ vh[..., :k, :], a, by, 20)
    for x in (u, adjoint(vh)):
        near(
            adjoint(x) @ x,
            np.broadcast_to(np.eye(x.shape[-1]), (*x.shape[:-2], *x.shape[-1:] * 2)),
            1,
            40,
        )


Q, P = unitary(70), unitary(70)
VALUES = {
    "few": np.repeat([1.0, 2, -3, 3, 0], 14),
    "near": 1 + 1e-6 * np.arange(70),
    "graded": np.logspace(25, 5, 70),
    "one": np.arange(70.0) == 5,
    "none": np.zeros(70),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_that_are_alike_or_far_apart(apart, name):
    a = np.float32(Q * VALUES[name] @ Q.T)
    is_spectrum(a, *cp.linalg.eigh(cp.asarray(a)))
    b = np.float32(Q * VALUES[name] @ P.T)
    is_decomposition(b, *cp.linalg.svd(cp.asarray(b)))


@pytest.mark.parametrize("diagonal", [np.arange(70) * 1e-30, np.ones(70), [1, -1] * 35])
def test_what_is_diagonal_already(apart, diagonal):
    a = np.float32(np.diag(diagonal))
    is_spectrum(a, *cp.linalg.eigh(cp.asarray(a)))
    is_decomposition(a, *cp.linalg.svd(cp.asarray(a)))


@pytest.mark.parametrize(("dtype", "n"), [(np.float32, 200), (np.complex64, 70)])
def test_batches_and_triangles(apart, dtype, n):
    x = RNG.normal(size=(2, 1, n, n)) + 1j * RNG.normal(size=(2, 1, n, n))
    a = (x if dtype == np.complex64 else x.real).astype(dtype)
    a = a + adjoint(a)
    for side, half, other in (("L", np.tril, np.triu), ("U", np.triu, np.tril)):
        k = 1 if side == "L" else -1
        given = cp.asarray(half(a) + other(np.full_like(a, np.nan), k))
        is_spectrum(a, *cp.linalg.eigh(given, side))
        near(cp.linalg.eigvalsh(given, side).get(), np.linalg.eigvalsh(a), np.abs(a).max() * 30, 10)


@pytest.mark.parametrize(("dtype", "shape"), [(np.float32, (2, 90, 70)), (np.complex64, (70, 90))])
def test_matrices_that_are_not_square(apart, dtype, shape):
    x = RNG.normal(size=shape) + 1j * RNG.normal(size=shape)
    a = (x if dtype == np.complex64 else x.real).astype(dtype)
    for full in (True, False):
        found = cp.linalg.svd(cp.asarray(a), full)
        assert [x.shape for x in found] == [x.shape for x in np.linalg.svd(a, full)]
        is_decomposition(a, *found)
    near(cp.linalg.svdvals(cp.asarray(a)).get(), found.S.get(), found.S.get().max(), 4)


def test_doubles(double_device, apart):
    a = unitary(70, 1j) * np.logspace(0, -25, 70) @ unitary(70, 1j)
    is_decomposition(a, *cp.linalg.svd(cp.asarray(a)))
    is_spectrum(a + adjoint(a), *cp.linalg.eigh(cp.asarray(a + adjoint(a))))


def test_what_is_not_finite(apart):
    a = np.float32(np.stack([Q, Q]))
    for wrong in (np.nan, np.inf):
        a[1, 3, 2] = wrong
        for call in (cp.linalg.eigh, cp.linalg.eigvalsh, cp.linalg.svd, cp.linalg.svdvals):
            with pytest.raises(np.linalg.LinAlgError, match="converge, first number 1 of 2"):
                call(cp.asarray(a))


def test_traces_hold_them(device):
    a = np.float32(Q * np.arange(70) @ Q.T)
    is_spectrum(a, *cp.jit(lambda a: tuple(cp.linalg.eigh(a)))(cp.asarray(a)))
    is_decomposition(a, *cp.jit(lambda a: tuple(cp.linalg.svd(a)))(cp.asarray(a)))
