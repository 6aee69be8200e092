"""Second derivatives of `Grouped`s against PyTorch's."""

import numpy as np
import pytest
from grouped_cases import CASES, WHOLE, arrays
from support import numbers

import clprim as cp

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", CASES)
def test_like_pytorch(double_device, unoptimised, name):
    case = CASES[name]
    operator, inputs = cp.Grouped(**case.strings), arrays(case)
    arrays_ = [f"x{n}" for n in range(len(inputs))]
    wrt = case.wrt or tuple(arrays_)
    names = [*arrays_, *(f"w{n}" for n in range(len(case.scalars)))]
    leaves = {
        n: torch.tensor(a, requires_grad=True)
        for n, a in zip(names, (*inputs, *map(np.float64, case.scalars)), strict=True)
    }
    count = operator.definition.results
    grads = [np.cos(np.arange(792)).reshape(WHOLE) + n for n in range(count)]
    gys = [torch.tensor(g, requires_grad=True) for g in grads]
    results = case.reference(*[*leaves.values()][: case.reference.__code__.co_argcount])
    results = results if isinstance(results, tuple) else (results,)
    asked = [leaves[n] for n in wrt]
    firsts = torch.autograd.grad(results, asked, gys, create_graph=True, allow_unused=True)
    hs = [np.sin(np.arange(t.numel())).reshape(t.shape) + 0.5 for t in asked]
    total = sum((torch.tensor(h) * f).sum() for h, f in zip(hs, firsts, strict=True))
    xs = [leaves[n] for n in arrays_]
    expected = torch.autograd.grad(total, [*xs, *gys], allow_unused=True)
    args = [*map(cp.asarray, inputs), *map(cp.asarray, grads), *case.scalars]
    grad = tuple(map(cp.asarray, hs)) if len(hs) > 1 else cp.asarray(hs[0])
    found = operator.gradient(wrt).gradient()(*args, grad=grad)
    for result, right, like in zip(found, expected, args, strict=False):
        wanted = np.zeros(like.shape) if right is None else right.numpy(force=True)
        scale = max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(result.get(), wanted, rtol=1e-9, atol=1e-10 * scale)


RMS = {
    "expr": "y0 = x0 * x0;",
    "init": "reduce_y0 = 0;",
    "step": "reduce_y0 += y0;",
    "finalize": "group_y0 = 1 / sqrt(reduce_y0 / count + w0);",
    "each": "y0 = x0 * group_y0 * x1;",
}


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_formats_weights_of_channels_and_what_is_left_out(device, unoptimised, order):
    a, weight = numbers((2, 6, 3, 4)) / 4, numbers((6, 1, 1), seed=1)
    x = cp.asarray(a) if order == "C" else cp.asarray(a, memory_format=order)
    h = numbers(a.shape, seed=2)
    operator = cp.Grouped(**RMS)
    second = operator.gradient("x0", saves="group_y0").gradient(("x0", "x1", "w0"))
    found = second(x, cp.asarray(weight), 0.5, grad=cp.asarray(h), axis=(1, 2, 3))
    t, w, e = (
        torch.tensor(np.float64(v), requires_grad=True) for v in (a, weight, np.float64(0.5))
    )
    y = t / torch.sqrt((t * t).mean((1, 2, 3), keepdim=True) + e) * w
    (first,) = torch.autograd.grad(y.sum(), t, create_graph=True)
    expected = torch.autograd.grad((first * torch.tensor(np.float64(h))).sum(), (t, w, e))
    assert found[0].strides == x.strides and found[2].shape == ()
    for result, right in zip(found, expected, strict=True):
        scale = np.abs(right.numpy()).max()
        np.testing.assert_allclose(result.get(), right.numpy(), rtol=2e-5, atol=4e-6 * scale)
    text = second.source(x, cp.asarray(weight), 0.5, grad=cp.asarray(h), axis=(1, 2, 3))
    assert text.count("__kernel") > 3
    assert "once a group" in str(second) and "gradient of gradient of" in repr(second)


def test_what_is_refused(device):
    first = cp.Grouped(**RMS).gradient("x0")
    x, w = cp.zeros((3, 4)), cp.zeros(4)
    with pytest.raises(cp.DefinitionError, match="a third derivative is not known"):
        first.gradient().gradient()
    with pytest.raises(cp.DefinitionError, match="names 'x3'"):
        first.gradient("x3")
    with pytest.raises(cp.ShapeError, match=r"wrt= names x2, which is left out of the call"):
        first.gradient("x2")(x, w, 0.5, grad=x)
    with pytest.raises(cp.ShapeError, match=r"grad= of gx0 has shape \(4,\), expected \(3, 4\)"):
        first.gradient()(x, w, x, 0.5, grad=w)
