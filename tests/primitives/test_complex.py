"""Strings over complex numbers on every device, against NumPy in complex128."""

import numpy as np
import pytest

import clprim as cp

COMPLEX = [np.complex64, np.complex128]
EPS = {np.complex64: 2.0**-23, np.complex128: 2.0**-52}


def numbers(shape, dtype=np.complex64, seed=0):
    generator = np.random.default_rng(seed)
    parts = generator.standard_normal((2, *shape))
    return (parts[0] + 1j * parts[1]).astype(dtype)


def close(found, expected, dtype, units=8):
    """Within some units in the last place of the larger part."""
    found = found.get()
    assert found.shape == np.shape(expected)
    error = np.abs(found.astype(complex) - expected)
    assert (error <= units * EPS[dtype] * np.abs(expected)).all()


@pytest.fixture(params=COMPLEX, ids=["complex64", "complex128"])
def dtype(request, device):
    if request.param is np.complex128 and not device.traits.fp64:
        pytest.skip("no doubles")
    return request.param


@pytest.mark.parametrize("length", [1, 3, 8, 1000])
def test_a_chain_of_vectors(dtype, length):
    a, b = (numbers((length,), dtype, n) for n in range(2))
    op = cp.Pointwise("y0 = x0 * conj(x1) + w0; y1 = (x0 - 1i) / x1; y2 = real(x0) * 2;")
    y, z, re = op(cp.asarray(a), cp.asarray(b), 2.5 - 1j)
    assert (y.dtype, z.dtype, re.dtype) == (dtype, dtype, a.real.dtype)
    a, b = a.astype(complex), b.astype(complex)
    size = (np.abs(a) * np.abs(b) + 3).max()
    assert np.abs(y.get() - (a * b.conj() + 2.5 - 1j)).max() <= 8 * EPS[dtype] * size
    close(z, (a - 1j) / b, dtype, 64)
    close(re, a.real * 2, dtype)


def test_broadcasts_views_and_real_operands(dtype):
    a, b = numbers((6, 40), dtype), numbers((40,), dtype, 1)
    f = np.arange(1, 7, dtype=a.real.dtype)[:, None]
    op = cp.Pointwise("y0 = x0 * x2 + x1;")
    x = cp.asarray(a)
    close(op(x, cp.asarray(b), cp.asarray(f)), a.astype(complex) * f + b, dtype, 64)
    close(op(x[:, ::-2], cp.asarray(b)[:20], cp.asarray(f)), a[:, ::-2] * f + b[:20], dtype, 64)
    turned = op(x.T[3:], cp.asarray(b)[3:, None], cp.asarray(f.T))
    close(turned, a.T[3:] * f.T + b[3:, None], dtype, 64)


@pytest.mark.parametrize(
    "name", "exp log sqrt sin cos tan sinh cosh tanh reciprocal abs arg conj real imag".split()
)
def test_functions(dtype, name):
    z = 3 * numbers((500,), dtype)
    expected = getattr(np, {"arg": "angle"}.get(name, name))(z.astype(complex))
    close(cp.Pointwise(f"y0 = {name}(x0);")(cp.asarray(z)), expected, dtype, 16)


def test_powers(dtype):
    a, b = (numbers((300,), dtype, n) for n in range(2))
    op = cp.Pointwise("y0 = pow(x0, x1); y1 = pow(x0, 3); y2 = pow(x0, -2); y3 = pow(x0, 0.5);")
    found = op(cp.asarray(a), cp.asarray(b))
    for y, e in zip(found, (b.astype(complex), 3, -2, 0.5), strict=True):
        close(y, a.astype(complex) ** e, dtype, 64)


def special(dtype):
    """All pairs of zeros, ones, large, small, infinite numbers and NaN."""
    large, small = (1e38, 1e-40) if dtype is np.complex64 else (1e308, 1e-310)
    parts = [0.0, 1, 0.5, 40, large, small, np.inf]
    parts = np.array([*parts, *(-p for p in parts), np.nan, 3e-5])
    z = np.empty((parts.size, parts.size), dtype)
    z.real, z.imag = parts[:, None], parts
    return z


