"""Strings that run where a transform reads and writes, against NumPy."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

RNG = np.random.default_rng(0)
POWER = "y0 = real(x0) * real(x0) + imag(x0) * imag(x0);"
WINDOW = "y0 = x0 * x1;"
# Vectors of lines, one line, primes, an odd one, columns and rows, halves by themselves.
SHAPES = [(40, 64), (3, 64), (20, 97), (20, 47), (20, 45), (1, 4096), (7, 8192)]


def drawn(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def check(found, expected):
    assert found.shape == expected.shape
    assert np.iscomplexobj(expected) == (found.dtype.kind == "c")
    scale = np.sqrt(np.mean(abs(expected) ** 2))
    np.testing.assert_allclose(found.get(), expected, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("shape", SHAPES)
def test_real_numbers(device, shape):
    x, w = drawn(*shape), drawn(shape[1])
    found = ops.fft.rfft(
        cp.asarray(x), load=WINDOW, load_args=(cp.asarray(w),), store=POWER, norm="ortho"
    )
    check(found, abs(np.fft.rfft(x * w, norm="ortho")) ** 2)
    told = {"load": "y0 = exp(x0) > 1 ? x0 : x1;", "load_args": (cp.asarray(w),)}
    check(ops.fft.rfft(cp.asarray(x), **told), np.fft.rfft(np.where(x > 0, x, w)))
    columns = ops.fft.rfft(
        cp.asarray(x.T), axis=0, load=WINDOW, load_args=(cp.asarray(w[:, None]),)
    )
    check(columns, np.fft.rfft(x * w).T)


@pytest.mark.parametrize("shape", SHAPES)
def test_complex_numbers(device, shape):
    x, w = drawn(*shape), drawn(shape[1])
    z = x + 1j * x[::-1]
    chirp = np.exp(1j * w).astype(np.complex64)
    given, window = cp.asarray(z), cp.asarray(w)
    found = ops.fft.fft(
        given,
        load="y0 = x0 * x1 * w0;",
        load_args=(window, 2.0),
        store="y0 = conj(x0) * w0;",
        store_args=(3.0,),
    )
    check(found, np.conj(np.fft.fft(z * w * 2)) * 3)
    found = ops.fft.ifft(given, load=WINDOW, load_args=cp.asarray(chirp))
    check(found, np.fft.ifft(z * chirp))
    found = ops.fft.fft(cp.asarray(x), load="y0 = complex(x0, x1);", load_args=(window,))
    check(found, np.fft.fft(x + 1j * w))
    found = ops.fft.fft(given, store="y0 = x0 * w0 * w1;", store_args=[2j, np.complex64(1j)])
    check(found, np.fft.fft(z) * -2)
    found = ops.fft.fft(given, store="y0 = x0 * x1;", store_args=(cp.asarray(z),))
    check(found, np.fft.fft(z) * z)


@pytest.mark.parametrize("shape", SHAPES)
def test_from_half_a_spectrum(device, shape):
    n = shape[1]
    z, w = drawn(shape[0], n // 2 + 1) + 1j * drawn(shape[0], n // 2 + 1), drawn(n)
    half = w[: n // 2 + 1]
    found = ops.fft.irfft(
        cp.asarray(z),
        n,
        load=WINDOW,
        load_args=(cp.asarray(half),),
        store="y0 = x0 * x1 + w0;",
        store_args=(cp.asarray(w), 1.5),
    )
    check(found, np.fft.irfft(z * half, n) * w + 1.5)


SEVERAL = {  # what NumPy computes, last step by last step
    "fftn": lambda x, axes: np.fft.fftn(x, axes=axes),
    "ifft2": lambda x, axes: np.fft.ifft2(x, axes=axes),
    "rfftn": lambda x, axes: np.fft.rfftn(x.real, axes=axes),
    "irfft2": lambda x, axes: np.fft.irfft2(x, axes=axes),
    "hfftn": lambda x, axes: np.fft.hfft(np.fft.fftn(x, axes=axes[:-1]), axis=axes[-1]),
    "ihfft2": lambda x, axes: np.fft.ifftn(np.fft.ihfft(x.real, axis=axes[-1]), axes=axes[:-1]),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_dimensions(device, name):
    """What is read and what is written last."""
    axes = (2, 0) if name.endswith("n") else (-2, -1)
    x, w = drawn(5, 6, 16) + 1j * drawn(5, 6, 16), drawn(6, 16)
    x = x.real if name in ("rfftn", "ihfft2") else x
    window, expected = cp.asarray(w), SEVERAL[name](x * w, axes)
    v = drawn(*expected.shape)
    store, args = "y0 = x0 * x1 + w0;", (cp.asarray(v), 0.5)
    run = getattr(ops.fft, name)
    given = {"load": WINDOW, "load_args": window, "store": store, "store_args": args}
    with cp.profile() as profile:
        found = run(cp.asarray(x), dim=axes, **given)
    assert len(profile.events) == 2
    check(found, expected * v + 0.5)
    told = [cp.asarray(a) for a in (x, w, v)]

    @cp.jit
    def traced(x, w, v):
        args = (v, 0.5)
        return run(x, dim=axes, load=WINDOW, load_args=w, store=store, store_args=args)

    check(traced(*told), expected * v + 0.5)
    only = run(cp.asarray(x), dim=1, store="y0 = x0 * 2;")
    check(only, 2 * SEVERAL[name](x, (1,)))


def test_zeros_that_follow_are_not_given_to_the_string(device):
    x, w = drawn(20, 30), drawn(20, 1)
    for n in (12, 64, 94, 5000):
        found = ops.fft.fft(cp.asarray(x), n, load="y0 = x0 + x1;", load_args=(cp.asarray(w),))
        check(found, np.fft.fft(x + w, n))
        found = ops.fft.rfft(cp.asarray(x), n, load="y0 = x0 + x1;", load_args=(cp.asarray(w),))
        check(found, np.fft.rfft(x + w, n))


@pytest.mark.parametrize(
    "text", ["y0 = x0 * coord(1);", "y0 = x0 + at_x1(index % 8);", "y0 = x0 + 0.0 * index + x1;"]
)
def test_strings_that_run_before_the_transform(device, text):
    x, w = drawn(5, 8), drawn(8)
    args = (cp.asarray(w),) * ("x1" in text)
    first = cp.Pointwise(text)(cp.asarray(x), *args).get()
    check(ops.fft.fft(cp.asarray(x), load=text, load_args=args), np.fft.fft(first))
    check(ops.fft.rfft(cp.asarray(x), load=text, load_args=args), np.fft.rfft(first))


def test_one_kernel(device):
    x, w = cp.asarray(drawn(40, 64)), cp.asarray(drawn(64))
    ops.fft.rfft(x, load=WINDOW, load_args=(w,), store=POWER)
    with cp.profile() as profile:
        ops.fft.rfft(x, load=WINDOW, load_args=(w,), store=POWER)
    assert len(profile.events) == 1


def test_in_a_trace(device):
    x, w = drawn(40, 64), drawn(64)

    @cp.jit
    def power(x, w):
        return ops.fft.rfft(x, load=WINDOW, load_args=(w,), store=POWER)

    for _ in range(2):
        check(power(cp.asarray(x), cp.asarray(w)), abs(np.fft.rfft(x * w)) ** 2)


@pytest.mark.parametrize(
    ("told", "error", "message"),
    [
        ({"load": "y0 = x0 *;"}, "DefinitionError", "load, line 1"),
        ({"store": "y1 = x0;"}, "DefinitionError", "y0 is never assigned"),
        ({"load": "y0 = x0 * 1i;"}, "DTypeError", "load= makes complex numbers"),
        ({"load": "y0 = x0 * x1;"}, "ShapeError", "expected 2 arguments"),
        ({"load_args": (1.0,)}, "DefinitionError", "load_args without load="),
        ({"store": 3}, "DefinitionError", "store"),
        ({"load": WINDOW, "load_args": drawn(8)}, "DTypeError", r"fft.rfft: load=: .* x1, got nd"),
        ({"store": WINDOW, "store_args": 3}, "DTypeError", "x1, got int"),
        ({"store": "y0 = x0 * w0;", "store_args": ("a",)}, "DTypeError", "fft.rfft: store=: .*str"),
        ({"load": "y0 = x0 * w0;", "load_args": 1j}, "DTypeError", "load= makes complex numbers"),
        ({"store": "y0 = x0; y1 = x0;"}, "ShapeError", "store= makes something else"),
    ],
)
def test_errors(device, told, error, message):
    with pytest.raises(getattr(cp, error), match=message):
        ops.fft.rfft(cp.zeros((3, 8)), **told)


def test_a_string_may_not_widen(device):
    with pytest.raises(cp.ShapeError, match="load= makes something else"):
        ops.fft.fft(cp.zeros((1, 8)), load=WINDOW, load_args=(cp.zeros((3, 8)),))


def test_no_dimensions_have_no_strings(device):
    x = cp.zeros((3, 8), np.complex64)
    assert ops.fft.fftn(x, dim=()) is x
    for told in ({"load": "y0 = 2 * x0;"}, {"store_args": (1.0,)}):
        with pytest.raises(cp.ShapeError, match="at least one dimension"):
            ops.fft.fftn(x, dim=(), **told)


def test_an_argument_that_is_none_is_refused_in_the_functions_name(device):
    with pytest.raises(TypeError, match=r"^irfft2\(\) got an unexpected keyword argument 'out'$"):
        ops.fft.irfft2(cp.ones((4, 4)), out=None)
