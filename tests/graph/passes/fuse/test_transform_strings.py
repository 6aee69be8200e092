"""Elementwise nodes run where a transform reads and writes, against NumPy in float64."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

RNG = np.random.default_rng(0)
# Vectors of lines, one line, primes, odd ones, long ones whose half spectra are a kernel apart.
SHAPES = [(40, 64), (3, 64), (20, 97), (20, 47), (20, 45), (1, 4096), (7, 8192)]


def drawn(*shape, dtype=np.float32):
    found = RNG.normal(size=shape)
    kind = np.dtype(dtype).kind
    return (found + 1j * RNG.normal(size=shape) if kind == "c" else found).astype(dtype)


def wide(x):
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def check(found, expected, tolerance=1e-5):
    assert found.shape == expected.shape
    assert np.iscomplexobj(expected) == (found.dtype.kind == "c")
    scale = np.sqrt(np.mean(abs(expected) ** 2))
    np.testing.assert_allclose(found.get(), expected, rtol=0, atol=tolerance * scale)


def kernels(run, *given):
    return [node.primitive.kind for node in run.graph(*given).nodes]


def power(x, w, fft=cp.fft):
    return abs(fft.rfft(x * w)) ** 2


def parts(x, w, fft=cp.fft):
    y = fft.rfft(w - x, norm="ortho")
    return y.real * y.real + y.imag * 3


def filtered(x, w, fft=cp.fft):
    y = fft.fft(x)
    return fft.ifft(y * w * 0.5) + 1


def convolved(x, w, fft=cp.fft):
    return fft.irfft(fft.rfft(x) * fft.rfft(w), x.shape[-1])


def turned(x, w, fft=cp.fft):
    return fft.ifft((x * w + 2).T, axis=0).T.conj() * w


def columns(x, w, fft=cp.fft):
    return abs(fft.rfft(x.T * w[:, None], axis=0).T[::-1])


def cut(x, w, fft=cp.fft):
    return fft.fft(x * w, 3 * x.shape[-1])[:, 1:-3].imag * 2


def plane(x, w, fft=cp.fft):
    return fft.irfft2(fft.rfft2(x * w) * 3, x.shape) + w


FUNCTIONS = [power, parts, filtered, convolved, turned, columns, cut, plane]
COUNTS = {power: 1, parts: 1, filtered: 2, convolved: 3, turned: 1, columns: 1, plane: 4}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_values(device, function, shape):
    x, w = drawn(*shape), drawn(shape[1])
    run = cp.jit(function)
    given = cp.asarray(x), cp.asarray(w)
    expected = function(wide(x), wide(w), np.fft)
    for _ in range(2):
        check(run(*given), expected)
    if shape == (40, 64) and function in COUNTS:
        assert kernels(run, *given) == ["fourier"] * COUNTS[function]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128, np.float64, np.float16, np.int32])
@pytest.mark.parametrize("function", [filtered, turned, convolved, cut])
def test_dtypes(device, function, dtype):
    if np.dtype(dtype).itemsize * (1 + (dtype == np.float64)) == 16 and not device.traits.fp64:
        pytest.skip("without float64")
    x, w = (10 * drawn(20, 36)).astype(dtype), drawn(36, dtype=dtype)
    if function is convolved and np.dtype(dtype).kind == "c":
        pytest.skip("takes real numbers")
    given = cp.asarray(x), cp.asarray(w)
    run, fft = cp.jit(lambda *a: function(*a, ops.fft)), np.fft
    found = run(*given)
    assert found.dtype == function(*given, ops.fft).dtype
    check(found, function(wide(x), wide(w), fft), 2e-3 if dtype == np.float16 else 1e-5)


def test_one_launch(device):
    x, w = cp.asarray(drawn(40, 64)), cp.asarray(drawn(64))
    run = cp.jit(power)
    run(x, w)
    with cp.profile() as profile:
        run(x, w)
    assert len(profile.events) == 1
    assert "1 elementwise nodes run in contractions and transforms" in run.explain(x, w)


@pytest.mark.parametrize("shape", SHAPES)
def test_views(device, shape):
    x = drawn(*shape, 2)
    whole = cp.asarray(x)
    w = drawn(shape[0], 1)

    def function(x, w, fft=cp.fft):
        even, odd = x[..., 0], x[::-1, ::-1, 1]
        return abs(fft.fft(even * w - odd)) * w

    run = cp.jit(function)
    check(run(whole, cp.asarray(w)), function(wide(x), wide(w), np.fft))
    assert kernels(run, whole, cp.asarray(w)) == ["fourier"]


def test_what_others_want_is_stored(device):
    x, w = drawn(40, 64), drawn(64)

    def function(x, w, fft=cp.fft):
        windowed = x * w
        spectrum = fft.rfft(windowed)
        return windowed, spectrum, abs(spectrum)

    found = cp.jit(function)(cp.asarray(x), cp.asarray(w))
    for one, expected in zip(found, function(wide(x), wide(w), np.fft), strict=True):
        check(one, expected)


def test_what_both_strings_read(device):
    x, w = drawn(40, 64), drawn(64)

    def function(x, w, fft=cp.fft):
        y = x * w
        return fft.fft(y) * y

    check(cp.jit(function)(cp.asarray(x), cp.asarray(w)), function(wide(x), w, np.fft))


def test_what_is_cheap_again_is_not_stored(device):
    x = drawn(40, 64)

    def function(x, fft=cp.fft):
        y = x * 2
        return fft.rfft(y) + fft.rfft(x), fft.fft(y)

    run = cp.jit(function)
    for one, expected in zip(run(cp.asarray(x)), function(wide(x), np.fft), strict=True):
        check(one, expected)


@pytest.mark.parametrize(
    "text", ["y0 = x0 * coord(1);", "y0 = at_x0(coord(0), 3) + x0;", "y0 = twice(x0);"]
)
def test_strings_that_stay_apart(device, text):
    preamble = "float twice(float x) { return 2 * x; }" if "twice" in text else ""
    kernel = cp.Pointwise(text, preamble=preamble)
    x = drawn(20, 64)
    before = kernel(cp.asarray(x)).get()
    run = cp.jit(lambda x: ops.fft.rfft(kernel(x)))
    check(run(cp.asarray(x)), np.fft.rfft(before))
    assert len(kernels(run, cp.asarray(x))) == 2
    run = cp.jit(lambda x: kernel(ops.fft.irfft(ops.fft.rfft(x))))
    check(run(cp.asarray(x)), before)
    assert len(kernels(run, cp.asarray(x))) == 3


def test_strings_of_a_call(device):
    x, w = drawn(40, 64), drawn(64)

    @cp.jit
    def run(x, w):
        load, store = "y0 = x0 * x1;", "y0 = real(x0) * w0;"
        return ops.fft.rfft(x, load=load, load_args=(w,), store=store, store_args=(2.0,)) + 1

    given = cp.asarray(x), cp.asarray(w)
    check(run(*given), np.fft.rfft(wide(x) * w).real * 2 + 1)
    assert kernels(run, *given) == ["fourier"]


def test_frames_of_a_signal(device):
    x, w = drawn(3, 1000), drawn(64)
    run = cp.jit(lambda x, w: abs(ops.stft(x, 64, 16, window=w, center=False)) ** 2)
    given = cp.asarray(x), cp.asarray(w)
    frames = np.lib.stride_tricks.sliding_window_view(wide(x), 64, axis=1)[:, ::16]
    check(run(*given), abs(np.fft.rfft(frames * w)).swapaxes(1, 2) ** 2)
    assert kernels(run, *given) == ["fourier"]


def test_results_go_to_their_places(device):
    x, w = drawn(20, 64), drawn(64)
    run = cp.jit(lambda x, w: ops.cat([power(x, w), power(w + x, x)], 1))
    expected = np.concatenate([power(wide(x), w, np.fft), power(wide(x) + w, x, np.fft)], 1)
    given = cp.asarray(x), cp.asarray(w)
    check(run(*given), expected)
    assert kernels(run, *given) == ["fourier"] * 2


@pytest.mark.parametrize("shape", [(40, 64), (20, 45), (1, 4096)])
def test_gradients(device, shape):
    x, w, h = drawn(*shape), drawn(shape[1]), drawn(shape[1] // 2 + 1, dtype=np.complex64)

    def loss(x, w, h):
        return (cp.fft.irfft(cp.fft.rfft(x * w) * h, shape[1]) ** 2).sum()

    run = cp.value_and_grad(loss, (0, 1, 2))
    value, (gx, gw, gh) = run(*map(cp.asarray, (x, w, h)))
    n = shape[1]
    spectrum = np.fft.rfft(wide(x) * w)
    y = np.fft.irfft(spectrum * h, n)
    check(value, np.float64((y**2).sum()), 1e-4)
    # Of y = irfft(s · h): every number that stands for two counts twice.
    twice = np.full(n // 2 + 1, 2.0)
    twice[0] = 1
    twice[n // 2 :] = 1 if n % 2 == 0 else 2
    g = np.fft.rfft(2 * y) * twice / n
    g[..., 0] = g[..., 0].real
    if n % 2 == 0:
        g[..., -1] = g[..., -1].real
    check(gh, (g * spectrum.conj()).sum(0), 1e-4)
    gs = g * np.conj(h)
    back = np.fft.fft(np.concatenate([gs, np.zeros((shape[0], n - gs.shape[1]))], 1).conj())
    gz = back.conj().real
    check(gx, gz * w, 1e-4)
    check(gw, (gz * x).sum(0), 1e-4)

    run = cp.value_and_grad(lambda x, w: power(x, w).sum(), 0)
    check(run(cp.asarray(x), cp.asarray(w))[1], _of_power(x, w), 1e-4)


def _of_power(x, w):
    """The gradient of the sum of |rfft(x w)|²."""
    n = x.shape[1]
    s = np.fft.rfft(wide(x) * w)
    padded = np.concatenate([s, np.zeros((len(s), n - s.shape[1]))], 1)
    return 2 * (np.fft.ifft(padded) * n).real * w


def test_saved_and_loaded(device, tmp_path):
    x, w = cp.asarray(drawn(40, 64)), cp.asarray(drawn(64))
    graph = cp.jit(power).graph(x, w)
    graph.save(tmp_path / "power.clprim")
    loaded = cp.Graph.load(tmp_path / "power.clprim")
    assert [node.primitive.kind for node in loaded.nodes] == ["fourier"]
    check(loaded(x, w), power(wide(x.get()), wide(w.get()), np.fft))


def test_random_strings(device):
    """What a few operations before and behind become is what they are one by one."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(rng.choice([2, 9, 40]), rng.choice([16, 31, 45, 60])))
        x = x.astype(np.float32)
        w, b = rng.normal(size=(2, x.shape[1])).astype(np.float32)
        steps = rng.integers(0, 6, size=4)

        def function(x, w, b, fft, steps=steps):
            def step(z, k):
                choices = [lambda: z * w, lambda: z + b, lambda: z * 1.5, lambda: abs(z) - b]
                choices += [lambda: z.conj() * z, lambda: -z.real]
                return choices[k]()

            z = step(step(x, steps[0]), steps[1])
            y = step(step(fft.fft(z), steps[2]), steps[3])
            return fft.ifft(y)[..., ::2].real

        given = [*map(cp.asarray, (x, w, b))]
        found = cp.jit(lambda *a, f=function: f(*a, cp.fft))(*given)
        check(found, function(*map(wide, (x, w, b)), np.fft))
        np.testing.assert_allclose(
            found.get(), function(*given, cp.fft).get(), rtol=1e-4, atol=1e-3
        )


@pytest.mark.parametrize("shape", [(19, 64), (3, 45)])
def test_results_over_what_is_read(device, shape):
    x, w = drawn(*shape, dtype=np.complex64), drawn(shape[1])

    def run(x, w):
        x[...] = cp.fft.fft(x) * w
        ops.mul(cp.fft.ifft(x), w, out=x)
        x[:, : shape[1] // 2] = cp.fft.fft(x[:, shape[1] // 2 : 2 * (shape[1] // 2)])
        return x

    expected = np.fft.ifft(np.fft.fft(wide(x)) * w) * w
    half = shape[1] // 2
    expected[:, :half] = np.fft.fft(expected[:, half : 2 * half])
    given = cp.asarray(x)
    check(cp.jit(run)(given, cp.asarray(w)), expected)
    check(given, expected)