def agrees(found, expected, units, eps):
    """NaN, infinities, zeros with their signs, and numbers within some units of the larger part."""
    size = np.maximum(
        *(np.where(np.isfinite(p), np.abs(p), 0) for p in (expected.real, expected.imag))
    )
    for f, e in ((found.real, expected.real), (found.imag, expected.imag)):
        near = np.abs(f - e) <= units * eps * size + np.finfo(f.dtype).tiny  # may be flushed
        assert np.where(np.isnan(e), np.isnan(f), np.where(np.isinf(e), f == e, near)).all()
    return size


@pytest.mark.parametrize("name", "abs arg exp log sqrt sin cos tan sinh cosh tanh".split())
def test_branch_cuts_zeros_and_infinities_are_numpys(dtype, device, name):
    z = special(dtype)
    if "Portable" in device.platform or not device.traits.is_cpu:
        small = (abs(p) < np.finfo(dtype).tiny for p in (z.real, z.imag))  # some flush these
        z = z[~np.logical_or(*(s & (p != 0) for s, p in zip(small, (z.real, z.imag), strict=True)))]
    with np.errstate(all="ignore"):
        expected = getattr(np, {"arg": "angle"}.get(name, name))(z)
        agrees(cp.Pointwise(f"y0 = {name}(x0);")(cp.asarray(z)).get(), expected, 16, EPS[dtype])


def test_cuts_are_continuous_from_the_side_of_the_sign(dtype):
    z = cp.asarray(np.array([complex(-4, 0.0), complex(-4, -0.0)], dtype))
    root, log = cp.Pointwise("y0 = sqrt(x0); y1 = log(x0);")(z)
    assert root.get().tolist() == [2j, -2j]
    assert (np.sign(log.get().imag) == [1, -1]).all()


def test_quotients_do_not_overflow_on_the_way(dtype):
    large = dtype(1e38 + 1e38j) if dtype is np.complex64 else dtype(1e308 + 1e308j)
    tiny = dtype(1e-37 - 1e-37j) if dtype is np.complex64 else dtype(1e-307 - 1e-307j)
    z = cp.asarray(np.array([large, tiny, 1j * large]))
    op = cp.Pointwise("y0 = x0 / x0; y1 = reciprocal(x0) * x0; y2 = sqrt(x0) * sqrt(x0) / x0;")
    for y in op(z):
        assert np.abs(y.get() - 1).max() <= 8 * EPS[dtype]


def test_quotients_by_nothing_and_by_infinities(dtype):
    inf, nan = np.inf, np.nan
    a = np.array([1, 1 - 2j, 0, 1 + 1j, complex(inf, 1), nan], dtype)
    b = np.array([0, 0, 0, complex(inf, nan), complex(1, 1), 1], dtype)
    found = cp.Pointwise("y0 = x0 / x1;")(cp.asarray(a), cp.asarray(b)).get()
    np.testing.assert_array_equal(found.real, [inf, inf, nan, 0, inf, nan])
    np.testing.assert_array_equal(found.imag, [nan, -inf, nan, 0, -inf, nan])
    ends = np.array([complex(inf, inf), complex(-inf, 3), complex(2, -inf)], dtype)
    assert not np.any(cp.Pointwise("y0 = (1 + 2i) / x0;")(cp.asarray(ends)).get())


REDUCED = [(40, 7), (3, 2000), (5, 64, 3)]


@pytest.mark.parametrize("shape", REDUCED, ids=str)
@pytest.mark.parametrize("axis", [0, -1, None])
def test_sums_and_means(dtype, shape, axis):
    a = numbers(shape, dtype)
    x, wide = cp.asarray(a), a.astype(complex)
    bound = 4 * EPS[dtype] * np.abs(wide).sum(axis)
    assert (np.abs(cp.sum(x, axis=axis).get() - wide.sum(axis)) <= bound).all()
    assert (np.abs(cp.mean(x, axis=axis).get() - wide.mean(axis)) <= bound).all()
    for name in ("var", "std"):
        found = getattr(cp, name)(x, axis=axis)
        assert found.dtype == a.real.dtype
        np.testing.assert_allclose(found.get(), getattr(wide, name)(axis), rtol=64 * EPS[dtype])


