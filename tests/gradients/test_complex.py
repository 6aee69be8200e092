"""Gradients of complex strings, against PyTorch's autograd in complex128."""

import numpy as np
import pytest

import clprim as cp

torch = pytest.importorskip("torch")

# Strings in x0, x1 (complex), x2 (real), and the same in PyTorch.
STRINGS = {
    "y0 = x0 * conj(x1) + x2;": lambda a, b, r: a * b.conj() + r,
    "y0 = (x0 - 2i) / x1 * x2;": lambda a, b, r: (a - 2j) / b * r,
    "y0 = exp(x0) * log(x1) - sqrt(x0) + x2;": lambda a, b, r: a.exp() * b.log() - a.sqrt() + r,
    "y0 = sin(x0) + cos(x1) * x2;": lambda a, b, r: a.sin() + b.cos() * r,
    "y0 = sinh(x0) * cosh(x1) + x2;": lambda a, b, r: a.sinh() * b.cosh() + r,
    "y0 = tanh(x0) + tan(x1) * x2;": lambda a, b, r: a.tanh() + b.tan() * r,
    "y0 = pow(x0, 3) + pow(x1, x0) * x2;": lambda a, b, r: a**3 + b**a * r,
    "y0 = reciprocal(x0) * complex(x2, 1) + x1;": lambda a, b, r: a.reciprocal() * (r + 1j) + b,
    "y0 = abs(x0) * arg(x1) + x2;": lambda a, b, r: a.abs() * b.angle() + r,
    "y0 = real(x0 * x1) - imag(x0) * x2;": lambda a, b, r: (a * b).real - a.imag * r,
    "typeof_x0 t = x0 * x1; t *= x2; if (x2 > 0) t = t * t; y0 = t;": lambda a, b, r: torch.where(
        r > 0, (a * b * r) ** 2, a * b * r
    ),
}


def numbers(shape, seed):
    re, im = np.random.default_rng(seed).standard_normal((2, *shape))
    return re + 1j * im


@pytest.mark.parametrize("text", STRINGS)
def test_gradients_are_pytorchs(device, text):
    dtype = np.complex128 if device.traits.fp64 else np.complex64
    a, b = (numbers((3, 20), n).astype(dtype) for n in range(2))
    r = numbers((3, 20), 2).real.astype(a.real.dtype)
    given = [torch.from_numpy(v).requires_grad_() for v in (a, b, r)]
    y = STRINGS[text](*given)
    grad = numbers((3, 20), 3).astype(dtype)
    grad = grad if y.is_complex() else grad.real.copy()
    y.backward(torch.from_numpy(grad))
    arrays = [cp.asarray(v) for v in (a, b, r)]
    found = cp.Pointwise(text).gradient()(*arrays, grad=cp.asarray(grad))
    tolerance = 1e-11 if device.traits.fp64 else 1e-4
    for g, t in zip(found, given, strict=True):
        expected = t.grad.resolve_conj().numpy()
        assert g.dtype == expected.dtype
        np.testing.assert_allclose(g.get(), expected, rtol=tolerance, atol=10 * tolerance)


