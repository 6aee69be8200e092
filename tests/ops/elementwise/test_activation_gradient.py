"""Gradients of activations against PyTorch's, kinks among the data."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import clprim as cp
from clprim import ops

X = np.concatenate(
    [np.array([-25, -6, -3, -1, -0.5, -0.0, 0, 0.5, 1, 3, 6, 20, 25]), np.linspace(-4, 4, 83)]
).reshape(2, 3, 16)
GRAD = np.linspace(0.5, 2, X.size).reshape(X.shape)

CASES = {
    "relu": (F.relu, ()),
    "relu6": (F.relu6, ()),
    "threshold": (lambda x: F.threshold(x, 0.5, 7.0), (0.5,)),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), (0.1,)),
    "hardtanh": (lambda x: F.hardtanh(x, -0.5, 3.0), (-0.5, 3.0)),
    "hardsigmoid": (F.hardsigmoid, ()),
    "hardswish": (F.hardswish, ()),
    "silu": (F.silu, ()),
    "logsigmoid": (F.logsigmoid, ()),
    "softplus": (lambda x: F.softplus(x, 2.0, 10.0), (2.0, 10.0)),
    "elu": (lambda x: F.elu(x, 1.5), (1.5,)),
    "celu": (lambda x: F.celu(x, 1.5), (1.5,)),
    "selu": (F.selu, ()),
    "mish": (F.mish, ()),
    "gelu": (F.gelu, ()),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), ("tanh",)),
}


def reference(function, *arrays):
    tensors = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arrays]
    found = torch.autograd.grad(function(*tensors), tensors, torch.tensor(GRAD))
    return [g.numpy() for g in found]


@pytest.mark.parametrize("name", CASES)
def test_like_pytorch(device, name):
    function, numbers = CASES[name]
    backward = getattr(ops, f"{name.split()[0]}_backward")
    x = X.astype(np.float32)
    found = backward(cp.asarray(GRAD.astype(np.float32)), cp.asarray(x), *numbers)
    (expected,) = reference(function, x)
    np.testing.assert_allclose(found.get(), expected, rtol=2e-5, atol=3e-6)


def test_sigmoid_takes_its_result(device):
    x = X.astype(np.float32)
    y = ops.sigmoid(cp.asarray(x))
    found = ops.sigmoid_backward(cp.asarray(GRAD.astype(np.float32)), y)
    np.testing.assert_allclose(found.get(), reference(torch.sigmoid, x)[0], rtol=1e-5, atol=2e-7)


def test_prelu_sums_the_gradient_of_its_slopes(device):
    x, slopes = X.astype(np.float32), np.array([0.1, 0.2, 0.3], np.float32)
    grad = cp.asarray(GRAD.astype(np.float32))
    gx, gw = ops.prelu_backward(grad, cp.asarray(x), cp.asarray(slopes))
    expected = reference(F.prelu, x, slopes)
    np.testing.assert_allclose(gx.get(), expected[0], rtol=1e-6)
    np.testing.assert_allclose(gw.get(), expected[1], rtol=1e-5)


def test_shapes_must_agree(device):
    with pytest.raises(cp.ShapeError, match="gelu_backward: grad has shape"):
        ops.gelu_backward(cp.zeros(3), cp.zeros(4))
    with pytest.raises(cp.DefinitionError, match="expected 'none' or 'tanh'"):
        ops.gelu_backward(cp.zeros(3), cp.zeros(3), "erf")
