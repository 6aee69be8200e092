"""Gradients of transforms, against PyTorch's autograd in float64."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
ONE = "fft ifft rfft irfft hfft ihfft".split()
SEVERAL = "fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn".split()
REAL = {"rfft", "ihfft", "rfft2", "rfftn"}


def drawn(device, *shape, real=False):
    x = RNG.normal(size=shape) + 1j * RNG.normal(size=shape)
    x = x.real.copy() if real else x
    return x if device.traits.fp64 else x.astype(np.float32 if real else np.complex64)


def check(device, function, other, *arrays):
    """The gradients of a weighted sum of what two functions return."""
    tensors = [torch.from_numpy(np.array(a)).requires_grad_() for a in arrays]
    expected = other(*tensors)
    w = drawn(device, *expected.shape, real=not expected.is_complex())
    weights = torch.from_numpy(w)
    y = expected * weights.conj()
    (y.real if y.is_complex() else y).sum().backward()

    def loss(*given):
        y = function(*given) * cp.asarray(w).conj()
        return (y.real if y.dtype.kind == "c" else y).sum()

    found = cp.value_and_grad(loss, wrt=tuple(range(len(arrays))))(*map(cp.asarray, arrays))[1]
    close = 1e-12 if device.traits.fp64 else 1e-5
    for f, t in zip(found, tensors, strict=True):
        g = t.grad.resolve_conj().numpy()
        assert (f.dtype, f.shape) == (g.dtype, g.shape)
        np.testing.assert_allclose(f.get(), g, rtol=0, atol=close * max(1, abs(g).max()))


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("size", [8, 7])
def test_one_dimension(device, name, norm, size):
    for n in (None, 5, 11, 12, 1):  # all, cut off, with zeros behind
        for real in {True, name in REAL}:
            x = drawn(device, 2, size, 3, real=real)
            check(
                device,
                lambda x, n=n: getattr(ops.fft, name)(x, n, 1, norm),
                lambda x, n=n: getattr(torch.fft, name)(x, n, 1, norm),
                x,
            )


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("s", [None, (4, 9)])
def test_several_dimensions(device, name, s):
    x = drawn(device, 3, 6, 8, real=name in REAL)
    dims = (0, 2) if name.endswith("n") else (-1, -2)
    check(
        device,
        lambda x: getattr(ops.fft, name)(x, s, dims, "ortho"),
        lambda x: getattr(torch.fft, name)(x, s, dims, "ortho"),
        x,
    )


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts_and_views(device, name):
    x = drawn(device, 5, 8)
    check(
        device,
        lambda x: getattr(ops.fft, name)(ops.fft.fft(x[::-1, 1:].T)),
        lambda x: getattr(torch.fft, name)(torch.fft.fft(x.flip(0)[:, 1:].T)),
        x,
    )


def test_pairs_have_gradients(device):
    """`dft` of pairs is `fft` of complex numbers, and its result's parts."""
    x = drawn(device, 3, 7, 2, real=True)
    for onesided in (False, True):
        check(
            device,
            lambda x, half=onesided: ops.dft(x, 9, 1, onesided=half),
            lambda x, half=onesided: torch.view_as_real(
                torch.fft.fft(torch.view_as_complex(x), 9)[:, : 5 if half else 9]
            ),
            x,
        )
    check(
        device,
        lambda x: ops.dft(x[..., :1], 9, 1),
        lambda x: torch.view_as_real(torch.fft.fft(x[..., 0], 9)),
        x,
    )
    check(
        device,
        lambda x: ops.dft(x, 9, 1, onesided=True, inverse=True),
        lambda x: torch.fft.irfft(torch.view_as_complex(x), 9)[..., None],
        x,
    )


def test_gradients_of_gradients(device):
    x = drawn(device, 4, 9, real=True)

    def slope(x, gradient, rfft):
        (g,) = gradient(lambda x: (abs(rfft(x)) ** 4).sum(), x)
        return (g * g).sum()

    def ours(function, x):
        return (cp.value_and_grad(function, wrt=0)(x)[1],)

    t = torch.from_numpy(x).requires_grad_()
    slope(
        t, lambda f, x: torch.autograd.grad(f(x), x, create_graph=True), torch.fft.rfft
    ).backward()
    found = cp.value_and_grad(lambda x: slope(x, ours, ops.fft.rfft), wrt=0)(cp.asarray(x))[1]
    g = t.grad.numpy()
    close = 1e-12 if device.traits.fp64 else 1e-5
    np.testing.assert_allclose(found.get(), g, rtol=0, atol=close * abs(g).max())


def test_a_filter_is_learnt_in_one_graph(device):
    """A step of a layer that multiplies spectra, compiled."""
    x, w = drawn(device, 4, 16, real=True), drawn(device, 9)
    y = np.fft.irfft(np.fft.rfft(x) * w).astype(x.dtype)

    @cp.jit
    def step(filter_, x, y):
        def loss(f):
            return ((ops.fft.irfft(ops.fft.rfft(x) * f) - y) ** 2).mean()

        value, grad = cp.value_and_grad(loss, wrt=0)(filter_)
        return value, filter_ - grad * 2.0

    found, values = cp.zeros(w.shape, w.dtype), []
    for _ in range(100):
        value, found = step(found, cp.asarray(x), cp.asarray(y))
        values.append(value.item())
    assert values[-1] < 1e-4 * values[0]


def test_nothing_to_transform(device):
    _, grad = cp.value_and_grad(lambda x: ops.fft.irfft(x, 8).sum(), wrt=0)(
        cp.zeros((0, 5), np.complex64)
    )
    assert (grad.shape, grad.dtype) == ((0, 5), np.complex64)


def test_strings_inside_have_gradients(device):
    """Those of what `load=` reads beside, too."""
    x, w = drawn(device, 3, 20, real=True), drawn(device, 20, real=True)

    def power(x, w):
        load, store = "y0 = x0 * x1;", "y0 = w0 * real(x0 * conj(x0));"
        return ops.fft.rfft(x, load=load, load_args=(w,), store=store, store_args=(3.0,))

    check(device, power, lambda x, w: 3 * torch.fft.rfft(x * w).abs() ** 2, x, w)