def test_broadcast_axes_are_summed_and_numbers_have_gradients(device):
    a, b = numbers((4, 50), 0).astype(np.complex64), numbers((50,), 1).astype(np.complex64)
    grad = numbers((4, 50), 2).astype(np.complex64)
    g = cp.Pointwise("y0 = x0 * x1 * w0;").gradient(("x0", "x1", "w0"))
    gx, gb, gw = g(cp.asarray(a), cp.asarray(b), 2.0, grad=cp.asarray(grad))
    np.testing.assert_allclose(gx.get(), 2 * grad * b.conj(), rtol=1e-5)
    np.testing.assert_allclose(gb.get(), (2 * grad * a.conj()).sum(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gw.get(), (grad * (a * b).conj()).real.sum(), rtol=1e-4)


def test_complex_numbers_have_gradients(device):
    """Those of a number are summed over all elements; of real arrays beside it real ones."""
    a, grad = (numbers((4, 50), n).astype(np.complex64) for n in range(2))
    r = numbers((50,), 2).real.astype(np.float32)
    g = cp.Pointwise("y0 = x0 * w0 + x1;").gradient(("x0", "x1", "w0"))
    ga, gr, gw = g(cp.asarray(a), cp.asarray(r), 2 - 1j, grad=cp.asarray(grad))
    assert gr.dtype == np.float32 and gw.dtype == np.complex64
    np.testing.assert_allclose(ga.get(), grad * (2 + 1j), rtol=1e-5)
    np.testing.assert_allclose(gr.get(), grad.real.sum(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gw.get(), (grad * a.conj()).sum(), rtol=1e-4)


def test_reductions(device):
    """A mean of products, of which one factor is repeated, and the length of what is beside it."""
    means = cp.Reduction(
        "y0 = x0 * conj(x1) * w0; y1 = real(x0 * conj(x0));",
        init="reduce_y0 = reduce_y1 = 0;",
        step="reduce_y0 += y0; reduce_y1 += y1;",
        finalize="y0 = reduce_y0 / count; y1 = sqrt(reduce_y1);",
    )
    a, b = numbers((4, 3, 20), 0), numbers((3, 1), 1)
    given = [torch.from_numpy(v).requires_grad_() for v in (a, b, np.array(1 + 2j))]
    x, y, w = given
    grads = numbers((4, 3, 1), 2), numbers((4, 3, 1), 3).real.copy()
    results = (x * y.conj() * w).mean(2, keepdim=True), x.norm(dim=2, keepdim=True)
    torch.autograd.backward(results, [torch.from_numpy(g) for g in grads])
    wide = device.traits.fp64
    arrays = [cp.asarray(v if wide else v.astype(np.complex64)) for v in (a, b)]
    grads = tuple(cp.asarray(g if wide else g.astype(t)) for g, t in zip(grads, "Ff", strict=True))
    found = means.gradient(("x0", "x1", "w0"))(*arrays, 1 + 2j, grad=grads, axis=2, keepdims=True)
    tolerance = 1e-12 if wide else 1e-4
    for g, t in zip(found, given, strict=True):
        expected = t.grad.resolve_conj().numpy()
        np.testing.assert_allclose(g.get(), expected, rtol=tolerance, atol=tolerance)


def test_names_of_locals_may_have_several_types(device):
    """Each block has its own: a real ``t``, a complex one, and a real one again."""
    op = cp.Pointwise("""
        typeof_x0 s = 0;
        { float t = real(x0); s += t; }
        { float2 t = x0; s = s + t * 2; if (real(t) > 2) { float t = 3; s *= t; } s += t; }
        y0 = s;
    """)
    z = np.complex64([1 + 2j, 3 - 1j])
    s = z.real + 2 * z
    np.testing.assert_array_equal(op(cp.asarray(z)).get(), np.where(z.real > 2, 3 * s, s) + z)


def test_the_absolute_value_of_0_has_none(device):
    x = cp.zeros((3,), np.complex64)
    g = cp.Pointwise("y0 = abs(x0);").gradient()(x, grad=cp.ones((3,)))
    assert not g.get().any()


def test_what_is_not_derived_is_refused(device):
    x, r = cp.ones((3,), np.complex64), cp.ones((3,))
    with pytest.raises(cp.DTypeError, match="grad= of y0 is float32, expected complex64"):
        cp.Pointwise("y0 = x0 * x0;").gradient()(x, grad=r)
    with pytest.raises(cp.DTypeError, match="grad= of y0 is complex64"):
        cp.Pointwise("y0 = abs(x0);").gradient()(x, grad=x)
    total = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    with pytest.raises(cp.DTypeError, match="grad= of y0 is float32, expected complex64"):
        total.gradient()(x, axis=0, grad=r[0])
    product = cp.Reduction("y0 = x0;", init="reduce_y0 = 1;", step="reduce_y0 *= y0;")
    with pytest.raises(cp.DefinitionError, match="what reduce_y0 keeps has no gradient"):
        product.gradient()(x, axis=0, grad=x[0])
    grouped = cp.Grouped(
        "y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;", each="y0 = x0;"
    )
    with pytest.raises(cp.DTypeError, match="no gradients of complex numbers are derived"):
        grouped.gradient()(x, axis=0, grad=x)
    with pytest.raises(cp.DTypeError, match="no gradients of complex numbers"):
        cp.check_gradient(cp.Pointwise("y0 = x0 * x0;"), x)
