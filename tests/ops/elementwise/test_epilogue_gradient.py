"""`epilogue_backward`: the gradient of convolutions, products and norms with epilogues."""

import numpy as np
import pytest
from support import numbers

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

GATE = """
    typeof_y0 t = y0 + x0;
    y0 = t / (1 + exp(-t)) * x1;
"""


def gate(y, a, b):
    return torch.nn.functional.silu(y + a) * b


def tensors(*arrays):
    return [torch.tensor(np.asarray(a, np.float64), requires_grad=True) for a in arrays]


def close(found, expected, error=2e-5):
    for result, tensor in zip(found, expected, strict=True):
        right = tensor.numpy()
        np.testing.assert_allclose(
            result.get(), right, rtol=error, atol=error * max(1, abs(right).max())
        )


@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_of_a_convolution(device, memory_format):
    x, w, bias = numbers((2, 3, 5, 6)), numbers((4, 3, 3, 3), seed=1) / 8, numbers((4,), seed=2)
    a, b = numbers((2, 4, 5, 6), seed=3), numbers((4, 1, 1), seed=4)
    grad = numbers((2, 4, 5, 6), seed=5)
    up = [
        cp.asarray(v, memory_format=memory_format) if v.ndim == 4 else cp.asarray(v)
        for v in (x, w, bias, a, b, grad)
    ]
    ux, uw, ubias, ua, ub, ugrad = up
    tx, tw, tbias, ta, tb = tensors(x, w, bias, a, b)
    result = gate(torch.nn.functional.conv2d(tx, tw, tbias, padding=1), ta, tb)
    right = torch.autograd.grad(result, (tx, tw, tbias, ta, tb), torch.tensor(grad).double())
    y = ops.conv2d(ux, uw, ubias, padding=1, epilogue=GATE, epilogue_args=(ua, ub))
    np.testing.assert_allclose(y.get(), result.detach().numpy(), rtol=1e-4, atol=1e-4)
    before = ops.conv2d(ux, uw, ubias, padding=1)
    gy, ga, gb = ops.epilogue_backward(ugrad, before, GATE, (ua, ub))
    gx = ops.conv2d_input(x.shape, uw, gy, padding=1)
    gw = ops.conv2d_weight(ux, w.shape, gy, padding=1)
    close((gx, gw, ops.conv2d_bias(gy), ga, gb), right)
    assert gy.strides == before.strides


def test_of_a_product(device):
    a, b, bias = numbers((2, 7, 5)), numbers((5, 3), seed=1), numbers((3,), seed=2)
    r, s = numbers((7, 3), seed=3), numbers((2, 1, 3), seed=4)
    grad = numbers((2, 7, 3), seed=5)
    ta, tb, tbias, tr, ts = tensors(a, b, bias, r, s)
    result = gate(ta @ tb / 8 + tbias, tr, ts)
    right = torch.autograd.grad(result, (ta, tb, tbias, tr, ts), torch.tensor(grad).double())
    ua, ub, ubias, ur, us, ugrad = (cp.asarray(v) for v in (a / 8, b, bias, r, s, grad))
    before = ops.matmul(ua, ub, bias=ubias)
    gy, gr, gs = ops.epilogue_backward(ugrad, before, GATE, (ur, us))
    ga = ops.matmul(gy, ub, transpose_b=True) / 8
    gb = ops.matmul(ua, gy, transpose_a=True).sum(axis=0)
    close((ga, gb, gy.sum(axis=(0, 1)), gr, gs), right)


def test_of_a_batch_normalization_with_numbers(device):
    text = "y0 = fmax(y0 + x0, 0) * w0;"
    x, weight, bias = numbers((2, 3, 4, 5)), numbers((3,), seed=1), numbers((3,), seed=2)
    mean, var = numbers((3,), seed=3), np.abs(numbers((3,), seed=4)) + 1
    r, grad = numbers((2, 3, 4, 5), seed=5) + 0.25, numbers((2, 3, 4, 5), seed=6)
    tx, tweight, tbias, tr = tensors(x, weight, bias, r)
    norm = torch.nn.functional.batch_norm(
        tx, torch.tensor(mean).double(), torch.tensor(var).double(), tweight, tbias
    )
    right = torch.autograd.grad(
        torch.relu(norm + tr) * 1.5, (tx, tweight, tbias, tr), torch.tensor(grad).double()
    )
    ux, uw, ub, um, uv, ur, ugrad = map(cp.asarray, (x, weight, bias, mean, var, r, grad))
    before = ops.batch_norm(ux, um, uv, uw, ub)
    gy, gr = ops.epilogue_backward(ugrad, before, text, (ur, 1.5))
    invstd = cp.asarray(1 / np.sqrt(var + 1e-5))
    found = ops.batch_norm_backward(gy, ux, uw, um, invstd, training=False)
    close((*found, gr), right)


def test_what_the_gradient_does_not_read_may_be_left_out(device):
    grad, r = cp.asarray(numbers((3, 4))), cp.asarray(numbers((4,), seed=1))
    gy, gr = ops.epilogue_backward(grad, None, "y0 = 2 * y0 + x0;", (r,))
    np.testing.assert_array_equal(gy.get(), 2 * grad.get())
    np.testing.assert_array_equal(gr.get(), grad.get().sum(0))
    y = np.tanh(numbers((3, 4), seed=2) / 8)
    (found,) = ops.epilogue_backward(grad, None, "y0 = tanh(y0);", result=cp.asarray(y))
    np.testing.assert_allclose(found.get(), grad.get() * (1 - y * y), rtol=1e-5)


def test_some_are_left_out(device):
    grad, y = cp.asarray(numbers((3, 4))), cp.asarray(numbers((3, 4), seed=1))
    k = cp.asarray(numbers((3, 4), np.int32, seed=2))
    gy, gk = ops.epilogue_backward(grad, y, "y0 *= x0;", (k,))
    assert gk is None
    np.testing.assert_array_equal(gy.get(), grad.get() * k.get())
    left, gr = ops.epilogue_backward(grad, y, "y0 *= x0;", (y,), output_mask=(False, True))
    assert left is None
    np.testing.assert_array_equal(gr.get(), grad.get() * y.get())


def test_wrong_arguments(device):
    grad, y = cp.asarray(numbers((3, 4))), cp.asarray(numbers((3, 4), seed=1))
    with pytest.raises(cp.ShapeError, match="y is None, but the gradient of 'y0 = exp"):
        ops.epilogue_backward(grad, None, "y0 = exp(y0);")
    with pytest.raises(cp.ShapeError, match=r"y has shape \(4, 3\), expected that of grad"):
        ops.epilogue_backward(grad, y.T, "y0 = exp(y0);")
    with pytest.raises(cp.ShapeError, match="output_mask holds 2 of 1"):
        ops.epilogue_backward(grad, y, "y0 = exp(y0);", output_mask=(True, True))
    with pytest.raises(cp.DTypeError, match="no gradient is asked for"):
        ops.epilogue_backward(grad, y, "y0 = exp(y0);", output_mask=(False,))
    with pytest.raises(cp.DefinitionError, match="unknown"):
        ops.epilogue_backward(grad, y, "y0 = z;")
    with pytest.raises(cp.DefinitionError) as caught:
        ops.epilogue_backward(grad, y, "y0 += x0;\ny0 = nextafter(y0, x0);", (y,))
    assert "epilogue, line 2: no gradient passes 'nextafter'" in str(caught.value)
    assert "y0 = nextafter(y0, x0);\n         ^^^^^^^^^^^^^^^^^" in str(caught.value)
