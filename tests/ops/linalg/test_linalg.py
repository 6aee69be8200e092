"""Linear algebra by NumPy's and PyTorch's names, against NumPy in float64: backward errors."""

import itertools
import math

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.ops.linalg import orthogonal, shared

RNG = np.random.default_rng(0)
SIZES = [1, 2, 3, 4, 5, 8, 13, 16, 32, 64]
DTYPES = [np.float32, np.complex64]


def drawn(dtype, *shape):
    x = RNG.normal(size=shape)
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * RNG.normal(size=shape)
    return x.astype(dtype)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def positive(dtype, *shape):
    a = drawn(dtype, *shape)
    found = a @ adjoint(a) + shape[-1] * np.eye(shape[-1])
    return found.astype(dtype)


def up(x):
    return x.get().astype(complex)


def close(found, expected, factor=1.0, by=None):
    """Within some roundings of the largest number, as many as there are rows."""
    found, expected = (up(x) if isinstance(x, cp.Array) else x for x in (found, expected))
    assert found.shape == expected.shape
    scale = np.abs(expected).max(initial=0) if by is None else by
    eps = 1.2e-7 * factor * (4 + found.shape[-1] if found.ndim else 8)
    assert np.abs(found - expected).max(initial=0) <= eps * scale


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_systems_and_inverses(device, n, dtype):
    a, b = drawn(dtype, 19, n, n) + n * np.eye(n, dtype=dtype), drawn(dtype, 19, n, 3)
    x = cp.linalg.solve(cp.asarray(a), cp.asarray(b))
    assert x.dtype == dtype
    close(a @ up(x), b, 2)
    inverse = cp.linalg.inv(cp.asarray(a))
    close(a @ up(inverse), np.broadcast_to(np.eye(n), a.shape), 4)
    p, low, high = ops.linalg.lu(cp.asarray(a))
    close(up(p) @ up(low) @ up(high), a, 2)
    assert (np.abs(up(low)) <= (1 if dtype == np.float32 else 1.5)).all()
    expected = np.linalg.slogdet(a.astype(complex))
    sign, logarithm = cp.linalg.slogdet(cp.asarray(a))
    close(sign, expected[0], 20)
    close(logarithm, expected[1], 20, by=n)
    if n <= 16:
        close(cp.linalg.det(cp.asarray(a)), np.linalg.det(a.astype(complex)), 20)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_cholesky_and_triangles(device, n, dtype):
    a, b = positive(dtype, 19, n, n), drawn(dtype, 19, n, 5)
    low = cp.linalg.cholesky(cp.asarray(a))
    close(up(low) @ adjoint(up(low)), a)
    assert (np.triu(up(low), 1) == 0).all()
    high = cp.linalg.cholesky(cp.asarray(a), upper=True)
    close(adjoint(up(high)) @ up(high), a)
    for upper, left, unit in itertools.product((False, True), repeat=3):
        kept = np.triu(a) if upper else np.tril(a)
        if unit:
            kept = kept / 64 / n
            kept[..., range(n), range(n)] = 1
        x = b if left else np.swapaxes(b, -1, -2)
        given = kept.astype(dtype)
        noise = (np.tril if upper else np.triu)(np.full_like(given, 7), -1 if upper else 1)
        found = ops.linalg.solve_triangular(
            cp.asarray(given + noise), cp.asarray(x), upper=upper, left=left, unitriangular=unit
        )
        close(given @ up(found) if left else up(found) @ given, x, 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (5, 2), (2, 5), (16, 16), (64, 7), (33, 40)])
