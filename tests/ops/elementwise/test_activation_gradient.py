"""Gradients of activations against PyTorch's, kinks among the data."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

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
    "hardshrink": (lambda x: F.hardshrink(x, 1.0), (1.0,)),
    "softshrink": (lambda x: F.softshrink(x, 1.0), (1.0,)),
    "softsign": (F.softsign, ()),
    "tanhshrink": (F.tanhshrink, ()),
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


# Of these PyTorch's own gradient of NaN differs between one element and a vector of them.
UNSETTLED = {"relu6", "hardtanh", "hardswish", "hardshrink", "softshrink"}


@pytest.mark.parametrize("name", sorted(CASES.keys() - UNSETTLED))
def test_nan_has_the_gradient_of_pytorch(device, name):
    function, numbers = CASES[name]
    x = np.full(GRAD.shape, np.nan, np.float32)
    backward = getattr(ops, f"{name.split()[0]}_backward")
    found = backward(cp.asarray(GRAD.astype(np.float32)), cp.asarray(x), *numbers)
    (expected,) = reference(function, x)
    np.testing.assert_allclose(found.get(), expected, rtol=2e-5)


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


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_gates_and_their_gradients(device, dim):
    x = np.random.default_rng(0).standard_normal((4, 6, 8)).astype(np.float32)
    t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    y = F.glu(t, -1 if dim is None else dim)
    grad = np.random.default_rng(1).standard_normal(tuple(y.shape)).astype(np.float32)
    (expected,) = torch.autograd.grad(y, t, torch.tensor(grad, dtype=torch.float64))
    found = ops.glu(cp.asarray(x), dim)
    np.testing.assert_allclose(found.get(), y.detach().numpy(), rtol=1e-5, atol=1e-6)
    back = ops.glu_backward(cp.asarray(grad), cp.asarray(x), axis=dim)
    np.testing.assert_allclose(back.get(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_refusals_of_gates_and_shrinkage(device):
    x = cp.zeros((4, 5))
    for message, call in [
        ("x has size 5 along axis 1; expected an even one", lambda: ops.glu(x)),
        ("grad has shape", lambda: ops.glu_backward(x, x, 0)),
        ("lambd=-1: expected a number of at least 0", lambda: ops.softshrink(x, -1)),
        ("grad has shape", lambda: ops.hardshrink_backward(x[0], x)),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
