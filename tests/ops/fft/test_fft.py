"""Transforms by PyTorch's and NumPy's names, against NumPy in float64."""

import numpy as np
import pytest
from support import BFLOAT16

import clprim as cp
from clprim import ops
from clprim.primitives import fourier

RNG = np.random.default_rng(0)
REAL = {"rfft", "ihfft", "rfft2", "rfftn"}
ONE = "fft ifft rfft irfft hfft ihfft".split()
SEVERAL = "fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn".split()
NORMS = [None, "backward", "ortho", "forward"]


def drawn(name, *shape):
    x = RNG.normal(size=shape).astype(np.float32)
    if name in REAL:
        return x
    return (x + 1j * RNG.normal(size=shape)).astype(np.complex64)


def check(found, expected):
    assert found.shape == expected.shape
    assert found.dtype == (np.complex64 if np.iscomplexobj(expected) else np.float32)
    scale = np.sqrt(np.mean(abs(expected) ** 2))
    np.testing.assert_allclose(found.get(), expected, rtol=0, atol=5e-6 * scale)


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 1, 2, 7, 16, 19])
def test_one_dimension(device, name, norm, n):
    x = drawn(name, 5, 9, 3)
    expected = getattr(np.fft, name)(x, n, 1, norm)
    check(getattr(ops.fft, name)(cp.asarray(x), n, 1, norm), expected)
    check(getattr(cp.fft, name)(cp.asarray(x), n=n, axis=1, norm=norm), expected)


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("s", [None, (4, 9)])
def test_several_dimensions(device, name, norm, s):
    x = drawn(name, 3, 6, 8)
    axes = (0, 2) if name.endswith("n") else (-1, -2)
    expected = getattr(np.fft, name)(x, s, axes, norm)
    check(getattr(ops.fft, name)(cp.asarray(x), s, axes, norm), expected)
    check(getattr(cp.fft, name)(cp.asarray(x), s=s, axes=axes, norm=norm), expected)
    check(getattr(ops.fft, name)(cp.asarray(x)), getattr(np.fft, name)(x))


