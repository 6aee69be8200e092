"""`value_and_grad` of functions that make complex numbers, against PyTorch's autograd."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

SUM = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
TWO = {"init": "reduce_y0 = reduce_y1 = 0;", "step": "reduce_y0 += y0; reduce_y1 += y1;"}


def both(string, **how):
    """A reduction along the last axis."""
    reduction = cp.Reduction(string, **how)
    return lambda *args: reduction(*args, axis=-1)


dot, norm = both("y0 = x0 * conj(x1) + 1i * w0;", **SUM), both("y0 = real(x0 * conj(x0));", **SUM)
squares = both("y0 = x0 * x0;", **SUM, finalize="y0 = reduce_y0 * reduce_y0 / count;")
turns = both("y0 = exp(1i * x0);", **SUM)
farthest = both("y0 = abs(x0);", init="reduce_y0 = 0;", step="reduce_y0 = max(reduce_y0, y0);")
apart = both("y0 = x0 * w0; y1 = abs(x0);", **TWO)


def root(x):
    return cp.Pointwise("y0 = sqrt(x0);")(x)


# Of a function of a (5, 6) and b (1, 6), complex, and r (5, 6), real: itself and PyTorch's.
CASES = {
    "string": (
        lambda a, b, r: abs(cp.Pointwise("y0 = x0 * conj(x1) / (x2 + 2i);")(a, b, r)).sum(),
        lambda a, b, r: abs(a * b.conj() / (r + 2j)).sum(),
    ),
    "numbers": (
        lambda a, b, r: (a * 1j + (2 - 1j) * b * r).imag.sum(),
        lambda a, b, r: (a * 1j + (2 - 1j) * b * r).imag.sum(),
    ),
    "parts": (
        lambda a, b, r: (a.real * a.imag * r + b.conj().imag).sum(),
        lambda a, b, r: (a.real * a.imag * r + b.conj().imag).sum(),
    ),
    "angle": (
        lambda a, b, r: (cp.angle(a) * r + abs(b)).sum(),
        lambda a, b, r: (a.angle() * r + abs(b)).sum(),
    ),
    "sums": (
        lambda a, b, r: abs(a.sum(axis=0) * b.mean(axis=1, keepdims=True) + r.mean()).sum(),
        lambda a, b, r: abs(a.sum(0) * b.mean(1, keepdim=True) + r.mean()).sum(),
    ),
    "reductions": (
        lambda a, b, r: (abs(dot(a, b, 2.0)) + root(norm(a)) + abs(turns(r))).sum(),
        lambda a, b, r: (
            abs((a * b.conj() + 2j).sum(1)) + a.norm(dim=1) + abs((1j * r).exp().sum(1))
        ).sum(),
    ),
    "finalize": (
        lambda a, b, r: abs(squares(a) + squares(b)).sum() + farthest(a).sum() + r.sum(),
        lambda a, b, r: (
            abs((a * a).sum(1) ** 2 / 6 + (b * b).sum(1) ** 2 / 6).sum()
            + abs(a).max(1)[0].sum()
            + r.sum()
        ),
    ),
    "two results": (
        lambda a, b, r: (lambda s, t: (abs(s) * t).sum())(*apart(a * b, 1.5)) + r.sum(),
        lambda a, b, r: (abs((a * b * 1.5).sum(1)) * abs(a * b).sum(1)).sum() + r.sum(),
    ),
    "variance": (
        lambda a, b, r: cp.var(a * b, axis=1).sum() + r.std(),
        lambda a, b, r: (a * b).var(1, correction=0).sum() + r.std(correction=0),
    ),
    "cumsum": (
        lambda a, b, r: abs(cp.cumsum(a + b, axis=1) * r).sum(),
        lambda a, b, r: abs((a + b).cumsum(1) * r).sum(),
    ),
    "products": (
        lambda a, b, r: abs(a @ (b.T + r.T)).sum() + abs(r @ b[0]).sum(),
        lambda a, b, r: abs(a @ (b.T + r.T.to(b.dtype))).sum() + abs(r.to(b.dtype) @ b[0]).sum(),
    ),
    "pieces": (
        lambda a, b, r: abs(cp.concatenate([a[1:4, ::-2], b.reshape(2, 3)]) * r[:, :3]).sum(),
        lambda a, b, r: abs(torch.cat([a[1:4].flip(1)[:, ::2], b.reshape(2, 3)]) * r[:, :3]).sum(),
    ),
    "where": (
        lambda a, b, r: abs(cp.where(r > 0, a, 2 * b) + r).sum(),
        lambda a, b, r: abs(torch.where(r > 0, a, 2 * b) + r).sum(),
    ),
    "cast": (
        lambda a, b, r: abs(r.astype(a.dtype) * a + b).sum(),
        lambda a, b, r: abs(r.to(a.dtype) * a + b).sum(),
    ),
    "borders": (
        lambda a, b, r: abs(ops.pad(a, (2, 1), "reflect")[:, :6] * b + r).sum(),
        lambda a, b, r: abs(a[:, [2, 1, 0, 1, 2, 3]] * b + r).sum(),
    ),
}


def given(device, seed=0):
    draw = np.random.default_rng(seed)
    a, b = (draw.standard_normal(s) + 1j * draw.standard_normal(s) for s in ((5, 6), (1, 6)))
    r = draw.standard_normal((5, 6))
    if device.traits.fp64:
        return a, b, r
    return a.astype(np.complex64), b.astype(np.complex64), r.astype(np.float32)


def expected(function, arrays):
    """Gradients by PyTorch."""
    tensors = [torch.from_numpy(np.array(a)).requires_grad_() for a in arrays]
    value = function(*tensors)
    found = torch.autograd.grad(value, tensors, materialize_grads=True)
    return value.item(), [g.resolve_conj().numpy() for g in found]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_are_pytorchs(device, case):
    function, other = case
    arrays = given(device)
    wanted, gradients = expected(other, arrays)
    value, found = cp.value_and_grad(function, wrt=(0, 1, 2))(*map(cp.asarray, arrays))
    close = 1e-11 if device.traits.fp64 else 2e-4
    np.testing.assert_allclose(value.get(), wanted, rtol=close)
    for f, g in zip(found, gradients, strict=True):
        assert f.dtype == g.dtype
        np.testing.assert_allclose(f.get(), g, rtol=close, atol=close * abs(g).max())


@pytest.mark.parametrize("case", ["string", "reductions", "products", "sums"])
def test_gradients_of_gradients_are_pytorchs(device, case):
    function, other = CASES[case]
    arrays = given(device, 1)

    def slope(a, b, r):
        _, (ga, gb) = cp.value_and_grad(function, wrt=(0, 1))(a, b, r)
        return (ga * ga.conj()).real.sum() + gb.imag.sum()

    def other_slope(a, b, r):
        ga, gb = torch.autograd.grad(other(a, b, r), (a, b), create_graph=True)
        return (ga * ga.conj()).real.sum() + gb.imag.sum()

    wanted, gradients = expected(other_slope, arrays)
    value, found = cp.value_and_grad(slope, wrt=(0, 1, 2))(*map(cp.asarray, arrays))
    close = 1e-10 if device.traits.fp64 else 2e-3
    np.testing.assert_allclose(value.get(), wanted, rtol=close)
    for f, g in zip(found, gradients, strict=True):
        np.testing.assert_allclose(f.get(), g, rtol=close, atol=close * abs(g).max())


def test_parts_that_are_written_have_gradients(device):
    def function(z, r):
        y = z * 2
        y.imag = r * r
        y.real[1:] += r[1:]
        return (y * y).real.sum()

    z, r = np.complex64([1 + 2j, 3 - 1j, 2j]), np.float32([1, 2, 3])
    _, (gz, gr) = cp.value_and_grad(function)(cp.asarray(z), cp.asarray(r))
    real = 2 * z.real + r * [0, 1, 1]
    np.testing.assert_array_equal(gz.get(), 4 * real)
    np.testing.assert_array_equal(gr.get(), 2 * real * [0, 1, 1] - 4 * r**3)


def test_a_step_of_an_optimizer_on_complex_weights(device):
    step = cp.Pointwise("y0 = x0 - w0 * x1;")

    @cp.jit
    def train(w, x, y):
        def loss(w):
            e = x @ w - y
            return (e.real * e.real + e.imag * e.imag).mean()

        value, grad = cp.value_and_grad(loss, wrt=0)(w)
        return value, step(w, grad, 0.2)

    draw = np.random.default_rng(3)
    x, right = (
        (draw.standard_normal(s) + 1j * draw.standard_normal(s)).astype(np.complex64)
        for s in ((40, 3), (3,))
    )
    w, y = cp.zeros((3,), np.complex64), cp.asarray(x @ right)
    for _ in range(60):
        value, w = train(w, cp.asarray(x), y)
    assert value.item() < 1e-6
    np.testing.assert_allclose(w.get(), right, atol=1e-3)


def test_nothing_has_gradients_of_nothing(device):
    z = cp.zeros((0, 3), np.complex64)
    value, grad = cp.value_and_grad(lambda z: abs(ops.fft.fft(z)).sum(), wrt=0)(z)
    assert value.item() == 0
    assert (grad.shape, grad.dtype) == ((0, 3), np.complex64)


def test_complex_constants_let_gradients_pass(device):
    x, z = cp.asarray(np.float32([1, 2])), cp.asarray(np.complex64([3 + 4j, 1j]))
    _, found = cp.value_and_grad(lambda x: (x * abs(z)).sum(), wrt=0)(x)
    np.testing.assert_array_equal(found.get(), [5, 1])


@pytest.mark.refusal
def test_what_has_none_is_refused(device):
    z = cp.asarray(np.complex64([1 + 2j, 3, 1j]))
    with pytest.raises(cp.DTypeError, match="it returned complex64, expected real floats"):
        cp.value_and_grad(lambda z: (z * z).sum(), wrt=0)(z)


@pytest.mark.parametrize("axis", [None, 1, (0, 2)], ids=str)
def test_products_hand_on_those_of_all_others(device, axis):
    re, im = np.random.default_rng(0).standard_normal((2, 3, 4, 2))
    z = (re + 1j * im).astype(np.complex64)
    z[0, 0], z[1, 1, 0] = 0, 0
    weights = np.arange(1, 1 + z.prod(axis).size).reshape(z.prod(axis, keepdims=True).shape) + 0.5j
    others = np.empty_like(z, np.complex128)
    for at in np.ndindex(z.shape):
        one = z.astype(np.complex128)
        one[at] = 1
        others[at] = np.broadcast_to(one.prod(axis, keepdims=True), z.shape)[at]
    given = cp.asarray(weights.astype(np.complex64))
    for keep in (True, False):
        scale = given if keep else given.reshape(z.prod(axis).shape)
        _, found = cp.value_and_grad(
            lambda z, scale=scale, keep=keep: (
                z.prod(axis=axis, keepdims=keep) * scale.conj()
            ).real.sum(),
            wrt=0,
        )(cp.asarray(z))
        np.testing.assert_allclose(found.get(), weights * others.conj(), rtol=1e-4, atol=1e-5)
