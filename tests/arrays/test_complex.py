"""Arrays of complex numbers: views of their parts, copies, promotion, exchange, products."""

import pickle

import numpy as np
import pytest

import clprim as cp

torch = pytest.importorskip("torch")


def numbers(shape, seed=0, dtype=np.complex64):
    generator = np.random.default_rng(seed)
    re, im = generator.standard_normal((2, *shape))
    return (re + 1j * im).astype(dtype)


def same(found, expected):
    found = found.get()
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_parts_are_views_that_write_through(device):
    a = numbers((4, 5))
    x = cp.asarray(a)
    assert x.real.strides == x.imag.strides == (40, 8)
    same(x.real, a.real)
    same(x.T[1:].imag, a.T[1:].imag)
    x.real, a.real = 3, 3
    x[::2].imag[:, 1:3] = cp.asarray(np.float32([[7, 8]]))
    a[::2].imag[:, 1:3] = [[7, 8]]
    x.imag += 1
    a.imag += 1
    same(x, a)
    real = cp.asarray(a.real.copy())
    assert real.real is real
    same(real.imag, np.zeros_like(a.real))
    with pytest.raises(cp.DTypeError, match="no imaginary parts"):
        real.imag = 1


def test_making_copying_and_writing(device):
    a, b = numbers((6, 7)), numbers((6, 7), 1)
    x, y = cp.asarray(a), cp.asarray(b)
    same(cp.full((2, 3), 1 + 2j), np.full((2, 3), 1 + 2j, np.complex64))
    same(cp.asarray([1j, 2]), np.array([1j, 2], np.complex64))
    same(cp.zeros((3,), np.complex64), np.zeros(3, np.complex64))
    same(x[::-1, 2::2].copy(), a[::-1, 2::2])
    same(x.T.reshape(2, 21), a.T.reshape(2, 21))
    same(cp.concatenate([x, y], axis=1), np.concatenate([a, b], axis=1))
    same(cp.stack([x, y]), np.stack([a, b]))
    same(cp.roll(x, 2, axis=1), np.roll(a, 2, axis=1))
    same(cp.pad(x, ((1, 2), (0, 1))), np.pad(a, ((1, 2), (0, 1))))
    same(cp.where(cp.asarray(a.real > 0), x, y), np.where(a.real > 0, a, b))
    same(x[[3, 0]], a[[3, 0]])
    same(x[cp.asarray(a.real > 0)], a[a.real > 0])
    x[1:3], a[1:3] = 2 - 1j, 2 - 1j
    x[cp.asarray(b.real > 0)], a[b.real > 0] = 5j, 5j
    same(x, a)


def test_wide_copies(device):
    if not device.traits.fp64:
        pytest.skip("no doubles")
    a = numbers((5, 6), dtype=np.complex128)
    x = cp.asarray(a)
    same(x.T.copy(), a.T)
    same(x[1:, ::-2].copy(), a[1:, ::-2])
    same(cp.concatenate([x, x[:, :2]], axis=1), np.concatenate([a, a[:, :2]], axis=1))
    same(x.astype(np.complex64), a.astype(np.complex64))
    same(cp.broadcast_to(x[0], (3, 6)).copy(), np.broadcast_to(a[0], (3, 6)))


@pytest.mark.parametrize("other", ["int8", "int32", "float16", "float32", "float64", "complex64"])
def test_promotion_is_numpys(device, other):
    if not device.traits.fp64 and other in ("int32", "float64"):
        pytest.skip("no doubles")
    a, b = numbers((3, 4)), np.arange(1, 5).astype(other)
    found, expected = cp.asarray(a) + cp.asarray(b), a + b
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.get(), expected, rtol=1e-6)


@pytest.mark.parametrize("number", [2, 1.5, 1 + 2j, np.complex64(1j), np.float32(3)])
def test_numbers_adapt(device, number):
    a = numbers((3, 4))
    for array in (a, a.real.copy()):
        found, expected = cp.asarray(array) * number, array * number
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.get(), expected, rtol=1e-6)


def test_integers_beside_pythons_complex_numbers_are_wide(double_device):
    for dtype in (np.bool_, np.int8, np.uint8, np.int16, np.int64):
        a = np.array([0, 1, 1], dtype)
        for call in (lambda x: x + 1j, lambda x: (2 - 1j) * x):
            found, expected = call(cp.asarray(a)), call(a)
            assert found.dtype == expected.dtype == np.complex128
            np.testing.assert_array_equal(found.get(), expected)


def test_powers_of_nothing(device):
    a = np.zeros(5, np.complex64)
    b = np.complex64([1 + 2j, 2, 0.5 - 1j, 0, 3])
    np.testing.assert_array_equal((cp.asarray(a) ** cp.asarray(b)).get(), a**b)
    with np.errstate(invalid="ignore"):
        for power in (-1 + 1j, 1j, -2):
            assert np.isnan((cp.asarray(a) ** power).get()).all()


