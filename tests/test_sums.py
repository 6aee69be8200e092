"""Sums of float32 are right to 2e-7, whatever is added up and however it lies in memory."""

import math

import numpy as np
import pytest

import clprim as cp
from clprim import ops

LIMIT = 2e-7
# Shape, axis, whether every other element is taken.
FORMS = {
    "all": ((1_000_000,), None, False),
    "columns": ((40_000, 64), 0, False),
    "a piece of columns": ((511, 640), 0, False),
    "narrow": ((400_000, 3), 0, False),
    "rows": ((12, 100_000), 1, False),
    "short rows": ((40, 500), 1, False),
    "planes": ((300, 4, 15, 15), (0, 2, 3), False),
    "strided": ((800_000,), None, True),
}
VALUES = {
    "equal": lambda rng, n: np.full(n, 0.1),
    # Of which eight additions lose most.
    "worst": lambda rng, n: np.full(n, 13421780 / 2**23),
    "random": lambda rng, n: rng.random(n),
    "magnitudes": lambda rng, n: np.where(np.arange(n) % 2, 1e-3, 1e3) * (1 + rng.random(n)),
}


def exact(a, axis):
    axes = range(a.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(axes)
    rows = np.moveaxis(a, axes, range(-len(axes), 0))
    kept = rows.shape[: a.ndim - len(axes)]
    flat = rows.reshape(*kept, -1).astype(np.float64)
    return np.array([math.fsum(row) for row in flat.reshape(-1, flat.shape[-1])]).reshape(kept)


@pytest.mark.parametrize("form", FORMS)
def test_sums_are_right_to_two_units(traits, form):
    shape, axis, every_other = FORMS[form]
    two = cp.Reduction(
        "y0 = x0; y1 = -x0;",
        init="reduce_y0 = 0; reduce_y1 = 0;",
        step="reduce_y0 += y0; reduce_y1 += y1;",
    )
    for make in VALUES.values():
        host = make(np.random.default_rng(1), math.prod(shape)).astype(np.float32).reshape(shape)
        x = cp.asarray(host)
        if every_other:
            host, x = host[::2], x[::2]
        wanted = exact(host, axis)
        np.testing.assert_allclose(x.sum(axis=axis).get().astype(float), wanted, rtol=LIMIT)
        plus, minus = two(x, axis=axis)
        np.testing.assert_allclose(plus.get().astype(float), wanted, rtol=LIMIT)
        np.testing.assert_array_equal(minus.get(), -plus.get())


@pytest.mark.optimised
@pytest.mark.parametrize("rows", [10**8 >> 10, 10**9 >> 10])
def test_sums_of_a_thousand_million(device, rows):
    for make in VALUES.values():
        row = make(np.random.default_rng(1), 1024).astype(np.float32)
        x = cp.broadcast_to(cp.asarray(row), (rows, 1024))  # one row in memory
        wanted = rows * math.fsum(row.astype(np.float64))
        np.testing.assert_allclose(x.sum().get().astype(float), wanted, rtol=LIMIT)


@pytest.mark.parametrize("axis", [0, 1])
def test_variances_are_right_to_1e_6_along_any_axis(device, axis):
    host = np.random.default_rng(0).normal(1e4, 1e-2, (40_000, 8)).astype(np.float32)
    host = host if axis == 0 else np.ascontiguousarray(host.T)
    variance, mean = ops.var_mean(cp.asarray(host), axis)
    exact = host.astype(np.float64)
    np.testing.assert_allclose(variance.get(), exact.var(axis=axis, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(mean.get(), exact.mean(axis=axis), rtol=2.0**-23)


@pytest.mark.usefixtures("unoptimised")
def test_what_is_lost_beside_infinities_is_no_number(device):
    for special in (np.inf, -np.inf, np.nan):
        for shape, axis in (((100_000,), None), ((2000, 64), 0)):
            host = np.random.default_rng(2).random(shape).astype(np.float32)
            host[shape[0] // 3] = special
            np.testing.assert_array_equal(cp.asarray(host).sum(axis=axis).get(), host.sum(axis))