def test_reflections_have_lapacks_signs(device, shape, dtype):
    a = drawn(dtype, 9, *shape)
    for mode in ("reduced", "complete"):
        q, r = cp.linalg.qr(cp.asarray(a), mode)
        close(up(q) @ up(r), a, 2)
        close(
            adjoint(up(q)) @ up(q), np.broadcast_to(np.eye(q.shape[-1]), (9, *[q.shape[-1]] * 2)), 2
        )
        close(r, np.linalg.qr(a.astype(complex), mode)[1], 40)
    close(cp.linalg.qr(cp.asarray(a), "r"), np.linalg.qr(a.astype(complex), "r"), 40)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [(np.float32, (2, 65, 65)), (np.complex64, (300, 70)), (np.float32, (2, 66, 130))],
)
def test_reflections_in_panels(device, shape, dtype):
    a = drawn(dtype, *shape)
    a[..., 1:, 2] = 0  # a reflection that is none
    for mode in ("reduced", "complete"):
        q, r = map(up, cp.linalg.qr(cp.asarray(a), mode))
        close(q @ r, a, 0.5)
        close(adjoint(q) @ q - np.eye(q.shape[-1]), 0 * adjoint(q) @ q, by=1)
        close(r, np.linalg.qr(a.astype(complex), mode)[1], 40)
    alone = up(cp.linalg.qr(cp.asarray(a), "r"))
    np.testing.assert_array_equal(alone, r[..., : min(shape[-2:]), :])
    wrong = a.copy()
    wrong[..., 3, 3] = np.nan
    assert np.isnan(cp.linalg.qr(cp.asarray(wrong))[1].get()).any()