@pytest.mark.parametrize("name", ["rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("have", [4, 5, 9])
@pytest.mark.parametrize("n", [6, 12, 40, 46, 4096])
@pytest.mark.parametrize("axis", [0, 1])
def test_real_numbers_cut_off_and_padded(device, name, have, n, axis):
    shape = (have, 20) if axis == 0 else (20, have)
    x = drawn(name if name != "ihfft" else "rfft", *shape)
    expected = getattr(np.fft, name)(x.astype(np.result_type(x, float)), n, axis)
    check(getattr(ops.fft, name)(cp.asarray(x), n, axis), expected)


@pytest.mark.parametrize("n", [1, 2, 9, 16, 17, 34, 47, 94, 4096, 4099])
def test_imaginary_parts_that_there_are_none_of(device, n):
    x = drawn("rfft", 3, n)
    ends = [0] if n % 2 else [0, n // 2]
    for name in ("rfft", "ihfft"):
        found = getattr(ops.fft, name)(cp.asarray(x)).get()[:, ends].imag
        np.testing.assert_array_equal(found, 0)
    z = drawn("fft", 3, n // 2 + 1)
    real = z.copy()
    real[:, ends] = real[:, ends].real
    for name in ("irfft", "hfft"):
        run = getattr(ops.fft, name)
        check(run(cp.asarray(z), n), getattr(np.fft, name)(z.astype(complex), n))
        np.testing.assert_array_equal(run(cp.asarray(z), n).get(), run(cp.asarray(real), n).get())


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize("shape", [(16, 32, 16), (5, 33, 7), (3, 17, 64)])
def test_later_dimensions_are_transformed_in_place(device, name, shape):
    """Where lines fill vectors, and where they do not; what is given stays."""
    z = drawn(name, *shape)
    x = cp.asarray(z)
    run, expected = getattr(ops.fft, name), getattr(np.fft, name)(z)
    check(run(x), expected)
    np.testing.assert_array_equal(x.get(), z)
    compiled = cp.jit(run)
    for _ in range(2):
        check(compiled(x), expected)
    np.testing.assert_array_equal(x.get(), z)
    reused = shape == (16, 32, 16) and name in ("fftn", "ifftn")
    assert not reused or "in-place reuse: 2 results" in compiled.explain(x)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "rfft2"])
@pytest.mark.parametrize("norm", [None, "ortho"])
def test_dimensions_that_are_named_again(device, name, norm):
    x = drawn(name, 4, 5, 6)
    for axes in [(1, 1), (0, 2, 0), (2, 0, -1)][: 1 if name == "rfft2" else None]:
        for s in (None, (7, 3, 8)[: len(axes)]):
            expected = getattr(np.fft, name)(x, s, axes, norm)
            check(getattr(ops.fft, name)(cp.asarray(x), s, axes, norm), expected)
            check(getattr(cp.fft, name)(cp.asarray(x), s, axes, norm), expected)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("s", [None, (4, 9)])
def test_half_of_several_dimensions(device, norm, s):
    x = drawn("hfftn", 3, 6, 8)
    n, last = s or (None, None)
    expected = np.fft.hfft(np.fft.fft(x, n, 0, norm), last, 2, norm)
    check(ops.fft.hfftn(cp.asarray(x), s, (0, 2), norm), expected)
    expected = np.fft.ifft(np.fft.ihfft(x.real, last, -1, norm), n, -2, norm)
    check(ops.fft.ihfft2(cp.asarray(x).real, s, norm=norm), expected)
    check(ops.fft.ihfftn(cp.asarray(x).real, s, (-2, -1), norm), expected)
    check(ops.fft.hfft2(cp.asarray(x)), np.fft.hfft(np.fft.fft(x, axis=1)))


def test_sizes_choose_the_last_dimensions(device):
    x = drawn("fft", 3, 6, 8)
    check(ops.fft.fftn(cp.asarray(x), (4, -1)), np.fft.fft2(x, (4, 8)))


@pytest.mark.parametrize("name", ["fft", "rfft"])
def test_views_that_are_real(device, name):
    z = drawn("fft", 20, 30)
    x = cp.asarray(z)
    check(getattr(ops.fft, name)(x.imag), getattr(np.fft, name)(z.imag))
    check(getattr(ops.fft, name)(x.real.T, axis=1), getattr(np.fft, name)(z.real.T))
    check(ops.fft.fft(x[::-2, 3:]), np.fft.fft(z[::-2, 3:]))


@pytest.mark.parametrize("dtype", ["float16", "int32", "bool", "float64", "complex128"])
def test_dtypes(device, dtype):
    x = cp.asarray(np.array([[1, 0, 1, 1, 0]], dtype))
    wide = dtype in ("float64", "complex128")
    expected = np.fft.fft(x.get().astype(complex))
    found = ops.fft.fft(x)
    assert found.dtype == (np.complex128 if wide else np.complex64)
    np.testing.assert_allclose(found.get(), expected, atol=1e-14 if wide else 1e-6)
    numpys = cp.fft.fft(x).dtype
    assert numpys == (np.complex64 if dtype == "float16" else np.complex128)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int16", "uint8"])
@pytest.mark.parametrize("n", [12, 32, 45, 97, 8192])
def test_narrow_numbers_are_read_as_they_are(device, dtype, n):
    """No kernel converts them before."""
    x = RNG.normal(size=(20, n)) * 20
    x = (abs(x) if dtype == "uint8" else x).astype(BFLOAT16 if dtype == "bfloat16" else dtype)
    given, wide = cp.asarray(x), x.astype(np.float32)
    for name in ("fft", "rfft", "irfft", "ihfft"):
        run = getattr(ops.fft, name)
        check(run(given), getattr(np.fft, name)(wide))
        check(run(given.T[::-1], axis=0), getattr(np.fft, name)(wide.T[::-1], axis=0))
    check(ops.fft.fft2(given), np.fft.fft2(wide))
    check(ops.fft.rfft(given, store="y0 = 2 * x0;"), 2 * np.fft.rfft(wide))
    check(ops.fft.rfft(given, load="y0 = 2 * x0;"), 2 * np.fft.rfft(wide))
    assert ops.fft.fftn(given, dim=()).dtype == np.float32
    if n < 100:
        with cp.profile() as profile:
            ops.fft.fft(given)
        assert len(profile.events) == 1


@pytest.mark.parametrize("name", ["irfft", "hfft"])
@pytest.mark.parametrize("n", [8, 17, 33, 3001, 4097])
def test_half_a_spectrum_of_real_numbers(device, name, n):
    x = drawn("rfft", 3, n)
    check(getattr(ops.fft, name)(cp.asarray(x)), getattr(np.fft, name)(x))


@pytest.mark.parametrize("n", [1, 4, 5])
def test_frequencies_and_shifts(device, n):
    for name in ("fftfreq", "rfftfreq"):
        expected = getattr(np.fft, name)(n, 0.5)
        np.testing.assert_array_equal(getattr(cp.fft, name)(n, 0.5).get(), expected)
        found = getattr(ops.fft, name)(n, d=0.5).get()
        np.testing.assert_array_equal(found, expected.astype(np.float32))
    for x in (drawn("fft", n, 3), np.arange(3 * n).reshape(n, 3)):
        for axes in (None, 0, (1,)):
            there = cp.fft.fftshift(cp.asarray(x), axes)
            np.testing.assert_array_equal(there.get(), np.fft.fftshift(x, axes))
            np.testing.assert_array_equal(ops.fft.ifftshift(there, axes).get(), x)


def test_no_lines_and_no_numbers(device):
    assert ops.fft.fft(cp.zeros((0, 4), np.complex64)).shape == (0, 4)
    found = ops.fft.rfft(cp.zeros((2, 0)), 4)
    np.testing.assert_array_equal(found.get(), np.zeros((2, 3), np.complex64))


def test_in_a_trace(device):
    @cp.jit
    def blurred(x):
        return ops.fft.irfft(ops.fft.rfft(x * 2), 8)

    x = RNG.normal(size=(3, 8)).astype(np.float32)
    for _ in range(2):
        np.testing.assert_allclose(blurred(cp.asarray(x)).get(), 2 * x, atol=1e-6)


def test_what_a_trace_keeps_is_no_part_of_it(device):
    fourier._table.cache_clear()
    x = RNG.normal(size=(3, 28)).astype(np.float32)
    traced = cp.jit(ops.fft.fft)(cp.asarray(x))
    np.testing.assert_array_equal(ops.fft.fft(cp.asarray(x)).get(), traced.get())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f, x: f.fft(x, 0), "ShapeError", "n=0"),
        (lambda f, x: f.fft(x, 2.5), "DTypeError", "integer for n"),
        (lambda f, x: f.irfft(x[:, :1]), "ShapeError", "n=0"),
        (lambda f, x: f.fft(x, dim=2), "ShapeError", "dim=2"),
        (lambda f, x: f.fft(x, dim=0, axis=1), "ShapeError", "one argument"),
        (lambda f, x: f.fft(x, norm="both"), "DefinitionError", "norm='both'"),
        (lambda f, x: f.rfft(x.astype(np.complex64)), "DTypeError", "expected real"),
        (lambda f, x: f.fft([1.0]), "DTypeError", "device array"),
        (lambda f, x: cp.fft.fft(3), "DTypeError", "device array"),
        (lambda f, x: f.fft(x[0, 0]), "ShapeError", "no dimensions"),
        (lambda f, x: f.fftn(x, s=(4,), dim=(0, 1)), "ShapeError", "as many"),
        (lambda f, x: f.fftn(x, s=(1, 2, 3)), "ShapeError", "2 dimensions"),
        (lambda f, x: f.fft2(x[0]), "ShapeError", "out of bounds"),
        (lambda f, x: f.fftfreq(0), "ShapeError", "n=0"),
        (lambda f, x: f.fftfreq(3, 0), "DefinitionError", "d=0"),
    ],
)
def test_errors(device, call, error, message):
    with pytest.raises(getattr(cp, error), match=message):
        call(ops.fft, cp.zeros((3, 4)))


def test_numpys_own_functions_stay_on_the_device(device):
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    for run in (np.fft.fft, np.fft.rfft2, np.fft.fftshift):
        found = run(cp.asarray(x))
        assert isinstance(found, cp.Array)
        np.testing.assert_allclose(found.get(), run(x), rtol=1e-5, atol=1e-5)
