"""Gradients of linear algebra against PyTorch's in float64."""

import itertools

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
OURS, THEIRS = ops.linalg, torch.linalg


def drawn(*shape):
    return RNG.normal(size=shape)


def weighed(values):
    """A sum of results with weights that tell all numbers apart; signs of vectors do not count."""
    total = 0
    for x in values if isinstance(values, tuple) else (values,):
        count = int(np.prod(x.shape))
        weights = (np.cos(np.arange(count)) + 1.5).reshape(x.shape)
        of = torch.tensor if isinstance(x, torch.Tensor) else cp.asarray
        total = total + (x * of(weights)).sum()
    return total


def squares(values):
    return tuple(x * x for x in values)


A, B, TALL = drawn(3, 4, 4), drawn(3, 4, 2), drawn(3, 6, 4)
P = A @ A.swapaxes(-1, -2) + 4 * np.eye(4)
CASES = {
    "solve": (lambda xp, a, b: xp.solve(a, b), A, B),
    "solve, broadcast": (lambda xp, a, b: xp.solve(a, b), A, B[:1]),
    "solve, vectors": (lambda xp, a, b: xp.solve(a, b), A, B[..., 0]),
    "solve, rows": (lambda xp, a, b: xp.solve(a, b.swapaxes(-1, -2), left=False), A, B),
    "inv": (lambda xp, a: xp.inv(a), A),
    "det": (lambda xp, a: xp.det(a), A),
    "slogdet": (lambda xp, a: xp.slogdet(a)[1], A),
    "cholesky": (lambda xp, a: xp.cholesky(a), P),
    "upper cholesky": (lambda xp, a: xp.cholesky(a, upper=True), P),
    "qr": (lambda xp, a: tuple(xp.qr(a)), TALL),
    "qr of large": (lambda xp, a: tuple(xp.qr(a)), drawn(70, 66)),
    "eigvalsh": (lambda xp, a: xp.eigvalsh(a), P),
    "eigh": (lambda xp, a: squares(xp.eigh(a)), P),
    "svdvals": (lambda xp, a: xp.svdvals(a), TALL),
    **{
        f"svd of {a.shape[1:]}": (lambda xp, a: squares(xp.svd(a, full_matrices=False)), a)
        for a in (TALL, TALL.swapaxes(-1, -2).copy(), A)
    },
    "inv of large": (lambda xp, a: xp.inv(a), drawn(70, 70) + 70 * np.eye(70)),
}
LARGE = drawn(66, 66)
CASES["eigh of large"] = (lambda xp, a: squares(xp.eigh(a)), LARGE + LARGE.T)
CASES["svd of large"] = (lambda xp, a: squares(xp.svd(a, full_matrices=False)), LARGE)
for upper, left, unit in itertools.product((False, True), repeat=3):
    how = {"upper": upper, "left": left, "unitriangular": unit}
    given = B if left else B.swapaxes(-1, -2).copy()
    CASES[f"solve_triangular, {how}"] = (
        lambda xp, a, b, how=how: xp.solve_triangular(a, b, **how), A, given,
    )  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_pytorchs(device, name):
    call, *arrays = CASES[name]
    leaves = [torch.tensor(a, requires_grad=True) for a in arrays]
    value = weighed(call(THEIRS, *leaves))
    value.backward()
    every = tuple(range(len(arrays)))
    run = cp.value_and_grad(lambda *xs: weighed(call(OURS, *xs)), wrt=every)
    found, grads = run(*map(cp.asarray, arrays))
    np.testing.assert_allclose(float(found.get()), float(value.detach()), rtol=1e-10)
    for one, leaf in zip(grads, leaves, strict=True):
        expected = leaf.grad.numpy()
        np.testing.assert_allclose(one.get(), expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_what_has_none_says_so(device):
    wide = cp.asarray(drawn(3, 4))
    with pytest.raises(cp.DefinitionError, match="matrices that are not wide"):
        cp.value_and_grad(lambda a: OURS.qr(a)[1].sum(), wrt=0)(wide)
    with pytest.raises(cp.DefinitionError, match="full_matrices=True: expected False"):
        cp.value_and_grad(lambda a: OURS.svd(a)[0].sum(), wrt=0)(wide)


def test_determinants_of_singular_matrices(device):
    x = cp.asarray(np.diag([1.0, 2, 0]))
    found = cp.value_and_grad(OURS.det, wrt=0)(x)[1]
    np.testing.assert_array_equal(found.get(), np.diag([0.0, 0, 2]))