def test_products_truth_and_scans(dtype):
    a = numbers((9, 12), dtype)
    a[3, 5] = 0
    x, wide = cp.asarray(a), a.astype(complex)
    close(cp.prod(x, axis=1)[:3], wide.prod(1)[:3], dtype, 64)
    assert cp.all(x, axis=1).get().tolist() == a.all(1).tolist()
    assert cp.any(x * 0, axis=1).get().tolist() == [False] * 9
    assert cp.count_nonzero(x).item() == 107
    bound = 16 * EPS[dtype] * np.abs(wide).sum()
    assert np.abs(cp.cumsum(x, axis=1).get() - wide.cumsum(1)).max() <= bound
    assert np.abs(cp.cumsum(x, axis=0).get() - wide.cumsum(0)).max() <= bound


def test_a_norm_is_real(dtype):
    a = numbers((30, 50), dtype)
    norm = cp.Reduction(
        "y0 = real(x0 * conj(x0));", init="reduce_y0 = 0;", step="reduce_y0 += y0;",
        finalize="y0 = sqrt(reduce_y0);",
    )  # fmt: skip
    found = norm(cp.asarray(a), axis=1)
    assert found.dtype == a.real.dtype
    expected = np.linalg.norm(a.astype(complex), axis=1)
    np.testing.assert_allclose(found.get(), expected, rtol=16 * EPS[dtype])


GROUPED = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
SHAPES = [((7, 33), -1), ((7, 33), 0), ((3, 5, 7), (0, 2)), ((2000, 3), 1), ((3, 5000), None)]


@pytest.mark.parametrize("shape, axis", SHAPES, ids=str)
def test_groups_and_their_elements(dtype, shape, axis):
    norm = cp.Grouped(
        "y0 = real(x0 * conj(x0));", finalize="group_y0 = sqrt(reduce_y0);",
        each="y0 = x0 / group_y0 * w0; y1 = abs(x0) / group_y0;", **GROUPED,
    )  # fmt: skip
    a = numbers(shape, dtype)
    for part in (..., np.s_[::-1, 1:]):
        x, z = cp.asarray(a)[part], a[part].astype(complex)
        size = np.sqrt((np.abs(z) ** 2).sum(axis, keepdims=True))
        y, shares, kept = norm(x, 0.5 - 1j, axis=axis, keep=[True])
        assert (y.dtype, shares.dtype, kept.dtype) == (dtype, a.real.dtype, a.real.dtype)
        for found, expected in ((y, z / size * (0.5 - 1j)), (shares, abs(z) / size), (kept, size)):
            close(found, expected, dtype, 32)


@pytest.mark.parametrize("shape, axis", SHAPES, ids=str)
def test_groups_have_complex_values_beside_real_ones(dtype, shape, axis):
    softmax = cp.Grouped(
        "y0 = exp(x0 - x1);", init="reduce_y0 = 0; reduce_y1 = lowest_reduce_y1;",
        step="reduce_y0 += y0; reduce_y1 = max(reduce_y1, real(x0));",
        combine="reduce_y0 += other_y0; reduce_y1 = max(reduce_y1, other_y1);",
        finalize="group_y0 = reduce_y0 / count; group_y1 = reduce_y1 + 1 / count;",
        each="y0 = exp(x0 - x1) / group_y0 + group_y1;",
    )  # fmt: skip
    a, b = numbers(shape, dtype), numbers((1,) * len(shape), dtype, 1)
    y, mean, largest = softmax(cp.asarray(a), cp.asarray(b), axis=axis, keep=[True, True])
    assert (y.dtype, mean.dtype, largest.dtype) == (dtype, dtype, a.real.dtype)
    e = np.exp(a.astype(complex) - b)
    expected = e.mean(axis, keepdims=True)
    bound = 16 * EPS[dtype] * np.abs(e).mean(axis, keepdims=True)
    assert (np.abs(mean.get() - expected) <= bound).all()
    top = a.real.max(axis, keepdims=True).astype(float) + expected.size / a.size
    close(largest, top, dtype)
    close(y, e / mean.get().astype(complex) + top, dtype, 4096)  # sums of two may cancel


