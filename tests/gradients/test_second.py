"""Second derivatives of `Reduction`s against PyTorch's."""

import numpy as np
import pytest
from reduction_cases import CASES, SUM, arrays, norm
from support import numbers

import clprim as cp

torch = pytest.importorskip("torch")

# One of each kind of step, and of each kind of ``finalize``.
TWICE = """
    dot, l2, logsumexp of moderate, variance, cosine, some, max, min, running logsumexp, welford
"""
TWICE = [name.strip() for name in TWICE.split(",")]


@pytest.mark.parametrize("name", TWICE)
def test_like_pytorch(double_device, name):
    expr, strings, reference = CASES[name]
    operator = cp.Reduction(expr, **strings)
    inputs = arrays(name)[: operator.definition.inputs]
    xs = [torch.tensor(v, requires_grad=True) for v in inputs]
    b = torch.tensor(arrays(name)[1])
    results = reference(*xs) if len(xs) == 2 else reference(*xs, b)
    results = results if isinstance(results, tuple) else (results,)
    gys = [
        torch.tensor(np.linspace(0.5, 2, 12).reshape(4, 1, 3) + n, requires_grad=True)
        for n in range(len(results))
    ]
    firsts = torch.autograd.grad(results, xs, gys, create_graph=True, allow_unused=True)
    hs = [np.cos(np.arange(v.size)).reshape(v.shape) for v in inputs]
    total = sum(
        (torch.tensor(h) * f).sum() for h, f in zip(hs, firsts, strict=True) if f is not None
    )
    expected = torch.autograd.grad(total, [*xs, *gys], allow_unused=True)
    args = [cp.asarray(v) for v in inputs]
    args += [cp.asarray(g.detach().numpy()) for g in gys]
    grad = tuple(map(cp.asarray, hs)) if len(hs) > 1 else cp.asarray(hs[0])
    found = operator.gradient().gradient()(*args, axis=1, keepdims=True, grad=grad)
    for result, right, like in zip(found, expected, args, strict=True):
        wanted = np.zeros(like.shape) if right is None else right.numpy(force=True)
        np.testing.assert_allclose(result.get(), wanted, rtol=1e-9, atol=1e-9)


def test_the_first_gradients_may_be_left_out_or_keep_no_axis(device):
    f = cp.Reduction("y0 = x0 * x0 * x0;", **SUM)
    x, gy = numbers((3, 4)), numbers((3,), seed=1)
    second = f.gradient().gradient()
    np.testing.assert_array_equal(second(cp.asarray(x), axis=1, grad=1.0).get(), 6 * x)
    hx = numbers((3, 4), seed=2)
    gx, ggy = second(cp.asarray(x), cp.asarray(gy), axis=1, grad=cp.asarray(hx))
    np.testing.assert_array_equal(gx.get(), 6 * x * gy[:, None] * hx)
    np.testing.assert_allclose(ggy.get(), (3 * x * x * hx).sum(1), rtol=1e-6)


def test_of_scalars_and_of_what_was_saved(double_device):
    f = cp.Reduction("y0 = x0 * x0 * w0;", **norm("y0 = sqrt(reduce_y0 * w0);"))
    x = np.array([[3.0, 4.0], [6.0, 8.0]])
    g = f.gradient(("x0", "w0"), saves="y0")  # f is w |x|
    second = g.gradient(("x0", "w0"))
    gx, gw = second(cp.asarray(x), 2.0, axis=1, grad=(cp.asarray(np.ones_like(x)), 1.0))
    t, w = (
        torch.tensor(x, requires_grad=True),
        torch.tensor(2.0, dtype=torch.float64, requires_grad=True),
    )
    total = sum(
        g.sum() for g in torch.autograd.grad((w * t.norm(dim=1)).sum(), (t, w), create_graph=True)
    )
    right = torch.autograd.grad(total, (t, w))
    np.testing.assert_allclose(gx.get(), right[0].numpy(), rtol=1e-10)
    np.testing.assert_allclose(gw.get(), right[1].numpy(), rtol=1e-10)


def test_formats_and_its_source(device):
    g = cp.Reduction("y0 = x0 * x0;", **norm("y0 = sqrt(reduce_y0);")).gradient().gradient("x0")
    a = numbers((2, 3, 4, 4), np.float16, low=1)
    t = torch.tensor(a.astype(np.float64), requires_grad=True)
    (first,) = torch.autograd.grad(t.norm(dim=(1, 3)).sum(), t, create_graph=True)
    weights = torch.arange(96).reshape(t.shape).double() / 32
    (right,) = torch.autograd.grad((first * weights).sum(), t)
    hx = weights.numpy().astype(np.float16)
    array = cp.asarray(a, memory_format="channels_last")
    found = g(array, axis=(1, 3), grad=cp.asarray(hx))
    assert found.dtype == np.float16 and found.strides == array.strides
    np.testing.assert_allclose(found.get(), right.numpy(), atol=2e-3, rtol=4e-3)
    assert g.source(array, axis=(1, 3), grad=1.0).count("__kernel") >= 4
    assert "backwards" in str(g)


def test_what_is_refused(device):
    second = cp.Reduction("y0 = x0 * x0;", **SUM).gradient().gradient()
    with pytest.raises(cp.DefinitionError, match="third derivative"):
        second.gradient()
    x = cp.asarray(numbers((3, 4)))
    with pytest.raises(cp.ShapeError, match=r"grad= of gx0 has shape \(3,\), expected \(3, 4\)"):
        second(x, axis=1, grad=cp.asarray(numbers((3,))))
    with pytest.raises(cp.ShapeError, match="expected 2 arguments"):
        second(x, x, x, axis=1, grad=1.0)
    with pytest.raises(cp.DefinitionError, match="wrt="):
        cp.Reduction("y0 = x0;", **SUM).gradient().gradient("x2")