def test_functions_and_comparisons(device):
    a, b = numbers((3, 4)), numbers((3, 4), 1)
    b[1] = a[1]
    x, y = cp.asarray(a), cp.asarray(b)
    same(x == y, a == b)
    same(x != y, a != b)
    same(x.conj(), a.conj())
    same(cp.conj(x.real), a.real)
    same(cp.imag(x), a.imag)
    for name in ("angle", "absolute", "exp", "sqrt", "reciprocal", "square"):
        np.testing.assert_allclose(getattr(cp, name)(x).get(), getattr(np, name)(a), rtol=3e-6)
    np.testing.assert_allclose((x**2.5).get(), a.astype(complex) ** 2.5, rtol=1e-5)
    assert cp.allclose(x, y) is False
    assert cp.allclose(x, x * (1 + 1e-7j))
    assert complex(x[0, 0]) == a[0, 0]


@pytest.mark.parametrize("name", ["less", "floor_divide", "remainder", "bitwise_and"])
def test_what_has_no_meaning_is_refused_by_name(device, name):
    x = cp.asarray(numbers((3,)))
    with pytest.raises(cp.DTypeError, match=f"{name}: complex numbers have no"):
        getattr(cp, name)(x, x)


def test_imaginary_parts_are_not_lost_silently(device):
    x, real = cp.asarray(numbers((3,))), cp.zeros((3,))
    with pytest.raises(cp.DTypeError, match="astype: complex64 to float32 loses imaginary"):
        x.astype(np.float32)
    with pytest.raises(cp.DTypeError, match="loses imaginary"):
        real[:] = x
    with pytest.raises(cp.DTypeError):
        real[:] = 1j
    with pytest.raises(cp.DTypeError):
        real += x
    same(x.astype(bool), np.array([True, True, True]))
    same(real, np.zeros(3, np.float32))


def test_exchange_and_printing(device):
    a = numbers((3, 4))
    x = cp.asarray(a)
    same(pickle.loads(pickle.dumps(x)), a)
    np.testing.assert_array_equal(np.asarray(x), a)
    same(x.view(np.float32), a.view(np.float32))
    same(cp.asarray(a.view(np.float32)).view(np.complex64), a)
    same(cp.from_dlpack(torch.from_numpy(a)), a)
    if device.type == "cpu":
        np.testing.assert_array_equal(torch.from_dlpack(x).numpy(), a)
    assert "1.+2.j" in repr(cp.full((2,), 1 + 2j))
    assert "dtype=complex64" in repr(x)


@pytest.mark.parametrize("shapes", [((5, 7), (7, 6)), ((2, 5, 7), (7, 3)), ((7,), (7, 6))], ids=str)
@pytest.mark.parametrize("kinds", ["cc", "cf", "fc"])
def test_products_of_matrices(device, shapes, kinds):
    a, b = (numbers(shape, n) for n, shape in enumerate(shapes))
    a, b = (m if kind == "c" else m.real.copy() for m, kind in zip((a, b), kinds, strict=True))
    found = cp.asarray(a) @ cp.asarray(b)
    wide = a.astype(complex), b.astype(complex)
    assert found.dtype == np.complex64
    assert found.shape == (a @ b).shape
    bound = 8 * 2.0**-23 * (np.abs(wide[0]) @ np.abs(wide[1]))
    assert (np.abs(found.get() - wide[0] @ wide[1]) <= bound).all()


def test_products_take_bias_beta_and_transposes(device):
    a, b, c, y = numbers((7, 5)), numbers((6, 7), 1), numbers((6,), 2), numbers((5, 6), 3)
    out = cp.asarray(y)
    cp.ops.matmul(
        cp.asarray(a), cp.asarray(b), transpose_a=True, transpose_b=True, bias=cp.asarray(c),
        out=out, beta=0.5,
    )  # fmt: skip
    np.testing.assert_allclose(out.get(), a.T @ b.T + c + 0.5 * y, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(cp.vdot(out, out).get(), np.vdot(out.get(), out.get()), rtol=1e-5)


def test_compiled(device):
    a, b = numbers((6, 50)), numbers((6, 50), 1)
    f = cp.jit(lambda x, y: abs(x * y.conj() + 1).sum(axis=1) + x.real.sum(axis=1))
    for _ in range(2):
        found = f(cp.asarray(a), cp.asarray(b))
        expected = abs(a * b.conj() + 1).sum(1) + a.real.sum(1)
        np.testing.assert_allclose(found.get(), expected, rtol=1e-5)