def test_larger_ones_are_numpys(device, monkeypatch):
    monkeypatch.setattr(orthogonal, "MOST", 64)
    monkeypatch.setattr(shared, "_warned", set())
    a = drawn(np.float32, 70, 70)
    with pytest.warns(UserWarning, match="linalg.qr: matrices of 70 × 70 are too large"):
        r = cp.linalg.qr(cp.asarray(a), "r")
    np.testing.assert_array_equal(r.get(), np.linalg.qr(a, "r"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("side", ["L", "U"])
def test_eigenvectors(device, n, dtype, side):
    a = drawn(dtype, 19, n, n)
    a = (a + adjoint(a)).astype(dtype)
    half = np.tril(a) if side == "L" else np.triu(a)
    w, v = cp.linalg.eigh(cp.asarray(half), UPLO=side)
    close(up(v) * up(w)[:, None] @ adjoint(up(v)), a, 3)
    close(adjoint(up(v)) @ up(v), np.broadcast_to(np.eye(n), a.shape), 3)
    close(w, np.linalg.eigvalsh(a.astype(complex)), 2)
    close(cp.linalg.eigvalsh(cp.asarray(half), UPLO=side), up(w), 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (5, 2), (2, 5), (16, 16), (64, 7), (100, 20)])
def test_singular_values(device, shape, dtype):
    a = drawn(dtype, 9, *shape)
    for full in (True, False):
        u, s, vh = cp.linalg.svd(cp.asarray(a), full)
        k = min(shape)
        close(up(u)[..., :k] * up(s)[:, None] @ up(vh)[:, :k], a, 3)
        for one in (up(u), adjoint(up(vh))):
            unit = np.broadcast_to(np.eye(one.shape[-1]), (9, *[one.shape[-1]] * 2))
            close(adjoint(one) @ one, unit, 3)
        close(s, np.linalg.svd(a.astype(complex))[1], 2)
    close(cp.linalg.svdvals(cp.asarray(a)), up(s), 2)


def test_matrices_of_low_rank_have_unitary_vectors(device):
    a = np.zeros((4, 6, 6), np.float32)
    a[1] = np.outer(np.arange(6), np.arange(6))
    a[2, 3, 4] = 1e-30
    a[3] = drawn(np.float32, 6, 2) @ drawn(np.float32, 2, 6) * 1e25
    u, s, vh = map(up, cp.linalg.svd(cp.asarray(a)))
    assert (s[0] == 0).all() and (abs(s[1, 1:]) < 1e-4).all()
    for one in (u, adjoint(vh)):
        close(adjoint(one) @ one, np.broadcast_to(np.eye(6), (4, 6, 6)), 3)
    for k in range(4):
        close(u[k] * s[k] @ vh[k], a[k].astype(complex), 3)
    np.testing.assert_array_equal(cp.linalg.matrix_rank(cp.asarray(a)).get(), [0, 1, 1, 2])


@pytest.mark.parametrize("n", [65, 100, 200])
def test_blocks(device, n):
    a, b = drawn(np.float32, 2, n, n), drawn(np.float32, 2, n, 65)
    x = cp.linalg.solve(cp.asarray(a), cp.asarray(b))
    by = np.linalg.norm(a[0].astype(float), 2) * np.abs(up(x)).max()
    close(a @ up(x), b, 2, by=by)
    inverse = up(cp.linalg.inv(cp.asarray(a)))
    close(a @ inverse, np.broadcast_to(np.eye(n), a.shape), 2, by=20 * np.abs(inverse).max())
    spd = positive(np.complex64, n, n)
    low = up(cp.linalg.cholesky(cp.asarray(spd)))
    close(low @ adjoint(low), spd, 2)
    found, expected = cp.linalg.slogdet(cp.asarray(a)), np.linalg.slogdet(a.astype(float))
    np.testing.assert_array_equal(found[0].get(), expected[0])
    close(found[1], expected[1], 2, by=n)
    p, lower, upper = map(up, ops.linalg.lu(cp.asarray(a)))
    close(p @ lower @ upper, a, 2)
    singular = a.copy()
    singular[1, :, -1] = singular[1, :, 0] = 0
    with pytest.raises(cp.linalg.LinAlgError, match="singular, first number 1 of 2"):
        cp.linalg.inv(cp.asarray(singular))


@pytest.mark.parametrize("shape", [(2, 70, 200), (200, 70), (1100, 66)])
def test_elimination_by_blocks_takes_any_shape(device, shape):
    a = drawn(np.float32, *shape)
    p, lower, upper = map(up, ops.linalg.lu(cp.asarray(a)))
    close(p @ lower @ upper, a, 2)
    np.testing.assert_array_equal(np.sort(p, axis=-2)[..., -1, :], 1)
    assert np.abs(lower).max() <= 1 + 1e-6


def test_what_is_large_goes_to_the_host_which_is_said(device, monkeypatch):
    monkeypatch.setattr(shared, "_warned", set())
    a = positive(np.float32, 66, 66)
    with pytest.warns(UserWarning, match="linalg.eigh: matrices of 66 × 66") as told:
        w, v = cp.linalg.eigh(cp.asarray(a))
    assert told[0].filename == __file__
    close(a @ up(v), up(v) * up(w), 2, by=up(w).real.max())


@pytest.mark.parametrize("name", ["solve", "inv", "cholesky", "eigh", "svd", "qr", "slogdet"])
def test_views(device, name):
    """Broadcast, Fortran order, steps back: they are read where they lie."""
    base = positive(np.float32, 6, 10, 10)
    views = [
        lambda x: x[::-2, ::2, ::2],
        lambda x: x.swapaxes(-1, -2),
        lambda x: x.transpose(0, 2, 1)[:, 3:, 3:],
        lambda x: x[:, ::-1, ::-1],
        lambda x: x.reshape(2, 3, 10, 10).transpose(1, 0, 2, 3),
        lambda x: np.broadcast_to(x[:1], (3, 10, 10)),
    ]
    for view in views:
        a = view(base)
        more = (a[..., :2],) if name == "solve" else ()
        given = view(cp.asarray(base))
        found = getattr(cp.linalg, name)(given, *((given[..., :2],) if more else ()))
        expected = getattr(np.linalg, name)(a.astype(float), *more)
        for one, other in zip(
            *(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True
        ):
            signed = name not in ("eigh", "svd") or other.ndim < a.ndim
            close(one if signed else abs(one), other if signed else abs(other), 60)


def test_vectors_and_broadcasting_are_numpys(device):
    a, b = drawn(np.float32, 3, 1, 4, 4), drawn(np.float32, 1, 5, 4, 2)
    close(cp.linalg.solve(cp.asarray(a), cp.asarray(b)), np.linalg.solve(a.astype(float), b), 400)
    for shape in ((4,), (4, 4), (5, 4, 1)):
        b = drawn(np.float32, *shape)
        expected = np.linalg.solve(a.astype(float), b)
        close(cp.linalg.solve(cp.asarray(a), cp.asarray(b)), expected, 400)


def test_nothing_and_numbers(device):
    for shape in ((0, 0), (3, 0, 0), (0, 3, 3)):
        a = np.ones(shape, np.float32)
        for name in ("inv", "cholesky", "det", "slogdet", "eigh", "svd", "qr", "eigvalsh"):
            found, expected = getattr(cp.linalg, name)(cp.asarray(a)), getattr(np.linalg, name)(a)
            for one, other in zip(
                *(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True
            ):
                assert (one.shape, one.dtype) == (other.shape, other.dtype)
                np.testing.assert_array_equal(one.get(), other)
    assert cp.linalg.solve(cp.ones((2, 0, 0)), cp.ones((0, 3))).shape == (2, 0, 3)
    assert cp.linalg.svd(cp.ones((3, 0)))[0].shape == (3, 3)
    assert cp.linalg.svd(cp.ones((0, 3, 2)), full_matrices=False)[0].shape == (0, 3, 2)
    np.testing.assert_array_equal(cp.linalg.inv(cp.asarray(np.array([[4]]))).get(), [[0.25]])


def test_singular_matrices_are_numpys(device):
    zero = cp.zeros((2, 3, 3))
    for call in (cp.linalg.inv, lambda x: cp.linalg.solve(x, x)):
        with pytest.raises(
            np.linalg.LinAlgError, match="a matrix is singular, first number 0 of 2"
        ):
            call(zero)
    assert cp.linalg.det(zero).get().tolist() == [0, 0]
    sign, logarithm = cp.linalg.slogdet(zero)
    assert (sign.get().tolist(), logarithm.get().tolist()) == ([0, 0], [-math.inf] * 2)
    with pytest.raises(cp.ClprimError, match="not positive definite"):
        cp.linalg.cholesky(zero)
    wrong = cp.asarray(np.full((2, 2), np.nan, np.float32))
    assert np.isnan(cp.linalg.inv(wrong).get()).all() and np.isnan(cp.linalg.det(wrong).get())
    for call in (cp.linalg.eigh, cp.linalg.svd, cp.linalg.svdvals, cp.linalg.eigvalsh):
        with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
            call(wrong)


@pytest.mark.parametrize("ord", [None, "fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_norms(device, ord):
    a = drawn(np.float32, 3, 4, 5)
    x = cp.asarray(a)
    if ord is not None:
        close(
            cp.linalg.matrix_norm(x, ord=ord, keepdims=True),
            np.linalg.matrix_norm(a, ord=ord, keepdims=True),
            4,
        )
    close(cp.linalg.norm(x, ord, axis=(2, 0)), np.linalg.norm(a, ord, axis=(2, 0)), 4)
    square = x[:, :, :4]
    close(cp.linalg.cond(square, ord), np.linalg.cond(a[:, :, :4].astype(float), ord), 100)
    if not isinstance(ord, str):
        close(
            cp.linalg.norm(x, ord, axis=1, keepdims=True),
            np.linalg.norm(a, ord, 1, keepdims=True),
            4,
        )
        close(cp.linalg.norm(x.ravel(), ord), np.linalg.norm(a.ravel(), ord), 4)
    for order in (0, 3, 0.5):
        close(
            cp.linalg.vector_norm(x, axis=(0, 2), ord=order),
            np.linalg.vector_norm(a, axis=(0, 2), ord=order),
            4,
        )


def test_what_follows_from_them(device):
    a, b = drawn(np.float32, 7, 4), drawn(np.float32, 7, 2)
    found, expected = (n.linalg.lstsq(*x) for n, x in ((cp, map(cp.asarray, (a, b))), (np, (a, b))))
    for one, other in zip(found, expected, strict=True):
        close(one, np.asarray(other), 20)
    close(
        cp.linalg.lstsq(cp.asarray(a.T), cp.asarray(b[:4, 0]))[0],
        np.linalg.lstsq(a.T, b[:4, 0])[0],
        20,
    )
    close(cp.linalg.pinv(cp.asarray(a)), np.linalg.pinv(a.astype(float)), 20)
    square = a[:4]
    # Of what is Hermitian the lower triangle says all.
    own = (np.tril(square) + np.tril(square, -1).T).astype(float)
    close(cp.linalg.pinv(cp.asarray(square), hermitian=True), np.linalg.pinv(own), 100)
    close(cp.linalg.svd(cp.asarray(square), hermitian=True).S, np.linalg.svd(own).S, 20)
    upper = cp.asarray(np.triu(np.ones((4, 4), np.float32)))
    assert cp.linalg.matrix_rank(upper, hermitian=True).get() == 4
    assert cp.linalg.matrix_rank(upper.T, hermitian=True).get() == 1
    for call in (cp.linalg.pinv, cp.linalg.matrix_rank):
        with pytest.raises(cp.DTypeError, match=r"expected a number for (rtol or rcond|tol)"):
            call(upper, "x")
    for power in (0, 1, 2, 5, -3):
        close(
            cp.linalg.matrix_power(cp.asarray(square), power),
            np.linalg.matrix_power(square.astype(float), power),
            100,
        )
    close(
        cp.linalg.multi_dot(list(map(cp.asarray, (a.T, b, b.T, a[:, 0])))),
        np.linalg.multi_dot([a.T, b, b.T, a[:, 0]]),
        4,
    )
    x = drawn(np.float32, 5, 3)
    close(cp.linalg.cross(cp.asarray(x), cp.asarray(x[::-1].copy())), np.cross(x, x[::-1]), 2)
    np.testing.assert_array_equal(cp.linalg.diagonal(cp.asarray(a)).get(), np.diagonal(a))
    whole = np.arange(24).reshape(2, 3, 4)
    for how in ({}, {"offset": 1}, {"dtype": np.float32}):
        found = np.linalg.trace(cp.asarray(whole), **how)
        np.testing.assert_array_equal(found.get(), np.linalg.trace(whole, **how))


def test_numpys_own_functions_stay_on_the_device(device):
    a = positive(np.float32, 3, 4, 4)
    x = cp.asarray(a)
    for name in ("inv", "det", "cholesky", "eigvalsh", "svdvals", "matrix_rank", "pinv", "norm"):
        found = getattr(np.linalg, name)(x)
        assert isinstance(found, cp.Array)
        close(found, getattr(np.linalg, name)(a).astype(complex), 100)
    assert np.linalg.eigh(x).eigenvalues.shape == (3, 4)
    assert np.linalg.svd(x).Vh.shape == (3, 4, 4)


@pytest.mark.filterwarnings("ignore:linalg.eig")
def test_eigenvalues_of_what_is_not_hermitian_are_numpys(device, monkeypatch):
    monkeypatch.setattr(shared, "_warned", set())
    a = drawn(np.float32, 3, 5, 5)
    for given in (a, a + adjoint(a), a.astype(np.complex64)):
        found, expected = np.linalg.eig(cp.asarray(given)), np.linalg.eig(given)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.get(), other)
            assert one.dtype == other.dtype
        values = np.linalg.eigvals(cp.asarray(given))
        np.testing.assert_array_equal(values.get(), np.linalg.eigvals(given))
        assert ops.linalg.eigvals(cp.asarray(given)).dtype == np.complex64
    with pytest.raises(cp.DefinitionError, match="a compiled function computes on the device"):
        cp.jit(cp.linalg.eigvals)(cp.asarray(a))
    a[1, 0, 0] = np.nan
    with pytest.raises(cp.linalg.LinAlgError, match="Array must not contain infs or NaNs"):
        cp.linalg.eig(cp.asarray(a))


def test_every_name_of_numpys_is_there():
    assert set(np.linalg.__all__) <= set(cp.linalg.__all__)


def test_tensors_as_matrices_are_numpys(device):
    a, b = drawn(np.float32, 2, 6, 3, 4), drawn(np.float32, 2, 6)
    close(cp.linalg.tensorsolve(cp.asarray(a), cp.asarray(b)), np.linalg.tensorsolve(a, b), 400)
    for axes in ((2, 0), (0, 2)):  # of what is solved for
        turned = drawn(np.float32, 3, 6, 4, 2)
        found = cp.linalg.tensorsolve(cp.asarray(turned), cp.asarray(b.T), axes)
        close(found, np.linalg.tensorsolve(turned, b.T, axes), 400)
    for ind, x in ((2, a), (1, drawn(np.float32, 6, 2, 3))):
        close(cp.linalg.tensorinv(cp.asarray(x), ind), np.linalg.tensorinv(x, ind), 400)
    for call in (lambda x: cp.linalg.tensorinv(x, 1), lambda x: cp.linalg.tensorsolve(x, x)):
        with pytest.raises(cp.ShapeError, match="expected as many numbers"):
            call(cp.asarray(a))
    with pytest.raises(cp.DefinitionError, match="ind=0: expected a number above 0"):
        cp.linalg.tensorinv(cp.asarray(a), 0)


def test_least_squares_of_batches(device):
    a, b = drawn(np.float32, 3, 6, 4), drawn(np.float32, 6, 2)
    a[1, :, 3] = a[1, :, 0]
    x, left, rank, s = ops.linalg.lstsq(cp.asarray(a), cp.asarray(b))
    np.testing.assert_array_equal(rank.get(), [4, 3, 4])
    for k in range(3):
        expected = np.linalg.lstsq(a[k].astype(float), b, 1e-6)
        close(x[k], expected[0], 100)
        close(left[k], ((b - a[k] @ expected[0]) ** 2).sum(0), 20)
        close(s[k], expected[3], 4)
    with pytest.raises(cp.ShapeError, match=r"A has shape \(3, 6, 4\) and B \(2, 2\)"):
        ops.linalg.lstsq(cp.asarray(a), cp.asarray(b[:2]))


@pytest.mark.parametrize("shape", [(2, 7, 4), (90, 70)])
def test_products_of_reflections(device, shape):
    a = cp.asarray(drawn(np.complex64, *shape))
    q, _ = ops.linalg.qr(a)
    h, tau = orthogonal.reflections(a)
    close(ops.linalg.householder_product(h, tau), up(q))
    first = ops.linalg.householder_product(h, tau[..., :2])
    found = up(first)
    close(adjoint(found) @ found - np.eye(shape[-1]), 0 * adjoint(found) @ found, by=1)
    close(found[..., :2], up(q)[..., :2])
    with pytest.raises(cp.ShapeError, match="that is not wide"):
        ops.linalg.householder_product(h, tau[..., None])


def test_in_a_trace(device):
    a, b = positive(np.float32, 3, 4, 4), drawn(np.float32, 3, 4, 2)

    def whole(a, b):
        w, _ = cp.linalg.eigh(a)
        return cp.linalg.solve(a, b), cp.linalg.cholesky(a), w, cp.linalg.svd(a).S

    given = cp.asarray(a), cp.asarray(b)
    for one, other in zip(cp.jit(whole)(*given), whole(*given), strict=True):
        np.testing.assert_array_equal(one.get(), other.get())
    assert not np.isfinite(cp.jit(cp.linalg.inv)(cp.zeros((2, 2))).get()).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda linalg, x: linalg.inv(x),
            "ShapeError",
            r"inv: A has shape \(3, 4\), expected square",
        ),
        (
            lambda linalg, x: linalg.inv(x[0]),
            "ShapeError",
            r"\(4,\), expected at least 2 dimensions",
        ),
        (lambda linalg, x: linalg.solve(x[:, :3], x[:2]), "ShapeError", r"\(3, 3\) and B \(2, 4\)"),
        (
            lambda linalg, x: linalg.inv(x.astype(np.float16)),
            "DTypeError",
            "float16, expected one of float32",
        ),
        (
            lambda linalg, x: linalg.qr(x, "raw"),
            "DefinitionError",
            "mode='raw': expected one of reduced",
        ),
        (
            lambda linalg, x: linalg.eigh(x[:, :3], "x"),
            "DefinitionError",
            "UPLO='x': expected 'L' or 'U'",
        ),
        (lambda linalg, x: linalg.norm(x, 3), "DefinitionError", "ord=3 of matrices"),
        (lambda linalg, x: linalg.cross(x, x), "ShapeError", "expected 3 numbers"),
        (lambda linalg, x: linalg.lstsq(x, x[:2]), "ShapeError", "expected \\(m, n\\) and"),
        (
            lambda linalg, x: linalg.inv(np.eye(2)),
            "DTypeError",
            "got ndarray: upload it with cp.asarray",
        ),
        (
            lambda linalg, x: linalg.matrix_power(x[:, :3], 0.5),
            "DTypeError",
            "n=0.5: expected a whole",
        ),
    ],
)
def test_errors(device, call, error, message):
    with pytest.raises(getattr(cp, error), match=message):
        call(cp.linalg, cp.zeros((3, 4)))