def test_real_groups_become_complex(dtype):
    a = np.arange(1, 40, dtype=dtype().real.dtype)
    each = "y0 = (x0 - group_y0) * w0 + real(x0 * 1i - group_y0);"
    op = cp.Grouped("y0 = x0;", each=each, **GROUPED)
    found = op(cp.asarray(a), 2j)
    assert found.dtype == dtype
    close(found, (a - a.sum()) * 2j - a.sum(), dtype)
    assert op(cp.asarray(a), 2.0).dtype == a.dtype
    wide = cp.Grouped("y0 = x0;", each="y0 = group_y0;", partial_type=a.dtype, **GROUPED)
    assert [k.dtype for k in wide(cp.asarray(a * dtype(1j)), keep=[True])] == [dtype, dtype]


def test_groups_refuse_what_complex_numbers_have_not(dtype):
    x = cp.asarray(numbers((4, 4), dtype))
    plain = cp.Grouped("y0 = x0;", each="y0 = x0 - group_y0;", **GROUPED)
    ordered = cp.Grouped("y0 = x0;", each="y0 = x0 < group_y0 ? x0 : group_y0;", **GROUPED)
    with pytest.raises(cp.DTypeError, match=r"Grouped each, line 1: .* no order\n .*x0 < group_y0"):
        ordered(x)
    real = cp.Grouped("y0 = x0;", each="y0 = x0;", result_type=np.float32, **GROUPED)
    with pytest.raises(cp.DTypeError, match="Grouped each, line 1: y0 is real"):
        real(x)
    with pytest.raises(cp.DTypeError, match=r"y0 is complex.* out= of float32 cannot hold"):
        plain(x, out=cp.zeros(x.shape))
    message = "gradient of Grouped .*no gradients of complex numbers are derived"
    for call in (
        lambda: plain.gradient()(x, grad=x),
        lambda: plain.gradient()(x.real, grad=x),
        lambda: cp.value_and_grad(lambda z: abs(plain(z)).sum(), wrt="z")(x),
        cp.Grouped("y0 = abs(x0 - 1i);", each="y0 = group_y0;", **GROUPED).gradient,
    ):
        with pytest.raises(cp.DTypeError, match=message):
            call()
    with pytest.raises(cp.DTypeError, match="softmax_backward: expected real numbers for grad"):
        cp.ops.softmax_backward(x, x.real)
    with pytest.raises(cp.DTypeError, match="softmax: expected real numbers for x"):
        cp.ops.softmax(x)


def test_compiled_chains_run_in_groups(dtype):
    a = numbers((6, 50), dtype)
    plain = cp.Grouped("y0 = x0;", each="y0 = x0 - group_y0;", **GROUPED)
    compiled = cp.jit(lambda x: cp.exp(plain(x * 0.25j) * 1e-2) + x.real)
    z = a.astype(complex) * 0.25j
    expected = np.exp((z - z.sum(1, keepdims=True)) * 1e-2) + a.real
    close(compiled(cp.asarray(a)), expected, dtype, 256)


def test_parts_of_what_is_computed_multiply_vectors(dtype):
    a, b = (numbers((35,), dtype, n) for n in range(2))
    op = cp.Pointwise("y0 = x0 * real(x1 - 1i) + imag(x0 * x1);")
    expected = a.astype(complex) * b.real + (a.astype(complex) * b).imag
    close(op(cp.asarray(a), cp.asarray(b)), expected, dtype, 256)


def test_other_primitives_refuse(dtype):
    x = cp.asarray(numbers((4, 4), dtype))
    for call, name in (
        (lambda: cp.sort(x), "sort: expected real numbers, got complex"),
        (lambda: cp.ops.conv1d(x[None], x[None]), "conv1d takes no complex"),
        (lambda: cp.argmax(x), "argmax: complex numbers have no order"),
        (lambda: cp.max(x), "amax: complex numbers have no order"),
    ):
        with pytest.raises(cp.DTypeError, match=name):
            call()
